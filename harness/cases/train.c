// harness/cases/train.c - a training case: converts plan values to the trainer's plan
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "framework/dist/p2p.h"
#include "harness/cases/cases.h"
#include "harness/env/build.h"
#include "harness/plan/plan.h"

enum { GPU_STATE_S = 5 }; // between two states that the launcher keeps

static int64_t whole(const cJSON *train, const char *key)
{
    return (int64_t)bt_plan_number(train, key);
}

static int64_t model_value(const cJSON *train, const char *key)
{
    return (int64_t)bt_json_number_of(bt_json_get(train, "model"), key);
}

static double optimizer_value(const cJSON *train, const char *key)
{
    return bt_json_number_of(bt_json_get(train, "optimizer"), key);
}

static bt_train_optimizer optimizer_of(const cJSON *train)
{
    return (bt_train_optimizer){
        .lr = optimizer_value(train, "lr"),
        .min_lr = optimizer_value(train, "min_lr"),
        .warmup_steps = (int64_t)optimizer_value(train, "warmup_steps"),
        .decay_steps = (int64_t)optimizer_value(train, "decay_steps"),
        .beta1 = optimizer_value(train, "beta1"),
        .beta2 = optimizer_value(train, "beta2"),
        .epsilon = optimizer_value(train, "epsilon"),
        .weight_decay = optimizer_value(train, "weight_decay"),
        .clip = optimizer_value(train, "clip"),
    };
}

static double checkpoint_value(const cJSON *train, const char *key)
{
    return bt_json_number_of(bt_json_get(train, "checkpoint"), key);
}

// The launcher's copy of the state: two alternating copies, each complete and verified when it is
// loaded. A GPU's steps are faster than writing its state: there it is saved every few seconds,
// asynchronously.
static bt_train_checkpoints memory_checkpoints(const bt_case_work *work)
{
    const bool on_gpu = strcmp(work->device, "cpu") != 0;
    return (bt_train_checkpoints){.folder = work->checkpoints,
                                  .every_steps = on_gpu ? 0 : 1,
                                  .every_minutes = on_gpu ? GPU_STATE_S / 60.0 : 0,
                                  .asynchronous = on_gpu,
                                  .max_to_keep = 2,
                                  .resume = work->resume};
}

static bt_train_checkpoints checkpoints_of(const bt_case_work *work, const cJSON *train)
{
    const cJSON *keys = bt_json_get(train, "checkpoint");
    if (work->memory_state) {
        return memory_checkpoints(work);
    }
    if (!keys || !work->checkpoints) {
        return (bt_train_checkpoints){0};
    }
    return (bt_train_checkpoints){
        .folder = work->checkpoints,
        .every_steps = (int64_t)checkpoint_value(train, "every_steps"),
        .every_minutes = checkpoint_value(train, "every_minutes"),
        .at_end = cJSON_IsTrue(bt_json_get(keys, "at_end")),
        .max_to_keep = (int64_t)checkpoint_value(train, "max_to_keep"),
        .asynchronous = cJSON_IsTrue(bt_json_get(keys, "asynchronous")),
        .host_snapshot = bt_json_is_text(keys, "snapshot", "host"),
        .parameters_only = bt_json_is_text(keys, "content", "parameters"),
        .reload = cJSON_IsTrue(bt_json_get(keys, "reload")),
        .resume = work->resume,
        .resume_below = work->resume_below,
    };
}

