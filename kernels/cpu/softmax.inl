// kernels/cpu/softmax.inl - body of softmax.c for one type
#include "kernels/cpu/lanes.inl"

#include "kernels/cpu/exps.inl"

// made[c] = exp(x[c] - max) for c < cols; returns the inverse of their sum. Meanwhile the next row
// is prefetched.
BT_CLONES static REAL FN(softmax_exps)(const REAL *x, REAL *made, int64_t cols)
{
    const REAL max = FN(row_max)(x, cols);
    double sum[BT_LANES] = {0};
    FN(exp_lanes)(x, made, true, cols, max, cols * (int64_t)sizeof(REAL), sum);
    return (REAL)(1 / FN(add_lanes)(sum));
}

BT_CLONES static void FN(softmax_scale)(REAL *y, REAL scale, int64_t count)
{
    for (int64_t c = 0; c < count; ++c) {
        y[c] *= scale;
    }
}

// exps: a buffer whose row is written to y with non-temporal stores, or y itself.
static void FN(softmax_row)(const REAL *x, REAL *exps, REAL *y, int64_t cols)
{
    const REAL scale = FN(softmax_exps)(x, exps, cols);
    const int64_t step = exps != y ? BT_STREAM_BLOCK : cols;
    for (int64_t at = 0; at < cols; at += step) {
        const int64_t count = cols - at < step ? cols - at : step;
        FN(softmax_scale)(exps + at, scale, count);
        if (exps != y) {
            bt_stream_out(y + at, exps + at, (size_t)count * sizeof(REAL));
        }
    }
}

BT_CLONES static void FN(softmax_backward_row)(const REAL *y, const REAL *dy, REAL *dx,
                                               int64_t cols)
{
    const REAL dot = (REAL)FN(row_dot)(y, dy, cols);
    for (int64_t c = 0; c < cols; ++c) {
        dx[c] = y[c] * (dy[c] - dot);
    }
}

bt_status FN(bt_softmax_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_softmax_args *op = args;
    const REAL *x = op->x;
    REAL *y = op->y;
    const bool past = y != x && op->cols <= BT_STREAM_ROW &&
                      bt_stream_wanted(op->rows * op->cols * (int64_t)sizeof(REAL));
#pragma omp parallel if (op->rows * op->cols > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_ROW] = {0}; // written before it is read, which analyzers
                                                     // do not detect
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            REAL *target = y + r * op->cols;
            FN(softmax_row)(x + r * op->cols, past ? made : target, target, op->cols);
        }
        bt_stream_end();
    }
    return BT_OK;
}

bt_status FN(bt_softmax_backward_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_softmax_backward_args *op = args;
    const REAL *y = op->y, *dy = op->dy;
    REAL *dx = op->dx;
    const bool past = dx != y && dx != dy && op->cols <= BT_STREAM_ROW &&
                      bt_stream_wanted(op->rows * op->cols * (int64_t)sizeof(REAL));
#pragma omp parallel if (op->rows * op->cols > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_ROW];
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            const int64_t at = r * op->cols;
            FN(softmax_backward_row)(y + at, dy + at, past ? made : dx + at, op->cols);
            if (past) {
                bt_stream_out(dx + at, made, (size_t)op->cols * sizeof(REAL));
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}
