// framework/train/check.c - is a plan possible? Names and numbers only, no device, no file
#include <math.h>
#include <string.h>

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
    } fields[] = {
        {"model.layers", plan->model.layers, 1},
        {"model.heads", plan->model.heads, 1},
        {"model.width", plan->model.width, 1},
        {"model.vocab", plan->model.vocab, 1},
        {"model.context", plan->model.context, 1},
        {"micro_batch", plan->micro_batch, 1},
        {"sequence", plan->sequence, 1},
        {"tokens_per_step", plan->tokens_per_step, 1},
        {"steps", plan->steps, 1},
        {"warmup_timing_steps", plan->warmup_timing_steps, 0},
        {"eval_every", plan->eval_every, 0},
        {"eval_batches", plan->eval_batches, 0},
        {"profile_steps", plan->profile_steps, 0},
        {"optimizer.warmup_steps", plan->optimizer.warmup_steps, 0},
        {"optimizer.decay_steps", plan->optimizer.decay_steps, 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (fields[i].value < fields[i].least || fields[i].value > INT64_C(1) << 40) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is %lld, allowed from %lld to 2^40",
                            fields[i].name, (long long)fields[i].value, (long long)fields[i].least);
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

bt_status bt_train_check(const bt_train_plan *plan)
{
    BT_TRY(check_integers(plan));
    BT_TRY(check_numbers(&plan->optimizer));
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
    int64_t micro_tokens = plan->micro_batch * plan->sequence;
    if (plan->tokens_per_step % micro_tokens != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "tokens_per_step %lld is not a multiple of micro_batch x sequence = %lld",
                        (long long)plan->tokens_per_step, (long long)micro_tokens);
    }
    if (!(plan->slowdown >= 0 && plan->slowdown <= 1000)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "slowdown is %g; allowed: 0 to 1000",
                        plan->slowdown);
    }
    if (plan->train_shard_count < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "there is no training shard");
    }
    if (plan->eval_every > 0 && plan->val_shard_count > 0 && plan->eval_batches < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "eval_batches is 0 but eval_every is %lld",
                        (long long)plan->eval_every);
    }
    if ((unsigned)plan->precision >= BT_PRECISION_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown precision %d", (int)plan->precision);
    }
    if (strcmp(plan->device, "cpu") == 0 && plan->precision == BT_PRECISION_TF32) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "precision %s needs a GPU; on the CPU allowed: fp32, bf16",
                        bt_precision_name(plan->precision));
    }
    return BT_OK;
}
