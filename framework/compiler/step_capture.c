// framework/compiler/step_capture.c - captures the graph of a model's step and the sources of its
// inputs
#include <stdio.h>
#include <string.h>

#include "framework/autograd/tape.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/step_parts.h"

static void refuse(bt_step_variant *v, const char *why)
{
    if (!v->kind.reason[0]) {
        (void)snprintf(v->kind.reason, sizeof v->kind.reason, "%s", why);
    }
}

// ---- capturing the step without launches --------------------------------------------------------

static bt_status run_dry(const bt_compiled_step *step, const bt_batch *batch,
                         bt_dag_capture *capture, bt_tensor **loss)
{
    BT_TRY(bt_model_loss(step->context, step->model, batch, loss));
    BT_TRY(capture->status ? BT_OK : bt_dag_capture_output(capture, *loss));
    return bt_backward(step->context, *loss, NULL);
}

// Does the step write the tensor, which existed before?
static bool is_written(const bt_dag_capture *capture, const bt_tensor *tensor)
{
    int64_t offset_bytes = 0;
    const int value = bt_dag_capture_value(capture, tensor, &offset_bytes);
    return value >= 0 && capture->graph.values[value].producer >= 0;
}

// The tensor is a whole storage that the graph makes or adds to, and an output.
static int output_of(bt_step_variant *v, bt_dag_capture *capture, const bt_tensor *tensor)
{
    int64_t offset_bytes = 0;
    const int value = bt_dag_capture_value(capture, tensor, &offset_bytes);
    const bt_dag *graph = &capture->graph;
    if (value < 0 || offset_bytes != 0 || !bt_tensor_is_contiguous(tensor) ||
        bt_tensor_bytes(tensor) != tensor->storage->size_bytes) {
        refuse(v, "a gradient is a part of a larger tensor");
        return -1;
    }
    if (graph->values[value].producer < 0) {
        refuse(v, "a gradient is an input of the step");
        return -1;
    }
    if (bt_dag_output(&capture->graph, value)) {
        refuse(v, bt_error_message());
        return -1;
    }
    return value;
}

static void find_outputs(const bt_compiled_step *step, bt_step_variant *v, bt_dag_capture *capture,
                         const bt_tensor *loss)
{
    const bt_params *params = step->model->params;
    v->loss = output_of(v, capture, loss);
    for (int64_t i = 0; i < params->count && !v->kind.reason[0]; ++i) {
        const bt_tensor *grad = params->items[i].value->grad;
        const bool changes = grad && (!v->had[i] || is_written(capture, grad));
        v->gradients[i] = changes ? output_of(v, capture, grad) : -1;
        for (int64_t k = 0; k < i && changes; ++k) {
            if (v->gradients[k] == v->gradients[i]) {
                refuse(v, "two parameters share a gradient");
            }
        }
    }
}

// ---- sources ------------------------------------------------------------------------------------

static bool find_source(const bt_compiled_step *step, const bt_batch *batch,
                        const bt_dag_capture *capture, uint64_t serial, bt_step_source *out)
{
    const bt_params *params = step->model->params;
    for (int i = 0; i < batch->count; ++i) {
        if (batch->items[i].tensor->storage->serial == serial) {
            *out = (bt_step_source){BT_STEP_BATCH, out->value, i, NULL};
            return true;
        }
    }
    for (int i = 0; i < (int)params->count; ++i) {
        const bt_tensor *value = params->items[i].value;
        if (value->storage->serial == serial) {
            *out = (bt_step_source){BT_STEP_PARAMETER, out->value, i, NULL};
            return true;
        }
        if (value->grad && value->grad->storage->serial == serial) {
            *out = (bt_step_source){BT_STEP_GRADIENT, out->value, i, NULL};
            return true;
        }
    }
    bt_tensor *source = bt_dag_capture_source(capture, out->value);
    *out = (bt_step_source){BT_STEP_CONSTANT, out->value, 0, source};
    return source != NULL;
}

static bt_status find_sources(const bt_compiled_step *step, const bt_batch *batch,
                              const bt_dag_capture *capture, const bt_dag *graph,
                              bt_step_variant *v)
{
    void *sources = NULL;
    BT_TRY(bt_mem_alloc((size_t)graph->value_count + 1, sizeof *v->sources, &sources));
    v->sources = sources;
    for (int i = 0; i < graph->value_count; ++i) {
        bt_step_source source = {.value = i};
        if (graph->values[i].producer != -1) {
            continue;
        }
        if (!find_source(step, batch, capture, graph->values[i].serial, &source)) {
            refuse(v, "the host writes a tensor during the step");
            return BT_OK;
        }
        if (source.constant) {
            (void)bt_tensor_retain(source.constant);
        }
        v->sources[v->source_count++] = source;
    }
    return BT_OK;
}

