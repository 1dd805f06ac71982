// kernels/cpu/layernorm.inl - body of layernorm.c for one type
#include "kernels/cpu/lanes.inl"

BT_CLONES static void FN(add_rows)(const REAL *x, const REAL *residual, REAL *sum, int64_t cols)
{
    for (int64_t c = 0; c < cols; ++c) {
        sum[c] = x[c] + residual[c];
    }
}

// y, and this row's mean and rstd.
BT_CLONES static void FN(normalize_row)(const bt_layernorm_args *op, const REAL *s, int64_t row)
{
    const REAL *gamma = op->gamma, *beta = op->beta;
    REAL *y = (REAL *)op->y + row * op->cols;
    const int64_t cols = op->cols;
    const double mean = FN(row_sum)(s, cols) / (double)cols;
    const double variance = FN(row_squares)(s, cols, mean) / (double)cols;
    const REAL center = (REAL)mean, rstd = (REAL)(1 / sqrt(variance + op->epsilon));
    if (beta) {
        for (int64_t c = 0; c < cols; ++c) {
            y[c] = (s[c] - center) * rstd * gamma[c] + beta[c];
        }
    } else {
        for (int64_t c = 0; c < cols; ++c) {
            y[c] = (s[c] - center) * rstd * gamma[c];
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
#pragma omp parallel for schedule(static) if (op->rows * cols > BT_CHUNK)
    for (int64_t r = 0; r < op->rows; ++r) {
        const REAL *s = (const REAL *)op->x + r * cols;
        if (op->residual) {
            REAL *sum = (REAL *)op->sum + r * cols;
            FN(add_rows)(s, (const REAL *)op->residual + r * cols, sum, cols);
            s = sum;
        }
        FN(normalize_row)(op, s, r);
    }
    return BT_OK;
}

// dgamma and dbeta of `count` <= BT_COLUMN_BLOCK columns.
BT_CLONES static void FN(sum_parameters)(const REAL *dy, const REAL *s, const REAL *mean,
                                         const REAL *rstd, int64_t rows, int64_t stride,
                                         int64_t count, double *dgamma, double *dbeta)
{
    for (int64_t c = 0; c < count; ++c) {
        dgamma[c] = dbeta[c] = 0;
    }
    for (int64_t r = 0; r < rows; ++r) {
        const REAL *dy_row = dy + r * stride, *s_row = s + r * stride;
        const REAL center = mean[r], scale = rstd[r];
        for (int64_t c = 0; c < count; ++c) {
            const double g = (double)dy_row[c];
            dgamma[c] += g * (double)((s_row[c] - center) * scale);
            dbeta[c] += g;
        }
    }
}

static void FN(store_parameters)(const double *sum, int64_t count, bool accumulate, REAL *target)
{
    for (int64_t c = 0; c < count; ++c) {
        target[c] = (REAL)(accumulate ? (double)target[c] + sum[c] : sum[c]);
    }
}

BT_CLONES static void FN(backward_row)(const bt_layernorm_backward_args *op, int64_t row)
{
    const int64_t cols = op->cols;
    const REAL *dy = (const REAL *)op->dy + row * cols, *s = (const REAL *)op->s + row * cols;
    const REAL *gamma = op->gamma;
    const REAL mean = ((const REAL *)op->mean)[row], rstd = ((const REAL *)op->rstd)[row];
    REAL *dx = (REAL *)op->dx + row * cols;
    double sum[BT_LANES] = {0}, dot[BT_LANES] = {0};
    for (int64_t c = 0; c + BT_LANES <= cols; c += BT_LANES) {
        for (int j = 0; j < BT_LANES; ++j) {
            const double g = (double)(dy[c + j] * gamma[c + j]);
            sum[j] += g;
            dot[j] += g * (double)((s[c + j] - mean) * rstd);
        }
    }
    for (int64_t c = cols / BT_LANES * BT_LANES, j = 0; c < cols; ++c, ++j) {
        const double g = (double)(dy[c] * gamma[c]);
        sum[j] += g;
        dot[j] += g * (double)((s[c] - mean) * rstd);
    }
    const REAL mean_g = (REAL)(FN(add_lanes)(sum) / (double)cols);
    const REAL mean_dot = (REAL)(FN(add_lanes)(dot) / (double)cols);
    if (op->accumulate) {
        for (int64_t c = 0; c < cols; ++c) {
            const REAL xhat = (s[c] - mean) * rstd;
            dx[c] += rstd * (dy[c] * gamma[c] - mean_g - xhat * mean_dot);
        }
    } else {
        for (int64_t c = 0; c < cols; ++c) {
            const REAL xhat = (s[c] - mean) * rstd;
            dx[c] = rstd * (dy[c] * gamma[c] - mean_g - xhat * mean_dot);
        }
    }
}

bt_status FN(bt_layernorm_backward_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_layernorm_backward_args *op = args;
    const REAL *dy = op->dy, *s = op->s, *mean = op->mean, *rstd = op->rstd;
    REAL *dgamma = op->dgamma, *dbeta = op->dbeta;
    const int64_t rows = op->rows, cols = op->cols;
    const int64_t blocks = (cols + BT_COLUMN_BLOCK - 1) / BT_COLUMN_BLOCK;
#pragma omp parallel if (rows * cols > BT_CHUNK)
    {
        // The end of this loop is a barrier: dx may be dy.
#pragma omp for schedule(static)
        for (int64_t block = 0; block < blocks; ++block) {
            double gamma_sum[BT_COLUMN_BLOCK], beta_sum[BT_COLUMN_BLOCK];
            const int64_t at = block * BT_COLUMN_BLOCK;
            const int64_t count = cols - at < BT_COLUMN_BLOCK ? cols - at : BT_COLUMN_BLOCK;
            FN(sum_parameters)(dy + at, s + at, mean, rstd, rows, cols, count, gamma_sum, beta_sum);
            FN(store_parameters)(gamma_sum, count, op->accumulate_params, dgamma + at);
            if (dbeta) {
                FN(store_parameters)(beta_sum, count, op->accumulate_params, dbeta + at);
            }
        }
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r) {
            FN(backward_row)(op, r);
        }
    }
    return BT_OK;
}
