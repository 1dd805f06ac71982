// framework/train/graph.c - gradients and norm of a step, captured once as a device graph
//
// A step launches the same kernels at the same addresses each time, once the pool's plan is frozen
// (bt_pool_step_frozen). Then it is captured: the host runs the step as usual, the device only
// records it. Later steps launch the graph, without host work per kernel.
//
// Invariants
//   1. Captured work depends on the step only through the batches, which have fixed addresses
//      (feed.h). The update is launched after the graph: learning rate and step number are
//      arguments of its kernel, and an on_nonfinite policy may skip it.
//   2. A replay neither allocates nor frees. It uses the arena, which nothing else uses during a
//      step, and memory that lives as long as the trainer.
//   3. The optimizer's list of gradients is that of the capture. Code that sets another list must
//      drop the graph.
// Not captured: steps with host work (anomaly, traced values, block_offload), profiled steps, steps
// on several ranks, all steps after a failed capture, and steps with kernels that take a random
// seed as an argument (dropout), since a replay would repeat the random numbers.
//
// bt_train_step.launch reports how a step ran; launch_time_ns is the host time to submit a step.
// Step times are event times around the whole step in every mode.
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/train/trainer.h"

static const struct {
    const char *name, *meaning;
} launches[] =
    {
#define BT_TRAIN_LAUNCH_ROW(name, text, meaning) {text, meaning},
        BT_TRAIN_LAUNCH_LIST(BT_TRAIN_LAUNCH_ROW)
#undef BT_TRAIN_LAUNCH_ROW
},
  graphs[] = {
#define BT_TRAIN_GRAPH_ROW(name, text, meaning) {text, meaning},
      BT_TRAIN_GRAPH_LIST(BT_TRAIN_GRAPH_ROW)
#undef BT_TRAIN_GRAPH_ROW
};

const char *bt_train_launch_name(bt_train_launch launch)
{
    return (unsigned)launch < BT_TRAIN_LAUNCH_COUNT ? launches[launch].name : "unknown";
}

bool bt_train_graph_parse(const char *name, bt_train_graph *graph)
{
    for (int i = 0; i < BT_TRAIN_GRAPH_COUNT; ++i) {
        if (strcmp(graphs[i].name, name) == 0) {
            *graph = (bt_train_graph)i;
            return true;
        }
    }
    return false;
}

// ---- when to capture ----------------------------------------------------------------------------

bt_train_launch bt_step_graph_choose(const bt_trainer *t, bool profiled)
{
    const bt_train_plan *plan = t->plan;
    const uint64_t frozen = bt_pool_step_frozen(t->session.pool, BT_MEMORY_TRAINING);
    const bool has_graphs = t->session.device.backend->graph_begin != NULL;
    const struct {
        bool holds;
        bt_train_launch launch;
    } rules[] = {
        {plan->graph == BT_TRAIN_GRAPH_OFF || (plan->graph == BT_TRAIN_GRAPH_AUTO && !has_graphs),
         BT_TRAIN_LAUNCH_OFF},
        {!has_graphs, BT_TRAIN_LAUNCH_DEVICE},
        {t->parallel != NULL, BT_TRAIN_LAUNCH_RANKS},
        {plan->anomaly || t->observer->value || plan->recompute == BT_RECOMPUTE_BLOCK_OFFLOAD,
         BT_TRAIN_LAUNCH_HOST},
        {t->graph.failed, BT_TRAIN_LAUNCH_FAILED},
        {profiled, BT_TRAIN_LAUNCH_PROFILED},
        {frozen == 0, BT_TRAIN_LAUNCH_MEMORY},
        {!t->graph.captured || t->graph.frozen != frozen, BT_TRAIN_LAUNCH_CAPTURE},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
        if (rules[i].holds) {
            return rules[i].launch;
        }
    }
    return BT_TRAIN_LAUNCH_GRAPH;
}

// ---- capturing ----------------------------------------------------------------------------------

