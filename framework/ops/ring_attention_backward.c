// framework/ops/ring_attention_backward.c - attention over ranks, backward: ring_attention.c
//
// Half of the work on own keys comes first and overlaps the transfer of the others' keys, the other
// half last and overlaps the transfer of gradients.
#include "framework/base/mem.h"
#include "framework/ops/ring_job.h"

// A part of a call: of the batch, or of the heads by groups that share a key.
typedef struct share {
    int64_t batch, batches, group, groups;
} share;

static share whole_of(const bt_ring_job *j)
{
    return (share){.batches = j->shape.batch, .groups = j->shape.kv_heads};
}

// One half may be empty.
static share half_of(const bt_ring_job *j, int half)
{
    share p = whole_of(j);
    int64_t *first = p.batches > 1 ? &p.batch : &p.group;
    int64_t *count = p.batches > 1 ? &p.batches : &p.groups;
    const int64_t middle = (*count + 1) / 2;
    *first = half ? middle : 0;
    *count = half ? *count - middle : middle;
    return p;
}

static void cut_view(bt_attention_view *v, const share *p, int64_t heads, bt_dtype dtype)
{
    v->base = bt_ring_place_at(
        v->base, p->batch * v->batch_stride + p->group * heads * v->head_stride, dtype);
}

static void cut_call(bt_attention_backward_args *args, const share *p)
{
    const int64_t heads = args->shape.heads / args->shape.kv_heads; // of a group
    bt_attention_view *const of_queries[] = {&args->q, &args->o, &args->d_o, &args->dq};
    bt_attention_view *const of_keys[] = {&args->k, &args->v, &args->dk, &args->dv};
    for (int i = 0; i < 4; ++i) {
        cut_view(of_queries[i], p, heads, args->dtype);
        cut_view(of_keys[i], p, 1, args->dtype);
    }
    args->lse =
        bt_ring_place_at((void *)(uintptr_t)args->lse,
                         (p->batch * args->shape.heads + p->group * heads) * args->shape.q_tokens,
                         args->dtype == BT_F64 ? BT_F64 : BT_F32);
    args->shape.batch = p->batches;
    args->shape.heads = p->groups * heads;
    args->shape.kv_heads = p->groups;
}

// One backward.
typedef struct backward {
    bt_ring_job *job;
    bt_op_backward *call;
    bt_tensor *grad; // of qkv
} backward;

// dk and dv of a part of one visit, and its share of dq, added unless it `begins` dq. `gradient`:
// where dk and dv are written, for the source's tokens; NULL: into the visit's own.
static bt_status visit_backward(const backward *b, const void *block, int source, int n,
                                void *gradient, share of, bool begins)
{
    bt_ring_job *j = b->job;
    bt_tensor *const *saved = b->call->saved;
    const bt_ring_visit *visit = &j->visits[n];
    void *lse = NULL;
    BT_TRY(bt_ring_lse(j, saved[BT_RING_SAVED_LSE], visit, &lse));
    void *dkv = gradient ? gradient : bt_tensor_data(j->k_part[n]);
    const int64_t tokens = gradient ? bt_ring_tokens(j, source) : visit->k_count;
    const int64_t token = gradient ? visit->k_begin : 0;
    bt_attention_backward_args args = {
        .q = bt_ring_packed(j, saved[BT_RING_SAVED_QKV], 0, visit->q_begin),
        .k = bt_ring_keys(j, saved[BT_RING_SAVED_QKV], block, source, 1, visit),
        .v = bt_ring_keys(j, saved[BT_RING_SAVED_QKV], block, source, 2, visit),
        .o = bt_ring_queries(j, saved[BT_RING_SAVED_Y], visit->q_begin),
        .d_o = bt_ring_queries(j, b->call->dout[0], visit->q_begin),
        .lse = lse,
        .dq = bt_ring_packed(j, b->grad, 0, visit->q_begin),
        .dk = bt_ring_blocked(j, dkv, tokens, 1, token),
        .dv = bt_ring_blocked(j, dkv, tokens, 2, token),
        .accumulate_dq = !begins,
        .shape = bt_ring_shape(j, visit),
        .compute = j->context->compute,
        .dtype = j->dtype};
    cut_call(&args, &of);
    return bt_context_launch(j->context, BT_KERNEL_ATTENTION_BACKWARD, j->dtype, &args);
}

// dq = 0 for a part of the sequences or heads.
static bt_status clear_dq(const backward *b, share of)
{
    const bt_ring_job *j = b->job;
    const bt_attention_shape *s = &j->shape;
    const int64_t heads = s->heads / s->kv_heads, pitch = b->grad->shape.size[2];
    const int64_t width = of.groups * heads * s->head_dim;
    bt_attention_view dq = bt_ring_packed(j, b->grad, 0, 0);
    bt_tensor *zero = NULL;
    cut_view(&dq, &of, heads, j->dtype);
    BT_TRY(bt_tensor_zeros(j->context, j->dtype, BT_SHAPE(width), "zeros", &zero));
    const bt_copy_args args = {.rank = 2,
                               .shape = {of.batches * s->q_tokens, width},
                               .x = bt_tensor_data(zero),
                               .x_stride = {0, 1}, // each row from the same zeros
                               .x_dtype = j->dtype,
                               .y = dq.base,
                               .y_stride = {pitch, 1},
                               .y_dtype = j->dtype};
    const bt_status status = bt_context_launch(j->context, BT_KERNEL_COPY, j->dtype, &args);
    bt_tensor_release(zero);
    return status;
}

