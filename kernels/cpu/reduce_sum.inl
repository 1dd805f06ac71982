// kernels/cpu/reduce_sum.inl - body of reduce_sum.c for one type
#include "kernels/cpu/lanes.inl"

// sums[r] = sum_c x[r * stride + c] for r < rows <= ROWS_TOGETHER: a piece of each row alternately
BT_CLONES static void FN(sum_rows_together)(const REAL *x, int64_t rows, int64_t stride,
                                            int64_t cols, double *sums)
{
    double lanes[ROWS_TOGETHER][BT_LANES] = {{0}};
    for (int64_t at = 0; at < cols; at += BT_STREAM_BLOCK) {
        const int64_t rest = cols - at, count = rest < BT_STREAM_BLOCK ? rest : BT_STREAM_BLOCK;
        for (int64_t r = 0; r < rows; ++r) {
            FN(sum_lanes)(x + r * stride + at, count, lanes[r]);
        }
    }
    for (int64_t r = 0; r < rows; ++r) {
        sums[r] = FN(add_lanes)(lanes[r]);
    }
}

// sum[i] = sum_r x[r * stride + i] for i < count: rows a quarter of them apart, four at a time
BT_CLONES static void FN(sum_columns)(const REAL *x, int64_t rows, int64_t stride, int64_t count,
                                      double *restrict sum)
{
    const int64_t quarter = rows / 4, apart = quarter * stride;
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t r = 0; r < quarter; ++r) {
        const REAL *a = x + r * stride, *b = a + apart, *c = b + apart, *d = c + apart;
        for (int64_t at = 0; at < count; at += BT_LANES) {
            const int64_t to = count - at < BT_LANES ? count : at + BT_LANES;
            FN(prefetch_lanes)(a + at, stride * (int64_t)sizeof(REAL));
            FN(prefetch_lanes)(b + at, stride * (int64_t)sizeof(REAL));
            FN(prefetch_lanes)(c + at, stride * (int64_t)sizeof(REAL));
            FN(prefetch_lanes)(d + at, stride * (int64_t)sizeof(REAL));
            for (int64_t i = at; i < to; ++i) {
                sum[i] += ((double)a[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
            }
        }
    }
    for (int64_t r = 4 * quarter; r < rows; ++r) {
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

// Rows `apart` from each other, so that each stream continues for a while.
static void FN(sum_rows)(const bt_reduce_sum_args *op)
{
    const int64_t cols = op->reduce, apart = rows_apart(cols), group = ROWS_TOGETHER * apart;
#pragma omp parallel for schedule(static) if (op->outer * cols > BT_CHUNK)
    for (int64_t first = 0; first < op->outer; first += group) {
        const int64_t end = op->outer - first < group ? op->outer : first + group;
        for (int64_t row = first; row < end && row < first + apart; ++row) {
            double sums[ROWS_TOGETHER];
            const int64_t rows = (end - row + apart - 1) / apart;
            FN(sum_rows_together)
            ((const REAL *)op->x + row * cols, rows, apart * cols, cols, sums);
            for (int64_t r = 0; r < rows; ++r) {
                FN(store_sums)(op, sums + r, 1, (REAL *)op->y + row + r * apart);
            }
        }
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
