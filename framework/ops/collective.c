// framework/ops/collective.c - collectives over a group of ranks, with their backward
//
//   all_reduce      y = sum over ranks of x     dx = dy
//   replicate       y = x                       dx = sum over ranks of dy
//   all_gather      y = x of all ranks          dx = sum over ranks of dy, this rank's part
//   reduce_scatter  y = this rank's part of     dx = dy of all ranks
//                   the sum over ranks of x
//
// These gradients assume a loss that all ranks have, that all ranks use the result of all_reduce
// identically, and that each rank uses the result of replicate differently.
//
// With an aside (aside.h) the sums of all_reduce's forward and replicate's backward overlap the
// context's stream; a replicate that waits has no group, and waits for a slot in its forward or
// backward.
//
// Invariants
//   1. Every rank makes the same calls in the same order, also in the backward: its order depends
//      on the tape alone.
//   2. Without a group, or with one rank, nothing is exchanged.
#include "framework/ops/collective.h"

typedef enum await_way { AWAIT_NONE, AWAIT_FORWARD, AWAIT_BACKWARD } await_way;

// The sizes of pointers are wanted. NOLINTBEGIN(bugprone-sizeof-expression)
static const bt_attr_field collective_fields[] = {
    BT_ATTR(bt_collective_attrs, group, POINTER), BT_ATTR(bt_collective_attrs, axis, INT),
    BT_ATTR(bt_collective_attrs, in_place, BOOL), BT_ATTR(bt_collective_attrs, aside, POINTER),
    BT_ATTR(bt_collective_attrs, slot, INT),      BT_ATTR(bt_collective_attrs, awaits, INT)};
// NOLINTEND(bugprone-sizeof-expression)
const bt_op_attrs bt_attrs_collective = BT_OP_ATTRS(bt_collective_attrs, collective_fields);

// The range in which a rank's computation waits for other ranks.
#define COMMUNICATION "communication"

static int ranks_of(const bt_collective_attrs *attrs)
{
    return attrs->group ? attrs->group->size : 1;
}

static bt_status sum_on(bt_group *group, bt_tensor *x, bt_stream stream)
{
    return bt_all_reduce(group, bt_tensor_data(x), bt_tensor_count(x), x->dtype, BT_REDUCE_SUM,
                         stream);
}

// On a GPU `await` waits for it; on the CPU it is complete when it returns.
static bt_status sum_aside(bt_context *context, const bt_collective_attrs *attrs, bt_tensor *x)
{
    const bool waits = !attrs->group->backend->on_gpu;
    bt_stream aside = NULL;
    BT_TRY(bt_aside_begin(attrs->aside, context, &aside));
    if (waits) {
        bt_range_push(context, COMMUNICATION);
    }
    const bt_status status = sum_on(attrs->group, x, aside);
    if (waits) {
        bt_range_pop(context);
    }
    BT_TRY(status);
    return bt_aside_end(attrs->aside, attrs->slot);
}

static bt_status sum_in_place(bt_context *context, const bt_collective_attrs *attrs, bt_tensor *x)
{
    bt_tensor_touch(x);
    if (ranks_of(attrs) == 1) {
        return BT_OK;
    }
    if (attrs->aside && !context->value_hook.made) { // a hook reads the result
        return sum_aside(context, attrs, x);
    }
    bt_range_push(context, COMMUNICATION);
    const bt_status status = sum_on(attrs->group, x, context->stream);
    bt_range_pop(context);
    return status;
}

static bt_status await(bt_context *context, const bt_collective_attrs *attrs, await_way way)
{
    if (attrs->awaits != (int)way) {
        return BT_OK;
    }
    bt_range_push(context, COMMUNICATION);
    const bt_status status = bt_aside_await(attrs->aside, context, attrs->slot);
    bt_range_pop(context);
    return status;
}

static bt_status view_whole(bt_tensor *x, bt_tensor **out)
{
    int64_t stride[BT_MAX_RANK];
    bt_shape_strides(&x->shape, stride);
    return bt_tensor_view(x, x->shape, stride, 0, out);
}

// ---- all_reduce ---------------------------------------------------------------------------------

