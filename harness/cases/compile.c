// harness/cases/compile.c - captures, simplifies and fuses the step of a training case

#include "framework/autograd/session.h"
#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/step.h"
#include "framework/nn/model.h"
#include "harness/cases/chain.h"
#include "harness/cases/compile_dump.h"
#include "harness/cases/kernel.h"
#include "harness/plan/plan.h"

typedef struct step {
    bt_train_plan plan;
    bt_session session;
    bt_params params;
    bt_model model;
    bt_tensor *ids, *targets, *loss;
    bt_dag graph;
    int64_t *half_turns; // owned
    bt_fusion_plan fusion;
    const char *target_name;
    bt_compile_dumper dumper;
} step;

static bt_status check_ranks(const cJSON *train)
{
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    return mesh.ranks == 1
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "train.mesh.%s: steps of several ranks run eagerly, so nothing is "
                          "compiled; choose other cases with --filter",
                          mesh.data > 1     ? "data"
                          : mesh.tensor > 1 ? "tensor"
                                            : "context");
}

static bt_status open_step(step *s)
{
    bt_context *context = &s->session.context;
    const bt_dtype compute = s->plan.precision == BT_PRECISION_BF16 ? BT_BF16 : BT_F32;
    const bt_shape shape = BT_SHAPE(s->plan.micro_batch, s->plan.sequence);
    BT_TRY(bt_session_open("cpu", 0, 0, &s->session));
    bt_params_init(&s->params, context, BT_F32, compute, s->plan.seed);
    s->params.uninitialised = true; // only shapes matter
    BT_TRY(bt_model_open(&s->params, &s->plan.model, s->plan.recompute, s->plan.recompute_blocks,
                         &s->model));
    context->dry = true;
    BT_TRY(bt_tensor_create(context, BT_I32, shape, "ids", &s->ids));
    return bt_tensor_create(context, BT_I32, shape, "targets", &s->targets);
}

static bt_status run_step(step *s, bt_dag_capture *capture)
{
    bt_context *context = &s->session.context;
    const bt_batch batch = {.count = 2, .items = {{"ids", s->ids}, {"targets", s->targets}}};
    BT_TRY(bt_model_loss(context, &s->model, &batch, &s->loss));
    BT_TRY(bt_dag_capture_output(capture, s->loss));
    BT_TRY(bt_backward(context, s->loss, NULL));
    for (int64_t i = 0; i < s->params.count; ++i) {
        const bt_tensor *value = s->params.items[i].value;
        BT_TRY(value->grad ? bt_dag_capture_output(capture, value->grad) : BT_OK);
    }
    return BT_OK;
}

// The CPU, on which the step is captured, has no tf32; a target's products then have it.
static void set_tf32(step *s)
{
    for (int i = 0; i < s->graph.node_count && s->plan.precision == BT_PRECISION_TF32; ++i) {
        if (s->graph.nodes[i].op == BT_KERNEL_GEMM) {
            ((bt_gemm_args *)s->graph.nodes[i].args)->compute = BT_COMPUTE_TF32;
        }
    }
}

static bt_status capture_step(step *s)
{
    bt_dag_capture capture;
    BT_TRY(bt_dag_capture_begin(&s->session.context, false, &capture));
    const bt_status ran = run_step(s, &capture);
    bt_status status = bt_dag_capture_end(&capture, &s->graph);
    status = status ? status : ran;
    status = status ? status : bt_dag_find_half_turns(&capture, &s->graph, &s->half_turns);
    bt_dag_capture_release(&capture);
    if (status == BT_OK && s->target_name) {
        set_tf32(s);
    }
    return status;
}

static bt_status make_code(const bt_fusion_plan *fusion, const bt_target *target,
                           bt_code_cache *cache, int64_t *with_code)
{
    *with_code = 0;
    for (int i = 0; i < fusion->count; ++i) {
        const bt_status status = bt_compile_ahead(target, fusion->groups[i].group, cache);
        if (status != BT_STATUS_UNSUPPORTED) {
            BT_TRY(status);
        }
        *with_code += status == BT_OK;
    }
    bt_error_clear();
    return BT_OK;
}

static bt_status compile_ahead(const bt_fusion_plan *fusion, const bt_target *target,
                               int64_t *with_code)
{
    bt_code_cache cache;
    BT_TRY(bt_code_cache_from_environment(&cache));
    bt_status status = make_code(fusion, target, &cache, with_code);
    bt_code_cache_close(&cache);
    return status;
}

// Gradients for a step to add to.
static bt_status make_gradients(step *s)
{
    for (int64_t i = 0; i < s->params.count; ++i) {
        bt_tensor *leaf = s->params.items[i].value;
        if (!leaf->grad) {
            BT_TRY(bt_tensor_create(&s->session.context, leaf->grad_dtype, leaf->shape, leaf->name,
                                    &leaf->grad));
        }
    }
    return BT_OK;
}

