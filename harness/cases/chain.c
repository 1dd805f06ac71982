// harness/cases/chain.c - captures, groups, compiles and runs a chain
#include "harness/cases/chain.h"

#include <string.h>

#include "framework/autograd/tape.h"
#include "framework/base/scoped.h"
#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/program.h"
#include "framework/compiler/step.h"
#include "harness/cases/kernel.h"

struct bt_chain {
    bt_context context; // a copy: without tape and hooks
    bt_dag graph;
    bt_fusion_plan fusion;
    int calls, simple_calls;    // as captured, and after simplification
    int value[BT_OPERANDS_MAX]; // of the graph, by operand
    bt_tensor *constant;        // retained, or NULL
    int constant_value;
    bool forms;
    bt_compiler compiler;
    bt_compiled **codes; // owned [fusion.count], each of the compiler
    bt_program *program; // owned; NULL: not yet
    void **memory;       // owned [graph.value_count], of the current run
};

static bool is_output(const bt_operand *operand) { return operand->role == BT_OPERAND_OUT; }

// ---- capturing ----------------------------------------------------------------------------------

typedef struct tensors {
    bt_tensor *in[BT_OPERANDS_MAX], *out[BT_CHAIN_OUTPUTS]; // retained
    int in_operand[BT_OPERANDS_MAX], in_count;
} tensors;

// The input whose gradient an output is: of that name behind a d. NULL: it is no gradient.
static bt_tensor *input_of_gradient(const bt_chain_args *args, const tensors *t, int output)
{
    const char *name = args->body->operands[output].name;
    for (int i = 0; i < t->in_count && args->body->backward && name[0] == 'd'; ++i) {
        if (strcmp(name + 1, args->body->operands[t->in_operand[i]].name) == 0) {
            return t->in[i];
        }
    }
    return NULL;
}

static bt_status wrap_inputs(bt_context *context, const bt_chain_args *args, tensors *t)
{
    for (int i = 0; i < args->body->count; ++i) {
        const bt_operand *operand = &args->body->operands[i];
        const bt_shape shape =
            operand->per_row ? BT_SHAPE(args->rows, operand->per_row) : BT_SHAPE(operand->whole);
        if (!is_output(operand)) {
            t->in_operand[t->in_count] = i;
            BT_TRY(bt_tensor_over(context, args->wide ? BT_F64 : operand->dtype, shape, args->at[i],
                                  operand->name, &t->in[t->in_count]));
            ++t->in_count;
        }
    }
    return BT_OK;
}

static bt_status make_constant(bt_chain *chain, const bt_chain_args *args)
{
    const bt_dtype dtype = args->wide ? BT_F64 : args->body->dtype;
    int64_t dim = 0;
    BT_SCOPED_MEM(double *) values = NULL;
    BT_SCOPED_MEM(void *) narrow = NULL;
    BT_TRY(bt_chain_constant(args, &dim, &values));
    if (dim == 0) {
        return BT_OK;
    }
    BT_TRY(
        bt_tensor_create(&chain->context, dtype, BT_SHAPE(dim, dim), "constant", &chain->constant));
    BT_TRY(bt_mem_alloc((size_t)(dim * dim), bt_dtype_size(dtype), &narrow));
    bt_kernel_narrow(dtype, values, dim * dim, narrow);
    BT_TRY(bt_tensor_write(&chain->context, chain->constant, narrow));
    return bt_context_synchronize(&chain->context); // narrow ends here
}

static void require_gradients(const bt_chain_args *args, const tensors *t)
{
    for (int i = 0; i < args->body->count; ++i) {
        bt_tensor *input =
            is_output(&args->body->operands[i]) ? input_of_gradient(args, t, i) : NULL;
        if (input) {
            input->requires_grad = true;
        }
    }
}

// The backward of the last output, whose gradient is the last input.
static bt_status differentiate(bt_expression *e, const tensors *t)
{
    bt_tensor *root = t->out[1] ? t->out[1] : t->out[0];
    bt_tensor *dy = bt_expression_reshape(e, t->in[t->in_count - 1], root->shape);
    return e->status ? e->status : bt_backward(e->context, root, dy);
}