static bool draws(bt_kernel_op op, const void *args)
{
    return (op == BT_KERNEL_DROPOUT && ((const bt_dropout_args *)args)->rate > 0) ||
           (op == BT_KERNEL_ATTENTION && ((const bt_attention_args *)args)->shape.dropout > 0) ||
           (op == BT_KERNEL_ATTENTION_BACKWARD &&
            ((const bt_attention_backward_args *)args)->shape.dropout > 0);
}

void bt_step_graph_hear(bt_trainer *t, const bt_kernel *kernel, const void *args)
{
    if (t->graph.capturing) {
        ++t->graph.kernels;
        t->graph.draws = t->graph.draws || draws(kernel->op, args);
    }
}

void bt_step_graph_drop(bt_trainer *t)
{
    bt_device *device = &t->session.device;
    if (t->graph.captured) {
        device->backend->graph_destroy(device, t->graph.captured);
    }
    t->graph.captured = NULL;
}

// The host's part of a step that is replayed.
static void undo(bt_trainer *t)
{
    t->session.context.tape = NULL;
    bt_tape_reset(t->session.tape);
    bt_params_clear_grads(&t->params);
    t->graph.failed = true;
}

bt_status bt_step_graph_capture(bt_trainer *t, bt_status (*work)(bt_trainer *), bool *captured)
{
    bt_device *device = &t->session.device;
    bt_step_graph *graph = &t->graph;
    const int64_t start_ns = bt_clock_ns();
    *captured = false;
    bt_step_graph_drop(t);
    graph->kernels = 0;
    graph->draws = false;
    graph->frozen = bt_pool_step_frozen(t->session.pool, BT_MEMORY_TRAINING);
    BT_TRY(device->backend->graph_begin(device, t->session.context.stream));
    graph->capturing = true;
    bt_status status = work(t);
    graph->capturing = false;
    if (status == BT_OK) {
        status = device->backend->graph_end(device, t->session.context.stream, &graph->captured);
    } else { // the error of the work is more specific than that of the broken capture
        bt_error_quiet_begin();
        (void)!device->backend->graph_end(device, t->session.context.stream, &graph->captured);
        bt_error_quiet_end();
    }
    graph->capture_ns = bt_clock_ns() - start_ns;
    if (status == BT_OK && graph->draws) {
        status =
            bt_error(BT_STATUS_UNSUPPORTED, "the seed of dropout is an argument of its kernel");
    }
    *captured = status == BT_OK;
    if (status != BT_OK) {
        (void)snprintf(graph->why, sizeof graph->why, "%s", bt_error_message());
        bt_error_clear();
        bt_step_graph_drop(t);
        undo(t);
    }
    return BT_OK;
}

bt_status bt_step_graph_launch(bt_trainer *t)
{
    bt_device *device = &t->session.device;
    return bt_error_context(
        device->backend->graph_launch(device, t->graph.captured, t->session.context.stream),
        "the captured step");
}

// ---- reporting ----------------------------------------------------------------------------------

bt_status bt_step_graph_report(bt_trainer *t, int64_t step, bt_train_launch launch)
{
    char message[BT_ERROR_CAPACITY];
    if (!t->observer->mode || (t->graph.told && t->graph.last == launch)) {
        return BT_OK;
    }
    t->graph.told = true;
    t->graph.last = launch;
    (void)snprintf(message, sizeof message, "%s", launches[launch].meaning);
    const size_t length = strlen(message);
    if (launch == BT_TRAIN_LAUNCH_CAPTURE) {
        (void)snprintf(message + length, sizeof message - length, "; %lld kernels%s, %.1f ms",
                       (long long)t->graph.kernels,
                       bt_trainer_has_groups(t) ? " and the generated ones" : "",
                       (double)t->graph.capture_ns * 1e-6);
    } else if (launch == BT_TRAIN_LAUNCH_FAILED) {
        (void)snprintf(message + length, sizeof message - length, ": %s", t->graph.why);
    }
    const bt_train_mode event = {step, launch, message};
    return t->observer->mode(t->observer->self, &event);
}
