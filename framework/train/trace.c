// framework/train/trace.c - names the values of a step and reports them
#include "framework/train/trace.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"

static const struct {
    const char *name;
} kinds[] = {
#define BT_TRAIN_VALUE_ROW(name, text, meaning) {text},
    BT_TRAIN_VALUE_LIST(BT_TRAIN_VALUE_ROW)
#undef BT_TRAIN_VALUE_ROW
};

const char *bt_train_value_name(bt_train_value_kind kind)
{
    return (unsigned)kind < BT_TRAIN_VALUE_COUNT ? kinds[kind].name : "unknown";
}

// ---- names --------------------------------------------------------------------------------------

// "h.3" of "h.3.attn.c_attn", "wte" of "wte": the first part, and the number after it.
static void layer_of(const char *module, char layer[BT_TRACE_LAYER_BYTES])
{
    size_t length = strcspn(module, ".");
    if (module[length] == '.') {
        const size_t digits = strspn(module + length + 1, "0123456789");
        length += digits > 0 ? 1 + digits : 0;
    }
    (void)snprintf(layer, BT_TRACE_LAYER_BYTES, "%.*s", (int)length, module);
}

static bt_status add_call(bt_trace *trace, bt_trace_call **out)
{
    if (trace->count == trace->capacity) {
        const int64_t capacity = trace->capacity ? 2 * trace->capacity : 64;
        void *block = trace->calls;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *trace->calls));
        trace->calls = block;
        trace->capacity = capacity;
    }
    *out = &trace->calls[trace->count++];
    return BT_OK;
}

static bt_status begin_call(bt_trace *trace, const bt_op_value *value, bt_trace_call **out)
{
    char module[BT_TRACE_NAME_BYTES - 64], name[BT_TRACE_NAME_BYTES];
    bt_trace_call *call = NULL;
    BT_TRY(add_call(trace, &call));
    call->op = value->op;
    if (value->parameter) {
        const char *last = strrchr(value->parameter, '.');
        const int length = last ? (int)(last - value->parameter) : (int)strlen(value->parameter);
        (void)snprintf(module, sizeof module, "%.*s", length, value->parameter);
        layer_of(module, call->layer);
    } else {
        (void)snprintf(call->layer, sizeof call->layer, "%s",
                       trace->count > 1 ? call[-1].layer : "input");
        (void)snprintf(module, sizeof module, "%s", call->layer);
    }
    (void)snprintf(name, sizeof name, "%s.%.48s", module, value->op);
    int64_t same = 1;
    for (int64_t i = 0; i + 1 < trace->count; ++i) {
        const size_t length = strcspn(trace->calls[i].name, "#");
        same += length == strlen(name) && memcmp(trace->calls[i].name, name, length) == 0;
    }
    (void)snprintf(call->name, sizeof call->name, same > 1 ? "%.140s#%lld" : "%.140s", name,
                   (long long)same);
    trace->open = trace->count;
    *out = call;
    return BT_OK;
}

// ---- reporting ----------------------------------------------------------------------------------

static bt_status tell(const bt_trace *trace, bt_context *context, bt_train_value *value,
                      const bt_tensor *tensor)
{
    value->step = trace->step;
    value->tensor = tensor;
    return trace->observer->value(trace->observer->self, context, value);
}

static bt_status on_output(bt_trace *trace, bt_context *context, const bt_op_value *value)
{
    char name[BT_TRACE_NAME_BYTES + 48];
    bt_trace_call *call = NULL;
    if (context->weight_grads) { // recomputed by a backward
        return BT_OK;
    }
    if (value->index == 0) {
        BT_TRY(begin_call(trace, value, &call));
    } else {
        call = &trace->calls[trace->count - 1];
    }
    if (!bt_dtype_is_float(value->tensor->dtype)) {
        return BT_OK;
    }
    const int length =
        snprintf(name, sizeof name, "forward.%lld.%s", (long long)trace->micro, call->name);
    if (value->index > 0) {
        (void)snprintf(name + length, sizeof name - (size_t)length, ".out%d", value->index);
    }
    return tell(trace, context,
                &(bt_train_value){.kind = BT_TRAIN_VALUE_FORWARD,
                                  .name = name,
                                  .layer = call->layer,
                                  .op = call->op,
                                  .depth = trace->count},
                value->tensor);
}

// The newest call of that op that the backward has not reached; newer calls have no gradient.
static int64_t walk_to(bt_trace *trace, const bt_op_value *value)
{
    const bool same = trace->walked >= 0 && value->call == trace->walking &&
                      value->op == trace->calls[trace->walked].op && value->index > trace->input;
    trace->input = value->index;
    if (!same) {
        trace->walking = value->call;
        trace->walked = -1;
        for (int64_t i = trace->open - 1; i >= 0 && trace->walked < 0; --i) {
            if (trace->calls[i].op == value->op) {
                trace->walked = trace->open = i;
            }
        }
    }
    return trace->walked;
}

