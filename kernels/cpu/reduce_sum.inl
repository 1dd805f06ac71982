// kernels/cpu/reduce_sum.inl - body of reduce_sum.c for one type
#include "kernels/cpu/lanes.inl"

BT_CLONES static double FN(sum_row)(const REAL *x, int64_t count) { return FN(row_sum)(x, count); }

// sum[i] = sum_r x[r * stride + i] for i < count <= BT_COLUMN_BLOCK
BT_CLONES static void FN(sum_columns)(const REAL *x, int64_t rows, int64_t stride, int64_t count,
                                      double *sum)
{
    for (int64_t i = 0; i < count; ++i) {
        sum[i] = 0;
    }
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < count; ++i) {
            sum[i] += (double)x[r * stride + i];
        }
    }
}

static void FN(store_sums)(const bt_reduce_sum_args *op, const double *sum, int64_t count, REAL *y)
{
    for (int64_t i = 0; i < count; ++i) {
        const double scaled = op->scale * sum[i];
        y[i] = (REAL)(op->accumulate ? (double)y[i] + scaled : scaled);
    }
}

bt_status FN(bt_reduce_sum_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_reduce_sum_args *op = args;
    const REAL *x = op->x;
    REAL *y = op->y;
    const int64_t blocks = (op->inner + BT_COLUMN_BLOCK - 1) / BT_COLUMN_BLOCK;
#pragma omp parallel for schedule(static) if (op->outer * op->reduce * op->inner > BT_CHUNK)
    for (int64_t task = 0; task < op->outer * blocks; ++task) {
        double sum[BT_COLUMN_BLOCK];
        const int64_t outer = task / blocks, at = task % blocks * BT_COLUMN_BLOCK;
        const int64_t rest = op->inner - at;
        const int64_t count = rest < BT_COLUMN_BLOCK ? rest : BT_COLUMN_BLOCK;
        const REAL *from = x + outer * op->reduce * op->inner + at;
        if (op->inner == 1) {
            sum[0] = FN(sum_row)(from, op->reduce);
        } else {
            FN(sum_columns)(from, op->reduce, op->inner, count, sum);
        }
        FN(store_sums)(op, sum, count, y + outer * op->inner + at);
    }
    return BT_OK;
}
