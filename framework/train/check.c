// framework/train/check.c - validates a plan: names and numbers only, no device, no file
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/checked.h"
#include "framework/train/train.h"

static const struct {
    const char *name;
} precisions[] = {
#define BT_PRECISION_ROW(name, text, meaning) {text},
    BT_PRECISION_LIST(BT_PRECISION_ROW)
#undef BT_PRECISION_ROW
};

const char *bt_precision_name(bt_precision precision)
{
    return (unsigned)precision < BT_PRECISION_COUNT ? precisions[precision].name : "unknown";
}

bool bt_precision_parse(const char *name, bt_precision *precision)
{
    for (int i = 0; i < BT_PRECISION_COUNT; ++i) {
        if (strcmp(precisions[i].name, name) == 0) {
            *precision = (bt_precision)i;
            return true;
        }
    }
    return false;
}

static bt_status check_integers(const bt_train_plan *plan)
{
    const struct {
        const char *name;
        int64_t value, least;
        int bits; // the value is at most 2^bits
    } fields[] = {
        {"model.layers", plan->model.layers, 1, 40},
        {"model.heads", plan->model.heads, 1, 40},
        {"model.width", plan->model.width, 1, 40},
        {"model.vocab", plan->model.vocab, 1, 40},
        {"model.context", plan->model.context, 1, 40},
        {"model.kv_heads", plan->model.kv_heads, 0, 40},
        {"model.hidden", plan->model.hidden, 0, 40},
        {"micro_batch", plan->micro_batch, 1, 40},
        {"sequence", plan->sequence, 1, 40},
        {"tokens_per_step", plan->tokens_per_step, 1, 40},
        {"steps", plan->steps, 1, 40},
        {"warmup_timing_steps", plan->warmup_timing_steps, 0, 40},
        {"eval_every", plan->eval_every, 0, 40},
        {"eval_batches", plan->eval_batches, 0, 40},
        {"hellaswag_every", plan->hellaswag_every, 0, 40},
        {"profile_steps", plan->profile_steps, 0, 20},
        {"recompute_blocks", plan->recompute_blocks, 0, 40},
        {"verify_every", plan->verify_every, 0, 40},
        {"digest_every", plan->digest_every, 0, 40},
        {"optimizer.warmup_steps", plan->optimizer.warmup_steps, 0, 40},
        {"optimizer.decay_steps", plan->optimizer.decay_steps, 0, 40},
        {"checkpoint.every_steps", plan->checkpoints.every_steps, 0, 40},
        {"checkpoint.max_to_keep", plan->checkpoints.max_to_keep, 0, 40},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (fields[i].value < fields[i].least || fields[i].value > INT64_C(1) << fields[i].bits) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is %lld, allowed from %lld to 2^%d",
                            fields[i].name, (long long)fields[i].value, (long long)fields[i].least,
                            fields[i].bits);
        }
    }
    return BT_OK;
}

// Products of fields that are each in range. All sizes that training derives from a plan follow
// from these: *micro_tokens is a micro-batch, the others are its largest tensors and the whole run.
static bt_status check_products(const bt_train_plan *plan, int64_t *micro_tokens)
{
    const bt_model_config *model = &plan->model;
    *micro_tokens = 0;
    if (!bt_checked_count(plan->micro_batch, plan->sequence, micro_tokens)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "micro_batch %lld x sequence %lld tokens: at most 2^56 are allowed",
                        (long long)plan->micro_batch, (long long)plan->sequence);
    }
    int64_t matrix = 0, unused = 0;
    const bool square = bt_checked_count(4 * model->width, model->width, &matrix);
    const struct {
        const char *name;
        int64_t a, b;
    } rows[] = {
        {"micro_batch x sequence x model.vocab", *micro_tokens, model->vocab},
        {"micro_batch x sequence x 4 model.width", *micro_tokens, 4 * model->width},
        {"micro_batch x sequence x model.hidden", *micro_tokens, model->hidden},
        {"model.hidden x model.width", model->hidden, model->width},
        {"model.layers x 12 model.width^2", square ? matrix : INT64_MAX, 3 * model->layers},
        {"model.vocab x model.width", model->vocab, model->width},
        {"model.context x model.width", model->context, model->width},
        {"micro_batch x sequence x eval_batches", *micro_tokens, plan->eval_batches},
        {"steps x tokens_per_step", plan->steps, plan->tokens_per_step},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (!bt_checked_count(rows[i].a, rows[i].b, &unused)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is %.3g: at most 2^56 is allowed",
                            rows[i].name, (double)rows[i].a * (double)rows[i].b);
        }
    }
    return BT_OK;
}