static bt_status build(bt_chain *chain, const bt_chain_args *args, tensors *t)
{
    bt_expression e = {.context = &chain->context};
    bt_tensor *out[BT_CHAIN_OUTPUTS] = {NULL};
    require_gradients(args, t);
    const bt_chain_parts parts = {
        .shape = &args->body->shape, .rows = args->rows, .in = t->in, .constant = chain->constant};
    bt_chain_body_of(args->body->what)(&e, &parts, out);
    for (int i = 0; i < BT_CHAIN_OUTPUTS && !e.status; ++i) {
        t->out[i] = bt_tensor_retain(out[i]);
    }
    if (args->body->backward && !e.status) {
        e.status = differentiate(&e, t);
    }
    return bt_expression_finish(&e);
}

// The values of operands and constant; -1: the chain does not read it.
static bt_status find_values(bt_chain *chain, const bt_chain_args *args, const tensors *t,
                             bt_dag_capture *capture)
{
    int64_t offset = 0;
    int made = 0;
    for (int i = 0; i < t->in_count; ++i) {
        chain->value[t->in_operand[i]] = bt_dag_capture_value(capture, t->in[i], &offset);
    }
    for (int i = 0; i < args->body->count; ++i) {
        if (is_output(&args->body->operands[i])) {
            const bt_tensor *input = input_of_gradient(args, t, i);
            const bt_tensor *out = input ? input->grad : t->out[made++];
            BT_TRY(bt_dag_capture_output(capture, out));
            chain->value[i] = bt_dag_capture_value(capture, out, &offset);
        }
    }
    chain->constant_value =
        chain->constant ? bt_dag_capture_value(capture, chain->constant, &offset) : -1;
    return BT_OK;
}

static bt_status capture_chain(bt_chain *chain, const bt_chain_args *args, int64_t **half_turns)
{
    bt_dag_capture capture;
    tensors t = {0};
    bt_status status = wrap_inputs(&chain->context, args, &t);
    BT_IF_OK(status, bt_dag_capture_begin(&chain->context, false, &capture));
    if (status == BT_OK) {
        chain->context.dry = true;
        if (args->body->backward) {
            status = bt_tape_create(&chain->context.tape);
        }
        status = status ? status : build(chain, args, &t);
        status = status ? status : find_values(chain, args, &t, &capture);
        bt_tape_destroy(chain->context.tape);
        chain->context.tape = NULL;
        chain->context.dry = false;
        const bt_status ended = bt_dag_capture_end(&capture, &chain->graph);
        status = status ? status : ended;
        if (status == BT_OK && chain->forms) {
            status = bt_dag_find_half_turns(&capture, &chain->graph, half_turns);
        }
        bt_dag_capture_release(&capture);
    }
    for (int i = 0; i < BT_OPERANDS_MAX; ++i) {
        bt_tensor_release(t.in[i]);
    }
    for (int i = 0; i < BT_CHAIN_OUTPUTS; ++i) {
        bt_tensor_release(t.out[i]);
    }
    return status;
}

static bt_status open_chain(bt_chain *chain, const bt_chain_args *args, bt_target_kind kind)
{
    const bt_fuse_options options = bt_compiled_step_options(kind);
    BT_SCOPED_MEM(int64_t *) half_turns = NULL;
    bt_formed formed = {0};
    void *memory = NULL;
    BT_TRY(make_constant(chain, args));
    bt_status status = capture_chain(chain, args, &half_turns);
    chain->calls = chain->graph.node_count;
    if (status == BT_OK && chain->forms) {
        status = bt_dag_form(&chain->graph, half_turns, &options, &chain->fusion, &formed);
    }
    chain->simple_calls = chain->forms ? formed.simplified.nodes_after : chain->calls;
    BT_TRY(status);
    BT_TRY(bt_mem_alloc((size_t)chain->graph.value_count + 1, sizeof(void *), &memory));
    chain->memory = memory;
    return chain->forms ? BT_OK : bt_program_create(&chain->graph, NULL, NULL, &chain->program);
}

