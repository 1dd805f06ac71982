// kernels/cpu/layernorm.inl - body of layernorm.c for one type
#include "kernels/cpu/lanes.inl"

BT_CLONES static void FN(add_rows)(const REAL *x, const REAL *residual, REAL *sum, int64_t cols)
{
    for (int64_t c = 0; c < cols; ++c) {
        sum[c] = x[c] + residual[c];
    }
}

// y[c] = (s[c] - center) rstd gamma[c] + beta[c]
BT_CLONES static void FN(normalize)(const REAL *s, const REAL *gamma, const REAL *beta, REAL *y,
                                    int64_t count, REAL center, REAL rstd)
{
    if (beta) {
        for (int64_t c = 0; c < count; ++c) {
            y[c] = FN(bt_fma)((s[c] - center) * rstd, gamma[c], beta[c]);
        }
    } else {
        for (int64_t c = 0; c < count; ++c) {
            y[c] = (s[c] - center) * rstd * gamma[c];
        }
    }
}

BT_CLONES static double FN(mean_of)(const REAL *s, int64_t cols)
{
    return FN(row_sum)(s, cols) / (double)cols;
}

// Squares of distances from `center`, the mean rounded to the type; corrected for the rounding.
BT_CLONES static double FN(variance_of)(const REAL *s, int64_t cols, double mean, REAL center)
{
    enum { STEP = SQUARES * BT_LANES };
    double sum[BT_LANES] = {0};
    for (int64_t from = 0; from < cols; from += STEP) {
        const int64_t to = cols - from < STEP ? cols : from + STEP;
        REAL part[BT_LANES] = {0};
        int64_t c = from;
        for (; c + BT_LANES <= to; c += BT_LANES) {
            for (int j = 0; j < BT_LANES; ++j) {
                const REAL offset = s[c + j] - center;
                part[j] = FN(bt_fma)(offset, offset, part[j]);
            }
        }
        for (int j = 0; c + j < to; ++j) {
            const REAL offset = s[c + j] - center;
            part[j] = FN(bt_fma)(offset, offset, part[j]);
        }
        FN(widen_lanes)(part, sum);
    }
    const double off = mean - (double)center;
    const double variance = FN(add_lanes)(sum) / (double)cols - off * off;
    return variance < 0 ? 0 : variance;
}

// y, and this row's mean and rstd.
static void FN(normalize_row)(const bt_layernorm_args *op, const REAL *s, int64_t row, bool past)
{
    _Alignas(64) REAL made[BT_STREAM_BLOCK];
    const REAL *gamma = op->gamma, *beta = op->beta;
    REAL *y = (REAL *)op->y + row * op->cols;
    const REAL *x = (const REAL *)op->x + row * op->cols;
    const int64_t cols = op->cols, step = past ? BT_STREAM_BLOCK : cols;
    const int64_t row_bytes = cols * (int64_t)sizeof(REAL);
    const double mean = FN(mean_of)(s, cols);
    const REAL center = (REAL)mean;
    const double variance = FN(variance_of)(s, cols, mean, center);
    const REAL rstd = (REAL)(1 / sqrt(variance + op->epsilon));
    for (int64_t at = 0; at < cols; at += step) {
        const int64_t count = cols - at < step ? cols - at : step;
        bt_prefetch(x + at, row_bytes, (size_t)count * sizeof(REAL));
        if (op->residual) {
            bt_prefetch((const REAL *)op->residual + row * op->cols + at, row_bytes,
                        (size_t)count * sizeof(REAL));
        }
        FN(normalize)
        (s + at, gamma + at, beta ? beta + at : NULL, past ? made : y + at, count, center, rstd);
        if (past) {
            bt_stream_out(y + at, made, (size_t)count * sizeof(REAL));
        }
    }
    ((REAL *)op->mean)[row] = center;
    ((REAL *)op->rstd)[row] = rstd;
}

