// kernels/cpu/bf16_elementwise.c - unary, binary, dropout, count of non-finite numbers in bf16
// Shapes   as in unary.c, binary.c, dropout.c, count_nonfinite.c
// Types    bf16 operands, f32 arithmetic, one rounding at the end
// Order    blocks one after the other, see bf16.h; results do not depend on them
#include "kernels/cpu/bf16.h"

#include "kernels/cpu/strided.h"

// Of every kernel here that takes [count]: three blocks.
size_t bt_elementwise_cpu_bf16_workspace(const bt_device *device, const void *args)
{
    (void)device;
    (void)args;
    return 3 * BT_BF16_BLOCK * sizeof(float);
}

bt_status bt_unary_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_unary_args *given = args;
    float *x = launch->workspace, *y = x + BT_BF16_BLOCK;
    bt_unary_args op = *given;
    op.dtype = BT_F32;
    for (int64_t at = 0; at < given->count; at += BT_BF16_BLOCK) {
        op.count = bt_bf16_least(given->count - at, BT_BF16_BLOCK);
        op.x = bt_bf16_widen(x, bt_bf16_at(given->x, at), op.count);
        op.y = y;
        BT_TRY(bt_unary_cpu_f32(launch, &op));
        bt_bf16_narrow(bt_bf16_to(given->y, at), y, op.count);
    }
    return BT_OK;
}

bt_status bt_unary_backward_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_unary_backward_args *given = args;
    float *x = launch->workspace, *dy = x + BT_BF16_BLOCK, *dx = dy + BT_BF16_BLOCK;
    bt_unary_backward_args op = *given;
    op.dtype = BT_F32;
    for (int64_t at = 0; at < given->count; at += BT_BF16_BLOCK) {
        op.count = bt_bf16_least(given->count - at, BT_BF16_BLOCK);
        op.x = bt_bf16_widen(x, bt_bf16_at(given->x, at), op.count);
        op.dy = bt_bf16_widen(dy, bt_bf16_at(given->dy, at), op.count);
        op.dx = dx;
        if (op.accumulate) {
            bt_bf16_widen(dx, bt_bf16_at(given->dx, at), op.count);
        }
        BT_TRY(bt_unary_backward_cpu_f32(launch, &op));
        bt_bf16_narrow(bt_bf16_to(given->dx, at), dx, op.count);
    }
    return BT_OK;
}

// Part of a row of a strided operand: contiguous elements, or one that is repeated.
static const float *widen_part(float *to, const void *from, int64_t stride, int64_t count)
{
    return stride == 1 ? bt_bf16_widen(to, from, count)
                       : bt_bf16_widen_rows(to, from, stride == 0 ? 1 : count, 1, stride);
}

bt_status bt_binary_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_binary_args *given = args;
    float *a = launch->workspace, *b = a + BT_BF16_BLOCK, *y = b + BT_BF16_BLOCK;
    bt_strided walk = {.rank = given->rank};
    int64_t y_stride = 1;
    for (int dim = given->rank - 1; dim >= 0; --dim) {
        walk.shape[dim] = given->shape[dim];
        walk.stride[0][dim] = given->a_stride[dim];
        walk.stride[1][dim] = given->b_stride[dim];
        walk.stride[2][dim] = y_stride;
        y_stride *= given->shape[dim];
    }
    bt_strided_collapse(&walk);
    const int64_t inner = walk.shape[walk.rank - 1];
    const int64_t a_step = walk.stride[0][walk.rank - 1], b_step = walk.stride[1][walk.rank - 1];
    bt_binary_args op = {.function = given->function, .rank = 1, .y = y, .dtype = BT_F32};
    op.a_stride[0] = a_step != 0;
    op.b_stride[0] = b_step != 0;
    for (int64_t row = 0; row < bt_strided_rows(&walk); ++row) {
        int64_t offset[BT_STRIDED_OPERANDS];
        bt_strided_offsets(&walk, row, offset);
        for (int64_t at = 0; at < inner; at += BT_BF16_BLOCK) {
            const int64_t count = bt_bf16_least(inner - at, BT_BF16_BLOCK);
            op.shape[0] = count;
            op.a = widen_part(a, bt_bf16_at(given->a, offset[0] + at * a_step), a_step, count);
            op.b = widen_part(b, bt_bf16_at(given->b, offset[1] + at * b_step), b_step, count);
            BT_TRY(bt_binary_cpu_f32(launch, &op));
            bt_bf16_narrow(bt_bf16_to(given->y, offset[2] + at), y, count);
        }
    }
    return BT_OK;
}

bt_status bt_count_nonfinite_cpu_bf16(const bt_launch *launch, const void *args)
{
    const bt_count_nonfinite_args *given = args;
    float *x = launch->workspace;
    int64_t found = 0, sum = 0;
    bt_count_nonfinite_args op = {.result = &found, .dtype = BT_F32};
    for (int64_t at = 0; at < given->count; at += BT_BF16_BLOCK) {
        op.count = bt_bf16_least(given->count - at, BT_BF16_BLOCK);
        op.x = bt_bf16_widen(x, bt_bf16_at(given->x, at), op.count);
        BT_TRY(bt_count_nonfinite_cpu_f32(launch, &op));
        sum += found;
    }
    *given->result = sum;
    return BT_OK;
}