// Code for the micro-batches after the first, which add to gradients.
static bt_status compile_adding(step *s, const bt_target *target, const bt_fuse_options *options)
{
    bt_formed formed;
    int64_t with_code = 0;
    if (s->plan.tokens_per_step <= s->plan.micro_batch * s->plan.sequence) {
        return BT_OK;
    }
    bt_fusion_plan_release(&s->fusion);
    bt_dag_release(&s->graph);
    BT_MEM_FREE(s->half_turns);
    BT_TENSOR_RELEASE(s->loss);
    BT_TRY(make_gradients(s));
    BT_TRY(capture_step(s));
    BT_TRY(bt_dag_form(&s->graph, s->half_turns, options, &s->fusion, &formed));
    return compile_ahead(&s->fusion, target, &with_code);
}

static void count_groups(const bt_fusion_plan *fusion, bt_case_compiled *out)
{
    out->groups = fusion->count;
    for (int i = 0; i < fusion->count; ++i) {
        out->fused_calls += fusion->groups[i].node_count;
        out->bytes_before += fusion->groups[i].bytes_before;
        out->bytes_after += fusion->groups[i].bytes_after;
    }
    out->with_code = -1;
}

static bt_status compile(step *s, bt_case_compiled *out)
{
    bt_formed formed;
    bt_target target = {.kind = BT_TARGET_CPU};
    bt_fuse_options options = {.kinds = 0};
    if (s->target_name) {
        BT_TRY(bt_target_parse(s->target_name, &target));
        options = bt_compiled_step_options(target.kind);
    }
    BT_TRY(open_step(s));
    BT_TRY(capture_step(s));
    out->calls = s->graph.node_count;
    for (int i = 0; i < s->graph.value_count; ++i) {
        out->saved += s->graph.values[i].producer >= 0 && bt_dag_is_saved(&s->graph, i);
    }
    BT_TRY(bt_compile_dump_graph(&s->dumper, BT_COMPILE_DUMP_GRAPH, &s->graph));
    BT_TRY(bt_compile_dump_dialect(&s->dumper, &s->graph));
    BT_TRY(bt_dag_form(&s->graph, s->half_turns, &options, &s->fusion, &formed));
    out->simple_calls = formed.simplified.nodes_after;
    BT_TRY(bt_compile_dump_graph(&s->dumper, BT_COMPILE_DUMP_SIMPLE, &s->graph));
    count_groups(&s->fusion, out);
    BT_TRY(s->target_name ? compile_ahead(&s->fusion, &target, &out->with_code) : BT_OK);
    BT_TRY(bt_compile_dump_groups(&s->dumper, &s->graph, &s->fusion));
    return s->target_name ? compile_adding(s, &target, &options) : BT_OK;
}

// The graph of a chain call by call, as captured.
static bt_status dump_captured(bt_context *context, const bt_chain_args *args, bt_target_kind kind,
                               const bt_compile_dumper *d)
{
    bt_chain *chain = NULL;
    BT_TRY(bt_chain_open(context, args, false, kind, &chain));
    bt_status status = bt_compile_dump_graph(d, BT_COMPILE_DUMP_GRAPH, bt_chain_graph(chain));
    BT_IF_OK(status, bt_compile_dump_dialect(d, bt_chain_graph(chain)));
    bt_chain_close(chain);
    return status;
}

// The groups of a chain, captured on the CPU: memory is not touched.
static bt_status compile_chain(const bt_kernel_body *body, const bt_target *target, bool makes_code,
                               const bt_compile_dumper *d, bt_case_compiled *out)
{
    bt_session session;
    bt_kernel_args args;
    bt_chain *chain = NULL;
    void *at[BT_OPERANDS_MAX] = {NULL};
    bt_status status = bt_session_open("cpu", 0, 0, &session);
    for (int i = 0; i < body->count && status == BT_OK; ++i) {
        const bt_operand *operand = &body->operands[i];
        status = bt_pool_alloc(session.pool,
                               (size_t)bt_operand_count(operand, body->rows) *
                                   bt_dtype_size(operand->dtype),
                               NULL, operand->name, &at[i]);
    }
    if (status == BT_OK) {
        body->args(body, &(bt_kernel_asked){.rows = body->rows, .at = at}, &args);
        status = dump_captured(&session.context, &args.chain, target->kind, d);
    }
    BT_IF_OK(status, bt_chain_open(&session.context, &args.chain, true, target->kind, &chain));
    BT_IF_OK(status, bt_compile_dump_graph(d, BT_COMPILE_DUMP_SIMPLE, bt_chain_graph(chain)));
    BT_IF_OK(status, bt_compile_dump_groups(d, bt_chain_graph(chain), bt_chain_groups(chain)));
    if (status == BT_OK) {
        out->calls = bt_chain_calls(chain);
        out->simple_calls = bt_chain_simple_calls(chain);
        count_groups(bt_chain_groups(chain), out);
    }
    if (status == BT_OK && makes_code) {
        status = compile_ahead(bt_chain_groups(chain), target, &out->with_code);
    }
    bt_chain_close(chain);
    for (int i = 0; i < BT_OPERANDS_MAX; ++i) {
        if (at[i]) {
            bt_pool_free(session.pool, at[i]);
        }
    }
    bt_session_close(&session);
    return status;
}

