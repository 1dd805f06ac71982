// kernels/cpu/copy.c - y = x with any strides and any conversion
// Shapes   rank 0..8, strides in elements, 0 allowed for x; y's elements are distinct
// Types    all. Equal types are moved by size. Otherwise a row is staged as double (x is a
//          floating-point type) or int64 (x is not) and then stored: one rounding, to nearest even,
//          except f64 to bf16 or f16, which goes by way of f32
//          float to integer truncates, saturates at the type's range, and makes NaN 0;
//          integer to integer keeps the low bits; to bool is != 0, so NaN is true
// Cost     bound by memory for equal types with unit strides
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/strided.h"

enum { STAGE = 512 }; // elements

typedef struct stage {
    double real[STAGE];     // when the source is a floating-point type
    int64_t integer[STAGE]; // otherwise
} stage;

// ---- equal types -------------------------------------------------------------------------------

#define MOVE(type)                                                                                 \
    do {                                                                                           \
        const type *from = x;                                                                      \
        type *to = y;                                                                              \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            to[i * y_stride] = from[i * x_stride];                                                 \
        }                                                                                          \
    } while (0)

static void move(const void *x, int64_t x_stride, void *y, int64_t y_stride, int64_t count,
                 size_t size_bytes)
{
    if (x_stride == 1 && y_stride == 1) {
        memcpy(y, x, (size_t)count * size_bytes);
    } else if (size_bytes == 8) {
        MOVE(uint64_t);
    } else if (size_bytes == 4) {
        MOVE(uint32_t);
    } else if (size_bytes == 2) {
        MOVE(uint16_t);
    } else {
        MOVE(uint8_t);
    }
}

// ---- conversion --------------------------------------------------------------------------------

#define LOAD(type, target, expression)                                                             \
    do {                                                                                           \
        const type *from = x;                                                                      \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const type value = from[i * stride];                                                   \
            target[i] = expression;                                                                \
        }                                                                                          \
    } while (0)

// Says whether the elements were staged as real.
static bool load(const void *x, bt_dtype dtype, int64_t stride, int64_t count, stage *out)
{
    switch (dtype) {
    case BT_F64:
        LOAD(double, out->real, value);
        return true;
    case BT_F32:
        LOAD(float, out->real, (double)value);
        return true;
    case BT_BF16:
        LOAD(uint16_t, out->real, (double)bt_bf16_to_f32(value));
        return true;
    case BT_F16:
        LOAD(uint16_t, out->real, (double)bt_f16_to_f32(value));
        return true;
    case BT_I64:
        LOAD(int64_t, out->integer, value);
        return false;
    case BT_I32:
        LOAD(int32_t, out->integer, value);
        return false;
    case BT_U16:
        LOAD(uint16_t, out->integer, value);
        return false;
    case BT_U8:
    case BT_BOOL:
        LOAD(uint8_t, out->integer, value);
        return false;
    case BT_DTYPE_COUNT:
    default:
        memset(out->integer, 0, sizeof out->integer);
        return false;
    }
}

// Truncates, saturates at [low, high], 0 for NaN. 2^63 is no int64, hence >=.
static int64_t to_integer(double value, int64_t low, int64_t high)
{
    if (isnan(value)) {
        return 0;
    }
    if (value >= (double)high) {
        return high;
    }
    return value <= (double)low ? low : (int64_t)value;
}

#define STORE(type, source, expression)                                                            \
    do {                                                                                           \
        type *to = y;                                                                              \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            to[i * stride] = (type)(expression);                                                   \
        }                                                                                          \
    } while (0)

static void store_real(const double *in, void *y, bt_dtype dtype, int64_t stride, int64_t count)
{
    switch (dtype) {
    case BT_F64:
        STORE(double, in, in[i]);
        break;
    case BT_F32:
        STORE(float, in, in[i]);
        break;
    case BT_BF16:
        STORE(uint16_t, in, bt_f32_to_bf16((float)in[i]));
        break;
    case BT_F16:
        STORE(uint16_t, in, bt_f32_to_f16((float)in[i]));
        break;
    case BT_I64:
        STORE(int64_t, in, to_integer(in[i], INT64_MIN, INT64_MAX));
        break;
    case BT_I32:
        STORE(int32_t, in, to_integer(in[i], INT32_MIN, INT32_MAX));
        break;
    case BT_U16:
        STORE(uint16_t, in, to_integer(in[i], 0, UINT16_MAX));
        break;
    case BT_U8:
        STORE(uint8_t, in, to_integer(in[i], 0, UINT8_MAX));
        break;
    case BT_BOOL:
        STORE(uint8_t, in, in[i] != 0);
        break;
    case BT_DTYPE_COUNT:
    default:
        break;
    }
}

