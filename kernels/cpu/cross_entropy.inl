// kernels/cpu/cross_entropy.inl - body of cross_entropy.c for one type
#include "kernels/cpu/lanes.inl"

// log sum_c exp(x[c])
BT_CLONES static double FN(log_sum_exp)(const REAL *x, int64_t count)
{
    const REAL max = FN(row_max)(x, count);
    FN(double_lanes) sum = {0};
    REAL e[BT_LANES];
    FN(real_lanes) part;
    int64_t c = 0;
    for (; c + BT_LANES <= count; c += BT_LANES) {
        for (int j = 0; j < BT_LANES; ++j) {
            e[j] = FN(bt_exp)(x[c + j] - max);
        }
        FN(load_lanes)(e, &part);
        FN(widen_lanes)(&part, &sum);
    }
    for (int j = 0; c + j < count; ++j) {
        sum[j] += (double)FN(bt_exp)(x[c + j] - max);
    }
    return (double)max + log(FN(add_lanes)(&sum));
}

// Mean over the rows that count, in order; remembers the first row whose target is none.
void FN(bt_cross_entropy_average_cpu)(const bt_cross_entropy_args *op)
{
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
        sum += (double)loss[r];
        ++counted;
    }
    *(REAL *)op->mean = (REAL)(counted ? sum / (double)counted : 0);
    *(REAL *)op->inv_count = (REAL)(counted ? 1 / (double)counted : 0);
    *op->bad_row = bad_row;
}

bt_status FN(bt_cross_entropy_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_cross_entropy_args *op = args;
    REAL *loss = op->loss, *lse = op->lse;
#pragma omp parallel for schedule(static) if (op->rows * op->vocab > BT_CHUNK)
    for (int64_t r = 0; r < op->rows; ++r) {
        const REAL *logits = (const REAL *)op->logits + r * op->logits_stride;
        const int32_t target = op->targets[r];
        const double log_sum = FN(log_sum_exp)(logits, op->vocab);
        lse[r] = (REAL)log_sum;
        if (target == op->ignore) {
            loss[r] = 0;
        } else if (target < 0 || target >= op->vocab) {
            loss[r] = R(NAN);
        } else {
            loss[r] = (REAL)(log_sum - (double)logits[target]);
        }
    }
    FN(bt_cross_entropy_average_cpu)(op);
    return BT_OK;
}

BT_CLONES static void FN(cross_entropy_row)(const REAL *logits, REAL lse, REAL scale, REAL *dlogits,
                                            int64_t count)
{
    for (int64_t c = 0; c < count; ++c) {
        dlogits[c] = FN(bt_exp)(logits[c] - lse) * scale;
    }
}

bt_status FN(bt_cross_entropy_backward_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_cross_entropy_backward_args *op = args;
    const REAL *lse = op->lse;
    const REAL scale = *(const REAL *)op->dmean * *(const REAL *)op->inv_count;
#pragma omp parallel for schedule(static) if (op->rows * op->vocab > BT_CHUNK)
    for (int64_t r = 0; r < op->rows; ++r) {
        const REAL *logits = (const REAL *)op->logits + r * op->logits_stride;
        REAL *dlogits = (REAL *)op->dlogits + r * op->logits_stride;
        const int32_t target = op->targets[r];
        if (target == op->ignore) {
            for (int64_t c = 0; c < op->vocab; ++c) {
                dlogits[c] = 0;
            }
            continue;
        }
        const bool good = target >= 0 && target < op->vocab;
        const REAL at_target = good ? logits[target] : 0; // dlogits may be logits
        FN(cross_entropy_row)(logits, lse[r], scale, dlogits, op->vocab);
        if (good) {
            dlogits[target] = (FN(bt_exp)(at_target - lse[r]) - 1) * scale;
        }
    }
    return BT_OK;
}