bt_status FN(bt_layernorm_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_layernorm_args *op = args;
    const int64_t cols = op->cols;
    if (cols == 0) {
        return BT_OK;
    }
    const bool past = bt_stream_wanted(op->rows * cols * (int64_t)sizeof(REAL));
    const bool held = past && cols <= BT_STREAM_ROW; // the sum is staged in a buffer
#pragma omp parallel if (op->rows * cols > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_ROW];
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            const REAL *s = (const REAL *)op->x + r * cols;
            if (op->residual) {
                REAL *target = (REAL *)op->sum + r * cols;
                REAL *sum = held ? made : target;
                FN(add_rows)(s, (const REAL *)op->residual + r * cols, sum, cols);
                if (held) {
                    bt_stream_out(target, made, (size_t)cols * sizeof(REAL));
                }
                s = sum;
            }
            FN(normalize_row)(op, s, r, past);
        }
        bt_stream_end();
    }
    return BT_OK;
}

// Inputs of a row's gradient.
typedef struct FN(row_terms) {
    REAL mean, rstd, mean_g, mean_dot;
} FN(row_terms);

BT_CLONES static void FN(gradient)(const REAL *dy, const REAL *s, const REAL *gamma, REAL *dx,
                                   int64_t count, const FN(row_terms) * given, bool accumulate)
{
    const FN(row_terms) with = *given;
    const REAL slope = with.rstd * with.mean_dot;
#define GRADIENT(c)                                                                                \
    (with.rstd * FN(bt_fma)(-slope, s[c] - with.mean, FN(bt_fma)(dy[c], gamma[c], -with.mean_g)))
    if (accumulate) {
        for (int64_t c = 0; c < count; ++c) {
            dx[c] += GRADIENT(c);
        }
    } else {
        for (int64_t c = 0; c < count; ++c) {
            dx[c] = GRADIENT(c);
        }
    }
#undef GRADIENT
}

// The row's sums of g and of g xhat, g = dy gamma, and its contribution to dgamma and dbeta.
BT_CLONES static void FN(backward_sums)(const bt_layernorm_backward_args *op, const REAL *dy,
                                        const REAL *s, FN(row_terms) * with,
                                        REAL *restrict gamma_part, REAL *restrict beta_part)
{
    enum { STEP = ROW_BLOCK * BT_LANES };
    const REAL *gamma = op->gamma;
    const REAL mean = with->mean, rstd = with->rstd;
    const int64_t cols = op->cols;
    double sum[BT_LANES] = {0}, dot[BT_LANES] = {0};
#define ADD_COLUMN(c, j)                                                                           \
    const REAL xhat = (s[c] - mean) * rstd, g = dy[c] * gamma[c];                                  \
    sum_part[j] += g;                                                                              \
    dot_part[j] = FN(bt_fma)(g, xhat, dot_part[j]);                                                \
    gamma_part[c] = FN(bt_fma)(dy[c], xhat, gamma_part[c]);                                        \
    beta_part[c] += dy[c];
    for (int64_t from = 0; from < cols; from += STEP) {
        const int64_t to = cols - from < STEP ? cols : from + STEP;
        REAL sum_part[BT_LANES] = {0}, dot_part[BT_LANES] = {0};
        int64_t c = from;
        for (; c + BT_LANES <= to; c += BT_LANES) {
            for (int j = 0; j < BT_LANES; ++j) {
                ADD_COLUMN(c + j, j)
            }
        }
        for (int j = 0; c + j < to; ++j) {
            ADD_COLUMN(c + j, j)
        }
        FN(widen_lanes)(sum_part, sum);
        FN(widen_lanes)(dot_part, dot);
    }
#undef ADD_COLUMN
    with->mean_g = (REAL)(FN(add_lanes)(sum) / (double)cols);
    with->mean_dot = (REAL)(FN(add_lanes)(dot) / (double)cols);
}

