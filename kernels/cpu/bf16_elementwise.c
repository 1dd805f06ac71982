// kernels/cpu/bf16_elementwise.c - unary functions and the count of non-finite numbers in bf16
// Shapes   as in unary.c and count_nonfinite.c
// Types    bf16 operands, f32 arithmetic, one rounding at the end
// Order    blocks one after the other, see bf16.h; results do not depend on them
#include "kernels/cpu/bf16.h"

// Workspace of every kernel here that takes [count]: three blocks.
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
