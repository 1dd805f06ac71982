// kernels/cpu/attention.inl - body of attention.c for one type
#include "kernels/cpu/lanes.inl"

// clang-format mistakes a long call that begins with FN for a macro and a block.
#define MULTIPLY FN(bt_blas_gemm)

// p = exp(s - max) over the scores [begin, end), 0 over the rest of [0, count); returns the sum.
BT_CLONES static double FN(exp_row)(REAL *s, int64_t begin, int64_t end, int64_t count, REAL max)
{
    const REAL lowest = FN(bt_exp_lowest)();
    for (int64_t c = 0; c < begin; ++c) {
        s[c] = 0;
    }
    for (int64_t c = begin; c < end; ++c) {
        s[c] = FN(bt_exp_normal)(s[c] - max, lowest);
    }
    for (int64_t c = end; c < count; ++c) {
        s[c] = 0;
    }
    return FN(row_sum)(s + begin, end - begin);
}

// p = mask * p for the keys key0 .. key0 + count - 1.
static void FN(drop_row)(const row_mask *mask, int64_t key0, int64_t count, REAL *p)
{
    const REAL keep = (REAL)(1 - mask->rate);
    uint32_t words[BT_DROPOUT_WORDS] = {0};
    for (int64_t c = 0; c < count; ++c) {
        const uint64_t element = mask->element + (uint64_t)(key0 + c);
        if (c == 0 || element % BT_DROPOUT_WORDS == 0) {
            bt_rng_block(mask->rng, element / BT_DROPOUT_WORDS, words);
        }
        const bool kept = bt_dropout_keeps(words[element % BT_DROPOUT_WORDS], mask->rate);
        p[c] = kept ? p[c] / keep : 0;
    }
}

BT_CLONES static REAL FN(largest)(const REAL *s, int64_t count) { return FN(row_max)(s, count); }

// The operands of one query head: base pointers of that head and its key/value head.
static const REAL *FN(head_of)(const bt_attention_view *view, int64_t batch, int64_t head)
{
    return (const REAL *)view->base + view_offset(view, batch, head);
}

static void FN(scale_row)(REAL *x, int64_t count, REAL factor)
{
    for (int64_t i = 0; i < count; ++i) {
        x[i] *= factor;
    }
}

// Scales the old o of a row by its share of the result over old and new keys, and sets *lse to that
// of both. Returns the share of the new keys, whose log-sum-exp is given.
static REAL FN(merge_row)(double added, REAL *lse, int64_t dim, REAL *o)
{
    const double old = (double)*lse, most = old > added ? old : added;
    const double shift = most == -(double)INFINITY ? 0 : most; // nothing is seen at all
    const double a = exp(old - shift), b = exp(added - shift), sum = a + b;
    *lse = (REAL)(shift + log(sum));
    FN(scale_row)(o, dim, sum != 0 ? (REAL)(a / sum) : 1);
    return sum != 0 ? (REAL)(b / sum) : 0;
}

// A tile's rows of o and lse without visible keys.
static void FN(attend_nothing)(const query_tile *tile, int64_t dim, REAL *o, int64_t stride,
                               REAL *lse)
{
    for (int64_t r = 0; r < tile->rows; ++r) {
        memset(o + r * stride, 0, (size_t)dim * sizeof(REAL));
        lse[r] = -(REAL)INFINITY;
    }
}

// The rows of one tile of a head. Returns how many.
static int64_t FN(attend)(const bt_attention_args *op, int64_t batch, int64_t head, int64_t first,
                          REAL *scores)
{
    const bt_attention_shape *shape = &op->shape;
    const int64_t kv_head = head / (shape->heads / shape->kv_heads), dim = shape->head_dim;
    const query_tile tile = tile_at(shape, first);
    const int64_t rows = tile.rows, keys = tile.keys, stride = op->o.token_stride;
    REAL *o = (REAL *)op->o.base + view_offset(&op->o, batch, head) + first * stride;
    REAL *lse = (REAL *)op->lse + (batch * shape->heads + head) * shape->q_tokens + first;
    if (keys == 0) {
        if (!op->accumulate) {
            FN(attend_nothing)(&tile, dim, o, stride, lse);
        }
        return rows;
    }
    const REAL *q = FN(head_of)(&op->q, batch, head) + first * op->q.token_stride;
    const REAL *k = FN(head_of)(&op->k, batch, kv_head) + tile.key0 * op->k.token_stride;
    const REAL *v = FN(head_of)(&op->v, batch, kv_head) + tile.key0 * op->v.token_stride;
    REAL factor[ATTENTION_ROWS];
    MULTIPLY(false, true, rows, keys, dim, shape->scale, q, op->q.token_stride, k,
             op->k.token_stride, 0, scores, keys);
    for (int64_t r = 0; r < rows; ++r) {
        REAL *row = scores + r * keys;
        const int64_t begin = tile.begin[r], seen = tile.end[r] - begin;
        const REAL max = seen > 0 ? FN(largest)(row + begin, seen) : 0;
        const REAL shift = max == -(REAL)INFINITY ? 0 : max; // all are -inf: their sum is 0
        const double sum = FN(exp_row)(row, begin, tile.end[r], keys, shift);
        const bool sees = seen > 0;
        factor[r] = sees ? (REAL)(1 / sum) : 0;
        if (op->accumulate) {
            factor[r] *= FN(merge_row)((double)shift + log(sum), &lse[r], dim, o + r * stride);
            FN(scale_row)(row + begin, seen, factor[r]);
        } else {
            lse[r] = (REAL)((double)shift + log(sum));
        }
        if (shape->dropout > 0) {
            const row_mask mask = mask_of(shape, batch, head, first + r);
            FN(drop_row)(&mask, tile.key0 + begin, seen, row + begin);
        }
    }
    MULTIPLY(false, false, rows, dim, keys, 1, scores, keys, v, op->v.token_stride,
             op->accumulate ? 1 : 0, o, stride);
    for (int64_t r = 0; r < rows && !op->accumulate; ++r) {
        const bool sees = tile.end[r] > tile.begin[r];
        for (int64_t d = 0; d < dim; ++d) {
            o[r * stride + d] = sees ? o[r * stride + d] * factor[r] : 0;
        }
    }
    return rows;
}

