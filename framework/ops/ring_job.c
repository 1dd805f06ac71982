// framework/ops/ring_job.c - views of a rank's operands, its attention calls and their results
#include <math.h>

#include "framework/base/mem.h"
#include "framework/ops/ring_job.h"

int64_t bt_ring_width(const bt_ring_job *j) // offset of a token in a block
{
    return 2 * j->shape.kv_heads * j->shape.head_dim;
}

int64_t bt_ring_tokens(const bt_ring_job *j, int rank)
{
    return bt_ring_low(j->mask.tokens, j->ring->size, rank) +
           bt_ring_high(j->mask.tokens, j->ring->size, rank);
}

static int64_t most_tokens(const bt_ring_job *j)
{
    int64_t most = 0;
    for (int rank = 0; rank < j->ring->size; ++rank) {
        most = bt_attention_most(most, bt_ring_tokens(j, rank));
    }
    return most;
}

void *bt_ring_place_at(void *base, int64_t elements, bt_dtype dtype)
{
    return (char *)base + elements * (int64_t)bt_dtype_size(dtype);
}

// Tokens starting at `token` of [B, tokens, width], from element `at` of each token.
static bt_attention_view view_of(const bt_ring_job *j, void *base, int64_t tokens, int64_t width,
                                 int64_t token, int64_t at)
{
    return (bt_attention_view){.base = bt_ring_place_at(base, token * width + at, j->dtype),
                               .batch_stride = tokens * width,
                               .token_stride = width,
                               .head_stride = j->shape.head_dim};
}

bt_attention_view bt_ring_packed(const bt_ring_job *j, const bt_tensor *qkv, int part,
                                 int64_t token)
{
    const bt_attention_shape *s = &j->shape;
    const int64_t heads = part == 0 ? 0 : s->heads + (part - 1) * s->kv_heads;
    return view_of(j, bt_tensor_data(qkv), s->q_tokens, qkv->shape.size[2], token,
                   heads * s->head_dim);
}

bt_attention_view bt_ring_blocked(const bt_ring_job *j, void *block, int64_t tokens, int part,
                                  int64_t token)
{
    return view_of(j, block, tokens, bt_ring_width(j), token,
                   (part - 1) * j->shape.kv_heads * j->shape.head_dim);
}

bt_attention_view bt_ring_queries(const bt_ring_job *j, const bt_tensor *x, int64_t token)
{
    return view_of(j, bt_tensor_data(x), x->shape.size[1], x->shape.size[2], token, 0);
}

bt_attention_shape bt_ring_shape(const bt_ring_job *j, const bt_ring_visit *visit)
{
    bt_attention_shape shape = j->shape;
    shape.q_tokens = visit->q_count;
    shape.kv_tokens = visit->k_count;
    shape.q_first = visit->q_first;
    shape.window = visit->window;
    shape.causal = visit->causal;
    return shape;
}

// ---- the calls ----------------------------------------------------------------------------------

void bt_ring_job_close(bt_ring_job *j)
{
    BT_MEM_FREE(j->visits);
    BT_MEM_FREE(j->first);
}

bt_status bt_ring_allocate(int64_t count, size_t size_bytes, void *out)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count, size_bytes, &block));
    *(void **)out = block;
    return BT_OK;
}

void bt_ring_job_fill(bt_ring_job *j, bt_context *context, const bt_ring_attention_attrs *attrs,
                      const bt_tensor *qkv)
{
    const bt_attention_options *with = &attrs->options;
    const int64_t kv_heads = with->kv_heads ? with->kv_heads : with->heads;
    const int64_t head_dim = qkv->shape.size[2] / (with->heads + 2 * kv_heads);
    // The fast kernels of IEEE fp32 require as many keys as queries.
    const bool square = qkv->dtype == BT_F32 && context->compute != BT_COMPUTE_TF32;
    *j = (bt_ring_job){.context = context,
                       .ring = attrs->ring,
                       .shape = {.batch = qkv->shape.size[0],
                                 .heads = with->heads,
                                 .kv_heads = kv_heads,
                                 .q_tokens = qkv->shape.size[1],
                                 .head_dim = head_dim,
                                 .scale = 1.0 / sqrt((double)head_dim)},
                       .mask = {.tokens = attrs->tokens,
                                .window = with->window,
                                .causal = with->causal,
                                .square = square},
                       .dtype = qkv->dtype};
}