static bt_status check_numbers(const bt_train_optimizer *optimizer)
{
    const struct {
        const char *name;
        double value, least, below;
    } fields[] = {
        {"optimizer.lr", optimizer->lr, 0, 1e6},
        {"optimizer.min_lr", optimizer->min_lr, 0, 1e6},
        {"optimizer.beta1", optimizer->beta1, 0, 1},
        {"optimizer.beta2", optimizer->beta2, 0, 1},
        {"optimizer.epsilon", optimizer->epsilon, 0, 1},
        {"optimizer.weight_decay", optimizer->weight_decay, 0, 1e6},
        {"optimizer.clip", optimizer->clip, -1e6, 1e6},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (!(fields[i].value >= fields[i].least && fields[i].value < fields[i].below)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is %g, allowed from %g to below %g",
                            fields[i].name, fields[i].value, fields[i].least, fields[i].below);
        }
    }
    return BT_OK;
}

// Checks context parallelism.
static bt_status check_sharing(const bt_train_plan *plan, const bt_mesh_degrees *mesh)
{
    const bt_train_parallel *parallel = &plan->parallel;
    const int64_t heads = parallel->shared_heads, least = plan->model.heads / mesh->tensor;
    const int size = mesh->context;
    if (heads < 0 || heads > least || (heads > 0 && size % heads != 0)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.shared_heads is %lld; allowed: divisors of train.mesh.context, "
                        "which is %d, up to the heads of a rank, %lld (train.model.heads %lld)",
                        (long long)heads, size, (long long)least, (long long)plan->model.heads);
    }
    if (size > 1 && plan->sequence % (2 * size) != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.sequence is %lld; with train.mesh.context %d it must be a multiple "
                        "of %d",
                        (long long)plan->sequence, size, 2 * size);
    }
    const struct {
        const char *name;
        bool set;
        const char *unset;
    } refused[] = {{"mesh.invariant", parallel->invariant > 0, "0"},
                   {"compile", plan->compile, "off"},
                   {"hellaswag_every", plan->hellaswag_every > 0, "0"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
        if (size > 1 && refused[i].set) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "train.%s needs whole sequences on each rank, but train.mesh.context "
                            "is %d; set train.%s to %s, or train.mesh.context to 1",
                            refused[i].name, size, refused[i].name, refused[i].unset);
        }
    }
    return BT_OK;
}

