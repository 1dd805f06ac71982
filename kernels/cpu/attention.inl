// kernels/cpu/attention.inl - body of attention.c for one type
#include "kernels/cpu/lanes.inl"

// clang-format takes a long call that begins with FN for a macro and a block.
#define MULTIPLY FN(bt_blas_gemm)

// p = exp(s - max) over the first `seen` scores, 0 over the rest; returns the sum.
BT_CLONES static double FN(exp_row)(REAL *s, int64_t seen, int64_t count, REAL max)
{
    const REAL lowest = FN(bt_exp_lowest)();
    for (int64_t c = 0; c < seen; ++c) {
        s[c] = FN(bt_exp_normal)(s[c] - max, lowest);
    }
    for (int64_t c = seen; c < count; ++c) {
        s[c] = 0;
    }
    return FN(row_sum)(s, seen);
}

BT_CLONES static REAL FN(largest)(const REAL *s, int64_t count) { return FN(row_max)(s, count); }

// Query rows [first, first + rows) of one head; the operands are that head's.
static void FN(attend)(const bt_attention_args *op, int64_t batch, int64_t head, int64_t first,
                       REAL *scores)
{
    const REAL *q = (const REAL *)op->q.base + view_offset(&op->q, batch, head);
    const REAL *k = (const REAL *)op->k.base + view_offset(&op->k, batch, head);
    const REAL *v = (const REAL *)op->v.base + view_offset(&op->v, batch, head);
    REAL *o = (REAL *)op->o.base + view_offset(&op->o, batch, head) + first * op->o.token_stride;
    REAL *lse = (REAL *)op->lse + (batch * op->heads + head) * op->tokens + first;
    const int64_t left = op->tokens - first;
    const int64_t rows = left < ATTENTION_ROWS ? left : ATTENTION_ROWS;
    const int64_t keys = op->causal ? first + rows : op->tokens;
    double sum[ATTENTION_ROWS];
    MULTIPLY(false, true, rows, keys, op->head_dim, op->scale, q + first * op->q.token_stride,
             op->q.token_stride, k, op->k.token_stride, 0, scores, keys);
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t seen = op->causal ? first + r + 1 : keys;
        const REAL max = FN(largest)(scores + r * keys, seen);
        sum[r] = FN(exp_row)(scores + r * keys, seen, keys, max);
        lse[r] = (REAL)((double)max + log(sum[r]));
    }
    MULTIPLY(false, false, rows, op->head_dim, keys, 1, scores, keys, v, op->v.token_stride, 0, o,
             op->o.token_stride);
    for (int64_t r = 0; r < rows; ++r) {
        const REAL inverse = (REAL)(1 / sum[r]);
        for (int64_t d = 0; d < op->head_dim; ++d) {
            o[r * op->o.token_stride + d] *= inverse;
        }
    }
}

bt_status FN(bt_attention_cpu)(const bt_launch *launch, const void *args)
{
    const bt_attention_args *op = args;
    const size_t bytes_each = tile_bytes(op->tokens, op->dtype);
    const int64_t heads = op->batch * op->heads;
    const int64_t tiles = (op->tokens + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
    int threads = 0;
    if (heads * tiles == 0 || op->head_dim == 0) {
        return BT_OK;
    }
    BT_TRY(count_threads(launch, bytes_each, &threads));
    bt_blas_keep_single_threaded();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t task = 0; task < heads * tiles; ++task) {
        const int64_t pair = task % heads, tile = tiles - 1 - task / heads;
        char *mine = (char *)launch->workspace + (size_t)omp_get_thread_num() * bytes_each;
        void *scores = mine;
        FN(attend)(op, pair / op->heads, pair % op->heads, tile * ATTENTION_ROWS, scores);
    }
    return BT_OK;
}

// ---- backward ----------------------------------------------------------------------------------

// One head of every operand.
typedef struct FN(attention_head) {
    const REAL *q, *k, *v, *o, *d_o, *lse;
    REAL *dq, *dk, *dv;
} FN(attention_head);

