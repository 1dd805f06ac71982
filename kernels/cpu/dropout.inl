// kernels/cpu/dropout.inl - body of dropout.c for one type
static void FN(drop)(const bt_dropout_args *op, int64_t from, int64_t to)
{
    const bt_rng rng = {op->seed, op->stream};
    const REAL *x = op->x, keep = (REAL)(1 - op->rate);
    REAL *y = op->y;
    for (int64_t at = from; at < to; at += BT_DROPOUT_WORDS) {
        uint32_t words[BT_DROPOUT_WORDS];
        bt_rng_block(rng, (uint64_t)(at / BT_DROPOUT_WORDS), words);
        for (int64_t i = at; i < to && i < at + BT_DROPOUT_WORDS; ++i) {
            const bool kept = bt_dropout_keeps(words[i - at], op->rate);
            const REAL value = kept ? x[i] / keep : 0;
            y[i] = op->accumulate ? y[i] + value : value;
        }
    }
}

bt_status FN(bt_dropout_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_dropout_args *op = args;
    BT_TRY(check_rate(op->rate));
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t at = 0; at < op->count; at += BT_CHUNK) {
        FN(drop)(op, at, op->count - at < BT_CHUNK ? op->count : at + BT_CHUNK);
    }
    return BT_OK;
}
