// kernels/cpu/count_nonfinite.inl - body of count_nonfinite.c for one type
BT_CLONES static int64_t FN(count_row)(const REAL *x, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
        found += !(FN(bt_abs)(x[i]) <= FN(LARGEST));
    }
    return found;
}

bt_status FN(bt_count_nonfinite_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_count_nonfinite_args *op = args;
    const REAL *x = op->x;
    int64_t found = 0;
#pragma omp parallel for schedule(static) reduction(+ : found) if (op->count > BT_CHUNK)
    for (int64_t at = 0; at < op->count; at += BT_CHUNK) {
        found += FN(count_row)(x + at, op->count - at < BT_CHUNK ? op->count - at : BT_CHUNK);
    }
    *op->result = found;
    return BT_OK;
}