bt_status bt_op_all_reduce_infer(bt_op_call *call)
{
    BT_TRY(bt_op_expect_float(call, 0));
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

bt_status bt_op_all_reduce_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *x = call->in[0];
    if (BT_ATTRS(call, collective)->in_place && bt_tensor_is_exclusive(x)) {
        BT_TRY(view_whole(x, &call->out[0]));
    } else {
        BT_TRY(bt_tensor_create(context, x->dtype, x->shape, "sum over ranks", &call->out[0]));
        BT_TRY(bt_tensor_copy(context, x, call->out[0]));
    }
    BT_TRY(sum_in_place(context, BT_ATTRS(call, collective), call->out[0]));
    return context->value_hook.made ? bt_op_tell_outputs(context, call) : BT_OK;
}

bt_status bt_op_all_reduce_backward(bt_context *context, bt_op_backward *call)
{
    (void)context;
    bt_grad_pass(call, 0, 0);
    return BT_OK;
}

bt_status bt_group_all_reduce(bt_context *context, struct bt_group *group, bt_tensor *x,
                              bool in_place, bt_tensor **out)
{
    const bt_collective_attrs attrs = {.group = group, .in_place = in_place};
    return bt_op_apply(context, BT_OP_ALL_REDUCE, &attrs, &x, 1, out);
}

// ---- replicate ----------------------------------------------------------------------------------

bt_status bt_op_replicate_infer(bt_op_call *call) { return bt_op_all_reduce_infer(call); }

bt_status bt_op_replicate_forward(bt_context *context, bt_op_call *call)
{
    BT_TRY(await(context, BT_ATTRS(call, collective), AWAIT_FORWARD));
    return view_whole(call->in[0], &call->out[0]);
}

bt_status bt_op_replicate_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(await(context, BT_ATTRS(call, collective), AWAIT_BACKWARD));
    BT_TRY(bt_grad_target_reusing(context, call, 0, 0, &dx));
    if (bt_tensor_data(dx) != bt_tensor_data(call->dout[0])) {
        BT_TRY(bt_tensor_copy(context, call->dout[0], dx));
    }
    return sum_in_place(context, BT_ATTRS(call, collective), dx);
}

bt_status bt_group_replicate(bt_context *context, struct bt_group *group, bt_tensor *x,
                             bt_tensor **out)
{
    const bt_collective_attrs attrs = {.group = group};
    return bt_op_apply(context, BT_OP_REPLICATE, &attrs, &x, 1, out);
}

// ---- overlapping products -----------------------------------------------------------------------

bt_status bt_group_all_reduce_aside(bt_context *context, struct bt_group *group, bt_tensor *x,
                                    bt_aside *aside, int slot, bt_tensor **out)
{
    const bt_collective_attrs attrs = {
        .group = group, .in_place = true, .aside = aside, .slot = slot};
    return bt_op_apply(context, BT_OP_ALL_REDUCE, &attrs, &x, 1, out);
}

bt_status bt_group_replicate_aside(bt_context *context, struct bt_group *group, bt_tensor *x,
                                   bt_aside *aside, int slot, bt_tensor **out)
{
    const bt_collective_attrs attrs = {.group = group, .aside = aside, .slot = slot};
    return bt_op_apply(context, BT_OP_REPLICATE, &attrs, &x, 1, out);
}

bt_status bt_group_await(bt_context *context, bt_tensor *x, bt_aside *aside, int slot,
                         bool in_backward, bt_tensor **out)
{
    const bt_collective_attrs attrs = {
        .aside = aside, .slot = slot, .awaits = in_backward ? AWAIT_BACKWARD : AWAIT_FORWARD};
    return bt_op_apply(context, BT_OP_REPLICATE, &attrs, &x, 1, out);
}

// ---- all_gather, reduce_scatter -----------------------------------------------------------------

// A tensor along whose axis the ranks' parts are placed: [before, ranks, part], part in elements.
typedef struct layout {
    int64_t before, ranks, part;
} layout;

static layout layout_of(const bt_tensor *whole, const bt_collective_attrs *attrs)
{
    layout at = {.before = 1, .ranks = ranks_of(attrs)};
    for (int i = 0; i < attrs->axis; ++i) {
        at.before *= whole->shape.size[i];
    }
    const int64_t count = bt_tensor_count(whole);
    at.part = count ? count / at.before / at.ranks : 0;
    return at;
}