// Features that tensor parallelism does not support.
static bt_status check_mesh(const bt_train_plan *plan, const bt_mesh_degrees *mesh)
{
    const int64_t tokens = plan->sequence / mesh->context;
    if (plan->parallel.sequence_parallel && plan->micro_batch * tokens % mesh->tensor != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.sequence_parallel splits the %lld tokens of a micro-batch on a "
                        "rank (micro_batch %lld x %lld), which must be a multiple of "
                        "train.mesh.tensor, %d; change one of them, or set sequence_parallel to "
                        "false",
                        (long long)(plan->micro_batch * tokens), (long long)plan->micro_batch,
                        (long long)tokens, mesh->tensor);
    }
    if (plan->parallel.half_batches && mesh->tensor > 1 && plan->parallel.sequence_parallel) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.half_batches cannot be combined with "
                        "train.mesh.sequence_parallel: set one of them to false");
    }
    if (plan->parallel.half_batches && mesh->tensor > 1 && plan->micro_batch % 2 != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.half_batches needs an even train.micro_batch, which is %lld; "
                        "change it, or set half_batches to false",
                        (long long)plan->micro_batch);
    }
    if (plan->parallel.row_chunks && mesh->tensor > 1 && !plan->parallel.sequence_parallel) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.row_chunks needs train.mesh.sequence_parallel: set it to true, "
                        "or row_chunks to false");
    }
    const struct {
        const char *what;
        bool asked;
    } rows[] = {{"train.compile", plan->compile},
                {"train.init", plan->init != NULL},
                {"train.anomaly", plan->anomaly},
                {"train.verify_every", plan->verify_every > 0},
                {"train.hellaswag_every", plan->hellaswag_every > 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && mesh->tensor > 1; ++i) {
        if (rows[i].asked) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "%s needs the whole model on each rank, but train.mesh.tensor is %d; "
                            "remove one of the two",
                            rows[i].what, mesh->tensor);
        }
    }
    return BT_OK;
}

static bt_status refuse_shards(int64_t shards, int64_t micro_batches, int64_t ranks)
{
    char allowed[128] = "0";
    for (int64_t i = 1; i <= micro_batches && i <= 1024; i *= 2) {
        const size_t length = strlen(allowed);
        if (micro_batches % i == 0 && i % ranks == 0) {
            (void)snprintf(allowed + length, sizeof allowed - length, ", %lld", (long long)i);
        }
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "train.mesh.invariant is %lld; allowed: %s (powers of 2 that divide the step's "
                    "%lld micro-batches and are a multiple of train.mesh.data, %lld; 0: the bits "
                    "depend on the number of ranks)",
                    (long long)shards, allowed, (long long)micro_batches, (long long)ranks);
}

// The group's size must divide the micro-batches of a step, S must divide them, and the size must
// divide S.
static bt_status check_parallel(const bt_train_plan *plan, int world, int64_t micro_batches)
{
    const bt_train_parallel *parallel = &plan->parallel;
    const int64_t shards = parallel->invariant;
    bt_mesh_degrees mesh = parallel->mesh;
    BT_TRY(bt_mesh_check(&mesh, world));
    BT_TRY(bt_model_check(&plan->model, mesh.tensor, mesh.context, plan->recompute));
    BT_TRY(check_mesh(plan, &mesh));
    const int64_t ranks = (int64_t)mesh.data * mesh.context;
    BT_TRY(check_sharing(plan, &mesh));
    if ((unsigned)parallel->sharding >= BT_SHARDING_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown sharding %d", (int)parallel->sharding);
    }
    if (!(parallel->bucket_mb >= 0 && parallel->bucket_mb <= 65536)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "bucket_mb is %g, allowed: 0 to 65536",
                        parallel->bucket_mb);
    }
    const bt_device *memory = parallel->group ? parallel->group->device : NULL;
    const char *device = memory ? memory->backend->name : "cpu";
    if (parallel->group && plan->device && strcmp(plan->device, device) != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld ranks that exchange data as '%s' use memory of the device %s, but "
                        "the device to train on is %s",
                        (long long)world, parallel->group->backend->name, device, plan->device);
    }
    if (micro_batches % mesh.data != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.data is %d; it must divide the number of micro-batches of a "
                        "step, %lld (tokens_per_step %lld / micro_batch %lld / sequence %lld)",
                        mesh.data, (long long)micro_batches, (long long)plan->tokens_per_step,
                        (long long)plan->micro_batch, (long long)plan->sequence);
    }
    if (shards < 0 || (shards & (shards - 1)) != 0 || shards > micro_batches ||
        (shards > 0 && (micro_batches % shards != 0 || shards % ranks != 0))) {
        return refuse_shards(shards, micro_batches, ranks);
    }
    return BT_OK;
}

