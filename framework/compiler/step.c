// framework/compiler/step.c - compiles and runs the variants of a step
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "framework/autograd/tape.h"
#include "framework/base/clock.h"
#include "framework/compiler/step_parts.h"

// ---- kinds of calls -----------------------------------------------------------------------------

static void look_at(const bt_batch *batch, bt_step_look *looks)
{
    for (int i = 0; i < batch->count; ++i) {
        const bt_tensor *x = batch->items[i].tensor;
        bt_step_look *look = &looks[i];
        memset(look, 0, sizeof *look);
        (void)snprintf(look->name, sizeof look->name, "%s", batch->items[i].name);
        look->dtype = x->dtype;
        look->shape.rank = x->shape.rank;
        memcpy(look->shape.size, x->shape.size, (size_t)x->shape.rank * sizeof *x->shape.size);
        memcpy(look->stride, x->stride, (size_t)x->shape.rank * sizeof *x->stride);
        look->offset = x->offset;
        while (batch->items[look->shares].tensor->storage != x->storage) {
            ++look->shares;
        }
    }
}

static bool has_gradients(const bt_compiled_step *step)
{
    const bt_params *params = step->model->params;
    for (int64_t i = 0; i < params->count; ++i) {
        if (params->items[i].value->grad) {
            return true;
        }
    }
    return false;
}

// Does each parameter have a gradient where the variant adds to one, and none where it makes one?
static bool fits_gradients(const bt_compiled_step *step, const bt_step_variant *v)
{
    const bt_params *params = step->model->params;
    for (int64_t i = 0; i < params->count && v->gradients; ++i) {
        if (v->gradients[i] >= 0 && v->had[i] != (params->items[i].value->grad != NULL)) {
            return false;
        }
    }
    return true;
}

// Do the same parameters require a gradient?
static bool wants_the_same(const bt_compiled_step *step, const bt_step_variant *v)
{
    const bt_params *params = step->model->params;
    for (int64_t i = 0; i < params->count && v->wanted; ++i) {
        if (v->wanted[i] != params->items[i].value->requires_grad) {
            return false;
        }
    }
    return true;
}

static bt_step_variant *find(const bt_compiled_step *step, const bt_batch *batch, bool adds,
                             bool now)
{
    bt_step_look looks[BT_BATCH_TENSORS];
    look_at(batch, looks);
    for (int i = 0; i < step->count; ++i) {
        bt_step_variant *v = step->variants[i];
        if (v->adds == adds && v->compute == step->context->compute &&
            v->look_count == batch->count &&
            memcmp(v->looks, looks, (size_t)batch->count * sizeof *looks) == 0 &&
            wants_the_same(step, v) && (!now || fits_gradients(step, v))) {
            return v;
        }
    }
    return NULL;
}

bt_step_variant *bt_step_find(const bt_compiled_step *step, const bt_batch *batch, bool adds)
{
    return find(step, batch, adds, false);
}

// Everything but what find() compares: such a variant runs eagerly.
static void release_parts(bt_step_variant *v)
{
    for (int i = 0; i < v->source_count; ++i) {
        bt_tensor_release(v->sources[i].constant);
    }
    v->source_count = 0;
    bt_program_destroy(v->program);
    bt_program_destroy(v->apart);
    v->program = v->apart = NULL;
    bt_fusion_plan_release(&v->fusion);
    bt_dag_release(&v->graph);
    BT_MEM_FREE(v->codes);
    BT_MEM_FREE(v->half_turns);
    BT_MEM_FREE(v->sources);
    BT_MEM_FREE(v->gradients);
    BT_MEM_FREE(v->had);
    BT_MEM_FREE(v->wanted);
    BT_MEM_FREE(v->memory);
}

static void release_variant(bt_step_variant *v)
{
    if (v) {
        release_parts(v);
        bt_mem_free(v);
    }
}

// ---- compiling ----------------------------------------------------------------------------------

