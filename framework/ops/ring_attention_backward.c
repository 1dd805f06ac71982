// framework/ops/ring_attention_backward.c - attention over ranks, backward: ring_attention.c
//
// What runs beside the exchanges depends on the kernel of the call on own keys.
// The sides, dq and dk with dv, are apart if it computes them by kernels of their own, so that a
// call for one side costs no more than its part of a call for both: dq of own keys runs beside the
// exchange of keys and values; then come dk and dv of the others' keys, and dq of them beside the
// exchange of those gradients; own dk and dv are added to the sum of the others' at the end.
// Otherwise they are fused, and a call gives all gradients: own keys first, beside the exchange of
// keys and values, then the others'; the last exchange of gradients has nothing beside it.
#include "framework/base/mem.h"
#include "framework/ops/ring_job.h"

enum { QUERIES = 1, KEYS = 2, ALL = QUERIES | KEYS }; // dq; dk and dv

// One backward.
typedef struct backward {
    bt_ring_job *job;
    bt_op_backward *call;
    bt_tensor *grad; // of qkv
    bt_ring_rows lse, delta;
    bool apart, begins;  // see above; bt_ring_begins
    bt_tensor *own_keys; // owned: own dk and dv until they are summed; NULL if apart
    const void **blocks; // owned [size]: those of the steps
} backward;

// Whether this is one of two ranks that read dk and dv of their keys from each other's memory,
// while they compute dq of each other's keys.
static bool takes(const backward *b) { return b->apart && b->job->ring->take; }

static bt_attention_view values_after(const bt_ring_job *j, bt_attention_view keys)
{
    keys.base = bt_ring_place_at(keys.base, j->shape.kv_heads * j->shape.head_dim, j->dtype);
    return keys;
}

// The gradients `wanted` of a visit. dk: of all tokens of its rank, dv follows it.
static bt_attention_backward_args call_of(const backward *b, int step, const bt_ring_visit *visit,
                                          int wanted, bt_attention_view dk)
{
    const bt_ring_job *j = b->job;
    bt_tensor *const *saved = b->call->saved;
    const int source = bt_ring_source(j, step);
    const void *block = b->blocks[step];
    bt_attention_backward_args args = {
        .q = bt_ring_packed(j, saved[BT_RING_SAVED_QKV], 0, visit->q_begin),
        .k = bt_ring_keys(j, saved[BT_RING_SAVED_QKV], block, source, 1, visit),
        .v = bt_ring_keys(j, saved[BT_RING_SAVED_QKV], block, source, 2, visit),
        .o = bt_ring_queries(j, saved[BT_RING_SAVED_Y], visit->q_begin),
        .d_o = bt_ring_queries(j, b->call->dout[0], visit->q_begin),
        .shape = bt_ring_shape(j, visit),
        .compute = j->context->compute,
        .dtype = j->dtype};
    if (wanted & QUERIES) {
        args.dq = bt_ring_packed(j, b->grad, 0, visit->q_begin);
    }
    if (wanted & KEYS) {
        dk.base = bt_ring_place_at(dk.base, visit->k_begin * dk.token_stride, j->dtype);
        args.dk = dk;
        args.dv = values_after(j, dk);
    }
    return args;
}

// The visits to the keys of a step's rank. `adds`: to the old dk and dv.
static bt_status visit_keys(backward *b, int step, int wanted, bt_attention_view dk, bool adds)
{
    const bt_ring_job *j = b->job;
    const int source = bt_ring_source(j, step);
    const bool makes_delta = b->apart && step == 0 && wanted == QUERIES;
    for (int n = j->first[source]; n < j->first[source + 1]; ++n) {
        const bt_ring_visit *visit = &j->visits[n];
        bt_attention_backward_args args = call_of(b, step, visit, wanted, dk);
        void *lse = NULL;
        args.accumulate_dq = step > 0 || !b->begins || n > j->first[source];
        args.accumulate_dkv = adds;
        args.delta_given = b->apart && !makes_delta;
        BT_TRY(bt_ring_rows_get(j, &b->lse, visit, true, &lse));
        args.lse = lse;
        if (b->apart) {
            BT_TRY(bt_ring_rows_get(j, &b->delta, visit, args.delta_given, &args.delta));
        }
        BT_TRY(bt_context_launch(j->context, BT_KERNEL_ATTENTION_BACKWARD, j->dtype, &args));
        BT_TRY(makes_delta ? bt_ring_rows_put(j, &b->delta, visit) : BT_OK);
    }
    return BT_OK;
}

