// kernels/cpu/scale.inl - body of scale.c for one type
BT_CLONES static void FN(scale_block)(const REAL *x, REAL factor, REAL *y, int64_t count,
                                      bool accumulate)
{
    if (accumulate) {
        for (int64_t i = 0; i < count; ++i) {
            y[i] += factor * x[i];
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            y[i] = factor * x[i];
        }
    }
}

bt_status FN(bt_scale_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_scale_args *op = args;
    const REAL *factor = op->factor;
    if (op->group == 0 && is_idle(op, (double)*factor)) {
        return BT_OK;
    }
    const int64_t step = op->group > 0 ? op->group : BT_CHUNK;
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t at = 0; at < op->count; at += step) {
        FN(scale_block)
        ((const REAL *)op->x + at, factor[op->group > 0 ? at / step : 0], (REAL *)op->y + at,
         op->count - at < step ? op->count - at : step, op->accumulate);
    }
    return BT_OK;
}