bt_status FN(bt_attention_cpu)(const bt_launch *launch, const void *args)
{
    const bt_attention_args *op = args;
    const bt_attention_shape *shape = &op->shape;
    const size_t bytes_each = tile_bytes(shape->kv_tokens, op->dtype);
    const int64_t heads = shape->batch * shape->heads;
    const int64_t tiles = (shape->q_tokens + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
    int threads = 0;
    if (heads * tiles == 0 || shape->head_dim == 0) {
        return BT_OK;
    }
    BT_TRY(count_threads(launch, bytes_each, &threads));
    bt_blas_keep_single_threaded();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t task = 0; task < heads * tiles; ++task) {
        const int64_t pair = task % heads, tile = tiles - 1 - task / heads;
        char *mine = (char *)launch->workspace + (size_t)omp_get_thread_num() * bytes_each;
        void *scores = mine;
        int64_t first = tile * ATTENTION_ROWS;
        const int64_t end = bt_attention_least(first + ATTENTION_ROWS, shape->q_tokens);
        while (first < end) {
            first += FN(attend)(op, pair / shape->heads, pair % shape->heads, first, scores);
        }
    }
    return BT_OK;
}

// ---- backward ----------------------------------------------------------------------------------

// One head of every operand.
typedef struct FN(attention_head) {
    int64_t batch, head;
    const REAL *q, *k, *v, *o, *d_o, *lse;
    REAL *delta;        // NULL: neither given nor wanted
    REAL *dq, *dk, *dv; // NULL: not wanted
} FN(attention_head);

static REAL *FN(output_of)(const bt_attention_view *view, int64_t batch, int64_t head)
{
    return view->base ? (REAL *)view->base + view_offset(view, batch, head) : NULL;
}