// The group of a kernel case: memory is not touched.
static bt_status compile_kernel(const cJSON *kernel, const char *target_name,
                                const bt_compile_dumper *d, bt_case_compiled *out)
{
    static char somewhere;
    bt_kernel_body body;
    bt_kernel_items items;
    bt_kernel_args args;
    bt_target target;
    bt_code_cache cache;
    BT_SCOPED(bt_dag) graph = {0};
    bt_fused group;
    int field_of[BT_FUSED_OPERANDS_MOST];
    void *at[BT_OPERANDS_MAX];
    for (int i = 0; i < BT_OPERANDS_MAX; ++i) {
        at[i] = &somewhere;
    }
    BT_TRY(bt_target_parse(target_name ? target_name : "cpu", &target));
    BT_TRY(bt_kernel_body_make(kernel, &body));
    if (body.is_chain) {
        return compile_chain(&body, &target, target_name != NULL, d, out);
    }
    body.args(&body, &(bt_kernel_asked){.rows = body.rows, .at = at, .items = &items}, &args);
    BT_TRY(bt_kernel_generated_group(body.op, &args, target.kind, &graph, &group, field_of));
    BT_TRY(bt_compile_dump_graph(d, BT_COMPILE_DUMP_GRAPH, &graph));
    BT_TRY(bt_compile_dump_dialect(d, &graph));
    BT_TRY(bt_compile_dump_graph(d, BT_COMPILE_DUMP_SIMPLE, &graph)); // a call alone is simple
    BT_TRY(bt_compile_dump_group(d, &graph, &group));
    out->calls = out->simple_calls = out->groups = out->fused_calls = 1;
    out->bytes_before = out->bytes_after = bt_fused_bytes(&group);
    out->with_code = target_name ? 1 : -1;
    if (!target_name) {
        return BT_OK;
    }
    BT_TRY(bt_code_cache_from_environment(&cache));
    bt_status status = bt_compile_ahead(&target, &group, &cache);
    bt_code_cache_close(&cache);
    return status;
}

bt_status bt_case_compile(const cJSON *item, const char *target, const char *folder, unsigned dumps,
                          bt_case_compiled *out)
{
    static const char *const shard = "none"; // required by the plan; not read
    *out = (bt_case_compiled){0};
    bt_target meant;
    BT_TRY(bt_target_parse(target ? target : "cpu", &meant));
    step s = {.target_name = target,
              .dumper = {.name = cJSON_GetObjectItemCaseSensitive(item, "name")->valuestring,
                         .folder = folder,
                         .target = &meant,
                         .dumps = dumps,
                         .out = out}};
    const bt_case_work work = {.item = item,
                               .device = target && meant.kind == BT_TARGET_CPU ? "cpu" : "cuda",
                               .train_shards = &shard,
                               .train_shard_count = 1,
                               .val_shards = &shard,
                               .val_shard_count = 1};
    BT_FAIL_IF(dumps >> BT_COMPILE_DUMP_PTX & 1U && meant.kind != BT_TARGET_CUDA,
               BT_STATUS_INVALID_ARGUMENT,
               "--dump ptx: the target %s has no PTX; use --target sm_80, sm_89 or sm_90",
               target ? target : "cpu");
    BT_TRY(dumps ? bt_dir_make(folder) : BT_OK);
    if (bt_json_get(item, "kernel")) {
        return bt_error_context(compile_kernel(bt_json_get(item, "kernel"), target, &s.dumper, out),
                                "compile %s", s.dumper.name);
    }
    bt_status status = check_ranks(bt_json_get(item, "train"));
    BT_IF_OK(status, bt_case_train_plan(&work, &s.plan));
    BT_IF_OK(status, compile(&s, out));
    bt_fusion_plan_release(&s.fusion);
    bt_dag_release(&s.graph);
    bt_mem_free(s.half_turns);
    bt_tensor_release(s.ids);
    bt_tensor_release(s.targets);
    bt_tensor_release(s.loss);
    bt_model_close(&s.model);
    bt_params_release(&s.params);
    bt_session_close(&s.session);
    return bt_error_context(status, "compile %s", s.dumper.name);
}
