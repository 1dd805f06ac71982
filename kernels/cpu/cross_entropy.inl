// kernels/cpu/cross_entropy.inl - body of cross_entropy.c for one type
#include "kernels/cpu/lanes.inl"

// sum += exp(x[c] - base) for c < count
BT_INLINE void FN(add_exps)(const REAL *x, int64_t count, REAL base, FN(double_lanes) * sum)
{
    enum { STEP = TERMS * BT_LANES };
    for (int64_t from = 0; from < count; from += STEP) {
        const int64_t to = count - from < STEP ? count : from + STEP;
        FN(real_lanes) part = {0}, e_part;
        REAL e[BT_LANES];
        int64_t c = from;
        for (; c + BT_LANES <= to; c += BT_LANES) {
            for (int j = 0; j < BT_LANES; ++j) {
                e[j] = FN(bt_exp_falling)(x[c + j] - base);
            }
            FN(load_lanes)(e, &e_part);
            part += e_part;
        }
        for (int j = 0; c + j < to; ++j) {
            part[j] += FN(bt_exp_falling)(x[c + j] - base);
        }
        FN(widen_lanes)(&part, sum);
    }
}

// log sum_c exp(x[c]), a block at a time about the largest so far: memory is read once.
BT_CLONES static double FN(log_sum_exp)(const REAL *x, int64_t count)
{
    REAL max = R(-INFINITY);
    FN(double_lanes) sum = {0};
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t part = count - at < BLOCK ? count - at : BLOCK;
        const REAL largest = FN(row_max)(x + at, part);
        if (largest > max) {
            sum *= exp((double)max - (double)largest);
            max = largest;
        }
        // Nothing but -infinity so far adds nothing, NaN does.
        FN(add_exps)(x + at, part, max > R(-INFINITY) ? max : 0, &sum);
    }
    if (count > 0 && !(max > R(-INFINITY))) {
        return (double)NAN;
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
        dlogits[c] = FN(bt_exp_falling)(logits[c] - lse) * scale;
    }
}

// One row's gradient, `step` columns at a time; past: by way of a buffer and past the cache.
static void FN(backward_row)(const bt_cross_entropy_backward_args *op, int64_t row, bool past)
{
    REAL made[BT_STREAM_BLOCK];
    const REAL *logits = (const REAL *)op->logits + row * op->logits_stride;
    REAL *dlogits = (REAL *)op->dlogits + row * op->logits_stride;
    const REAL scale = *(const REAL *)op->dmean * *(const REAL *)op->inv_count;
    const REAL lse = ((const REAL *)op->lse)[row];
    const int32_t target = op->targets[row];
    for (int64_t at = 0; at < op->vocab; at += BT_STREAM_BLOCK) {
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
                out[target - at] = (FN(bt_exp_falling)(chosen - lse) - 1) * scale;
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
    const bool past = op->dlogits != op->logits && // in place: its lines are in the cache already
                      bt_stream_wanted(op->rows * op->vocab * (int64_t)sizeof(REAL));
#pragma omp parallel if (op->rows * op->vocab > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            FN(backward_row)(op, r, past);
        }
        bt_stream_end();
    }
    return BT_OK;
}
