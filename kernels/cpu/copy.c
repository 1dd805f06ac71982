// kernels/cpu/copy.c - y = x with any strides and any conversion
// Shapes   rank 0..8, strides in elements, 0 allowed for x; y's elements are distinct
// Types    all. Equal types are moved by size. Otherwise a row is staged as double (x is a
//          floating-point type) or int64 (x is not) and then stored: one rounding, to nearest even,
//          except f64 to bf16 or f16, which goes through f32
//          float to integer truncates, saturates at the type's range, and makes NaN 0;
//          integer to integer keeps the low bits; to bool is != 0, so NaN is true
//          f32 and bf16 with unit strides are converted directly
// Cost     bound by memory if strides are 1 on both sides; a transpose is done in tiles, so that
//          whole lines are used on both sides
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/strided.h"

enum {
    STAGE = 512, // elements
    TILE = 64    // of a transpose, both ways
};

typedef struct stage {
    double real[STAGE];     // if the source is a floating-point type
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

// Truncates, clamps to [low, high], 0 for NaN. 2^63 is not an int64, hence >=.
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
    stage staged = {0}; // all of it is written before it is read, which analyzers do not detect
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

BT_CLONES static void widen(const uint16_t *restrict x, float *restrict y, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        y[i] = bt_bf16_to_f32(x[i]);
    }
}

BT_CLONES static void narrow(const float *restrict x, uint16_t *restrict y, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        y[i] = bt_f32_to_bf16(x[i]);
    }
}

// Contiguous elements, equal types or f32 and bf16; past: with non-temporal stores.
static void copy_span(const char *x, bt_dtype x_dtype, char *y, bt_dtype y_dtype, int64_t count,
                      bool past)
{
    const int64_t x_size = (int64_t)bt_dtype_size(x_dtype);
    const int64_t y_size = (int64_t)bt_dtype_size(y_dtype);
    union {
        float real[BT_STREAM_BLOCK];
        uint16_t half[BT_STREAM_BLOCK];
    } made;
    if (x_dtype == y_dtype) {
        if (past) {
            bt_stream_out(y, x, (size_t)(count * y_size));
        } else {
            memcpy(y, x, (size_t)(count * y_size));
        }
        return;
    }
    const int64_t blocks = (count + BT_STREAM_BLOCK - 1) / BT_STREAM_BLOCK;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t at = bt_stream_order(i, blocks) * BT_STREAM_BLOCK;
        const int64_t part = count - at < BT_STREAM_BLOCK ? count - at : BT_STREAM_BLOCK;
        if (x_dtype == BT_F32) {
            narrow((const float *)(const void *)(x + at * x_size), made.half, part);
        } else {
            widen((const uint16_t *)(const void *)(x + at * x_size), made.real, part);
        }
        if (past) {
            bt_stream_out(y + at * y_size, &made, (size_t)(part * y_size));
        } else {
            memcpy(y + at * y_size, &made, (size_t)(part * y_size));
        }
    }
}

// Prefetches the memory `ahead` bytes after `count` columns of a tile.
static void ask_ahead(const void *x, int64_t stride_bytes, int count, int64_t ahead,
                      size_t size_bytes)
{
    for (int j = 0; j < count; ++j) {
        bt_prefetch((const char *)x + j * stride_bytes, ahead, size_bytes);
    }
}

