// kernels/cpu/cross_entropy.inl - body of cross_entropy.c for one type
#include "kernels/cpu/lanes.inl"

#include "kernels/cpu/exps.inl"

// log sum_c exp(x[c]), one block at a time relative to the largest so far: memory is read once.
// While one block's exps are computed, the next block is prefetched.
BT_CLONES static double FN(log_sum_exp)(const REAL *x, int64_t count)
{
    REAL max = R(-INFINITY);
    double sum[BT_LANES] = {0};
    const int64_t blocks = (count + BLOCK - 1) / BLOCK;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t at = bt_stream_order(i, blocks) * BLOCK;
        const int64_t next = i + 1 < blocks ? bt_stream_order(i + 1, blocks) * BLOCK : count;
        const int64_t part = count - at < BLOCK ? count - at : BLOCK;
        const REAL largest = FN(row_max)(x + at, part);
        if (largest > max) {
            const double factor = exp((double)max - (double)largest);
            for (int j = 0; j < BT_LANES; ++j) {
                sum[j] *= factor;
            }
            max = largest;
        }
        // If all values so far are -infinity, they add nothing, but NaN does.
        FN(exp_lanes)
        (x + at, NULL, false, part, max > R(-INFINITY) ? max : 0,
         (next - at) * (int64_t)sizeof(REAL), sum);
    }
    if (count > 0 && !(max > R(-INFINITY))) {
        return (double)NAN;
    }
    return (double)max + log(FN(add_lanes)(sum));
}

// Counts in order, and stores the first row with an invalid target.
bt_status FN(bt_cross_entropy_mean_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_cross_entropy_mean_args *op = args;
    const REAL *loss = op->loss;
    double sum = 0;
    int64_t counted = 0, bad_row = -1;
    for (int64_t r = 0; r < op->rows; ++r) {
        const int32_t target = op->targets[r];
        if (target == op->ignore) {
            continue;
        }
        if ((target < 0 || target >= op->vocab) && bad_row < 0) {
            bad_row = r;
        }
        sum += loss ? (double)loss[r] : 0;
        ++counted;
    }
    if (loss) {
        *(REAL *)op->mean = (REAL)(counted ? sum / (double)counted : 0);
    }
    *(REAL *)op->inv_count = (REAL)(counted ? 1 / (double)counted : 0);
    *op->bad_row = bad_row;
    return BT_OK;
}

static REAL FN(row_loss)(const REAL *logits, int64_t vocab, int32_t target, int32_t ignore,
                         double log_sum)
{
    if (target == ignore) {
        return 0;
    }
    return target < 0 || target >= vocab ? R(NAN) : (REAL)(log_sum - (double)logits[target]);
}

bt_status FN(bt_cross_entropy_cpu)(const bt_launch *launch, const void *args)
{
    const bt_cross_entropy_args *op = args;
    REAL *loss = op->loss, *lse = op->lse;
#pragma omp parallel for schedule(static) if (op->rows * op->vocab > BT_CHUNK)
    for (int64_t r = 0; r < op->rows; ++r) {
        const REAL *logits = (const REAL *)op->logits + r * op->logits_stride;
        const double log_sum = FN(log_sum_exp)(logits, op->vocab);
        lse[r] = (REAL)log_sum;
        loss[r] = FN(row_loss)(logits, op->vocab, op->targets[r], op->ignore, log_sum);
    }
    const bt_cross_entropy_mean_args mean = bt_cross_entropy_mean_of(op);
    return FN(bt_cross_entropy_mean_cpu)(launch, &mean);
}

BT_CLONES static void FN(cross_entropy_row)(const REAL *logits, REAL lse, REAL scale, REAL *dlogits,
                                            int64_t count)
{
    const REAL lowest = FN(bt_exp_lowest)();
    for (int64_t c = 0; c < count; ++c) {
        dlogits[c] = FN(bt_exp_normal)(logits[c] - lse, lowest) * scale;
    }
}

// One row's gradient, a block of columns at a time; past: staged, then non-temporal stores.
static void FN(backward_row)(const bt_cross_entropy_backward_args *op, int64_t row, REAL lse,
                             REAL scale, bool past)
{
    _Alignas(64) REAL made[BT_STREAM_BLOCK];
    const REAL *logits = (const REAL *)op->logits + row * op->logits_stride;
    REAL *dlogits = (REAL *)op->dlogits + row * op->logits_stride;
    const int32_t target = op->targets[row];
    const int64_t blocks = (op->vocab + BT_STREAM_BLOCK - 1) / BT_STREAM_BLOCK;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t at = bt_stream_order(i, blocks) * BT_STREAM_BLOCK;
        const int64_t rest = op->vocab - at;
        const int64_t count = rest < BT_STREAM_BLOCK ? rest : BT_STREAM_BLOCK;
        REAL *out = past ? made : dlogits + at;
        if (target == op->ignore) {
            memset(out, 0, (size_t)count * sizeof(REAL));
        } else {
            const bool here = target >= at && target < at + count;
            const REAL chosen = here ? logits[target] : 0; // dlogits may be logits
            FN(cross_entropy_row)(logits + at, lse, scale, out, count);
            if (here) {
                out[target - at] =
                    (FN(bt_exp_normal)(chosen - lse, FN(bt_exp_lowest)()) - 1) * scale;
            }
        }
        if (past) {
            bt_stream_out(dlogits + at, made, (size_t)count * sizeof(REAL));
        }
    }
}

bt_status FN(bt_cross_entropy_backward_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_cross_entropy_backward_args *op = args;
    const REAL scale = *(const REAL *)op->dmean * *(const REAL *)op->inv_count;
    const bool past = op->dlogits != op->logits && // in place: its lines are already in the cache
                      bt_stream_wanted(op->rows * op->vocab * (int64_t)sizeof(REAL));
#pragma omp parallel if (op->rows * op->vocab > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            FN(backward_row)(op, r, ((const REAL *)op->lse)[r], scale, past);
        }
        bt_stream_end();
    }
    return BT_OK;
}

// Loss and gradient of a row consecutively: if it is short, the second reads the cache.
bt_status FN(bt_cross_entropy_grad_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_cross_entropy_grad_args *op = args;
    const bt_cross_entropy_backward_args back = {.logits = op->logits,
                                                 .targets = op->targets,
                                                 .dlogits = op->dlogits,
                                                 .vocab = op->vocab,
                                                 .logits_stride = op->logits_stride,
                                                 .ignore = op->ignore};
    const REAL scale = op->dlogits ? *(const REAL *)op->inv_count : 0;
#pragma omp parallel for schedule(static) if (op->rows * op->vocab > BT_CHUNK)
    for (int64_t r = 0; r < op->rows; ++r) {
        const REAL *logits = (const REAL *)op->logits + r * op->logits_stride;
        const double log_sum = FN(log_sum_exp)(logits, op->vocab);
        ((REAL *)op->loss)[r] =
            FN(row_loss)(logits, op->vocab, op->targets[r], op->ignore, log_sum);
        if (op->dlogits) {
            FN(backward_row)(&back, r, (REAL)log_sum, scale, false);
        }
    }
    return BT_OK;
}
