// framework/train/step.c - a training step: gradients of all micro-batches, their norm, the update
#include <math.h>

#include "framework/train/trainer.h"

bt_batch bt_step_batch(const bt_trainer *t, const bt_feed *feed, int64_t i)
{
    const bt_feed_batch *tokens = &feed->batches[i];
    return (bt_batch){
        .count = t->positions ? 3 : 2,
        .items = {{"ids", tokens->ids}, {"targets", tokens->targets}, {"positions", t->positions}}};
}

static bt_status keep_loss(bt_trainer *t, int64_t i, const bt_tensor *loss)
{
    bt_device *device = &t->session.device;
    return device->backend->copy(device, (float *)bt_tensor_data(t->losses) + i,
                                 bt_tensor_data(loss), sizeof(float), BT_COPY_DEVICE_TO_DEVICE,
                                 t->session.context.stream);
}

static bt_status forward_backward(bt_trainer *t, int64_t i, const bt_batch *batch, bt_tensor **loss)
{
    bt_context *context = &t->session.context;
    if (bt_trainer_runs_compiled(t)) {
        BT_TRY(bt_compiled_step_run(t->compiled, batch, loss));
        return keep_loss(t, i, *loss);
    }
    bt_range_push(context, "forward");
    bt_status status = bt_model_loss(context, &t->model, batch, loss);
    bt_range_pop(context);
    status = status ? status : keep_loss(t, i, *loss);
    if (status == BT_OK && t->parallel) {
        bt_data_parallel_ids(t->parallel, i, bt_feed_ids(&t->feed, i),
                             bt_tensor_count(batch->items[0].tensor));
        status = bt_data_parallel_begin(t->parallel, i);
    }
    if (status == BT_OK) {
        bt_range_push(context, "backward");
        status = bt_backward(context, *loss, NULL);
        bt_range_pop(context);
    }
    return status;
}

static bt_status micro_step(bt_trainer *t, int64_t i)
{
    const bt_feed_batch *tokens = &t->feed.batches[i];
    const bt_batch batch = bt_step_batch(t, &t->feed, i);
    bt_tensor *loss = NULL;
    BT_TRY(bt_trace_micro(&t->trace, &t->session.context, i, tokens->ids, tokens->targets));
    t->session.context.tape = t->session.tape;
    bt_status status = forward_backward(t, i, &batch, &loss);
    if (status == BT_OK && t->parallel) {
        bt_range_push(&t->session.context, "reduce gradients");
        status = bt_data_parallel_end(t->parallel);
        bt_range_pop(&t->session.context);
    }
    bt_tensor_release(loss);
    t->session.context.tape = NULL;
    return status;
}

static bt_status micro_steps(bt_trainer *t)
{
    bt_status status = BT_OK;
    for (int64_t i = 0; i < t->accumulation && status == BT_OK; ++i) {
        status = micro_step(t, i);
    }
    return status;
}

bt_status bt_step_gradients(bt_trainer *t)
{
    BT_TRY(bt_feed_next(&t->feed));
    BT_TRY(micro_steps(t));
    return bt_feed_ahead(&t->feed);
}

bt_status bt_step_measure(bt_trainer *t)
{
    const double scale = 1.0 / (double)t->micro_batches;
    return t->parallel ? bt_data_parallel_measure(t->parallel, &t->optimizer, scale)
                       : bt_adamw_measure(&t->session.context, &t->optimizer, scale);
}

// The part of a step that depends on the step only through the batches: it is captured.
static bt_status gradients_and_norm(bt_trainer *t)
{
    BT_TRY(micro_steps(t));
    bt_range_push(&t->session.context, "optimizer");
    const bool in_parts = t->parallel && bt_data_parallel_is_sharded(t->parallel);
    bt_status status =
        in_parts ? BT_OK : bt_trace_gradients(&t->trace, &t->session.context, &t->params);
    status = status == BT_OK ? bt_step_measure(t) : status;
    bt_range_pop(&t->session.context);
    return status;
}

static bt_status give_gradients_and_norm(bt_trainer *t, bt_train_launch launch)
{
    bool captured = launch == BT_TRAIN_LAUNCH_GRAPH;
    BT_TRY(bt_feed_next(&t->feed));
    if (launch == BT_TRAIN_LAUNCH_CAPTURE) {
        BT_TRY(bt_step_graph_capture(t, gradients_and_norm, &captured));
    }
    BT_TRY(captured ? bt_step_graph_launch(t) : gradients_and_norm(t));
    return bt_feed_ahead(&t->feed);
}

// Whether the policy allows the update. Waits for the device under every policy except CONTINUE.
static bt_status may_update(bt_trainer *t, bool *allowed)
{
    *allowed = true;
    if (t->plan->on_nonfinite != BT_TRAIN_POLICY_CONTINUE) {
        BT_TRY(bt_step_read(t));
        *allowed = bt_step_is_finite(t);
    }
    return BT_OK;
}

static bt_status update(bt_trainer *t, double lr)
{
    bool allowed = true;
    BT_TRY(may_update(t, &allowed));
    BT_TRY(bt_keep_await(t));
    if (allowed) {
        return t->parallel ? bt_data_parallel_update(t->parallel, &t->optimizer, lr)
                           : bt_adamw_update(&t->session.context, &t->optimizer, lr);
    }
    bt_adamw_skip(&t->optimizer);
    return BT_OK;
}

bt_status bt_step_work(bt_trainer *t, double lr, bt_train_launch launch)
{
    bt_range_push(&t->session.context, "step");
    bt_status status = give_gradients_and_norm(t, launch);
    if (status == BT_OK) {
        bt_range_push(&t->session.context, "optimizer");
        status = update(t, lr);
        bt_range_pop(&t->session.context);
    }
    bt_range_pop(&t->session.context);
    return status;
}

bt_status bt_step_read(bt_trainer *t)
{
    double sum = 0;
    bt_ranges_push(t->session.context.ranges, "wait for the device");
    bt_status status = bt_ranks_read_losses(t);
    if (status == BT_OK) {
        status = bt_tensor_read(&t->session.context, t->optimizer.norm, &t->grad_norm);
    }
    bt_ranges_pop(t->session.context.ranges);
    for (int64_t i = 0; i < t->micro_batches; ++i) {
        sum += (double)t->host_losses[i];
    }
    t->loss = (float)(sum / (double)t->micro_batches);
    return status;
}

bool bt_step_is_finite(const bt_trainer *t) { return isfinite(t->loss) && isfinite(t->grad_norm); }

bt_status bt_step_again(bt_trainer *t, int64_t step)
{
    bt_pool_step_begin(t->session.pool, BT_MEMORY_TRAINING);
    bt_status status = bt_step_work(t, bt_schedule_rate(&t->schedule, step), BT_TRAIN_LAUNCH_OFF);
    status = status == BT_OK ? bt_step_read(t) : status;
    bt_pool_step_end(t->session.pool);
    return status;
}