static bt_status fill_zero(const bt_ring_job *j, void *data, size_t size_bytes)
{
    return j->context->device->backend->fill(j->context->device, data, 0, size_bytes,
                                             j->context->stream);
}

// dk and dv for another rank. Its tokens that no query of this rank sees are not written: that rank
// knows them.
static bt_status remote_keys(backward *b, int step)
{
    bt_ring_job *j = b->job;
    const int source = bt_ring_source(j, step);
    const bool several = j->first[source + 1] - j->first[source] > 1;
    const int64_t tokens = bt_ring_tokens(j, source);
    const int64_t count = j->shape.batch * tokens * bt_ring_width(j);
    void *gradient = NULL;
    BT_TRY(j->ring->fetch(j->ring->self, j->context, step, &b->blocks[step]));
    BT_TRY(j->ring->place(j->ring->self, j->context, step, &gradient));
    BT_TRY(several ? fill_zero(j, gradient, (size_t)count * bt_dtype_size(j->dtype)) : BT_OK);
    BT_TRY(visit_keys(b, step, b->apart ? KEYS : ALL, bt_ring_blocked(j, gradient, tokens, 1, 0),
                      several));
    return takes(b) ? BT_OK : j->ring->give(j->ring->self, j->context, step);
}

// dk and dv of `count` tokens of this rank, from its token `first` on, as a part of their sum.
static bt_sum_parts_item part_of(const bt_ring_job *j, const void *block, int64_t first,
                                 int64_t count)
{
    const bt_attention_view dk =
        bt_ring_blocked(j, (void *)(uintptr_t)block, j->shape.q_tokens, 1, first);
    return (bt_sum_parts_item){.x = dk.base,
                               .batch_stride = dk.batch_stride,
                               .row_stride = dk.token_stride,
                               .first = first,
                               .rows = count};
}

// The tokens of this rank of which a rank contributes to dk and dv: those of one visit, or all for
// several; false: none.
static bool received(const bt_ring_job *j, int rank, int64_t *first, int64_t *tokens)
{
    bt_ring_visit visits[BT_RING_VISITS];
    const int count = bt_ring_visits(&j->mask, j->ring->size, rank, j->ring->rank, visits);
    *first = count == 1 ? visits[0].k_begin : 0;
    *tokens = count == 1 ? visits[0].k_count : count > 0 ? j->shape.q_tokens : 0;
    return count > 0;
}

// dk and dv of `tokens` own tokens from `first` on: the sum of the parts, 0 without any.
static bt_status sum_parts(const bt_ring_job *j, const bt_sum_parts_item *parts, int count,
                           bt_attention_view dk, int64_t first, int64_t tokens)
{
    const bt_sum_parts_args args = {
        .items = parts,
        .item_count = count,
        .y = bt_ring_place_at(dk.base, first * dk.token_stride, j->dtype),
        .y_batch_stride = dk.batch_stride,
        .y_row_stride = dk.token_stride,
        .batch = j->shape.batch,
        .rows = tokens,
        .width = bt_ring_width(j),
        .dtype = j->dtype};
    return bt_context_launch(j->context, BT_KERNEL_SUM_PARTS, j->dtype, &args);
}