static void refuse_dropout(bt_step_variant *v)
{
    for (int i = 0; i < v->graph.node_count; ++i) {
        const bt_dag_node *node = &v->graph.nodes[i];
        const bool drops = node->op == BT_KERNEL_DROPOUT ||
                           (node->op == BT_KERNEL_ATTENTION &&
                            ((const bt_attention_args *)node->args)->shape.dropout > 0);
        if (drops) {
            refuse(v, "its dropout mask would repeat");
        }
    }
}

// ---- capture ------------------------------------------------------------------------------------

static bt_status note_gradients(const bt_params *params, bt_step_variant *v)
{
    BT_TRY(BT_MEM_ARRAY(params->count + 1, &v->gradients));
    BT_TRY(BT_MEM_ARRAY(params->count + 1, &v->had));
    BT_TRY(BT_MEM_ARRAY(params->count + 1, &v->wanted));
    for (int64_t i = 0; i < params->count; ++i) {
        v->gradients[i] = -1;
        v->had[i] = params->items[i].value->grad != NULL;
        v->wanted[i] = params->items[i].value->requires_grad;
    }
    return BT_OK;
}

static bool is_in_batch(const bt_batch *batch, const bt_tensor *x)
{
    for (int i = 0; i < batch->count; ++i) {
        if (batch->items[i].tensor->storage == x->storage) {
            return true;
        }
    }
    return false;
}

static bool leaves_are_plain(const bt_compiled_step *step, const bt_batch *batch,
                             bt_step_variant *v)
{
    const bt_params *params = step->model->params;
    for (int64_t i = 0; i < params->count; ++i) {
        const bt_tensor *value = params->items[i].value;
        if (value->home || value->grad_hook.ready) {
            refuse(v, "gradients have their own memory or hooks (several ranks)");
            return false;
        }
        if (is_in_batch(batch, value)) {
            refuse(v, "a tensor of the batch is a parameter's memory");
            return false;
        }
    }
    return true;
}

// Batches and parameters change from step to step, whatever they contain now.
static void keep_constant_half_turns(bt_step_variant *v)
{
    for (int i = 0; i < v->source_count; ++i) {
        if (v->sources[i].kind != BT_STEP_CONSTANT) {
            v->half_turns[v->sources[i].value] = 0;
        }
    }
}

static bt_status capture_graph(bt_compiled_step *step, const bt_batch *batch, bt_step_variant *v,
                               bt_dag_capture *capture)
{
    bt_context *context = step->context;
    const bt_kernel_hook outside = context->kernel_hook;
    bt_tensor *loss = NULL;
    context->kernel_hook = (bt_kernel_hook){0};
    bt_status status = bt_dag_capture_begin(context, false, capture);
    if (status == BT_OK) {
        context->dry = true;
        status = run_dry(step, batch, capture, &loss);
        context->dry = false;
        if (status && context->tape) {
            bt_tape_reset(context->tape); // of what was recorded before the failure
        }
        if (status == BT_OK && !capture->status) {
            find_outputs(step, v, capture, loss);
        }
        const bt_status ended = bt_dag_capture_end(capture, &v->graph);
        if (ended == BT_STATUS_UNSUPPORTED && status == BT_OK) {
            refuse(v, bt_error_message());
            bt_error_clear();
        } else {
            status = status ? status : ended;
        }
    }
    if (status == BT_OK && !v->kind.reason[0]) {
        status = find_sources(step, batch, capture, &v->graph, v);
    }
    bt_tensor_release(loss);
    context->kernel_hook = outside;
    return status;
}

bt_status bt_step_capture(bt_compiled_step *step, const bt_batch *batch, bt_step_variant *v)
{
    const bt_params *params = step->model->params;
    bt_dag_capture capture;
    BT_TRY(note_gradients(params, v));
    if (!leaves_are_plain(step, batch, v)) {
        return BT_OK;
    }
    bt_status status = capture_graph(step, batch, v, &capture);
    if (status == BT_OK && !v->kind.reason[0]) {
        status = bt_dag_find_half_turns(&capture, &v->graph, &v->half_turns);
        if (status == BT_OK) {
            keep_constant_half_turns(v);
        }
    }
    for (int64_t i = 0; i < params->count; ++i) {
        if (!v->had[i]) {
            BT_TENSOR_RELEASE(params->items[i].value->grad);
        }
    }
    bt_dag_capture_release(&capture);
    BT_TRY(status);
    v->kind.calls = v->graph.node_count;
    refuse_dropout(v);
    return BT_OK;
}
