// kernels/cpu/linear_exps.inl - body of linear_exps.c for one type
static double FN(dot)(const REAL *a, const REAL *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

// exps[c] = exp(l[c] - reference), 0 at the target; returns the sum.
static double FN(exps_of_row)(const bt_linear_exps_args *op, int64_t row, double reference)
{
    const REAL *x = (const REAL *)op->x + row * op->width;
    REAL *exps = (REAL *)op->exps + row * op->vocab;
    double sum = 0;
    for (int64_t c = 0; c < op->vocab; ++c) {
        const double logit = FN(dot)(x, (const REAL *)op->w + c * op->width, op->width);
        const double value = c == op->targets[row] ? 0 : exp(logit - reference);
        exps[c] = (REAL)value;
        sum += value;
    }
    return sum;
}

static double FN(largest_logit)(const bt_linear_exps_args *op, int64_t row)
{
    double most = -(double)INFINITY;
    for (int64_t c = 0; c < op->vocab; ++c) {
        most = fmax(most, FN(dot)((const REAL *)op->x + row * op->width,
                                  (const REAL *)op->w + c * op->width, op->width));
    }
    return most;
}

static void FN(linear_exps_row)(const bt_linear_exps_args *op, int64_t row)
{
    const int32_t target = op->targets[row];
    const REAL *x = (const REAL *)op->x + row * op->width;
    const bool ignored = target == op->ignore, named = target >= 0 && target < op->vocab;
    double logit = (double)INFINITY, reference, others, chosen = 1; // ignored: exponentials of 0
    if (!ignored) {
        logit =
            named ? FN(dot)(x, (const REAL *)op->w + target * op->width, op->width) : (double)NAN;
        logit = isfinite(logit) ? logit : (double)NAN;
    }
    reference = logit;
    others = FN(exps_of_row)(op, row, reference);
    if (others > ldexp(1, 64)) {
        reference = FN(largest_logit)(op, row);
        chosen = exp(logit - reference);
        others = FN(exps_of_row)(op, row, reference);
    }
    const double scale = ignored ? 0 : (double)*(const REAL *)op->inv_count / (others + chosen);
    const double most = reference - logit; // 0 if the reference is the target's logit
    const double total = reference > logit ? log(others + chosen) : log1p(others);
    for (int64_t k = 0; k < op->width; ++k) {
        ((REAL *)op->scaled_x)[row * op->width + k] = ignored ? 0 : (REAL)(scale * (double)x[k]);
    }
    ((REAL *)op->scale)[row] = (REAL)scale;
    ((REAL *)op->loss)[row] = ignored ? 0 : (REAL)(total + most);
    if (named && !ignored) {
        ((REAL *)op->exps)[row * op->vocab + target] = (REAL)-others;
    }
}

bt_status FN(bt_linear_exps_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_linear_exps_args *op = args;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < op->rows; ++r) {
        FN(linear_exps_row)(op, r);
    }
    return BT_OK;
}