// dk and dv of `count` tokens of a rank, from its token `first` on, as a part of their sum.
static bt_sum_parts_item part_of(bt_attention_view dkv, int64_t first, int64_t count)
{
    return (bt_sum_parts_item){.x = dkv.base,
                               .batch_stride = dkv.batch_stride,
                               .row_stride = dkv.token_stride,
                               .first = first,
                               .rows = count};
}

// The results of the visits to a rank's keys, as parts.
static int key_parts(const bt_ring_job *j, int source, bt_sum_parts_item *parts)
{
    for (int n = j->first[source]; n < j->first[source + 1]; ++n) {
        const bt_ring_visit *visit = &j->visits[n];
        parts[n - j->first[source]] =
            part_of(bt_ring_blocked(j, bt_tensor_data(j->k_part[n]), visit->k_count, 1, 0),
                    visit->k_begin, visit->k_count);
    }
    return j->first[source + 1] - j->first[source];
}

// dk and dv for another rank, summed in the send buffer.
static bt_status remote_backward(const backward *b, int step)
{
    bt_ring_job *j = b->job;
    const int source = bt_ring_source(j, step);
    const int count = j->first[source + 1] - j->first[source];
    const void *block = NULL;
    void *gradient = NULL;
    bt_sum_parts_item parts[BT_RING_VISITS];
    BT_TRY(j->ring->fetch(j->ring->self, j->context, step, &block));
    BT_TRY(j->ring->place(j->ring->self, j->context, step, &gradient));
    for (int n = j->first[source]; n < j->first[source + 1]; ++n) {
        BT_TRY(
            visit_backward(b, block, source, n, count == 1 ? gradient : NULL, whole_of(j), false));
    }
    if (count > 1) {
        const int64_t tokens = bt_ring_tokens(j, source);
        BT_TRY(bt_ring_sum_parts(j, parts, key_parts(j, source, parts),
                                 bt_ring_blocked(j, gradient, tokens, 1, 0), tokens));
    }
    return j->ring->give(j->ring->self, j->context, step);
}

// A rank's contribution to this rank's dk and dv: none, that of one visit, or the sum of several.
static int received(const bt_ring_job *j, int rank, const void *gradient, bt_sum_parts_item *part)
{
    bt_ring_visit visits[BT_RING_VISITS];
    const int count = bt_ring_visits(&j->mask, j->ring->size, rank, j->ring->rank, visits);
    const int64_t all = j->shape.q_tokens;
    if (count == 0) {
        return 0;
    }
    const int64_t first = count == 1 ? visits[0].k_begin : 0;
    *part = part_of(bt_ring_blocked(j, (void *)(uintptr_t)gradient, all, 1, first), first,
                    count == 1 ? visits[0].k_count : all);
    return 1;
}

// dk and dv of own tokens: the contributions of all ranks, by rank.
static bt_status sum_keys(const bt_ring_job *j, bt_attention_view out)
{
    const int size = j->ring->size;
    bt_sum_parts_item *parts = NULL;
    const void **gradients = NULL;
    int count = 0;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_ring_allocate(size + BT_RING_VISITS, sizeof *parts, &parts), done);
    BT_TRY_GOTO(bt_ring_allocate(size, sizeof *gradients, &gradients), done);
    if (size > 1) {
        BT_TRY_GOTO(j->ring->collect(j->ring->self, j->context, gradients), done);
    }
    for (int rank = 0; rank < size; ++rank) {
        count += rank == j->ring->rank ? key_parts(j, rank, &parts[count])
                                       : received(j, rank, gradients[rank], &parts[count]);
    }
    status = bt_ring_sum_parts(j, parts, count, out, j->shape.q_tokens);
done:
    bt_mem_free(parts);
    bt_mem_free((void *)gradients);
    return status;
}

// This rank's queries and keys: a part of all calls, of which the first may begin dq.
static bt_status own_backward(const backward *b, share of, bool begins)
{
    const bt_ring_job *j = b->job;
    const int own = j->ring->rank;
    for (int n = j->first[own]; n < j->first[own + 1] && of.batches > 0 && of.groups > 0; ++n) {
        BT_TRY(visit_backward(b, NULL, own, n, NULL, of, begins && n == j->first[own]));
    }
    return BT_OK;
}

static bt_status run_backward(const backward *b)
{
    bt_ring_job *j = b->job;
    BT_TRY(bt_ring_job_open(j, true));
    BT_TRY(bt_ring_send_own(j, b->call->saved[BT_RING_SAVED_QKV]));
    const bool alone = j->ring->size == 1, begins = bt_ring_begins(j);
    const share first = alone ? whole_of(j) : half_of(j, 0);
    BT_TRY(begins ? BT_OK : clear_dq(b, first));
    BT_TRY(own_backward(b, first, begins));
    BT_TRY(alone ? BT_OK : clear_dq(b, half_of(j, 1)));
    for (int step = 1; step < j->ring->size; ++step) {
        BT_TRY(remote_backward(b, step));
    }
    BT_TRY(alone ? BT_OK : own_backward(b, half_of(j, 1), false));
    return sum_keys(j, bt_ring_packed(j, b->grad, 1, 0));
}

bt_status bt_op_ring_attention_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *grad = NULL;
    bt_ring_job j;
    bt_ring_job_fill(&j, context, call->attrs, call->saved[BT_RING_SAVED_QKV]);
    BT_TRY(bt_grad_target(context, call, 0, &grad));
    const backward all = {&j, call, grad};
    bt_status status = run_backward(&all);
    bt_ring_job_close(&j);
    return status;
}