// Whether one rank has the bits of a mesh (framework/dist/README.md).
static bt_status check_alone(const cJSON *train, const bt_plan_mesh *mesh,
                             const bt_train_parallel *parallel)
{
    const int64_t data = mesh->data;
    BT_FAIL_IF(mesh->ranks > data, BT_STATUS_INVALID_ARGUMENT,
               "the values of a step are computed with one rank, whose bits differ from those of "
               "train.mesh.%s %lld: such a recorded run cannot be replayed; 'bt-bench diff-run' "
               "trains and compares such meshes on the CPU",
               mesh->tensor > 1 ? "tensor" : "context",
               (long long)(mesh->tensor > 1 ? mesh->tensor : mesh->context));
    const int64_t of_rank = data * whole(train, "micro_batch") * whole(train, "sequence");
    const bool summed_first = parallel->sharding == BT_SHARDING_ZERO2 && of_rank > 0 &&
                              whole(train, "tokens_per_step") > of_rank;
    if (parallel->invariant > 0 && !summed_first) {
        return BT_OK;
    }
    return bt_error(
        BT_STATUS_INVALID_ARGUMENT,
        "the values of a step are computed with one rank, whose bits differ from those "
        "of the %lld ranks of train.mesh if %s: such a recorded run cannot be replayed; "
        "in a new run set %s",
        (long long)data,
        summed_first ? "train.mesh.sharding is zero2" : "train.mesh.invariant is 0",
        summed_first ? "it to zero1" : "it, or train.mesh.data to 1");
}

static bt_status parallel_of(const bt_case_work *work, const cJSON *train, bt_train_parallel *out)
{
    const cJSON *mesh = bt_json_get(train, "mesh");
    const char *sharding = bt_json_text_or_null(mesh, "sharding");
    *out = (bt_train_parallel){.group = work->group};
    if (!mesh) {
        return BT_OK;
    }
    out->invariant = (int64_t)bt_json_number_of(mesh, "invariant");
    out->bucket_mb = bt_json_number_of(mesh, "bucket_mb");
    BT_FAIL_IF(sharding && !bt_sharding_parse(sharding, &out->sharding), BT_STATUS_INVALID_ARGUMENT,
               "train.mesh.sharding is %s", sharding);
    const char *rotation = bt_json_text_or_null(mesh, "rotation");
    BT_FAIL_IF(rotation && !bt_rotation_parse(rotation, &out->rotation), BT_STATUS_INVALID_ARGUMENT,
               "train.mesh.rotation is %s", rotation);
    out->shared_heads = (int64_t)bt_json_number_of(mesh, "shared_heads");
    out->half_batches = cJSON_IsTrue(bt_json_get(mesh, "half_batches"));
    out->row_chunks = cJSON_IsTrue(bt_json_get(mesh, "row_chunks"));
    out->sequence_parallel = cJSON_IsTrue(bt_json_get(mesh, "sequence_parallel"));
    const bt_plan_mesh degrees = bt_plan_mesh_of(train);
    const int64_t data = degrees.ranks;
    // The group determines the degree of data parallelism: a run may continue with fewer ranks.
    out->mesh = (bt_mesh_degrees){.tensor = (int)degrees.tensor, .context = (int)degrees.context};
    if (work->alone) {
        out->mesh = (bt_mesh_degrees){0};
    }
    if (work->group_later) {
        out->mesh.data = (int)degrees.data;
        return BT_OK;
    }
    if (!work->group && data > 1) {
        return work->alone
                   ? check_alone(train, &degrees, out)
                   : bt_error(BT_STATUS_INTERNAL, "one of %lld ranks was started without a group",
                              (long long)data);
    }
    return BT_OK;
}

