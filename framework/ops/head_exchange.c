// framework/ops/head_exchange.c - exchanges tokens of all heads for heads of all tokens, and back
//
//   share_heads   x [B, T, all heads D] -> y [B, U T, own heads D]     dx = share_tokens(dy)
//   share_tokens  x [B, U T, own heads D] -> y [B, T, all heads D]     dx = share_heads(dy)
//
// for U ranks of which each has T tokens of the same sequences, in two halves: the U first halves
// of the ranks come before the second ones. Heads are distributed by groups (of queries that share
// a key), balanced; a tensor has several parts side by side (queries, keys, values), whose heads
// are distributed in the same way.
//
// Invariants
//   1. Elements are only moved, so bits do not change.
//   2. The message from rank r to rank q holds [B, T, the heads of q D], in a slot of the size of
//      the largest; rank r has tokens, rank q heads, or, in share_tokens, the reverse.
#include "framework/ops/collective.h"

#include <assert.h>

typedef bt_head_layout layout;

static const bt_attr_field head_exchange_fields[] = {
    // The size of the pointer is wanted. NOLINTNEXTLINE(bugprone-sizeof-expression)
    BT_ATTR(bt_head_exchange_attrs, group, POINTER),
    BT_ATTR(bt_head_exchange_attrs, layout.parts, INT),
    BT_ATTR(bt_head_exchange_attrs, layout.heads, I64),
    BT_ATTR(bt_head_exchange_attrs, layout.groups, I64)};
const bt_op_attrs bt_attrs_head_exchange =
    BT_OP_ATTRS(bt_head_exchange_attrs, head_exchange_fields);

// One call.
typedef struct exchange {
    bt_context *context;
    bt_group *group; // NULL: one rank
    const layout *heads;
    int size, rank;
    int64_t batch, tokens, dim; // tokens: of a rank
    bt_dtype dtype;
    bt_tensor *sent, *received; // owned [size, slot]
    int64_t slot;               // elements
} exchange;

static int64_t first_group(const layout *l, int size, int rank)
{
    return l->groups / size * rank + l->groups % size * rank / size;
}

int64_t bt_head_count(const bt_head_layout *l, int part, int size, int rank)
{
    return l->heads[part] / l->groups *
           (first_group(l, size, rank + 1) - first_group(l, size, rank));
}

static int64_t all_heads(const layout *l)
{
    int64_t sum = 0;
    for (int part = 0; part < l->parts; ++part) {
        sum += l->heads[part];
    }
    return sum;
}

// Width of all parts.
static int64_t own_heads(const layout *l, int size, int rank)
{
    int64_t sum = 0;
    for (int part = 0; part < l->parts; ++part) {
        sum += bt_head_count(l, part, size, rank);
    }
    return sum;
}

static int size_of(const bt_head_exchange_attrs *attrs)
{
    return attrs->group ? attrs->group->size : 1;
}

static int rank_of(const bt_head_exchange_attrs *attrs)
{
    return attrs->group ? attrs->group->rank : 0;
}

static char *at(const exchange *e, void *base, int64_t elements)
{
    return (char *)base + elements * (int64_t)bt_dtype_size(e->dtype);
}

// A slot [B, 2, T / 2, width], or [B, 1, T, width] of an odd T on one rank.
static bt_status copy(const exchange *e, int64_t width, const void *x, const int64_t *x_stride,
                      void *y, const int64_t *y_stride)
{
    const int64_t halves = e->tokens % 2 == 0 ? 2 : 1;
    bt_copy_args args = {.rank = 4,
                         .shape = {e->batch, halves, e->tokens / halves, width},
                         .x = x,
                         .x_dtype = e->dtype,
                         .y = y,
                         .y_dtype = e->dtype};
    for (int i = 0; i < 4; ++i) {
        args.x_stride[i] = x_stride[i];
        args.y_stride[i] = y_stride[i];
    }
    return bt_context_launch(e->context, BT_KERNEL_COPY, e->dtype, &args);
}

// Strides of rows of `width` elements, where the halves are `half` tokens apart, in a batch of
// `tokens`.
#define STRIDES(tokens, half, width)                                                               \
    ((const int64_t[]){(tokens) * (width), (half) * (width), (width), 1})

