// kernels/cpu/grad_norm.inl - body of grad_norm.c for one type
#include "kernels/cpu/lanes.inl"

BT_CLONES static double FN(squares)(const REAL *x, int64_t count)
{
    double sum[BT_LANES] = {0};
    const int64_t blocks = (count + BT_STREAM_BLOCK - 1) / BT_STREAM_BLOCK;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t at = bt_stream_order(i, blocks) * BT_STREAM_BLOCK, rest = count - at;
        FN(square_lanes)(x + at, rest < BT_STREAM_BLOCK ? rest : BT_STREAM_BLOCK, sum);
    }
    return FN(add_lanes)(sum);
}

// The norm and the scale of a sum of squares.
static void FN(finish)(double sum, double grad_scale, double max_norm, REAL *norm_out,
                       REAL *scale_out)
{
    const double norm = grad_scale * sqrt(sum);
    double scale = grad_scale;
    if (max_norm > 0 && max_norm < norm + 1e-6) {
        scale *= max_norm / (norm + 1e-6);
    }
    *norm_out = (REAL)norm;
    *scale_out = isfinite((REAL)norm) ? (REAL)scale : R(NAN);
}

static double FN(in_order)(const double *partial, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += partial[i];
    }
    return sum;
}

bt_status FN(bt_sum_squares_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_sum_squares_args *op = args;
#pragma omp parallel
    for (int64_t i = 0; i < op->item_count; ++i) {
        const bt_sum_squares_item *item = &op->items[i];
        const REAL *x = item->x;
        const int64_t count = item->count, chunks = chunks_of(count);
#pragma omp for schedule(static) nowait
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            const int64_t at = chunk * BT_CHUNK, rest = count - at;
            item->partials[chunk] = FN(squares)(x + at, rest < BT_CHUNK ? rest : BT_CHUNK);
        }
    }
    return BT_OK;
}

bt_status FN(bt_clip_scale_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_clip_scale_args *op = args;
    FN(finish)
    (FN(in_order)(op->partials, op->count), op->grad_scale, op->max_norm, op->norm, op->scale);
    return BT_OK;
}

bt_status FN(bt_grad_norm_cpu)(const bt_launch *launch, const void *args)
{
    const bt_grad_norm_args *op = args;
    double *partial = launch->workspace;
    int64_t total = 0;
#pragma omp parallel
    {
        int64_t first = 0; // of this item's chunks
        for (int64_t i = 0; i < op->item_count; ++i) {
            const REAL *grad = op->items[i].grad;
            const int64_t count = op->items[i].count, chunks = chunks_of(count);
#pragma omp for schedule(static) nowait
            for (int64_t chunk = 0; chunk < chunks; ++chunk) {
                const int64_t at = chunk * BT_CHUNK, rest = count - at;
                partial[first + chunk] = FN(squares)(grad + at, rest < BT_CHUNK ? rest : BT_CHUNK);
            }
            first += chunks;
        }
#pragma omp single
        total = first;
    }
    FN(finish)(FN(in_order)(partial, total), op->grad_scale, op->max_norm, op->norm, op->scale);
    return BT_OK;
}
