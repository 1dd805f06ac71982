// kernels/cpu/reduce_sum.inl - body of reduce_sum.c for one type
#include "kernels/cpu/lanes.inl"

BT_CLONES static double FN(sum_row)(const REAL *x, int64_t count) { return FN(row_sum)(x, count); }

// sum[i] = sum_r x[r * stride + i] for i < count: four rows at a time, ascending
BT_CLONES static void FN(sum_columns)(const REAL *x, int64_t rows, int64_t stride, int64_t count,
                                      double *restrict sum)
{
    memset(sum, 0, (size_t)count * sizeof *sum);
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const REAL *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        for (int64_t i = 0; i < count; ++i) {
            sum[i] += ((double)a[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
        }
    }
    for (; r < rows; ++r) {
        for (int64_t i = 0; i < count; ++i) {
            sum[i] += (double)x[r * stride + i];
        }
    }
}

// y[i] (+)= scale * sum[i] for i < count
static void FN(store_sums)(const bt_reduce_sum_args *op, const double *sum, int64_t count, REAL *y)
{
    for (int64_t i = 0; i < count; ++i) {
        const double scaled = op->scale * sum[i];
        y[i] = (REAL)(op->accumulate ? (double)y[i] + scaled : scaled);
    }
}

static void FN(sum_rows)(const bt_reduce_sum_args *op)
{
#pragma omp parallel for schedule(static) if (op->outer * op->reduce > BT_CHUNK)
    for (int64_t row = 0; row < op->outer; ++row) {
        const double sum = FN(sum_row)((const REAL *)op->x + row * op->reduce, op->reduce);
        FN(store_sums)(op, &sum, 1, (REAL *)op->y + row);
    }
}

// Columns [at, at + count) of one part, count <= SUM_COLUMNS; alone: it is the whole sum.
static void FN(sum_part)(const bt_reduce_sum_args *op, int64_t outer, int64_t at, int64_t part,
                         int64_t parts, double *sums)
{
    double own[SUM_COLUMNS];
    const int64_t inner = op->inner, rest = inner - at;
    const int64_t count = rest < SUM_COLUMNS ? rest : SUM_COLUMNS;
    const int64_t from = op->reduce * part / parts, to = op->reduce * (part + 1) / parts;
    const REAL *x = (const REAL *)op->x + (outer * op->reduce + from) * inner + at;
    double *sum = parts > 1 ? sums + (outer * parts + part) * inner + at : own;
    FN(sum_columns)(x, to - from, inner, count, sum);
    if (parts == 1) {
        FN(store_sums)(op, sum, count, (REAL *)op->y + outer * inner + at);
    }
}

bt_status FN(bt_reduce_sum_cpu)(const bt_launch *launch, const void *args)
{
    const bt_reduce_sum_args *op = args;
    const int64_t inner = op->inner, parts = parts_of(op);
    const int64_t blocks = (inner + SUM_COLUMNS - 1) / SUM_COLUMNS;
    double *sums = launch->workspace; // [outer, parts, inner]
    if (inner == 1) {
        FN(sum_rows)(op);
        return BT_OK;
    }
#pragma omp parallel if (op->outer * op->reduce * inner > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t task = 0; task < op->outer * parts * blocks; ++task) {
            const int64_t entry = task / blocks;
            FN(sum_part)
            (op, entry / parts, task % blocks * SUM_COLUMNS, entry % parts, parts, sums);
        }
#pragma omp for schedule(static)
        for (int64_t task = 0; task < (parts > 1 ? op->outer * blocks : 0); ++task) {
            const int64_t outer = task / blocks, at = task % blocks * SUM_COLUMNS;
            const int64_t count = inner - at < SUM_COLUMNS ? inner - at : SUM_COLUMNS;
            double *sum = sums + outer * parts * inner + at;
            for (int64_t part = 1; part < parts; ++part) {
                for (int64_t i = 0; i < count; ++i) {
                    sum[i] += sum[part * inner + i];
                }
            }
            FN(store_sums)(op, sum, count, (REAL *)op->y + outer * inner + at);
        }
    }
    return BT_OK;
}