// made[r][c] = x[r + c * x_stride] for r < rows, c < cols, elements of four bytes: blocks of 4 x 4
// in registers, the rest one by one. Prefetches the tile `ahead` bytes later.
static void turn_words(const uint32_t *x, int64_t x_stride, uint32_t made[TILE][TILE], int64_t rows,
                       int64_t cols, int64_t ahead)
{
    int64_t c = 0;
#ifdef __SSE2__
    for (; c + 4 <= cols; c += 4) {
        const uint32_t *from = x + c * x_stride;
        int64_t r = 0;
        ask_ahead(from, x_stride * 4, 4, ahead, TILE * 4);
        for (; r + 4 <= rows; r += 4) {
            const __m128i a = _mm_loadu_si128((const void *)(from + r));
            const __m128i b = _mm_loadu_si128((const void *)(from + r + x_stride));
            const __m128i d = _mm_loadu_si128((const void *)(from + r + 2 * x_stride));
            const __m128i e = _mm_loadu_si128((const void *)(from + r + 3 * x_stride));
            const __m128i ab_low = _mm_unpacklo_epi32(a, b), ab_high = _mm_unpackhi_epi32(a, b);
            const __m128i de_low = _mm_unpacklo_epi32(d, e), de_high = _mm_unpackhi_epi32(d, e);
            _mm_storeu_si128((void *)&made[r][c], _mm_unpacklo_epi64(ab_low, de_low));
            _mm_storeu_si128((void *)&made[r + 1][c], _mm_unpackhi_epi64(ab_low, de_low));
            _mm_storeu_si128((void *)&made[r + 2][c], _mm_unpacklo_epi64(ab_high, de_high));
            _mm_storeu_si128((void *)&made[r + 3][c], _mm_unpackhi_epi64(ab_high, de_high));
        }
        for (; r < rows; ++r) {
            for (int j = 0; j < 4; ++j) {
                made[r][c + j] = from[r + j * x_stride];
            }
        }
    }
#endif
    for (; c < cols; ++c) {
        for (int64_t r = 0; r < rows; ++r) {
            made[r][c] = x[r + c * x_stride];
        }
    }
}

// The same for elements of two bytes, in blocks of 8 x 8.
static void turn_halves(const uint16_t *x, int64_t x_stride, uint16_t made[TILE][TILE],
                        int64_t rows, int64_t cols, int64_t ahead)
{
    int64_t c = 0;
#ifdef __SSE2__
    for (; c + 8 <= cols; c += 8) {
        const uint16_t *from = x + c * x_stride;
        int64_t r = 0;
        ask_ahead(from, x_stride * 2, 8, ahead, TILE * 2);
        for (; r + 8 <= rows; r += 8) {
            __m128i in[8], pairs[8], fours[8]; // of a column; 2 and 4 columns beside each other
            for (int j = 0; j < 8; ++j) {
                in[j] = _mm_loadu_si128((const void *)(from + r + j * x_stride));
            }
            for (int j = 0; j < 8; j += 2) {
                pairs[j] = _mm_unpacklo_epi16(in[j], in[j + 1]);
                pairs[j + 1] = _mm_unpackhi_epi16(in[j], in[j + 1]);
            }
            for (int j = 0; j < 2; ++j) {
                for (int half = 0; half < 8; half += 4) {
                    const __m128i left = pairs[half + j], right = pairs[half + 2 + j];
                    fours[half + 2 * j] = _mm_unpacklo_epi32(left, right);
                    fours[half + 2 * j + 1] = _mm_unpackhi_epi32(left, right);
                }
            }
            for (int j = 0; j < 4; ++j) {
                const __m128i even = _mm_unpacklo_epi64(fours[j], fours[j + 4]);
                const __m128i odd = _mm_unpackhi_epi64(fours[j], fours[j + 4]);
                _mm_storeu_si128((void *)&made[r + 2 * j][c], even);
                _mm_storeu_si128((void *)&made[r + 2 * j + 1][c], odd);
            }
        }
        for (; r < rows; ++r) {
            for (int j = 0; j < 8; ++j) {
                made[r][c + j] = from[r + j * x_stride];
            }
        }
    }
#endif
    for (; c < cols; ++c) {
        for (int64_t r = 0; r < rows; ++r) {
            made[r][c] = x[r + c * x_stride];
        }
    }
}

#define TURN(type, size)                                                                           \
    do {                                                                                           \
        const type *from = x;                                                                      \
        for (int64_t c = 0; c < cols; ++c) {                                                       \
            for (int64_t r = 0; r < rows; ++r) {                                                   \
                made.size[r][c] = from[r + c * x_stride];                                          \
            }                                                                                      \
        }                                                                                          \
    } while (0)

