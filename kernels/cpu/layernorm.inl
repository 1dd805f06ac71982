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
            y[c] = (s[c] - center) * rstd * gamma[c] + beta[c];
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
BT_CLONES static double FN(variance_of)(const REAL *s, int64_t cols, double mean)
{
    return FN(row_squares)(s, cols, mean) / (double)cols;
}

// y, and this row's mean and rstd.
static void FN(normalize_row)(const bt_layernorm_args *op, const REAL *s, int64_t row, bool past)
{
    REAL made[BT_STREAM_BLOCK];
    const REAL *gamma = op->gamma, *beta = op->beta;
    REAL *y = (REAL *)op->y + row * op->cols;
    const int64_t cols = op->cols, step = past ? BT_STREAM_BLOCK : cols;
    const double mean = FN(mean_of)(s, cols);
    const double variance = FN(variance_of)(s, cols, mean);
    const REAL center = (REAL)mean, rstd = (REAL)(1 / sqrt(variance + op->epsilon));
    for (int64_t at = 0; at < cols; at += step) {
        const int64_t count = cols - at < step ? cols - at : step;
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
    const bool held = past && cols <= BT_STREAM_ROW; // the sum goes to memory from a buffer
#pragma omp parallel if (op->rows * cols > BT_CHUNK)
    {
        REAL made[BT_STREAM_ROW];
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

// sum_c g and sum_c g xhat, g = dy gamma
BT_INLINE void FN(row_sums)(const REAL *dy, const REAL *s, const REAL *gamma, REAL mean, REAL rstd,
                            int64_t cols, double *sum_out, double *dot_out)
{
    enum { TERMS = ROW_BLOCK * BT_LANES };
    FN(double_lanes) sum = {0}, dot = {0};
    for (int64_t from = 0; from < cols; from += TERMS) {
        const int64_t to = cols - from < TERMS ? cols : from + TERMS;
        FN(real_lanes) sum_part = {0}, dot_part = {0}, dy_part, s_part, gamma_part;
        int64_t c = from;
        for (; c + BT_LANES <= to; c += BT_LANES) {
            FN(load_lanes)(dy + c, &dy_part);
            FN(load_lanes)(s + c, &s_part);
            FN(load_lanes)(gamma + c, &gamma_part);
            dy_part *= gamma_part;
            sum_part += dy_part;
            dot_part += dy_part * ((s_part - mean) * rstd);
        }
        for (int j = 0; c + j < to; ++j) {
            const REAL g = dy[c + j] * gamma[c + j];
            sum_part[j] += g;
            dot_part[j] += g * ((s[c + j] - mean) * rstd);
        }
        FN(widen_lanes)(&sum_part, &sum);
        FN(widen_lanes)(&dot_part, &dot);
    }
    *sum_out = FN(add_lanes)(&sum);
    *dot_out = FN(add_lanes)(&dot);
}

// What a row's gradient is made with.
typedef struct FN(row_terms) {
    REAL mean, rstd, mean_g, mean_dot;
} FN(row_terms);

BT_CLONES static void FN(gradient)(const REAL *dy, const REAL *s, const REAL *gamma, REAL *dx,
                                   int64_t count, const FN(row_terms) * given, bool accumulate)
{
    const FN(row_terms) with = *given;
    if (accumulate) {
        for (int64_t c = 0; c < count; ++c) {
            const REAL xhat = (s[c] - with.mean) * with.rstd;
            dx[c] += with.rstd * (dy[c] * gamma[c] - with.mean_g - xhat * with.mean_dot);
        }
    } else {
        for (int64_t c = 0; c < count; ++c) {
            const REAL xhat = (s[c] - with.mean) * with.rstd;
            dx[c] = with.rstd * (dy[c] * gamma[c] - with.mean_g - xhat * with.mean_dot);
        }
    }
}

// The row's sums, and its part of dgamma and dbeta.
BT_CLONES static void FN(backward_sums)(const bt_layernorm_backward_args *op, const REAL *dy,
                                        const REAL *s, FN(row_terms) * with,
                                        REAL *restrict gamma_part, REAL *restrict beta_part)
{
    const int64_t cols = op->cols;
    const REAL mean = with->mean, rstd = with->rstd;
    double sum, dot;
    FN(row_sums)(dy, s, op->gamma, mean, rstd, cols, &sum, &dot);
    with->mean_g = (REAL)(sum / (double)cols);
    with->mean_dot = (REAL)(dot / (double)cols);
    for (int64_t c = 0; c < cols; ++c) {
        gamma_part[c] += dy[c] * ((s[c] - mean) * rstd);
        beta_part[c] += dy[c];
    }
}

// dx of one row; before that, for dx may be dy, its part of dgamma and dbeta.
static void FN(backward_row)(const bt_layernorm_backward_args *op, int64_t row, bool past,
                             REAL *gamma_part, REAL *beta_part)
{
    REAL made[BT_STREAM_BLOCK];
    const int64_t cols = op->cols, step = past ? BT_STREAM_BLOCK : cols;
    const REAL *dy = (const REAL *)op->dy + row * cols, *s = (const REAL *)op->s + row * cols;
    const REAL *gamma = op->gamma;
    REAL *dx = (REAL *)op->dx + row * cols;
    FN(row_terms)
    with = {.mean = ((const REAL *)op->mean)[row], .rstd = ((const REAL *)op->rstd)[row]};
    FN(backward_sums)(op, dy, s, &with, gamma_part, beta_part);
    for (int64_t at = 0; at < cols; at += step) {
        const int64_t count = cols - at < step ? cols - at : step;
        FN(gradient)
        (dy + at, s + at, gamma + at, past ? made : dx + at, count, &with, op->accumulate);
        if (past) {
            bt_stream_out(dx + at, made, (size_t)count * sizeof(REAL));
        }
    }
}

// target[c] (+)= sum of the blocks' parts, `stride` apart, for c < count <= BT_COLUMN_BLOCK
static void FN(add_parts)(const REAL *part, int64_t blocks, int64_t stride, int64_t count,
                          bool accumulate, REAL *target)
{
    double sum[BT_COLUMN_BLOCK] = {0};
    for (int64_t block = 0; block < blocks; ++block) {
        for (int64_t c = 0; c < count; ++c) {
            sum[c] += (double)part[block * stride + c];
        }
    }
    for (int64_t c = 0; c < count; ++c) {
        target[c] = (REAL)(accumulate ? (double)target[c] + sum[c] : sum[c]);
    }
}

bt_status FN(bt_layernorm_backward_cpu)(const bt_launch *launch, const void *args)
{
    const bt_layernorm_backward_args *op = args;
    const int64_t rows = op->rows, cols = op->cols, stride = 2 * cols;
    const int64_t blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
    REAL *parts = launch->workspace; // [blocks, 2, cols]: dgamma's, then dbeta's
    REAL *dgamma = op->dgamma, *dbeta = op->dbeta;
    const bool past = !op->accumulate && bt_stream_wanted(rows * cols * (int64_t)sizeof(REAL));
#pragma omp parallel if (rows * cols > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t block = 0; block < blocks; ++block) {
            REAL *part = parts + block * stride;
            const int64_t end =
                rows - block * ROW_BLOCK < ROW_BLOCK ? rows : (block + 1) * ROW_BLOCK;
            for (int64_t c = 0; c < stride; ++c) {
                part[c] = 0;
            }
            for (int64_t r = block * ROW_BLOCK; r < end; ++r) {
                FN(backward_row)(op, r, past, part, part + cols);
            }
        }
#pragma omp for schedule(static)
        for (int64_t at = 0; at < cols; at += BT_COLUMN_BLOCK) {
            const int64_t count = cols - at < BT_COLUMN_BLOCK ? cols - at : BT_COLUMN_BLOCK;
            const bool accumulate = op->accumulate_params;
            FN(add_parts)(parts + at, blocks, stride, count, accumulate, dgamma + at);
            if (dbeta) {
                FN(add_parts)(parts + cols + at, blocks, stride, count, accumulate, dbeta + at);
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}
