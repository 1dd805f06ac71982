// kernels/cpu/adamw.inl - body of adamw.c for one type

// Values that are the same for every element of a tensor.
typedef struct FN(adamw_rates) {
    REAL scale, lr, beta1, beta2, one_minus_beta1, one_minus_beta2;
    REAL correction1, correction2; // 1 / (1 - beta^t)
    REAL epsilon, decay;
} FN(adamw_rates);

BT_CLONES static void FN(update)(REAL *restrict param, const REAL *restrict grad, REAL *restrict m,
                                 REAL *restrict v, int64_t count, const FN(adamw_rates) * given)
{
    const FN(adamw_rates) rate = *given;
    for (int64_t i = 0; i < count; ++i) {
        const REAL g = grad[i] * rate.scale;
        const REAL first = rate.beta1 * m[i] + rate.one_minus_beta1 * g;
        const REAL second = rate.beta2 * v[i] + rate.one_minus_beta2 * g * g;
        const REAL size = FN(bt_sqrt)(second * rate.correction2) + rate.epsilon;
        m[i] = first;
        v[i] = second;
        param[i] -= rate.lr * (first * rate.correction1 / size + rate.decay * param[i]);
    }
}

static FN(adamw_rates) FN(rates_of)(const bt_adamw_args *op, REAL scale)
{
    return (FN(adamw_rates)){
        .scale = scale,
        .lr = (REAL)op->lr,
        .beta1 = (REAL)op->beta1,
        .beta2 = (REAL)op->beta2,
        .one_minus_beta1 = (REAL)(1 - op->beta1),
        .one_minus_beta2 = (REAL)(1 - op->beta2),
        .correction1 = (REAL)(1 / (1 - pow(op->beta1, (double)op->step))),
        .correction2 = (REAL)(1 / (1 - pow(op->beta2, (double)op->step))),
        .epsilon = (REAL)op->epsilon,
    };
}

bt_status FN(bt_adamw_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_adamw_args *op = args;
    const REAL scale = *(const REAL *)op->scale;
    if (isnan(scale)) {
        return BT_OK;
    }
#pragma omp parallel
    {
        FN(adamw_rates) rates = FN(rates_of)(op, scale);
        for (int64_t i = 0; i < op->item_count; ++i) {
            const bt_adamw_item *item = &op->items[i];
            rates.decay = (REAL)item->decay;
#pragma omp for schedule(static) nowait
            for (int64_t at = 0; at < item->count; at += BT_CHUNK) {
                const int64_t count = item->count - at < BT_CHUNK ? item->count - at : BT_CHUNK;
                REAL *param = (REAL *)item->param + at, *m = (REAL *)item->m + at;
                REAL *v = (REAL *)item->v + at;
                FN(update)(param, (const REAL *)item->grad + at, m, v, count, &rates);
                for (int64_t k = 0; item->copy && k < count; ++k) {
                    item->copy[at + k] = bt_f32_to_bf16((float)param[k]);
                }
            }
        }
    }
    return BT_OK;
}