static bt_status take_received(const backward *b, bt_attention_view dk)
{
    const bt_ring_job *j = b->job;
    const int64_t all = j->shape.q_tokens, element = (int64_t)bt_dtype_size(j->dtype);
    const int64_t row_bytes = bt_ring_width(j) * element;
    int64_t first = 0, tokens = 0;
    bt_ring_copy *copies = NULL;
    (void)received(j, 1 - j->ring->rank, &first, &tokens);
    // Rows of all tokens of all sequences are equally far apart.
    const int64_t batches = tokens == 0 ? 0 : tokens == all ? 1 : j->shape.batch;
    BT_TRY(bt_ring_allocate(batches, sizeof *copies, &copies));
    for (int64_t n = 0; n < batches; ++n) {
        copies[n] =
            (bt_ring_copy){.from = (n * all + first) * row_bytes,
                           .to = bt_ring_place_at(
                               dk.base, n * dk.batch_stride + first * dk.token_stride, j->dtype),
                           .rows = batches == 1 ? j->shape.batch * tokens : tokens,
                           .row_bytes = row_bytes,
                           .pitch_bytes = dk.token_stride * element};
    }
    const bt_status status = j->ring->take(j->ring->self, j->context, copies, (int)batches);
    bt_mem_free(copies);
    BT_TRY(status);
    // The tokens after those that were taken. Without `begins` the whole gradient was cleared; with
    // it, the other rank gives this rank's first tokens or all.
    return b->begins ? sum_parts(j, NULL, 0, dk, first + tokens, all - first - tokens) : BT_OK;
}

// dk and dv of own tokens: the contributions of the others and, unless apart, of this rank, by
// rank.
static bt_status sum_keys(const backward *b, bt_attention_view dk)
{
    const bt_ring_job *j = b->job;
    const int size = j->ring->size;
    bt_sum_parts_item *parts = NULL;
    const void **gradients = NULL;
    int count = 0;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_ring_allocate(size, sizeof *parts, &parts), done);
    BT_TRY_GOTO(bt_ring_allocate(size, sizeof *gradients, &gradients), done);
    BT_TRY_GOTO(j->ring->collect(j->ring->self, j->context, gradients), done);
    for (int rank = 0; rank < size; ++rank) {
        int64_t first = 0, tokens = 0;
        if (rank != j->ring->rank && received(j, rank, &first, &tokens)) {
            parts[count++] = part_of(j, gradients[rank], first, tokens);
        } else if (rank == j->ring->rank && !b->apart) {
            parts[count++] = part_of(j, bt_tensor_data(b->own_keys), 0, j->shape.q_tokens);
        }
    }
    status = sum_parts(j, parts, count, dk, 0, j->shape.q_tokens);
done:
    bt_mem_free(parts);
    bt_mem_free((void *)gradients);
    return status;
}

// Whether the row that serves a rank's call on its own keys also serves those for one side, so that
// it computes the sides by kernels of their own. Rows that fuse them leave such calls to other
// rows.
static bool rank_is_apart(const backward *b, int rank)
{
    const bt_ring_job *j = b->job;
    const bt_device *device = j->context->device;
    const bt_attention_view dk = bt_ring_packed(j, b->grad, 1, 0);
    bt_ring_visit visits[BT_RING_VISITS];
    if (bt_ring_visits(&j->mask, j->ring->size, rank, rank, visits) == 0) {
        return false;
    }
    bt_attention_backward_args all = call_of(b, 0, visits, ALL, dk);
    bt_attention_backward_args queries = call_of(b, 0, visits, QUERIES, dk);
    bt_attention_backward_args keys = call_of(b, 0, visits, KEYS, dk);
    queries.delta = keys.delta = bt_tensor_data(b->lse.all); // any memory of its size
    keys.delta_given = true;
    const bt_kernel *row = bt_kernel_lookup(device, BT_KERNEL_ATTENTION_BACKWARD, j->dtype, &all);
    return row &&
           row == bt_kernel_lookup(device, BT_KERNEL_ATTENTION_BACKWARD, j->dtype, &queries) &&
           row == bt_kernel_lookup(device, BT_KERNEL_ATTENTION_BACKWARD, j->dtype, &keys);
}

// The same on all ranks, whose numbers of tokens may differ: they make the same exchanges.
static bool is_apart(const backward *b)
{
    const bt_ring *ring = b->job->ring;
    bool apart = ring->size > 1 && ring->overlaps;
    for (int rank = 0; rank < ring->size && apart; ++rank) {
        apart = rank_is_apart(b, rank);
    }
    return apart;
}

