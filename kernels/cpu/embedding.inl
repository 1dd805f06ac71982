// kernels/cpu/embedding.inl - body of embedding.c for one type
bt_status FN(bt_embedding_cpu)(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_embedding_args *op = args;
    const int64_t cols = op->cols;
    const bool past = bt_stream_wanted(op->rows * cols * (int64_t)sizeof(REAL));
#pragma omp parallel if (op->rows * cols > BT_CHUNK)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < op->rows; ++r) {
            const REAL *token = (const REAL *)op->table + op->ids[r] * cols;
            REAL *y = (REAL *)op->y + r * cols;
            if (op->position) {
                const REAL *position = (const REAL *)op->position + r % op->positions * cols;
                for (int64_t c = 0; c < cols; ++c) {
                    y[c] = token[c] + position[c];
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

// Columns [at, at + count) of dtable.
static void FN(scatter_tokens)(const bt_embedding_backward_args *op, int64_t at, int64_t count)
{
    REAL *dtable = (REAL *)op->dtable + at;
    const REAL *dy = (const REAL *)op->dy + at;
    for (int64_t v = 0; v < op->vocab && !op->accumulate; ++v) {
        memset(dtable + v * op->cols, 0, (size_t)count * sizeof(REAL));
    }
    for (int64_t r = 0; r < op->rows; ++r) {
        REAL *target = dtable + op->ids[r] * op->cols;
        const REAL *from = dy + r * op->cols;
        for (int64_t c = 0; c < count; ++c) {
            target[c] += from[c];
        }
    }
}

// Row `p` of dposition, columns [at, at + count), count <= BT_COLUMN_BLOCK.
static void FN(sum_position)(const bt_embedding_backward_args *op, int64_t p, int64_t at,
                             int64_t count)
{
    double sum[BT_COLUMN_BLOCK] = {0};
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
    const int64_t blocks = (op->cols + BT_COLUMN_BLOCK - 1) / BT_COLUMN_BLOCK;
    const int64_t positions = op->dposition ? op->positions : 0;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t block = 0; block < blocks; ++block) {
            const int64_t at = block * BT_COLUMN_BLOCK, rest = op->cols - at;
            FN(scatter_tokens)(op, at, rest < BT_COLUMN_BLOCK ? rest : BT_COLUMN_BLOCK);
        }
#pragma omp for schedule(static)
        for (int64_t task = 0; task < positions * blocks; ++task) {
            const int64_t at = task % blocks * BT_COLUMN_BLOCK, rest = op->cols - at;
            const int64_t count = rest < BT_COLUMN_BLOCK ? rest : BT_COLUMN_BLOCK;
            FN(sum_position)(op, task / blocks, at, count);
        }
    }
    return BT_OK;
}