bt_fuse_options bt_compiled_step_options(bt_target_kind kind)
{
    const bool cpu = kind == BT_TARGET_CPU;
    return (bt_fuse_options){.kinds = 1U << BT_FUSED_ELEMENTWISE | 1U << BT_FUSED_ROW |
                                      (cpu ? 0 : 1U << BT_FUSED_COLUMN | 1U << BT_FUSED_PRODUCT),
                             .products = !cpu,
                             .any_order = !cpu,
                             .rows_alone = !cpu,
                             .rematerialize = !cpu,
                             .dynamic_rows = true,
                             .refuses = cpu ? NULL : bt_emit_cuda_refuses};
}

// The group's code for its number of rows; NULL: none, and *why is the reason.
static bt_compiled *code_for(bt_compiled_step *step, const bt_fused *group, const char **why)
{
    bt_compiled *code = NULL;
    *why = step->compiler.reason;
    bt_status status = bt_compiler_get(&step->compiler, step->context->device, group, &code);
    if (status == BT_OK && code) {
        status = bt_compiled_check_rows(code, group->shape[0]);
    }
    if (status) {
        *why = bt_error_message();
        return NULL;
    }
    return code;
}

// Compiles each group; groups without code are removed.
static bt_status compile_groups(bt_compiled_step *step, bt_step_variant *v)
{
    void *codes = NULL;
    BT_TRY(bt_mem_alloc((size_t)v->fusion.count + 1, sizeof(void *), &codes));
    v->codes = codes;
    for (int i = 0; i < v->fusion.count; ++i) {
        const bt_fusion *x = &v->fusion.groups[i];
        const char *why = NULL;
        v->codes[i] = code_for(step, x->group, &why);
        if (!v->codes[i]) {
            bt_fusion_dissolve(&v->fusion, i);
            if (v->kind.left_out++ == 0) {
                (void)snprintf(v->kind.reason, sizeof v->kind.reason, "%s", why);
            }
            bt_error_clear();
            continue;
        }
        v->kind.groups += 1;
        v->kind.group_calls += x->node_count;
        v->kind.bytes_before += x->bytes_before;
        v->kind.bytes_after += x->bytes_after;
    }
    if (!v->kind.left_out && !v->kind.groups) {
        (void)snprintf(v->kind.reason, sizeof v->kind.reason,
                       "no group of calls would be faster than the single calls");
    }
    return BT_OK;
}

bt_status bt_step_program(const bt_compiled_step *step, const bt_step_variant *v,
                          const bt_fusion_plan *fusion, bt_program **out)
{
    void *homes = NULL;
    BT_TRY(bt_mem_alloc((size_t)v->graph.value_count + 1, sizeof(int), &homes));
    int *home = homes;
    for (int i = 0; i < v->graph.value_count; ++i) {
        home[i] = -1;
    }
    for (int i = 0; i < v->source_count; ++i) {
        const bt_step_source *source = &v->sources[i];
        if (source->kind == BT_STEP_GRADIENT && source->place < step->model->params->count &&
            v->gradients[source->place] >= 0) {
            home[v->gradients[source->place]] = source->value;
        }
    }
    const bt_status status = bt_program_create(&v->graph, fusion, home, out);
    bt_mem_free(homes);
    return status;
}

static bt_status make_program(const bt_compiled_step *step, bt_step_variant *v)
{
    void *memory = NULL;
    BT_TRY(bt_mem_alloc((size_t)v->graph.value_count + 1, sizeof *v->memory, &memory));
    v->memory = memory;
    return bt_step_program(step, v, &v->fusion, &v->program);
}

static bt_status compile(bt_compiled_step *step, const bt_batch *batch, bt_step_variant *v)
{
    const bool cpu = step->context->device->backend->kind == BT_DEVICE_CPU;
    const bt_fuse_options options = bt_compiled_step_options(cpu ? BT_TARGET_CPU : BT_TARGET_CUDA);
    bt_formed formed;
    BT_TRY(bt_step_capture(step, batch, v));
    if (v->kind.reason[0]) {
        return BT_OK;
    }
    BT_TRY(bt_dag_form(&v->graph, v->half_turns, &options, &v->fusion, &formed));
    BT_TRY(compile_groups(step, v));
    v->kind.compiled = v->kind.groups > 0;
    return v->kind.compiled ? make_program(step, v) : BT_OK;
}