// Copies between own heads of all tokens, and slots by rank.
static bt_status move_tokens(const exchange *e, void *whole, bt_tensor *slots, bool gather)
{
    const int64_t width = own_heads(e->heads, e->size, e->rank) * e->dim;
    const int64_t half = e->tokens % 2 == 0 ? e->tokens / 2 : e->tokens;
    for (int r = 0; r < e->size; ++r) {
        void *slot = at(e, bt_tensor_data(slots), r * e->slot);
        void *place = at(e, whole, r * half * width);
        const int64_t *of_slot = STRIDES(e->tokens, half, width);
        const int64_t *of_whole = STRIDES(e->size * e->tokens, e->size * half, width);
        BT_TRY(gather ? copy(e, width, slot, of_slot, place, of_whole)
                      : copy(e, width, place, of_whole, slot, of_slot));
    }
    return BT_OK;
}

// Copies between all heads of own tokens, and slots by rank.
static bt_status move_heads(const exchange *e, void *whole, bt_tensor *slots, bool gather)
{
    const int64_t row = all_heads(e->heads) * e->dim;
    const int64_t half = e->tokens % 2 == 0 ? e->tokens / 2 : e->tokens;
    for (int q = 0; q < e->size; ++q) {
        const int64_t width = own_heads(e->heads, e->size, q) * e->dim;
        int64_t in_slot = 0, in_row = 0;
        for (int part = 0; part < e->heads->parts; ++part) {
            const int64_t each = e->heads->heads[part] / e->heads->groups;
            const int64_t first = in_row + each * first_group(e->heads, e->size, q) * e->dim;
            const int64_t count = bt_head_count(e->heads, part, e->size, q) * e->dim;
            void *slot = at(e, bt_tensor_data(slots), q * e->slot + in_slot);
            void *place = at(e, whole, first);
            const int64_t *of_slot = STRIDES(e->tokens, half, width);
            const int64_t *of_whole = STRIDES(e->tokens, half, row);
            BT_TRY(gather ? copy(e, count, slot, of_slot, place, of_whole)
                          : copy(e, count, place, of_whole, slot, of_slot));
            in_slot += count;
            in_row += e->heads->heads[part] * e->dim;
        }
    }
    return BT_OK;
}

static bt_status run(exchange *e, bool to_heads, const bt_tensor *x, const bt_tensor *y)
{
    void *from = bt_tensor_data(x), *to = bt_tensor_data(y);
    BT_TRY(
        bt_tensor_create(e->context, e->dtype, BT_SHAPE(e->size, e->slot), "heads sent", &e->sent));
    BT_TRY(bt_tensor_create(e->context, e->dtype, BT_SHAPE(e->size, e->slot), "heads received",
                            &e->received));
    BT_TRY(to_heads ? move_heads(e, from, e->sent, false) : move_tokens(e, from, e->sent, false));
    if (e->size > 1) {
        bt_range_push(e->context, "communication");
        bt_status status =
            bt_all_to_all(e->group, bt_tensor_data(e->sent), bt_tensor_data(e->received),
                          e->slot * (int64_t)bt_dtype_size(e->dtype), e->context->stream);
        bt_range_pop(e->context);
        BT_TRY(status);
    }
    bt_tensor *arrived = e->size > 1 ? e->received : e->sent;
    return to_heads ? move_tokens(e, to, arrived, true) : move_heads(e, to, arrived, true);
}

// y = x in the other layout. `tokens`: of a rank.
static bt_status exchange_heads(bt_context *context, const bt_head_exchange_attrs *attrs,
                                bool to_heads, int64_t tokens, const bt_tensor *x,
                                const bt_tensor *y)
{
    const layout *l = &attrs->layout;
    const int64_t heads = all_heads(l);
    const bt_tensor *by_tokens = to_heads ? x : y;
    assert(heads > 0); // others are rejected when the call is inferred
    exchange e = {.context = context,
                  .group = attrs->group,
                  .heads = l,
                  .size = size_of(attrs),
                  .rank = rank_of(attrs),
                  .batch = x->shape.size[0],
                  .tokens = tokens,
                  .dim = by_tokens->shape.size[2] / heads,
                  .dtype = x->dtype};
    for (int rank = 0; rank < e.size; ++rank) {
        const int64_t elements = e.batch * tokens * own_heads(l, e.size, rank) * e.dim;
        e.slot = elements > e.slot ? elements : e.slot;
    }
    const int64_t whole = 256 / (int64_t)bt_dtype_size(e.dtype); // slots begin at aligned offsets
    e.slot = (e.slot + whole - 1) / whole * whole;
    bt_status status = run(&e, to_heads, x, y);
    bt_tensor_release(e.sent);
    bt_tensor_release(e.received);
    return status;
}

