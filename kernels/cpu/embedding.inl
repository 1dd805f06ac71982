// kernels/cpu/embedding.inl - body of embedding.c for one type
BT_CLONES static void FN(add)(const REAL *a, const REAL *b, REAL *restrict y, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        y[i] = a[i] + b[i];
    }
}

BT_CLONES static void FN(add_to)(REAL *restrict y, const REAL *x, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        y[i] += x[i];
    }
}

bt_status FN(bt_embedding_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_embedding_args *op = args;
    const int64_t cols = op->cols;
    const bool past = bt_stream_wanted(op->rows * cols * (int64_t)sizeof(REAL));
#pragma omp parallel if (op->rows * cols > BT_CHUNK)
    {
        REAL made[BT_STREAM_BLOCK];
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            const REAL *token = (const REAL *)op->table + op->ids[r] * cols;
            REAL *y = (REAL *)op->y + r * cols;
            if (op->position) {
                const REAL *position = (const REAL *)op->position + r % op->positions * cols;
                const int64_t step = past ? BT_STREAM_BLOCK : cols;
                for (int64_t at = 0; at < cols; at += step) {
                    const int64_t count = cols - at < step ? cols - at : step;
                    FN(add)(token + at, position + at, past ? made : y + at, count);
                    if (past) {
                        bt_stream_out(y + at, made, (size_t)count * sizeof(REAL));
                    }
                }
            } else if (past) {
                bt_stream_out(y, token, (size_t)cols * sizeof(REAL));
            } else if (cols) {
                memcpy(y, token, (size_t)cols * sizeof(REAL));
            }
        }
        bt_stream_end();
    }
    return BT_OK;
}

// The rows of dtable whose ids leave the rest `share` when divided by ID_SHARES: whole rows of dy,
// ascending.
static void FN(scatter_tokens)(const bt_embedding_backward_args *op, int32_t share)
{
    const int64_t cols = op->cols;
    for (int64_t r = 0; r < op->rows; ++r) {
        if (op->ids[r] % ID_SHARES == share) {
            FN(add_to)
            ((REAL *)op->dtable + op->ids[r] * cols, (const REAL *)op->dy + r * cols, cols);
        }
    }
}

// Row `p` of dposition, columns [at, at + count), count <= POSITION_BLOCK.
static void FN(sum_position)(const bt_embedding_backward_args *op, int64_t p, int64_t at,
                             int64_t count)
{
    double sum[POSITION_BLOCK] = {0};
    REAL *target = (REAL *)op->dposition + p * op->cols + at;
    const REAL *dy = (const REAL *)op->dy + at;
    for (int64_t r = p; r < op->rows; r += op->positions) {
        for (int64_t c = 0; c < count; ++c) {
            sum[c] += (double)dy[r * op->cols + c];
        }
    }
    for (int64_t c = 0; c < count; ++c) {
        target[c] = (REAL)(op->accumulate_position ? (double)target[c] + sum[c] : sum[c]);
    }
}

bt_status FN(bt_embedding_backward_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_embedding_backward_args *op = args;
    const int64_t blocks = (op->cols + POSITION_BLOCK - 1) / POSITION_BLOCK;
    const int64_t positions = op->dposition ? op->positions : 0;
    const int64_t cleared = op->accumulate ? 0 : op->vocab;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t v = 0; v < cleared; ++v) {
            memset((REAL *)op->dtable + v * op->cols, 0, (size_t)op->cols * sizeof(REAL));
        }
#pragma omp for schedule(dynamic, 1) nowait
        for (int32_t share = 0; share < ID_SHARES; ++share) {
            FN(scatter_tokens)(op, share);
        }
#pragma omp for schedule(static)
        for (int64_t task = 0; task < positions * blocks; ++task) {
            const int64_t at = task % blocks * POSITION_BLOCK, rest = op->cols - at;
            const int64_t count = rest < POSITION_BLOCK ? rest : POSITION_BLOCK;
            FN(sum_position)(op, task / blocks, at, count);
        }
    }
    return BT_OK;
}