// y[r * y_stride + c] = x[r + c * x_stride] for r < rows, c < cols, through a tile in the cache.
static void copy_tile(const void *x, int64_t x_stride, void *y, int64_t y_stride, int64_t rows,
                      int64_t cols, size_t size_bytes, int64_t ahead, bool past)
{
    union {
        uint64_t eight[TILE][TILE];
        uint32_t four[TILE][TILE];
        uint16_t two[TILE][TILE];
        uint8_t one[TILE][TILE];
    } made;
    if (size_bytes == 8) {
        TURN(uint64_t, eight);
    } else if (size_bytes == 4) {
        turn_words(x, x_stride, made.four, rows, cols, ahead);
    } else if (size_bytes == 2) {
        turn_halves(x, x_stride, made.two, rows, cols, ahead);
    } else {
        TURN(uint8_t, one);
    }
    for (int64_t r = 0; r < rows; ++r) {
        char *to = (char *)y + (size_t)(r * y_stride) * size_bytes;
        const char *from = (const char *)&made + (size_t)(r * TILE) * size_bytes;
        if (past) {
            bt_stream_out(to, from, (size_t)cols * size_bytes);
        } else {
            memcpy(to, from, (size_t)cols * size_bytes);
        }
    }
}

// A copy whose last two dimensions are a transpose: x contiguous along the first, y along the last.
static void copy_tiles(const bt_copy_args *op, const bt_strided *walk, int64_t size, bool past)
{
    const int last = walk->rank - 1;
    const int64_t rows = walk->shape[last - 1], cols = walk->shape[last];
    const int64_t x_stride = walk->stride[0][last], y_stride = walk->stride[1][last - 1];
    const int64_t down = (rows + TILE - 1) / TILE, across = (cols + TILE - 1) / TILE;
    const int64_t tasks = bt_strided_rows(walk) / rows * down * across;
#pragma omp parallel if (bt_strided_rows(walk) * cols > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t task = 0; task < tasks; ++task) {
            // Prefetches for this tile and for the one after the next, because of the memory
            // latency.
            int64_t at[2][BT_STRIDED_OPERANDS];
            const int64_t next = task + 2 < tasks ? task + 2 : task;
            const int64_t r = task % down * TILE, c = task / down % across * TILE; // along x
            const int64_t next_r = next % down * TILE, next_c = next / down % across * TILE;
            bt_strided_offsets(walk, task / (across * down) * rows, at[0]);
            bt_strided_offsets(walk, next / (across * down) * rows, at[1]);
            const int64_t x = at[0][0] + r + c * x_stride, y = at[0][1] + r * y_stride + c;
            const int64_t ahead = at[1][0] + next_r + next_c * x_stride - x;
            copy_tile((const char *)op->x + x * size, x_stride, (char *)op->y + y * size, y_stride,
                      rows - r < TILE ? rows - r : TILE, cols - c < TILE ? cols - c : TILE,
                      (size_t)size, ahead * size, past);
        }
        bt_stream_end();
    }
}

static bool is_transpose(const bt_copy_args *op, const bt_strided *walk)
{
    const int last = walk->rank - 1;
    return op->x_dtype == op->y_dtype && last > 0 && walk->stride[0][last] != 1 &&
           walk->stride[1][last] == 1 && walk->stride[0][last - 1] == 1 && walk->shape[last] > 1 &&
           walk->shape[last - 1] > 1;
}

static bool is_direct(const bt_copy_args *op)
{
    return op->x_dtype == op->y_dtype || (op->x_dtype == BT_F32 && op->y_dtype == BT_BF16) ||
           (op->x_dtype == BT_BF16 && op->y_dtype == BT_F32);
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
    const bool past = bt_stream_wanted(rows * inner * y_size);
    const bool direct = x_stride == 1 && y_stride == 1 && is_direct(op);
    if (rows * inner > 0 && is_transpose(op, &walk)) {
        copy_tiles(op, &walk, x_size, past);
        return BT_OK;
    }
#pragma omp parallel if (rows * inner > CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t task = 0; task < rows * chunks; ++task) {
            int64_t offset[BT_STRIDED_OPERANDS];
            const int64_t at = task % chunks * CHUNK;
            const int64_t count = inner - at < CHUNK ? inner - at : CHUNK;
            bt_strided_offsets(&walk, task / chunks, offset);
            const char *x = (const char *)op->x + (offset[0] + at * x_stride) * x_size;
            char *y = (char *)op->y + (offset[1] + at * y_stride) * y_size;
            if (direct) {
                copy_span(x, op->x_dtype, y, op->y_dtype, count, past);
            } else if (op->x_dtype == op->y_dtype) {
                move(x, x_stride, y, y_stride, count, (size_t)x_size);
            } else {
                convert(x, op->x_dtype, x_stride, y, op->y_dtype, y_stride, count);
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}