// dx of one row, after its contribution to dgamma and dbeta, because dx may be dy.
static void FN(backward_row)(const bt_layernorm_backward_args *op, int64_t row, bool past,
                             REAL *gamma_part, REAL *beta_part)
{
    _Alignas(64) REAL made[BT_STREAM_BLOCK];
    const int64_t cols = op->cols, step = past ? BT_STREAM_BLOCK : cols;
    const REAL *dy = (const REAL *)op->dy + row * cols, *s = (const REAL *)op->s + row * cols;
    const REAL *gamma = op->gamma;
    REAL *dx = (REAL *)op->dx + row * cols;
    FN(row_terms)
    with = {.mean = ((const REAL *)op->mean)[row], .rstd = ((const REAL *)op->rstd)[row]};
    FN(backward_sums)(op, dy, s, &with, gamma_part, beta_part);
    for (int64_t at = 0; at < cols; at += step) {
        const int64_t count = cols - at < step ? cols - at : step;
        bt_prefetch(dy + at, cols * (int64_t)sizeof(REAL), (size_t)count * sizeof(REAL));
        bt_prefetch(s + at, cols * (int64_t)sizeof(REAL), (size_t)count * sizeof(REAL));
        FN(gradient)
        (dy + at, s + at, gamma + at, past ? made : dx + at, count, &with, op->accumulate);
        if (past) {
            bt_stream_out(dx + at, made, (size_t)count * sizeof(REAL));
        }
    }
}

// total[c] += block[c], and block[c] = 0
BT_CLONES static void FN(close_block)(REAL *restrict block, double *restrict total, int64_t count)
{
    for (int64_t c = 0; c < count; ++c) {
        total[c] += (double)block[c];
        block[c] = 0;
    }
}

// Rows [begin, end): their dx, and in total [2, cols] their contribution to dgamma and dbeta.
// `block` has the same size.
static void FN(backward_part)(const bt_layernorm_backward_args *op, int64_t begin, int64_t end,
                              bool past, double *total, REAL *block)
{
    const int64_t cols = op->cols;
    for (int64_t c = 0; c < 2 * cols; ++c) {
        total[c] = 0;
        block[c] = 0;
    }
    for (int64_t r = begin; r < end; ++r) {
        FN(backward_row)(op, r, past, block, block + cols);
        if ((r + 1) % ROW_BLOCK == 0 || r + 1 == end) {
            FN(close_block)(block, total, 2 * cols);
        }
    }
}

// target[c] (+)= sum of the parts, `stride` apart, for c < count <= BT_COLUMN_BLOCK
static void FN(add_parts)(const double *part, int64_t parts, int64_t stride, int64_t count,
                          bool accumulate, REAL *target)
{
    double sum[BT_COLUMN_BLOCK] = {0};
    for (int64_t i = 0; i < parts; ++i) {
        for (int64_t c = 0; c < count; ++c) {
            sum[c] += part[i * stride + c];
        }
    }
    for (int64_t c = 0; c < count; ++c) {
        target[c] = (REAL)(accumulate ? (double)target[c] + sum[c] : sum[c]);
    }
}

bt_status FN(bt_layernorm_backward_cpu)(const bt_launch *launch, const void *args)
{
    const bt_layernorm_backward_args *op = args;
    const int64_t rows = op->rows, cols = op->cols, stride = 2 * cols, each = part_rows(rows);
    const int64_t parts = part_count(rows);
    double *totals = launch->workspace;               // [parts, 2, cols]: dgamma's, then dbeta's
    REAL *blocks = (void *)(totals + parts * stride); // likewise, of the rows of one block
    REAL *dgamma = op->dgamma, *dbeta = op->dbeta;
    const bool past = !op->accumulate && bt_stream_wanted(rows * cols * (int64_t)sizeof(REAL));
#pragma omp parallel if (rows * cols > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < parts; ++i) {
            const int64_t end = rows - i * each < each ? rows : (i + 1) * each;
            FN(backward_part)(op, i * each, end, past, totals + i * stride, blocks + i * stride);
        }
#pragma omp for schedule(static)
        for (int64_t at = 0; at < cols; at += BT_COLUMN_BLOCK) {
            const int64_t count = cols - at < BT_COLUMN_BLOCK ? cols - at : BT_COLUMN_BLOCK;
            const bool accumulate = op->accumulate_params;
            FN(add_parts)(totals + at, parts, stride, count, accumulate, dgamma + at);
            if (dbeta) {
                FN(add_parts)(totals + cols + at, parts, stride, count, accumulate, dbeta + at);
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}
