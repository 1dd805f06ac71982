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

bt_status FN(bt_grad_norm_cpu)(const bt_launch *launch, const void *args)
{
    const bt_grad_norm_args *op = args;
    double *partial = launch->workspace;
    int64_t total = 0;
    double sum = 0;
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
    for (int64_t i = 0; i < total; ++i) {
        sum += partial[i];
    }
    const double norm = op->grad_scale * sqrt(sum);
    double scale = op->grad_scale;
    if (op->max_norm > 0 && op->max_norm < norm + 1e-6) {
        scale *= op->max_norm / (norm + 1e-6);
    }
    *(REAL *)op->norm = (REAL)norm;
    *(REAL *)op->scale = isfinite((REAL)norm) ? (REAL)scale : R(NAN);
    return BT_OK;
}