// The compiler failed: such steps run eagerly, and if the model is at fault, that fails as well.
static void give_up(bt_compiled_kind *kind)
{
    const char *why = bt_error_message();
    *kind = (bt_compiled_kind){0};
    (void)snprintf(kind->reason, sizeof kind->reason, "%s", *why ? why : "the compiler failed");
    bt_error_clear();
}

static bt_status allocate_variant(bt_compiled_step *step, bt_step_variant **out)
{
    void *items = step->variants, *block = NULL;
    BT_TRY(bt_mem_resize(&items, (size_t)step->count + 1, sizeof(void *)));
    step->variants = items;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_step_variant), &block));
    *out = block;
    return BT_OK;
}

// NULL: there is no memory for one; the step runs eagerly.
static bt_step_variant *add_variant(bt_compiled_step *step, const bt_batch *batch, bool adds)
{
    bt_step_variant *v = NULL;
    const int64_t start_ns = bt_clock_ns();
    if (allocate_variant(step, &v)) {
        give_up(&step->unkept);
        return NULL;
    }
    v->adds = adds;
    v->compute = step->context->compute;
    v->look_count = batch->count;
    look_at(batch, v->looks);
    if (compile(step, batch, v)) {
        release_parts(v);
        give_up(&v->kind);
    }
    v->kind.compile_ns = bt_clock_ns() - start_ns;
    step->variants[step->count++] = v;
    return v;
}

// ---- running ------------------------------------------------------------------------------------

static bt_status launch(void *self, bt_context *context, const bt_fused *group, void *const *at)
{
    const bt_step_variant *v = self;
    return bt_compiled_run_in(context, v->codes[group->number], group->shape[0], at);
}

static bt_status run_eagerly(bt_compiled_step *step, const bt_batch *batch, bt_tensor **loss)
{
    bt_context *context = step->context;
    bt_range_push(context, "forward");
    bt_status status = bt_model_loss(context, step->model, batch, loss);
    bt_range_pop(context);
    if (status == BT_OK) {
        bt_range_push(context, "backward");
        status = bt_backward(context, *loss, NULL);
        bt_range_pop(context);
    }
    return status;
}

void bt_step_bind(const bt_compiled_step *step, const bt_batch *batch, const bt_step_variant *v,
                  void **memory)
{
    const bt_params *params = step->model->params;
    for (int i = 0; i < v->source_count; ++i) {
        const bt_step_source *s = &v->sources[i];
        const bt_tensor *tensor = s->kind == BT_STEP_BATCH       ? batch->items[s->place].tensor
                                  : s->kind == BT_STEP_PARAMETER ? params->items[s->place].value
                                  : s->kind == BT_STEP_GRADIENT
                                      ? params->items[s->place].value->grad
                                      : s->constant;
        memory[s->value] = tensor ? tensor->storage->data : NULL;
    }
}

// A tensor that takes ownership of memory from the pool.
static bt_status adopt(bt_context *context, bt_dtype dtype, bt_shape shape, const char *name,
                       void **memory, bt_tensor **out)
{
    BT_TRY(bt_tensor_over(context, dtype, shape, *memory, name, out));
    (*out)->storage->pool = context->pool;
    *memory = NULL;
    return BT_OK;
}

// The program's results: the loss, and gradients that did not exist before.
static bt_status take_outputs(bt_compiled_step *step, const bt_step_variant *v, bt_tensor **loss)
{
    const bt_params *params = step->model->params;
    BT_TRY(adopt(step->context, v->graph.values[v->loss].dtype, BT_SCALAR, "loss",
                 &v->memory[v->loss], loss));
    for (int64_t i = 0; i < params->count; ++i) {
        bt_tensor *leaf = params->items[i].value;
        if (v->gradients[i] >= 0 && v->had[i]) {
            bt_tensor_touch(leaf->grad);
        } else if (v->gradients[i] >= 0) {
            BT_TRY(adopt(step->context, leaf->grad_dtype, leaf->shape, leaf->name,
                         &v->memory[v->gradients[i]], &leaf->grad));
        }
    }
    return BT_OK;
}

