// framework/ops/ring_attention.c - attention of sequences distributed over several ranks
//
// forward   sends own K and V to all ranks; attends to own keys, then to those of one rank after
//           another, each call merging its result with that so far, through their log-sum-exp
// backward  the same with the merged o and lse: dq is the sum of all partial gradients; the partial
//           gradient of a rank's dk and dv goes to that rank, which adds those of all ranks
//
// Invariants
//   1. Results are merged, and dq summed, in the order of the steps: own keys first, then those of
//      ranks rank - 1, rank - 2, ...; rounded in each call. dk and dv are summed in the order of
//      the ranks of their queries, each rank's part rounded in each of its calls, the sum once;
//      where own dk and dv are computed last (ring_attention_backward.c), they are added to the sum
//      of the others', rounded again. Bits depend neither on the route of blocks nor on their
//      arrival.
//   2. A block holds tokens [B, T, 2 G D] of a rank: keys of all heads, then values. Its gradient
//      has the same layout.
#include <math.h>

#include "framework/ops/ops.h"
#include "framework/ops/ring_job.h"

static const bt_attr_field ring_attention_fields[] = {
    // The size of the pointer is wanted. NOLINTNEXTLINE(bugprone-sizeof-expression)
    BT_ATTR(bt_ring_attention_attrs, ring, POINTER),
    BT_ATTR(bt_ring_attention_attrs, tokens, I64),
    BT_ATTR(bt_ring_attention_attrs, options.heads, I64),
    BT_ATTR(bt_ring_attention_attrs, options.kv_heads, I64),
    BT_ATTR(bt_ring_attention_attrs, options.causal, BOOL),
    BT_ATTR(bt_ring_attention_attrs, options.window, I64),
    BT_ATTR(bt_ring_attention_attrs, options.q_first, I64),
    BT_ATTR(bt_ring_attention_attrs, options.dropout, REAL),
    BT_ATTR(bt_ring_attention_attrs, options.seed, U64),
    BT_ATTR(bt_ring_attention_attrs, options.stream, U64)};
const bt_op_attrs bt_attrs_ring_attention =
    BT_OP_ATTRS(bt_ring_attention_attrs, ring_attention_fields);

static bt_status expect_ring(const bt_op_call *call, const bt_tensor *qkv)
{
    const bt_ring *ring = BT_ATTRS(call, ring_attention)->ring;
    const int64_t tokens = BT_ATTRS(call, ring_attention)->tokens;
    if (!ring || ring->size < 1 || ring->rank < 0 || ring->rank >= ring->size || tokens < 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "attention over ranks needs a ring and a sequence of 0 tokens or more");
    }
    const int64_t own =
        bt_ring_low(tokens, ring->size, ring->rank) + bt_ring_high(tokens, ring->size, ring->rank);
    return qkv->shape.size[1] == own
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "ring attention: rank %d of %d has %lld tokens of a sequence of %lld, "
                          "expected %lld",
                          ring->rank, ring->size, (long long)qkv->shape.size[1], (long long)tokens,
                          (long long)own);
}

bt_status bt_op_ring_attention_infer(bt_op_call *call)
{
    const bt_tensor *qkv = call->in[0];
    const bt_attention_options *with = &BT_ATTRS(call, ring_attention)->options;
    const int64_t kv_heads = with->kv_heads ? with->kv_heads : with->heads;
    BT_TRY(bt_op_expect_float(call, 0));
    if (with->heads < 1 || kv_heads < 1 || with->heads > INT64_MAX / 3 || kv_heads > with->heads ||
        with->heads % kv_heads != 0 || with->window < 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "attention of %lld heads with %lld of keys and a window of %lld; expected "
                        "at least 1 of each, a multiple, and a window of 0 or more",
                        (long long)with->heads, (long long)kv_heads, (long long)with->window);
    }
    if (with->dropout > 0 || with->q_first != 0) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "attention over ranks does not support dropout or a first query, which "
                        "refer to one rank's queries and keys");
    }
    if (qkv->shape.rank != 3 || qkv->shape.size[2] % (with->heads + 2 * kv_heads) != 0) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "qkv of shape %s with %lld heads; expected [B, T, %lld * head size]",
                        bt_shape_text(&qkv->shape, text), (long long)with->heads,
                        (long long)(with->heads + 2 * kv_heads));
    }
    BT_TRY(expect_ring(call, qkv));
    const int64_t head_dim = qkv->shape.size[2] / (with->heads + 2 * kv_heads);
    call->out_spec[0] = (bt_op_spec){
        qkv->dtype, BT_SHAPE(qkv->shape.size[0], qkv->shape.size[1], with->heads * head_dim)};
    return BT_OK;
}

