// kernels/cpu/exps.inl - computes and sums exponentials of a row
//
// A lane adds up EXP_TERMS of them in the type itself, and such sums in double. All terms have the
// same sign, so the sum's relative error from that is at most EXP_TERMS / 2 eps.
// For inclusion in a body (see both.h), after lanes.inl.

// e[c] = exp(x[c] - base) for c < count, where x[c] - base <= 1; sum[j] += those of lane j. e may
// be x; `kept` false: sum only. Prefetches the memory `ahead` bytes after x, which may be any
// address.
BT_INLINE void FN(exp_lanes)(const REAL *x, REAL *e, bool kept, int64_t count, REAL base,
                             int64_t ahead, double *sum)
{
    enum { EXP_TERMS = 16, STEP = EXP_TERMS * BT_LANES };
    const REAL lowest = FN(bt_exp_lowest)();
    const int64_t whole = count - count % BT_LANES;
    for (int64_t from = 0; from < whole; from += STEP) {
        const int64_t to = whole - from < STEP ? whole : from + STEP;
        REAL part[BT_LANES] = {0};
        for (int64_t c = from; c < to; c += BT_LANES) {
            REAL made[BT_LANES];
            FN(prefetch_lanes)(x + c, ahead);
            for (int j = 0; j < BT_LANES; ++j) {
                made[j] = FN(bt_exp_normal)(x[c + j] - base, lowest);
                part[j] += made[j];
            }
            if (kept) {
                memcpy(e + c, made, sizeof made);
            }
        }
        FN(widen_lanes)(part, sum);
    }
    for (int64_t c = whole; c < count; ++c) {
        const REAL last = FN(bt_exp_normal)(x[c] - base, lowest);
        sum[c - whole] += (double)last;
        if (kept) {
            e[c] = last;
        }
    }
}