bt_status bt_ring_job_open(bt_ring_job *j)
{
    const int size = j->ring->size;
    BT_TRY(bt_ring_allocate(size + 1, sizeof *j->first, &j->first));
    BT_TRY(bt_ring_allocate(BT_RING_VISITS * size, sizeof *j->visits, &j->visits));
    for (int rank = 0; rank < size; ++rank) {
        j->first[rank + 1] = j->first[rank] + bt_ring_visits(&j->mask, size, j->ring->rank, rank,
                                                             &j->visits[j->first[rank]]);
    }
    return BT_OK;
}

int bt_ring_source(const bt_ring_job *j, int step)
{
    return (j->ring->rank - step + j->ring->size) % j->ring->size;
}

bt_status bt_ring_send_own(const bt_ring_job *j, const bt_tensor *qkv)
{
    const bt_attention_shape *s = &j->shape;
    const int64_t bytes = (int64_t)bt_dtype_size(j->dtype), width = bt_ring_width(j) * bytes;
    const bt_byte_rows own = {
        .data = bt_ring_place_at(bt_tensor_data(qkv), s->heads * s->head_dim, j->dtype),
        .rows = s->batch * s->q_tokens,
        .row_bytes = width,
        .pitch_bytes = qkv->shape.size[2] * bytes};
    if (j->ring->size == 1) {
        return BT_OK;
    }
    BT_TRY(j->ring->begin(j->ring->self, j->context, s->batch * most_tokens(j) * width));
    return j->ring->send(j->ring->self, j->context, &own);
}

bt_attention_view bt_ring_keys(const bt_ring_job *j, const bt_tensor *qkv, const void *block,
                               int source, int part, const bt_ring_visit *visit)
{
    return block ? bt_ring_blocked(j, (void *)(uintptr_t)block, bt_ring_tokens(j, source), part,
                                   visit->k_begin)
                 : bt_ring_packed(j, qkv, part, visit->k_begin);
}

bool bt_ring_begins(const bt_ring_job *j)
{
    const int n = j->first[j->ring->rank];
    return j->first[j->ring->rank + 1] > n && j->visits[n].q_count == j->shape.q_tokens;
}

// Copies one chunk's values out of the whole, or back.
static bt_status copy_rows(const bt_ring_job *j, const bt_ring_rows *rows,
                           const bt_ring_visit *visit, bool back)
{
    const bt_dtype dtype = rows->all->dtype;
    void *whole = bt_ring_place_at(bt_tensor_data(rows->all), visit->q_begin, dtype);
    void *chunk = bt_tensor_data(rows->chunk);
    const int64_t whole_stride = j->shape.q_tokens, chunk_stride = visit->q_count;
    const bt_copy_args copy = {.rank = 2,
                               .shape = {j->shape.batch * j->shape.heads, visit->q_count},
                               .x = back ? chunk : whole,
                               .x_stride = {back ? chunk_stride : whole_stride, 1},
                               .x_dtype = dtype,
                               .y = back ? whole : chunk,
                               .y_stride = {back ? whole_stride : chunk_stride, 1},
                               .y_dtype = dtype};
    return bt_context_launch(j->context, BT_KERNEL_COPY, dtype, &copy);
}

bt_status bt_ring_rows_get(const bt_ring_job *j, bt_ring_rows *rows, const bt_ring_visit *visit,
                           bool reads, void **out)
{
    if (rows->chunk && rows->first == visit->q_begin && visit->q_count < j->shape.q_tokens) {
        *out = bt_tensor_data(rows->chunk);
        return BT_OK;
    }
    BT_TENSOR_RELEASE(rows->chunk);
    if (visit->q_count == j->shape.q_tokens) {
        *out = bt_tensor_data(rows->all);
        return BT_OK;
    }
    rows->first = visit->q_begin;
    BT_TRY(bt_tensor_create(j->context, rows->all->dtype,
                            BT_SHAPE(j->shape.batch * j->shape.heads, visit->q_count),
                            "values of a chunk's queries", &rows->chunk));
    *out = bt_tensor_data(rows->chunk);
    return reads ? copy_rows(j, rows, visit, false) : BT_OK;
}

bt_status bt_ring_rows_put(const bt_ring_job *j, const bt_ring_rows *rows,
                           const bt_ring_visit *visit)
{
    return visit->q_count == j->shape.q_tokens ? BT_OK : copy_rows(j, rows, visit, true);
}