// What is known before the first call: how to compute, and zeros where the first call adds.
static bt_status prepare(backward *b)
{
    bt_ring_job *j = b->job;
    const bt_tensor *lse = b->lse.all;
    const int64_t tokens = j->shape.q_tokens;
    BT_TRY(bt_ring_allocate(j->ring->size, sizeof *b->blocks, &b->blocks));
    b->begins = bt_ring_begins(j);
    b->apart = is_apart(b);
    if (!b->begins) {
        BT_TRY(fill_zero(j, bt_tensor_data(b->grad), bt_tensor_bytes(b->grad)));
    }
    if (b->apart) {
        return bt_tensor_create(j->context, lse->dtype, lse->shape, "delta", &b->delta.all);
    }
    if (j->ring->size > 1) {
        BT_TRY(bt_tensor_create(j->context, j->dtype,
                                BT_SHAPE(j->shape.batch, tokens, bt_ring_width(j)), "own dk and dv",
                                &b->own_keys));
        BT_TRY(b->begins ? BT_OK
                         : fill_zero(j, bt_tensor_data(b->own_keys), bt_tensor_bytes(b->own_keys)));
    }
    return BT_OK;
}

// dq of the others' keys.
static bt_status remote_queries(backward *b, bt_attention_view dk)
{
    for (int step = 1; step < b->job->ring->size; ++step) {
        BT_TRY(visit_keys(b, step, QUERIES, dk, false));
    }
    return BT_OK;
}

// Collects after a failure, too: the gradient may be freed only when nobody writes it any more.
static bt_status take_keys(backward *b, bt_attention_view dk)
{
    const bt_ring *ring = b->job->ring;
    const void *unused[2];
    bt_status status = take_received(b, dk);
    status = status ? status : remote_queries(b, dk);
    if (status == BT_OK) {
        return ring->collect(ring->self, b->job->context, unused);
    }
    bt_error_quiet_begin();
    (void)!ring->collect(ring->self, b->job->context, unused);
    bt_error_quiet_end();
    return status;
}

static bt_status give_keys(backward *b, bt_attention_view dk)
{
    BT_TRY(b->apart ? remote_queries(b, dk) : BT_OK);
    return b->job->ring->size > 1 ? sum_keys(b, dk) : BT_OK;
}

static bt_status run_backward(backward *b)
{
    bt_ring_job *j = b->job;
    BT_TRY(bt_ring_job_open(j));
    BT_TRY(bt_ring_send_own(j, b->call->saved[BT_RING_SAVED_QKV]));
    BT_TRY(prepare(b));
    const bt_attention_view dk = bt_ring_packed(j, b->grad, 1, 0);
    const bt_attention_view own =
        b->own_keys ? bt_ring_blocked(j, bt_tensor_data(b->own_keys), j->shape.q_tokens, 1, 0) : dk;
    BT_TRY(visit_keys(b, 0, b->apart ? QUERIES : ALL, own, !b->begins));
    for (int step = 1; step < j->ring->size; ++step) {
        BT_TRY(remote_keys(b, step));
    }
    BT_TRY(takes(b) ? take_keys(b, dk) : give_keys(b, dk));
    return b->apart ? visit_keys(b, 0, KEYS, dk, true) : BT_OK;
}

bt_status bt_op_ring_attention_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *grad = NULL;
    bt_ring_job j;
    bt_ring_job_fill(&j, context, call->attrs, call->saved[BT_RING_SAVED_QKV]);
    BT_TRY(bt_grad_target(context, call, 0, &grad));
    backward all = {.job = &j, .call = call, .grad = grad};
    all.lse.all = call->saved[BT_RING_SAVED_LSE];
    bt_status status = run_backward(&all);
    bt_tensor_release(all.lse.chunk);
    bt_tensor_release(all.delta.chunk);
    bt_tensor_release(all.delta.all);
    bt_tensor_release(all.own_keys);
    bt_mem_free((void *)all.blocks);
    bt_ring_job_close(&j);
    return status;
}