static FN(attention_head)
    FN(head_at)(const bt_attention_backward_args *op, int64_t batch, int64_t head)
{
    return (FN(attention_head)){
        .q = (const REAL *)op->q.base + view_offset(&op->q, batch, head),
        .k = (const REAL *)op->k.base + view_offset(&op->k, batch, head),
        .v = (const REAL *)op->v.base + view_offset(&op->v, batch, head),
        .o = (const REAL *)op->o.base + view_offset(&op->o, batch, head),
        .d_o = (const REAL *)op->d_o.base + view_offset(&op->d_o, batch, head),
        .lse = (const REAL *)op->lse + (batch * op->heads + head) * op->tokens,
        .dq = (REAL *)op->dq.base + view_offset(&op->dq, batch, head),
        .dk = (REAL *)op->dk.base + view_offset(&op->dk, batch, head),
        .dv = (REAL *)op->dv.base + view_offset(&op->dv, batch, head),
    };
}

BT_CLONES static double FN(dot_row)(const REAL *x, const REAL *y, int64_t count)
{
    return FN(row_dot)(x, y, count);
}

// ds = p (dp - delta)
BT_CLONES static void FN(score_gradient)(const REAL *p, REAL *dp, int64_t count, REAL delta)
{
    for (int64_t c = 0; c < count; ++c) {
        dp[c] = p[c] * (dp[c] - delta);
    }
}

// Adds what query rows [first, ...) give to dk and dv, and writes their dq.
static void FN(attend_backward)(const bt_attention_backward_args *op, const FN(attention_head) * at,
                                int64_t first, REAL *p, REAL *ds)
{
    const int64_t left = op->tokens - first, dim = op->head_dim;
    const int64_t rows = left < ATTENTION_ROWS ? left : ATTENTION_ROWS;
    const int64_t keys = op->causal ? first + rows : op->tokens;
    const REAL *q = at->q + first * op->q.token_stride;
    const REAL *o = at->o + first * op->o.token_stride;
    const REAL *d_o = at->d_o + first * op->d_o.token_stride;
    MULTIPLY(false, true, rows, keys, dim, op->scale, q, op->q.token_stride, at->k,
             op->k.token_stride, 0, p, keys);
    MULTIPLY(false, true, rows, keys, dim, 1, d_o, op->d_o.token_stride, at->v, op->v.token_stride,
             0, ds, keys);
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t seen = op->causal ? first + r + 1 : keys;
        const double delta =
            FN(dot_row)(d_o + r * op->d_o.token_stride, o + r * op->o.token_stride, dim);
        (void)FN(exp_row)(p + r * keys, seen, keys, at->lse[first + r]);
        FN(score_gradient)(p + r * keys, ds + r * keys, keys, (REAL)delta);
    }
    MULTIPLY(true, false, keys, dim, rows, 1, p, keys, d_o, op->d_o.token_stride, 1, at->dv,
             op->dv.token_stride);
    MULTIPLY(false, false, rows, dim, keys, op->scale, ds, keys, at->k, op->k.token_stride, 0,
             at->dq + first * op->dq.token_stride, op->dq.token_stride);
    MULTIPLY(true, false, keys, dim, rows, op->scale, ds, keys, q, op->q.token_stride, 1, at->dk,
             op->dk.token_stride);
}

bt_status FN(bt_attention_backward_cpu)(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *op = args;
    const size_t bytes_half = tile_bytes(op->tokens, op->dtype);
    const size_t row_bytes = (size_t)op->head_dim * sizeof(REAL);
    int threads = 0;
    if (op->batch * op->heads * op->tokens == 0 || op->head_dim == 0) {
        return BT_OK;
    }
    BT_TRY(count_threads(launch, 2 * bytes_half, &threads));
    bt_blas_keep_single_threaded();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t pair = 0; pair < op->batch * op->heads; ++pair) {
        const FN(attention_head) at = FN(head_at)(op, pair / op->heads, pair % op->heads);
        char *mine = (char *)launch->workspace + (size_t)omp_get_thread_num() * 2 * bytes_half;
        void *p = mine, *ds = mine + bytes_half;
        for (int64_t t = 0; t < op->tokens; ++t) {
            memset(at.dk + t * op->dk.token_stride, 0, row_bytes);
            memset(at.dv + t * op->dv.token_stride, 0, row_bytes);
        }
        for (int64_t first = 0; first < op->tokens; first += ATTENTION_ROWS) {
            FN(attend_backward)(op, &at, first, p, ds);
        }
    }
    return BT_OK;
}
#undef MULTIPLY