bt_status bt_chain_open(bt_context *context, const bt_chain_args *args, bool forms,
                        bt_target_kind kind, bt_chain **out)
{
    bt_chain *chain = NULL;
    *out = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &chain));
    chain->context = (bt_context){.device = context->device,
                                  .pool = context->pool,
                                  .stream = context->stream,
                                  .compute = context->compute,
                                  .tuner = context->tuner};
    chain->forms = forms;
    for (int i = 0; i < BT_OPERANDS_MAX; ++i) {
        chain->value[i] = -1;
    }
    bt_compiler_init(&chain->compiler, NULL);
    const bt_status status = open_chain(chain, args, kind);
    if (status) {
        bt_chain_close(chain);
        return status;
    }
    *out = chain;
    return BT_OK;
}

static void drop_code(bt_chain *chain)
{
    bt_program_destroy(chain->program);
    chain->program = NULL;
    BT_MEM_FREE(chain->codes);
    bt_compiler_release(&chain->compiler);
}

void bt_chain_close(bt_chain *chain)
{
    if (chain) {
        drop_code(chain);
        bt_fusion_plan_release(&chain->fusion);
        bt_dag_release(&chain->graph);
        bt_tensor_release(chain->constant);
        bt_mem_free(chain->memory);
        bt_mem_free(chain);
    }
}

// ---- code ---------------------------------------------------------------------------------------

static bt_status compile_groups(bt_chain *chain)
{
    for (int i = 0; i < chain->fusion.count; ++i) {
        BT_TRY(bt_compiler_get(&chain->compiler, chain->context.device,
                               chain->fusion.groups[i].group, &chain->codes[i]));
        BT_FAIL_IF(!chain->codes[i], BT_STATUS_UNSUPPORTED, "a group of the chain has no code: %s",
                   chain->compiler.reason);
    }
    return BT_OK;
}

bt_status bt_chain_compile(bt_chain *chain, bt_code_cache *cache)
{
    void *codes = NULL;
    drop_code(chain);
    bt_compiler_init(&chain->compiler, cache);
    BT_FAIL_IF(chain->fusion.count == 0, BT_STATUS_UNSUPPORTED,
               "the compiler formed no group of the chain's calls, because none would be faster");
    BT_TRY(bt_mem_alloc((size_t)chain->fusion.count, sizeof(void *), &codes));
    chain->codes = codes;
    BT_TRY(compile_groups(chain));
    return bt_program_create(&chain->graph, &chain->fusion, NULL, &chain->program);
}

// ---- running ------------------------------------------------------------------------------------

static bt_status launch_group(void *self, bt_context *context, const bt_fused *group,
                              void *const *at)
{
    const bt_chain *chain = self;
    return bt_compiled_run_in(context, chain->codes[group->number], group->shape[0], at);
}

bt_status bt_chain_run(bt_chain *chain, void *const *at)
{
    memset(chain->memory, 0, (size_t)chain->graph.value_count * sizeof *chain->memory);
    for (int i = 0; i < BT_OPERANDS_MAX; ++i) {
        if (chain->value[i] >= 0) {
            chain->memory[chain->value[i]] = at[i];
        }
    }
    if (chain->constant_value >= 0) {
        chain->memory[chain->constant_value] = bt_tensor_data(chain->constant);
    }
    return bt_program_run(chain->program, &chain->context, launch_group, chain, chain->memory);
}

int bt_chain_calls(const bt_chain *chain) { return chain->calls; }

int bt_chain_simple_calls(const bt_chain *chain) { return chain->simple_calls; }

const bt_fusion_plan *bt_chain_groups(const bt_chain *chain) { return &chain->fusion; }

const bt_dag *bt_chain_graph(const bt_chain *chain) { return &chain->graph; }