bt_status bt_train_check_mesh(const bt_train_plan *plan, int ranks)
{
    BT_TRY(check_integers(plan));
    BT_TRY(check_numbers(&plan->optimizer));
    int64_t micro_tokens = 0;
    BT_TRY(check_products(plan, &micro_tokens));
    if (!bt_model_family_known(plan->model.family)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "model.family is \"%s\", which is unknown",
                        plan->model.family);
    }
    if (plan->model.width % plan->model.heads != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "model.width %lld is not divisible by model.heads %lld",
                        (long long)plan->model.width, (long long)plan->model.heads);
    }
    if (plan->sequence > plan->model.context) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "sequence %lld is longer than model.context %lld",
                        (long long)plan->sequence, (long long)plan->model.context);
    }
    if (plan->tokens_per_step % micro_tokens != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "tokens_per_step %lld is not a multiple of micro_batch x sequence = %lld",
                        (long long)plan->tokens_per_step, (long long)micro_tokens);
    }
    if (plan->device && strcmp(plan->device, "cpu") == 0 && plan->precision == BT_PRECISION_TF32) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.precision %s needs a GPU; on the CPU allowed: fp32, bf16",
                        bt_precision_name(plan->precision));
    }
    return check_parallel(plan, ranks, plan->tokens_per_step / micro_tokens);
}

bt_status bt_train_check(const bt_train_plan *plan)
{
    const bt_group *group = plan->parallel.group;
    BT_TRY(bt_train_check_mesh(plan, group ? group->size : 1));
    if (plan->checkpoints.resume && plan->checkpoints.parameters_only) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "training cannot continue from checkpoints of "
                                                    "only the parameters (checkpoint.content)");
    }
    if (!(plan->checkpoints.every_minutes >= 0 && plan->checkpoints.every_minutes <= 1e6)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "checkpoint.every_minutes is %g; allowed: 0 to 1e6",
                        plan->checkpoints.every_minutes);
    }
    if (!(plan->slowdown >= 0 && plan->slowdown <= 1000)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "slowdown is %g; allowed: 0 to 1000",
                        plan->slowdown);
    }
    if (plan->train_shard_count < 1 || !plan->train_shards) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the plan has no training shard");
    }
    if (plan->val_shard_count < 0 || (plan->val_shard_count > 0 && !plan->val_shards)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%lld validation shards at %p",
                        (long long)plan->val_shard_count, (const void *)plan->val_shards);
    }
    if (plan->eval_every > 0 && plan->val_shard_count > 0 && plan->eval_batches < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "eval_batches is 0 but eval_every is %lld",
                        (long long)plan->eval_every);
    }
    if (plan->hellaswag_every > 0 && !plan->hellaswag) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "hellaswag_every is %lld but there are no questions",
                        (long long)plan->hellaswag_every);
    }
    if ((unsigned)plan->precision >= BT_PRECISION_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown precision %d", (int)plan->precision);
    }
    if (!plan->device) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the plan has no device");
    }
    if ((unsigned)plan->graph >= BT_TRAIN_GRAPH_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown graph %d", (int)plan->graph);
    }
    if ((unsigned)plan->on_nonfinite >= BT_TRAIN_POLICY_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown policy on_nonfinite %d",
                        (int)plan->on_nonfinite);
    }
    const bt_train_checkpoints *saves = &plan->checkpoints;
    if (plan->on_nonfinite == BT_TRAIN_POLICY_ROLLBACK &&
        (!saves->folder || (saves->every_steps < 1 && !(saves->every_minutes > 0)))) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "on_nonfinite is rollback, but no checkpoints are written during training: set "
            "checkpoint.every_steps or every_minutes");
    }
    if (plan->on_nonfinite == BT_TRAIN_POLICY_ROLLBACK && saves->parameters_only) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "on_nonfinite is rollback, but training cannot continue from checkpoints "
                        "of only the parameters");
    }
    return BT_OK;
}
