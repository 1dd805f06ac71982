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
    int64_t bad = INT64_MAX;
#pragma omp parallel if (op->rows * cols > BT_CHUNK)
    {
        _Alignas(64) REAL made[BT_STREAM_BLOCK];
#pragma omp for schedule(static) reduction(min : bad)
        for (int64_t r = 0; r < op->rows; ++r) {
            const int32_t id = bt_embedding_id(op, r, &bad);
            const REAL *token = (const REAL *)op->table + id * cols;
            REAL *y = (REAL *)op->y + r * cols;
            if (id != op->ids[r]) {
                for (int64_t c = 0; c < cols; ++c) {
                    y[c] = (REAL)NAN;
                }
            } else if (op->position) {
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
    bt_embedding_report(op, bad);
    return BT_OK;
}

// Links the rows of each id in part `share` of `shares` of the table: first[id] is the lowest,
// next[r] the one after r; -1 terminates.
static void FN(link_rows)(const bt_embedding_backward_args *op, int share, int shares,
                          int64_t *first, int64_t *next)
{
    const int64_t begin = op->vocab * share / shares, end = op->vocab * (share + 1) / shares;
    for (int64_t v = begin; v < end; ++v) {
        first[v] = -1;
    }
    for (int64_t r = op->rows - 1; r >= 0; --r) {
        const int32_t id = op->ids[r];
        if (id >= begin && id < end) {
            next[r] = first[id];
            first[id] = r;
        }
    }
}

// Row v of dtable, overwritten: zero, a row of dy, or the sum of several, ascending. It is written
// once, with non-temporal stores if dtable is large.
static void FN(make_token)(const bt_embedding_backward_args *op, int64_t v, int64_t first,
                           const int64_t *next, const REAL *zeros, bool past)
{
    _Alignas(64) REAL made[BT_STREAM_ROW];
    const REAL *dy = op->dy;
    REAL *target = (REAL *)op->dtable + v * op->cols;
    const int64_t second = first >= 0 ? next[first] : -1;
    for (int64_t at = 0; at < op->cols; at += BT_STREAM_ROW) {
        const int64_t rest = op->cols - at, count = rest < BT_STREAM_ROW ? rest : BT_STREAM_ROW;
        const size_t size_bytes = (size_t)count * sizeof(REAL);
        const REAL *row = first >= 0 ? dy + first * op->cols + at : zeros;
        if (second >= 0) {
            FN(add)(row, dy + second * op->cols + at, made, count);
            row = made;
        }
        for (int64_t r = second >= 0 ? next[second] : -1; r >= 0; r = next[r]) {
            FN(add_to)(made, dy + r * op->cols + at, count);
        }
        if (past) {
            bt_stream_out(target + at, row, size_bytes);
        } else {
            memcpy(target + at, row, size_bytes);
        }
    }
}

// The same, added to the old contents.
static void FN(add_token)(const bt_embedding_backward_args *op, int64_t v, int64_t first,
                          const int64_t *next)
{
    REAL *target = (REAL *)op->dtable + v * op->cols;
    const REAL *dy = op->dy;
    for (int64_t r = first; r >= 0; r = next[r]) {
        FN(add_to)(target, dy + r * op->cols, op->cols);
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
    const bt_embedding_backward_args *op = args;
    const int64_t blocks = (op->cols + POSITION_BLOCK - 1) / POSITION_BLOCK;
    const int64_t positions = op->dposition ? op->positions : 0;
    const int64_t row_bytes = op->cols * (int64_t)sizeof(REAL);
    const bool past = !op->accumulate && bt_stream_wanted(op->vocab * row_bytes);
    int64_t *first = launch->workspace, *next = first + op->vocab;
#pragma omp parallel
    {
        REAL zeros[BT_STREAM_ROW] = {0};
        FN(link_rows)(op, omp_get_thread_num(), omp_get_num_threads(), first, next);
#pragma omp barrier
#pragma omp for schedule(dynamic, TOKENS) nowait
        for (int64_t v = 0; v < op->vocab; ++v) {
            const int64_t soon = v + 2 < op->vocab ? first[v + 2] : -1;
            if (soon >= 0) {
                bt_prefetch((const REAL *)op->dy + soon * op->cols, 0, (size_t)row_bytes);
            }
            if (op->accumulate) {
                FN(add_token)(op, v, first[v], next);
            } else {
                FN(make_token)(op, v, first[v], next, zeros, past);
            }
        }
#pragma omp for schedule(static)
        for (int64_t task = 0; task < positions * blocks; ++task) {
            const int64_t at = task % blocks * POSITION_BLOCK, rest = op->cols - at;
            const int64_t count = rest < POSITION_BLOCK ? rest : POSITION_BLOCK;
            FN(sum_position)(op, task / blocks, at, count);
        }
        bt_stream_end();
    }
    return BT_OK;
}