bt_status bt_case_train_plan(const bt_case_work *work, bt_train_plan *out)
{
    const cJSON *train = bt_json_get(work->item, "train");
    const cJSON *precision = bt_json_get(train, "precision");
    *out = (bt_train_plan){
        .device = work->device,
        .ordinal = work->ordinal,
        .model = {.family = bt_json_text_or_null(bt_json_get(train, "model"), "family"),
                  .layers = model_value(train, "layers"),
                  .heads = model_value(train, "heads"),
                  .width = model_value(train, "width"),
                  .vocab = model_value(train, "vocab"),
                  .context = model_value(train, "context"),
                  .kv_heads = model_value(train, "kv_heads"),
                  .hidden = model_value(train, "hidden")},
        .optimizer = optimizer_of(train),
        .train_shards = work->train_shards,
        .train_shard_count = work->train_shard_count,
        .val_shards = work->val_shards,
        .val_shard_count = work->val_shard_count,
        .micro_batch = whole(train, "micro_batch"),
        .sequence = whole(train, "sequence"),
        .tokens_per_step = whole(train, "tokens_per_step"),
        .steps = whole(train, "steps"),
        .warmup_timing_steps = whole(train, "warmup_timing_steps"),
        .eval_every = whole(train, "eval_every"),
        .eval_batches = whole(train, "eval_batches"),
        .profile_steps = whole(train, "profile_steps"),
        .sequential = bt_json_is_text(train, "order", "sequential"),
        .recompute_blocks = whole(train, "recompute_blocks"),
        .compile = bt_json_is_text(train, "compile", "on"),
        .seed = (uint64_t)bt_plan_number(train, "seed"),
        .memory_limit_bytes = (uint64_t)bt_plan_number(train, "memory_limit_bytes"),
        .slowdown = work->inject_slowdown,
        .checkpoints = checkpoints_of(work, train),
        .anomaly = cJSON_IsTrue(bt_json_get(train, "anomaly")),
        .digest_every = whole(train, "digest_every"),
        .verify_every = whole(train, "verify_every"),
        .init = bt_json_text_or_null(train, "init"),
    };
    BT_TRY(parallel_of(work, train, &out->parallel));
    BT_FAIL_IF(!cJSON_IsString(precision) ||
                   !bt_precision_parse(precision->valuestring, &out->precision),
               BT_STATUS_INVALID_ARGUMENT, "train.precision is %s",
               cJSON_IsString(precision) ? precision->valuestring : "missing");
    const cJSON *recompute = bt_json_get(train, "recompute");
    BT_FAIL_IF(!cJSON_IsString(recompute) ||
                   !bt_recompute_mode_parse(recompute->valuestring, &out->recompute),
               BT_STATUS_INVALID_ARGUMENT, "train.recompute is %s",
               cJSON_IsString(recompute) ? recompute->valuestring : "missing");
    const char *graph = bt_json_text_or_null(train, "graph");
    BT_FAIL_IF(graph && !bt_train_graph_parse(graph, &out->graph), BT_STATUS_INVALID_ARGUMENT,
               "train.graph is %s", graph);
    const cJSON *policy = bt_json_get(train, "on_nonfinite");
    BT_FAIL_IF(cJSON_IsString(policy) &&
                   !bt_train_policy_parse(policy->valuestring, &out->on_nonfinite),
               BT_STATUS_INVALID_ARGUMENT, "train.on_nonfinite is %s", policy->valuestring);
    return work->group_later ? BT_OK : bt_train_check(out); // bt_train_run checks it then
}

// Keys of a mesh that only one degree of parallelism uses.
static void note_unused(const char *name, const cJSON *mesh, const bt_plan_mesh *degrees,
                        bt_str *notes)
{
    const struct {
        const char *key, *degree;
        int64_t value;
    } rows[] = {{"sequence_parallel", "tensor", degrees->tensor},
                {"half_batches", "tensor", degrees->tensor},
                {"row_chunks", "tensor", degrees->tensor},
                {"rotation", "context", degrees->context}};
    for (size_t i = 0; i < BT_COUNT(rows); ++i) {
        const cJSON *node = bt_json_get(mesh, rows[i].key);
        if (rows[i].value == 1 && node && !cJSON_IsFalse(node)) {
            bt_str_format(notes, "case %s: train.mesh.%s has no effect: train.mesh.%s is 1\n", name,
                          rows[i].key, rows[i].degree);
        }
    }
    const cJSON *faults = bt_json_get(mesh, "faults");
    if (degrees->ranks == 1 && (cJSON_IsString(faults) || cJSON_GetArraySize(faults) > 0)) {
        bt_str_format(notes, "case %s: train.mesh.faults has no effect: train.mesh has one rank\n",
                      name);
    }
    const double sharing = bt_json_number_of(mesh, "shared_heads");
    if (degrees->context > 1 && sharing == (double)degrees->context &&
        bt_json_get(mesh, "rotation")) {
        bt_str_format(notes,
                      "case %s: train.mesh.rotation has no effect: all %lld ranks that share a "
                      "sequence share heads (train.mesh.shared_heads)\n",
                      name, (long long)degrees->context);
    }
}

