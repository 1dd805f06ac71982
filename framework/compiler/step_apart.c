// framework/compiler/step_apart.c - runs the calls of a compiled step one by one, to be timed
#include <string.h>

#include "framework/compiler/program_parts.h"
#include "framework/compiler/step_parts.h"

typedef struct apart {
    bt_compiled_step *step;
    const bt_batch *batch;
    bt_step_variant *v;
    bt_context context; // a copy with a pool of its own and without the kernel hook
    void **memory;      // owned [graph.value_count]
    void **gradients;   // owned [source_count]: added to instead of the parameters'
} apart;

static bt_status make_gradients(apart *a)
{
    bt_device *device = a->context.device;
    for (int i = 0; i < a->v->source_count; ++i) {
        const bt_step_source *source = &a->v->sources[i];
        const size_t bytes = (size_t)a->v->graph.values[source->value].size_bytes;
        if (source->kind == BT_STEP_GRADIENT) {
            BT_TRY(bt_pool_alloc(a->context.pool, bytes, a->context.stream, "gradient",
                                 &a->gradients[i]));
            BT_TRY(device->backend->fill(device, a->gradients[i], 0, bytes, a->context.stream));
        }
    }
    return BT_OK;
}

static bt_status run_once(apart *a)
{
    const bt_step_variant *v = a->v;
    memset(a->memory, 0, (size_t)v->graph.value_count * sizeof *a->memory);
    bt_step_bind(a->step, a->batch, v, a->memory);
    for (int i = 0; i < v->source_count; ++i) {
        if (a->gradients[i]) {
            a->memory[v->sources[i].value] = a->gradients[i];
        }
    }
    const bt_status status = bt_program_run(v->apart, &a->context, NULL, NULL, a->memory);
    for (int i = 0; i < v->graph.value_count && status == BT_OK; ++i) {
        if (a->memory[i] && v->graph.values[i].producer >= 0) {
            bt_pool_free(a->context.pool, a->memory[i]);
        }
    }
    return status;
}

// The first run fills the pool, so that the second one does not wait for memory.
static bt_status run_twice(apart *a)
{
    const bt_range_hook hook = a->context.range_hook;
    BT_TRY(make_gradients(a));
    a->context.range_hook = (bt_range_hook){0};
    BT_TRY(run_once(a));
    a->context.range_hook = hook;
    bt_range_push(&a->context, "apart");
    const bt_status status = run_once(a);
    bt_range_pop(&a->context);
    return status;
}

static bt_status run_in_pool(apart *a)
{
    bt_device *device = a->context.device;
    BT_TRY(bt_pool_create(device, 0, &a->context.pool));
    bt_status status = run_twice(a);
    const bt_status done = device->backend->stream_synchronize(device, a->context.stream);
    for (int i = 0; i < a->v->source_count; ++i) {
        if (a->gradients[i]) {
            bt_pool_free(a->context.pool, a->gradients[i]);
        }
    }
    bt_pool_destroy(a->context.pool);
    return status ? status : done;
}

bt_status bt_compiled_step_run_apart(bt_compiled_step *step, const bt_batch *batch, bool adds)
{
    apart a = {.step = step,
               .batch = batch,
               .v = bt_step_find(step, batch, adds),
               .context = *step->context};
    void *memory = NULL, *gradients = NULL;
    if (!a.v || !a.v->program) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the step is not compiled for this batch");
    }
    a.context.tape = NULL;
    a.context.kernel_hook = (bt_kernel_hook){0};
    bt_status status = a.v->apart ? BT_OK : bt_step_program(step, a.v, NULL, &a.v->apart);
    BT_IF_OK(status, bt_mem_alloc((size_t)a.v->graph.value_count + 1, sizeof(void *), &memory));
    BT_IF_OK(status, bt_mem_alloc((size_t)a.v->source_count + 1, sizeof(void *), &gradients));
    a.memory = memory;
    a.gradients = gradients;
    BT_IF_OK(status, run_in_pool(&a));
    bt_mem_free(memory);
    bt_mem_free(gradients);
    return status;
}

int bt_compiled_step_apart_calls(const bt_compiled_step *step, const bt_batch *batch, bool adds)
{
    const bt_step_variant *v = bt_step_find(step, batch, adds);
    return v && v->apart ? v->apart->unit_count : 0;
}

// ---- times --------------------------------------------------------------------------------------

// The time of each node; those launched as one list share its time.
static void spread(const bt_program *program, const int64_t *apart_ns, int64_t *node_ns)
{
    for (int i = 0; i < program->unit_count; ++i) {
        const bt_program_unit *unit = &program->units[i];
        for (int k = 0; k < unit->count; ++k) {
            node_ns[unit->node + k] = apart_ns[i] / unit->count;
        }
    }
}

// The value that a node makes again, or makes; -1: it writes into another one.
static int made_by(const bt_dag *graph, const bt_dag_node *node)
{
    for (int i = 0; i < node->operand_count; ++i) {
        const int result = node->operands[i].result;
        if (result >= 0) {
            return graph->values[result].again ? graph->values[result].again - 1 : result;
        }
    }
    return -1;
}

// What is computed again has no time of its own: call by call it would be loaded.
static void drop_repeats(const bt_dag *graph, bool *seen, int64_t *node_ns)
{
    for (int i = 0; i < graph->node_count; ++i) {
        const int made = made_by(graph, &graph->nodes[i]);
        if (made >= 0 && seen[made]) {
            node_ns[i] = 0;
        } else if (made >= 0) {
            seen[made] = true;
        }
    }
}

bt_status bt_compiled_step_apart_times(const bt_compiled_step *step, const bt_batch *batch,
                                       bool adds, const int64_t *apart_ns, int64_t *times_ns)
{
    const bt_step_variant *v = bt_step_find(step, batch, adds);
    int64_t *node_ns = NULL;
    bool *seen = NULL;
    bt_status status = BT_MEM_ARRAY(v->graph.node_count + 1, &node_ns);
    BT_IF_OK(status, BT_MEM_ARRAY(v->graph.value_count + 1, &seen));
    if (status == BT_OK) {
        spread(v->apart, apart_ns, node_ns);
        drop_repeats(&v->graph, seen, node_ns);
    }
    for (int i = 0; i < v->program->unit_count && status == BT_OK; ++i) {
        const bt_program_unit *unit = &v->program->units[i];
        const bt_fusion *fusion = unit->fusion >= 0 ? &v->fusion.groups[unit->fusion] : NULL;
        const int count = fusion ? fusion->node_count : unit->count;
        times_ns[i] = 0;
        for (int k = 0; k < count; ++k) {
            times_ns[i] += node_ns[fusion ? fusion->nodes[k] : unit->node + k];
        }
    }
    bt_mem_free(node_ns);
    bt_mem_free(seen);
    return status;
}
