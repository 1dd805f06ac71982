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
    const REAL factor = *(const REAL *)op->factor;
    if (is_idle(op, (double)factor)) {
        return BT_OK;
    }
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t at = 0; at < op->count; at += BT_CHUNK) {
        FN(scale_block)
        ((const REAL *)op->x + at, factor, (REAL *)op->y + at,
         op->count - at < BT_CHUNK ? op->count - at : BT_CHUNK, op->accumulate);
    }
    return BT_OK;
}