bt_status bt_case_check_mesh(const cJSON *item, const char *device, bt_str *notes)
{
    const cJSON *train = bt_json_get(item, "train"), *mesh = bt_json_get(train, "mesh");
    const bt_case_work work = {.item = item, .device = device, .group_later = true};
    bt_train_plan plan;
    if (!train) {
        return BT_OK;
    }
    const bt_plan_mesh degrees = bt_plan_mesh_of(train);
    const char *name = bt_json_text_of(item, "name");
    BT_TRY(bt_case_train_plan(&work, &plan));
    plan.hellaswag_every = whole(train, "hellaswag_every");
    BT_TRY(bt_error_context(bt_train_check_mesh(&plan, (int)degrees.ranks), "case %s", name));
    BT_FAIL_IF(strcmp(device, "cpu") != 0 && degrees.ranks > 1 &&
                   !bt_group_gpu_supports((int)degrees.ranks),
               BT_STATUS_INVALID_ARGUMENT,
               "case %s: train.mesh: data x tensor x context is %lld; on GPUs allowed: 1, 2, 4 or "
               "8",
               name, (long long)degrees.ranks);
    note_unused(name, mesh, &degrees, notes);
    return bt_str_status(notes);
}

static bt_status read_questions(const bt_case_work *work, bt_hellaswag *out)
{
    const cJSON *train = bt_json_get(work->item, "train");
    bt_tokenizer *tokenizer = NULL;
    BT_FAIL_IF(!work->questions || !work->ranks, BT_STATUS_INVALID_ARGUMENT,
               "train.hellaswag_every is given, but the task has no hellaswag "
               "{questions, ranks}");
    BT_TRY(bt_tokenizer_load(work->ranks, false, &tokenizer));
    bt_status status =
        bt_hellaswag_read(work->questions, tokenizer, whole(train, "hellaswag_limit"), out);
    bt_tokenizer_destroy(tokenizer);
    return status;
}

static bt_status run_train(const bt_case_work *work, const bt_case_listener *listener,
                           bt_train_result *result)
{
    bt_train_plan plan;
    BT_SCOPED(bt_str) identity = {0};
    BT_SCOPED(bt_hellaswag) questions = {0};
    char hash[33], build[33];
    BT_TRY(bt_case_train_plan(work, &plan));
    BT_TRY(bt_case_identity(work->item, &identity));
    if (plan.checkpoints.folder) {
        bt_plan_hash(bt_str_text(&identity), hash);
        bt_build_digest(build);
        plan.checkpoints.plan_hash = hash;
        plan.checkpoints.build = build;
        BT_TRY(!work->group || work->group->rank == 0 // one rank writes
                   ? bt_case_settle(plan.checkpoints.folder, bt_str_text(&identity))
                   : BT_OK);
    }
    plan.hellaswag = &questions;
    plan.hellaswag_every = whole(bt_json_get(work->item, "train"), "hellaswag_every");
    BT_TRY(plan.hellaswag_every > 0 ? read_questions(work, &questions) : BT_OK);
    return bt_train_run(&plan, &listener->train, result);
}

// Kinds of cases, one row each.
static const struct {
    const char *kind;
    bt_status (*run)(const bt_case_work *, const bt_case_listener *, bt_train_result *);
} kinds[] = {{"train", run_train},
             {"kernel", bt_case_run_kernel},
             {"collective", bt_case_run_collective},
             {"command", bt_case_run_command}};

bt_status bt_case_run(const bt_case_work *work, const bt_case_listener *listener,
                      bt_train_result *result)
{
    const char *kind = cJSON_GetStringValue(bt_json_get(work->item, "kind"));
    const int64_t at = BT_FIND(kinds, BT_COUNT(kinds), kind, kind);
    return at < 0 ? bt_error(BT_STATUS_INVALID_ARGUMENT,
                             "case kind %s is unknown; allowed: train, kernel, collective, command",
                             kind ? kind : "(missing)")
                  : kinds[at].run(work, listener, result);
}