static bt_status on_gradient(bt_trace *trace, bt_context *context, const bt_op_value *value)
{
    char name[BT_TRACE_NAME_BYTES + 48];
    const int64_t walked = walk_to(trace, value);
    if (walked < 0) {
        return bt_error(BT_STATUS_INTERNAL, "a gradient of %s, which the forward did not call",
                        value->op);
    }
    const bt_trace_call *call = &trace->calls[walked];
    (void)snprintf(name, sizeof name, "backward.%lld.%s.in%d", (long long)trace->micro, call->name,
                   value->index);
    return tell(trace, context,
                &(bt_train_value){.kind = BT_TRAIN_VALUE_BACKWARD,
                                  .name = name,
                                  .layer = call->layer,
                                  .op = call->op,
                                  .depth = 2 * trace->count - walked,
                                  .so_far = value->parameter != NULL},
                value->tensor);
}

static bt_status on_value(void *self, bt_context *context, const bt_op_value *value)
{
    return value->gradient ? on_gradient(self, context, value) : on_output(self, context, value);
}

static bt_status tell_named(const bt_trace *trace, bt_context *context, bt_train_value_kind kind,
                            const char *name, const bt_tensor *tensor, const bt_param_spec *spec)
{
    char whole[BT_TRACE_NAME_BYTES], layer[BT_TRACE_LAYER_BYTES];
    const char *parameter = name; // without the prefix of a moment
    if (strncmp(name, "adamw.", 6) == 0 && strlen(name) > 8) {
        parameter = name + 8;
    }
    layer_of(parameter, layer);
    (void)snprintf(whole, sizeof whole, "%s.%s", bt_train_value_name(kind), name);
    const bool updated = kind == BT_TRAIN_VALUE_STATE;
    return tell(trace, context,
                &(bt_train_value){.kind = kind,
                                  .name = whole,
                                  .layer = layer,
                                  .op = updated ? "adamw" : "",
                                  .depth = kind == BT_TRAIN_VALUE_INITIAL
                                               ? 0
                                               : 2 * trace->count + (updated ? 2 : 1),
                                  .spec = spec},
                tensor);
}

// ---- a step -------------------------------------------------------------------------------------

bt_status bt_trace_begin(bt_trace *trace, const bt_train_observer *observer, bt_context *context,
                         bt_context *kept, const bt_state *masters, int64_t step)
{
    if (!observer->value) {
        return BT_OK;
    }
    trace->observer = observer;
    trace->step = step;
    trace->count = trace->open = 0;
    context->value_hook = (bt_value_hook){trace, on_value};
    for (int64_t i = 0; i < masters->count && !trace->begun; ++i) {
        BT_TRY(tell_named(trace, kept, BT_TRAIN_VALUE_INITIAL, masters->tensors[i].name,
                          masters->tensors[i].tensor, NULL));
    }
    trace->begun = true;
    return BT_OK;
}

bt_status bt_trace_micro(bt_trace *trace, bt_context *context, int64_t micro, const bt_tensor *ids,
                         const bt_tensor *targets)
{
    const bt_tensor *const given[] = {ids, targets};
    static const char *const names[] = {"ids", "targets"};
    if (!context->value_hook.made) {
        return BT_OK;
    }
    trace->micro = micro;
    trace->count = trace->open = 0;
    trace->walked = -1;
    trace->walking = NULL;
    for (int i = 0; i < 2; ++i) {
        char name[64];
        (void)snprintf(name, sizeof name, "input.%lld.%s", (long long)micro, names[i]);
        bt_train_value value = {
            .kind = BT_TRAIN_VALUE_INPUT, .name = name, .layer = "input", .op = ""};
        BT_TRY(tell(trace, context, &value, given[i]));
    }
    return BT_OK;
}

bt_status bt_trace_gradients(bt_trace *trace, bt_context *context, const bt_params *params)
{
    for (int64_t i = 0; context->value_hook.made && i < params->spec_count; ++i) {
        const bt_param_spec *spec = &params->specs[i];
        const bt_tensor *grad = spec->item >= 0 ? params->items[spec->item].value->grad : NULL;
        if (grad) {
            BT_TRY(tell_named(trace, context, BT_TRAIN_VALUE_GRADIENT, spec->name, grad,
                              spec->is_shared ? spec : NULL));
        }
    }
    return BT_OK;
}

bt_status bt_trace_end(bt_trace *trace, bt_context *context, bt_context *kept,
                       const bt_state *state)
{
    bt_status status = BT_OK;
    for (int64_t i = 0; context->value_hook.made && i < state->count && status == BT_OK; ++i) {
        status = tell_named(trace, kept, BT_TRAIN_VALUE_STATE, state->tensors[i].name,
                            state->tensors[i].tensor, NULL);
    }
    context->value_hook = (bt_value_hook){0};
    return status;
}

void bt_trace_release(bt_trace *trace)
{
    bt_mem_free(trace->calls);
    *trace = (bt_trace){0};
}