static FN(attention_head)
    FN(head_at)(const bt_attention_backward_args *op, int64_t batch, int64_t head)
{
    const int64_t kv_head = head / (op->shape.heads / op->shape.kv_heads);
    const int64_t row = (batch * op->shape.heads + head) * op->shape.q_tokens;
    return (FN(attention_head)){
        .batch = batch,
        .head = head,
        .q = FN(head_of)(&op->q, batch, head),
        .k = FN(head_of)(&op->k, batch, kv_head),
        .v = FN(head_of)(&op->v, batch, kv_head),
        .o = FN(head_of)(&op->o, batch, head),
        .d_o = FN(head_of)(&op->d_o, batch, head),
        .lse = (const REAL *)op->lse + row,
        .delta = op->delta ? (REAL *)op->delta + row : NULL,
        .dq = FN(output_of)(&op->dq, batch, head),
        .dk = FN(output_of)(&op->dk, batch, kv_head),
        .dv = FN(output_of)(&op->dv, batch, kv_head),
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

static void FN(zero_rows)(REAL *x, int64_t stride, int64_t rows, int64_t dim)
{
    for (int64_t r = 0; r < rows; ++r) {
        memset(x + r * stride, 0, (size_t)dim * sizeof(REAL));
    }
}

// delta of a tile's queries: as given, or computed, and written where it is wanted.
static void FN(find_delta)(const bt_attention_backward_args *op, const FN(attention_head) * at,
                           int64_t first, int64_t rows, REAL *delta)
{
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t query = first + r;
        if (op->delta_given) {
            delta[r] = at->delta[query];
            continue;
        }
        delta[r] = (REAL)FN(dot_row)(at->d_o + query * op->d_o.token_stride,
                                     at->o + query * op->o.token_stride, op->shape.head_dim);
        if (at->delta) {
            at->delta[query] = delta[r];
        }
    }
}

// Row r of a tile: scores s become the mask's M P, ds becomes dS.
static void FN(row_backward)(const bt_attention_backward_args *op, const FN(attention_head) * at,
                             const query_tile *tile, int64_t r, REAL delta, REAL *s, REAL *ds)
{
    const int64_t query = tile->first + r, begin = tile->begin[r], seen = tile->end[r] - begin;
    const row_mask mask = mask_of(&op->shape, at->batch, at->head, query);
    (void)FN(exp_row)(s, begin, tile->end[r], tile->keys, at->lse[query]);
    if (op->shape.dropout > 0) {
        FN(drop_row)(&mask, tile->key0 + begin, seen, ds + begin);
    }
    FN(score_gradient)(s + begin, ds + begin, seen, delta);
    memset(ds, 0, (size_t)begin * sizeof(REAL));
    memset(ds + tile->end[r], 0, (size_t)(tile->keys - tile->end[r]) * sizeof(REAL));
    if (op->shape.dropout > 0) {
        FN(drop_row)(&mask, tile->key0 + begin, seen, s + begin);
    }
}

// Adds the contribution of a tile's query rows to dk and dv, and writes their dq, as far as they
// are wanted. Returns how many.
static int64_t FN(attend_backward)(const bt_attention_backward_args *op,
                                   const FN(attention_head) * at, int64_t first, REAL *p, REAL *ds)
{
    const query_tile tile = tile_at(&op->shape, first);
    const int64_t rows = tile.rows, keys = tile.keys, dim = op->shape.head_dim;
    const REAL *q = at->q + first * op->q.token_stride;
    const REAL *d_o = at->d_o + first * op->d_o.token_stride;
    const REAL *k = at->k + tile.key0 * op->k.token_stride;
    const REAL *v = at->v + tile.key0 * op->v.token_stride;
    REAL *dq = at->dq ? at->dq + first * op->dq.token_stride : NULL;
    REAL delta[ATTENTION_ROWS];
    FN(find_delta)(op, at, first, rows, delta);
    if (keys == 0) {
        if (dq && !op->accumulate_dq) {
            FN(zero_rows)(dq, op->dq.token_stride, rows, dim);
        }
        return rows;
    }
    MULTIPLY(false, true, rows, keys, dim, op->shape.scale, q, op->q.token_stride, k,
             op->k.token_stride, 0, p, keys);
    MULTIPLY(false, true, rows, keys, dim, 1, d_o, op->d_o.token_stride, v, op->v.token_stride, 0,
             ds, keys);
    for (int64_t r = 0; r < rows; ++r) {
        FN(row_backward)(op, at, &tile, r, delta[r], p + r * keys, ds + r * keys);
    }
    if (dq) {
        MULTIPLY(false, false, rows, dim, keys, op->shape.scale, ds, keys, k, op->k.token_stride,
                 op->accumulate_dq ? 1 : 0, dq, op->dq.token_stride);
    }
    if (at->dk) {
        MULTIPLY(true, false, keys, dim, rows, 1, p, keys, d_o, op->d_o.token_stride, 1,
                 at->dv + tile.key0 * op->dv.token_stride, op->dv.token_stride);
        MULTIPLY(true, false, keys, dim, rows, op->shape.scale, ds, keys, q, op->q.token_stride, 1,
                 at->dk + tile.key0 * op->dk.token_stride, op->dk.token_stride);
    }
    return rows;
}

bt_status FN(bt_attention_backward_cpu)(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *op = args;
    const bt_attention_shape *shape = &op->shape;
    const size_t bytes_half = tile_bytes(shape->kv_tokens, op->dtype);
    int threads = 0;
    if (shape->batch * shape->heads * (shape->q_tokens + shape->kv_tokens) == 0 ||
        shape->head_dim == 0) {
        return BT_OK;
    }
    BT_TRY(count_threads(launch, 2 * bytes_half, &threads));
    bt_blas_keep_single_threaded();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t pair = 0; pair < shape->batch * shape->kv_heads; ++pair) {
        const int64_t group = shape->heads / shape->kv_heads, batch = pair / shape->kv_heads;
        const int64_t head0 = pair % shape->kv_heads * group;
        char *mine = (char *)launch->workspace + (size_t)omp_get_thread_num() * 2 * bytes_half;
        void *p = mine, *ds = mine + bytes_half;
        const FN(attention_head) own = FN(head_at)(op, batch, head0);
        if (own.dk && !op->accumulate_dkv) {
            FN(zero_rows)(own.dk, op->dk.token_stride, shape->kv_tokens, shape->head_dim);
            FN(zero_rows)(own.dv, op->dv.token_stride, shape->kv_tokens, shape->head_dim);
        }
        for (int64_t task = head0; task < head0 + group; ++task) {
            const FN(attention_head) at = FN(head_at)(op, batch, task);
            for (int64_t first = 0; first < shape->q_tokens;) {
                first += FN(attend_backward)(op, &at, first, p, ds);
            }
        }
    }
    return BT_OK;
}
#undef MULTIPLY