// This rank's queries against the keys of one rank, added to y and lse; block NULL: its own keys,
// of which the first call writes them if it covers all queries.
static bt_status attend(const bt_ring_job *j, const bt_tensor *qkv, const void *block, int source,
                        bt_tensor *y, bt_ring_rows *lse)
{
    for (int n = j->first[source]; n < j->first[source + 1]; ++n) {
        const bt_ring_visit *visit = &j->visits[n];
        const bool begins = !block && n == j->first[source] && bt_ring_begins(j);
        void *rows = NULL;
        BT_TRY(bt_ring_rows_get(j, lse, visit, true, &rows));
        const bt_attention_args args = {.q = bt_ring_packed(j, qkv, 0, visit->q_begin),
                                        .k = bt_ring_keys(j, qkv, block, source, 1, visit),
                                        .v = bt_ring_keys(j, qkv, block, source, 2, visit),
                                        .o = bt_ring_queries(j, y, visit->q_begin),
                                        .lse = rows,
                                        .accumulate = !begins,
                                        .shape = bt_ring_shape(j, visit),
                                        .compute = j->context->compute,
                                        .dtype = j->dtype};
        BT_TRY(bt_context_launch(j->context, BT_KERNEL_ATTENTION, j->dtype, &args));
        BT_TRY(bt_ring_rows_put(j, lse, visit));
    }
    return BT_OK;
}

// No key is seen yet.
static bt_status clear(const bt_ring_job *j, bt_tensor *y, bt_tensor *lse)
{
    const bt_fill_args none = {.y = bt_tensor_data(lse),
                               .count = bt_tensor_count(lse),
                               .dtype = lse->dtype,
                               .value = -(double)INFINITY};
    BT_TRY(j->context->device->backend->fill(j->context->device, bt_tensor_data(y), 0,
                                             bt_tensor_bytes(y), j->context->stream));
    return bt_context_launch(j->context, BT_KERNEL_FILL, lse->dtype, &none);
}

static bt_status run_forward(bt_ring_job *j, const bt_tensor *qkv, bt_tensor *y, bt_ring_rows *lse)
{
    BT_TRY(bt_ring_job_open(j));
    BT_TRY(bt_ring_begins(j) ? BT_OK : clear(j, y, lse->all));
    BT_TRY(bt_ring_send_own(j, qkv));
    for (int step = 0; step < j->ring->size; ++step) {
        const void *block = NULL;
        if (step > 0) {
            BT_TRY(j->ring->fetch(j->ring->self, j->context, step, &block));
        }
        BT_TRY(attend(j, qkv, block, bt_ring_source(j, step), y, lse));
    }
    return BT_OK;
}

bt_status bt_op_ring_attention_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *qkv = call->in[0], *y = call->out[0], *lse = NULL;
    bt_ring_job j;
    bt_ring_job_fill(&j, context, call->attrs, qkv);
    BT_TRY(bt_tensor_create(context, j.dtype == BT_F64 ? BT_F64 : BT_F32,
                            BT_SHAPE(j.shape.batch, j.shape.heads, j.shape.q_tokens), "log-sum-exp",
                            &lse));
    call->saved[BT_RING_SAVED_QKV] = bt_tensor_retain(qkv);
    call->saved[BT_RING_SAVED_Y] = bt_tensor_retain(y);
    call->saved[BT_RING_SAVED_LSE] = lse;
    bt_ring_rows rows = {.all = lse};
    bt_status status = run_forward(&j, qkv, y, &rows);
    bt_tensor_release(rows.chunk);
    bt_ring_job_close(&j);
    return status;
}

bt_status bt_ring_attention(bt_context *context, bt_tensor *qkv, const bt_ring *ring,
                            int64_t tokens, const bt_attention_options *options, bt_tensor **out)
{
    const bt_ring_attention_attrs attrs = {.ring = ring, .tokens = tokens, .options = *options};
    return bt_op_apply(context, BT_OP_RING_ATTENTION, &attrs, &qkv, 1, out);
}