// ---- the ops ------------------------------------------------------------------------------------

// x has all heads, or this rank's.
static bt_status expect_layout(const bt_op_call *call, bool all)
{
    const layout *l = &BT_ATTRS(call, head_exchange)->layout;
    const bt_tensor *x = call->in[0];
    const int size = size_of(call->attrs);
    char text[BT_SHAPE_TEXT_BYTES];
    bool fits = l->parts >= 1 && l->parts <= BT_HEAD_PARTS && l->groups >= 1;
    for (int part = 0; fits && part < l->parts; ++part) {
        fits = l->heads[part] >= l->groups && l->heads[part] % l->groups == 0;
    }
    if (!fits || l->groups < size) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld heads (of keys, if these are fewer) for %d ranks: each rank needs "
                        "one, and the heads of queries are a multiple",
                        (long long)l->groups, size);
    }
    const int64_t heads = all ? all_heads(l) : own_heads(l, size, rank_of(call->attrs));
    if (x->shape.rank != 3 || x->shape.size[2] % heads != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "x of shape %s; expected [B, T, %lld * head size]",
                        bt_shape_text(&x->shape, text), (long long)heads);
    }
    return BT_OK;
}

bt_status bt_op_share_heads_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    const layout *l = &BT_ATTRS(call, head_exchange)->layout;
    const int size = size_of(call->attrs);
    BT_TRY(bt_op_expect_float(call, 0));
    BT_TRY(expect_layout(call, true));
    if (size > 1 && x->shape.size[1] % 2 != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld tokens on each of %d ranks: allowed is "
                        "an even number",
                        (long long)x->shape.size[1], size);
    }
    const int64_t dim = x->shape.size[2] / all_heads(l);
    call->out_spec[0] =
        (bt_op_spec){x->dtype, BT_SHAPE(x->shape.size[0], size * x->shape.size[1],
                                        own_heads(l, size, rank_of(call->attrs)) * dim)};
    return BT_OK;
}

bt_status bt_op_share_heads_forward(bt_context *context, bt_op_call *call)
{
    return exchange_heads(context, call->attrs, true, call->in[0]->shape.size[1], call->in[0],
                          call->out[0]);
}

bt_status bt_op_share_heads_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    return exchange_heads(context, call->attrs, false, dx->shape.size[1], call->dout[0], dx);
}

bt_status bt_op_share_tokens_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    const layout *l = &BT_ATTRS(call, head_exchange)->layout;
    const int size = size_of(call->attrs);
    BT_TRY(bt_op_expect_float(call, 0));
    BT_TRY(expect_layout(call, false));
    const int64_t own = own_heads(l, size, rank_of(call->attrs));
    if (x->shape.size[1] % size != 0 || (size > 1 && x->shape.size[1] % (2 * size) != 0)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld tokens for %d ranks: allowed is a multiple of %d",
                        (long long)x->shape.size[1], size, 2 * size);
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, BT_SHAPE(x->shape.size[0], x->shape.size[1] / size,
                                                        x->shape.size[2] / own * all_heads(l))};
    return BT_OK;
}

bt_status bt_op_share_tokens_forward(bt_context *context, bt_op_call *call)
{
    return exchange_heads(context, call->attrs, false, call->out[0]->shape.size[1], call->in[0],
                          call->out[0]);
}

bt_status bt_op_share_tokens_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    return exchange_heads(context, call->attrs, true, call->dout[0]->shape.size[1], call->dout[0],
                          dx);
}

bt_status bt_share_heads(bt_context *context, struct bt_group *group, bt_tensor *x,
                         const bt_head_layout *heads, bt_tensor **out)
{
    const bt_head_exchange_attrs attrs = {.group = group, .layout = *heads};
    return bt_op_apply(context, BT_OP_SHARE_HEADS, &attrs, &x, 1, out);
}

bt_status bt_share_tokens(bt_context *context, struct bt_group *group, bt_tensor *x,
                          const bt_head_layout *heads, bt_tensor **out)
{
    const bt_head_exchange_attrs attrs = {.group = group, .layout = *heads};
    return bt_op_apply(context, BT_OP_SHARE_TOKENS, &attrs, &x, 1, out);
}