// Copies between `whole` and `parts`, which has them consecutively: [ranks, before, part].
static bt_status rearrange(bt_context *context, const layout *at, bt_tensor *whole,
                           bt_tensor *parts, bool gathers)
{
    const bt_shape shape = BT_SHAPE(at->before, at->ranks, at->part);
    const int64_t apart[] = {at->part, at->before * at->part, 1};
    const int64_t dense[] = {at->ranks * at->part, at->part, 1};
    bt_tensor *from = NULL, *to = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_view(parts, shape, apart, 0, gathers ? &from : &to), done);
    BT_TRY_GOTO(bt_tensor_view(whole, shape, dense, 0, gathers ? &to : &from), done);
    status = bt_tensor_copy(context, from, to);
done:
    bt_tensor_release(from);
    bt_tensor_release(to);
    return status;
}

static bt_status exchange(bt_context *context, bt_group *group, const bt_tensor *part,
                          const bt_tensor *parts, bool gathers)
{
    bt_range_push(context, COMMUNICATION);
    const bt_status status =
        gathers
            ? bt_all_gather(group, bt_tensor_data(part), bt_tensor_data(parts),
                            (int64_t)bt_tensor_bytes(part), context->stream)
            : bt_reduce_scatter(group, bt_tensor_data(parts), bt_tensor_data(part),
                                bt_tensor_count(part), part->dtype, BT_REDUCE_SUM, context->stream);
    bt_range_pop(context);
    return status;
}

// whole = the ranks' parts, or part = this rank's part of the sum of the wholes.
static bt_status run(bt_context *context, const bt_collective_attrs *attrs, bt_tensor *whole,
                     bt_tensor *part, bool gathers)
{
    bt_group *group = attrs->group;
    const layout at = layout_of(whole, attrs);
    bt_tensor *parts = whole;
    bt_tensor_touch(gathers ? whole : part);
    if (at.ranks == 1) {
        return bt_tensor_copy(context, gathers ? part : whole, gathers ? whole : part);
    }
    if (at.before == 1) {
        return exchange(context, group, part, whole, gathers);
    }
    BT_TRY(bt_tensor_create(context, whole->dtype, whole->shape, "parts of ranks", &parts));
    bt_status status = gathers ? BT_OK : rearrange(context, &at, whole, parts, false);
    status = status ? status : exchange(context, group, part, parts, gathers);
    status = status || !gathers ? status : rearrange(context, &at, whole, parts, true);
    bt_tensor_release(parts);
    return status;
}

static bt_status infer(bt_op_call *call, bool gathers)
{
    const bt_collective_attrs *attrs = call->attrs;
    const int ranks = ranks_of(attrs), axis = attrs->axis;
    bt_shape shape = call->in[0]->shape;
    BT_TRY(bt_op_expect_float(call, 0));
    if (axis < 0 || axis >= shape.rank || (!gathers && shape.size[axis] % ranks != 0)) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "shape %s along axis %d over %d ranks; expected an axis that it has%s",
                        bt_shape_text(&shape, text), axis, ranks,
                        gathers ? "" : ", of a multiple of the ranks");
    }
    shape.size[axis] = gathers ? shape.size[axis] * ranks : shape.size[axis] / ranks;
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_all_gather_infer(bt_op_call *call) { return infer(call, true); }

bt_status bt_op_all_gather_forward(bt_context *context, bt_op_call *call)
{
    // If the input can be recomputed from a normalization's input, the gathered result is
    // recomputed too.
    call->remake = context->recompute >= BT_RECOMPUTE_GELU_LN;
    return run(context, call->attrs, call->out[0], call->in[0], true);
}

bt_status bt_op_all_gather_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    return run(context, call->attrs, call->dout[0], dx, false);
}

bt_status bt_group_all_gather(bt_context *context, struct bt_group *group, bt_tensor *x, int axis,
                              bt_tensor **out)
{
    const bt_collective_attrs attrs = {.group = group, .axis = axis};
    return bt_op_apply(context, BT_OP_ALL_GATHER, &attrs, &x, 1, out);
}

bt_status bt_op_reduce_scatter_infer(bt_op_call *call) { return infer(call, false); }

bt_status bt_op_reduce_scatter_forward(bt_context *context, bt_op_call *call)
{
    return run(context, call->attrs, call->in[0], call->out[0], false);
}

bt_status bt_op_reduce_scatter_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    return run(context, call->attrs, dx, call->dout[0], true);
}

bt_status bt_group_reduce_scatter(bt_context *context, struct bt_group *group, bt_tensor *x,
                                  int axis, bt_tensor **out)
{
    const bt_collective_attrs attrs = {.group = group, .axis = axis};
    return bt_op_apply(context, BT_OP_REDUCE_SCATTER, &attrs, &x, 1, out);
}