static void store_integer(const int64_t *in, void *y, bt_dtype dtype, int64_t stride, int64_t count)
{
    switch (dtype) {
    case BT_F64:
        STORE(double, in, in[i]);
        break;
    case BT_F32:
        STORE(float, in, in[i]);
        break;
    case BT_BF16:
        STORE(uint16_t, in, bt_f32_to_bf16((float)in[i]));
        break;
    case BT_F16:
        STORE(uint16_t, in, bt_f32_to_f16((float)in[i]));
        break;
    case BT_I64:
        STORE(int64_t, in, in[i]);
        break;
    case BT_I32:
        STORE(int32_t, in, in[i]);
        break;
    case BT_U16:
        STORE(uint16_t, in, in[i]);
        break;
    case BT_U8:
        STORE(uint8_t, in, in[i]);
        break;
    case BT_BOOL:
        STORE(uint8_t, in, in[i] != 0);
        break;
    case BT_DTYPE_COUNT:
    default:
        break;
    }
}

static void convert(const char *x, bt_dtype x_dtype, int64_t x_stride, char *y, bt_dtype y_dtype,
                    int64_t y_stride, int64_t total)
{
    stage staged = {0}; // all of it is written before it is read; no analyzer sees that
    const int64_t x_bytes = x_stride * (int64_t)bt_dtype_size(x_dtype);
    const int64_t y_bytes = y_stride * (int64_t)bt_dtype_size(y_dtype);
    for (int64_t at = 0; at < total; at += STAGE) {
        const int64_t count = total - at < STAGE ? total - at : STAGE;
        if (load(x + at * x_bytes, x_dtype, x_stride, count, &staged)) {
            store_real(staged.real, y + at * y_bytes, y_dtype, y_stride, count);
        } else {
            store_integer(staged.integer, y + at * y_bytes, y_dtype, y_stride, count);
        }
    }
}

bt_status bt_copy_cpu(const bt_launch *launch, const void *args)
{
    enum { CHUNK = 32 * STAGE };
    (void)launch;
    const bt_copy_args *op = args;
    if (op->rank < 0 || op->rank > BT_MAX_RANK || (unsigned)op->x_dtype >= BT_DTYPE_COUNT ||
        (unsigned)op->y_dtype >= BT_DTYPE_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "copy of rank %d from type %d to type %d",
                        op->rank, (int)op->x_dtype, (int)op->y_dtype);
    }
    bt_strided walk = {.rank = op->rank};
    for (int dim = 0; dim < op->rank; ++dim) {
        walk.shape[dim] = op->shape[dim];
        walk.stride[0][dim] = op->x_stride[dim];
        walk.stride[1][dim] = op->y_stride[dim];
    }
    bt_strided_collapse(&walk);
    const int64_t rows = bt_strided_rows(&walk), inner = walk.shape[walk.rank - 1];
    const int64_t x_stride = walk.stride[0][walk.rank - 1];
    const int64_t y_stride = walk.stride[1][walk.rank - 1];
    const int64_t chunks = (inner + CHUNK - 1) / CHUNK;
    const int64_t x_size = (int64_t)bt_dtype_size(op->x_dtype);
    const int64_t y_size = (int64_t)bt_dtype_size(op->y_dtype);
#pragma omp parallel for schedule(static) if (rows * inner > CHUNK)
    for (int64_t task = 0; task < rows * chunks; ++task) {
        int64_t offset[BT_STRIDED_OPERANDS];
        const int64_t at = task % chunks * CHUNK;
        const int64_t count = inner - at < CHUNK ? inner - at : CHUNK;
        bt_strided_offsets(&walk, task / chunks, offset);
        const char *x = (const char *)op->x + (offset[0] + at * x_stride) * x_size;
        char *y = (char *)op->y + (offset[1] + at * y_stride) * y_size;
        if (op->x_dtype == op->y_dtype) {
            move(x, x_stride, y, y_stride, count, (size_t)x_size);
        } else {
            convert(x, op->x_dtype, x_stride, y, op->y_dtype, y_stride, count);
        }
    }
    return BT_OK;
}
