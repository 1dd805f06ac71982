// kernels/cpu/binary.c - y = a op b with broadcasting
// Shapes   any rank and strides for a and b, 0 broadcasts; y contiguous, may be a or b if that
//          operand is contiguous
// Types    f32, f64, bf16 (through f32); one IEEE operation per element: exact to half an ulp
// Cost     bound by memory; unit strides and scalars have vectorized rows, others are processed one
//          by one
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/vector.h"

// How the three operands are traversed together.
static bt_status walk_of(const bt_binary_args *op, bt_strided *walk)
{
    if ((unsigned)op->function >= BT_BINARY_COUNT || op->rank < 0 || op->rank > BT_MAX_RANK) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "binary function %d of rank %d",
                        (int)op->function, op->rank);
    }
    *walk = (bt_strided){.rank = op->rank};
    int64_t y_stride = 1;
    for (int dim = op->rank - 1; dim >= 0; --dim) {
        walk->shape[dim] = op->shape[dim];
        walk->stride[0][dim] = op->a_stride[dim];
        walk->stride[1][dim] = op->b_stride[dim];
        walk->stride[2][dim] = y_stride;
        y_stride *= op->shape[dim];
    }
    bt_strided_collapse(walk);
    return BT_OK;
}

#define BT_BODY "kernels/cpu/binary.inl"
#include "kernels/cpu/both.h"

// ---- bf16: a few thousand elements of a row at a time, through f32 on the stack ----------------

enum { PART = 2048 };

BT_CLONES static void binary_widen_part(float *restrict to, const uint16_t *restrict from,
                                        int64_t stride, int64_t count)
{
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) {
            to[i] = bt_bf16_to_f32(from[i]);
        }
    } else {
        for (int64_t i = 0; i < (stride ? count : 1); ++i) {
            to[i] = bt_bf16_to_f32(from[i * stride]);
        }
    }
}

BT_CLONES static void binary_narrow_part(uint16_t *restrict to, const float *restrict from,
                                         int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] = bt_f32_to_bf16(from[i]);
    }
}

// y [count] of one row, from a and b with their strides.
static void row_bf16(bt_binary function, const uint16_t *a, int64_t a_stride, const uint16_t *b,
                     int64_t b_stride, uint16_t *y, int64_t count)
{
    static void (*const functions[])(const float *, int64_t, const float *, int64_t, float *,
                                     int64_t) = {
#define BINARY_ROW(name, text) row_##name##_f32,
        BT_BINARY_LIST(BINARY_ROW)
#undef BINARY_ROW
    };
    float left[PART], right[PART], result[PART];
    for (int64_t at = 0; at < count; at += PART) {
        const int64_t part = count - at < PART ? count - at : PART;
        binary_widen_part(left, a + at * a_stride, a_stride, part);
        binary_widen_part(right, b + at * b_stride, b_stride, part);
        functions[function](left, a_stride != 0, right, b_stride != 0, result, part);
        binary_narrow_part(y + at, result, part);
    }
}

bt_status bt_binary_cpu_bf16(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_binary_args *op = args;
    bt_strided walk;
    BT_TRY(walk_of(op, &walk));
    const int64_t rows = bt_strided_rows(&walk), inner = walk.shape[walk.rank - 1];
    const int64_t a_step = walk.stride[0][walk.rank - 1], b_step = walk.stride[1][walk.rank - 1];
    const int64_t chunks = (inner + BT_CHUNK - 1) / BT_CHUNK;
#pragma omp parallel for schedule(static) if (rows * inner > BT_CHUNK)
    for (int64_t task = 0; task < rows * chunks; ++task) {
        int64_t offset[BT_STRIDED_OPERANDS];
        const int64_t at = task % chunks * BT_CHUNK;
        const int64_t count = inner - at < BT_CHUNK ? inner - at : BT_CHUNK;
        bt_strided_offsets(&walk, task / chunks, offset);
        row_bf16(op->function, (const uint16_t *)op->a + offset[0] + at * a_step, a_step,
                 (const uint16_t *)op->b + offset[1] + at * b_step, b_step,
                 (uint16_t *)op->y + offset[2] + at, count);
    }
    return BT_OK;
}