static void drop_outputs(const bt_compiled_step *step, const bt_step_variant *v)
{
    for (int i = 0; i < v->graph.value_count; ++i) {
        if (v->memory[i] && v->graph.values[i].producer >= 0) {
            bt_pool_free(step->context->pool, v->memory[i]);
        }
    }
}

static bt_status run_program(bt_compiled_step *step, const bt_batch *batch, bt_step_variant *v,
                             bt_tensor **loss)
{
    memset(v->memory, 0, (size_t)v->graph.value_count * sizeof *v->memory);
    bt_step_bind(step, batch, v, v->memory);
    bt_range_push(step->context, "compiled");
    bt_status status = bt_program_run(v->program, step->context, launch, v, v->memory);
    bt_range_pop(step->context);
    if (status == BT_OK) {
        status = take_outputs(step, v, loss);
        drop_outputs(step, v); // cleanup after a failure
    }
    return status;
}

bt_status bt_compiled_step_run(bt_compiled_step *step, const bt_batch *batch, bt_tensor **loss)
{
    const bool adds = has_gradients(step);
    bt_step_variant *v = find(step, batch, adds, true);
    *loss = NULL;
    v = v ? v : add_variant(step, batch, adds);
    const bt_status status =
        v && v->program ? run_program(step, batch, v, loss) : run_eagerly(step, batch, loss);
    if (status) {
        BT_TENSOR_RELEASE(*loss);
    }
    return status;
}

bt_status bt_compiled_step_prepare(bt_compiled_step *step, const bt_batch *batch, bool adds)
{
    const bt_params *params = step->model->params;
    bt_status status = BT_OK;
    if (bt_step_find(step, batch, adds)) {
        return BT_OK;
    }
    for (int64_t i = 0; i < params->count && adds && status == BT_OK; ++i) {
        bt_tensor *leaf = params->items[i].value;
        status =
            bt_tensor_create(step->context, leaf->grad_dtype, leaf->shape, leaf->name, &leaf->grad);
    }
    if (status == BT_OK) {
        (void)add_variant(step, batch, adds);
    }
    bt_params_clear_grads(step->model->params);
    return status;
}

// ---- the step -----------------------------------------------------------------------------------

bt_status bt_compiled_step_create(bt_context *context, const bt_model *model, bt_code_cache *cache,
                                  bt_compiled_step **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_compiled_step), &block));
    bt_compiled_step *step = block;
    step->context = context;
    step->model = model;
    bt_compiler_init(&step->compiler, cache);
    *out = step;
    return BT_OK;
}

void bt_compiled_step_destroy(bt_compiled_step *step)
{
    if (step) {
        for (int i = 0; i < step->count; ++i) {
            release_variant(step->variants[i]);
        }
        bt_mem_free(step->variants);
        bt_compiler_release(&step->compiler);
        bt_mem_free(step);
    }
}

const bt_compiled_kind *bt_compiled_step_kind(const bt_compiled_step *step, int i)
{
    return i < step->count                              ? &step->variants[i]->kind
           : i == step->count && step->unkept.reason[0] ? &step->unkept
                                                        : NULL;
}

void bt_compiled_kind_print(const bt_compiled_kind *kind, bt_str *out)
{
    if (!kind->compiled) {
        bt_str_format(out, "compile: the step runs eagerly: %s", kind->reason);
        return;
    }
    bt_str_format(out,
                  "compile: %d of %d kernel calls run as %d groups, which move %.3g GB instead of "
                  "%.3g; ready in %.1f s",
                  kind->group_calls, kind->calls, kind->groups, (double)kind->bytes_after / 1e9,
                  (double)kind->bytes_before / 1e9, (double)kind->compile_ns / 1e9);
    if (kind->left_out) {
        bt_str_format(out, "; %d groups have no code: %s", kind->left_out, kind->reason);
    }
}
