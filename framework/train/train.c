// framework/train/train.c - the training loop
//
// bt_train_run: open what the plan names, then for each step: micro-batches forward and backward
// (gradients add up), clip and AdamW, report. Evaluation and profiled steps go in between.
#include "framework/train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/autograd/session.h"
#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/optim/adamw.h"
#include "framework/optim/schedule.h"
#include "framework/train/feed.h"
#include "framework/train/profile.h"

enum { KERNELS_SEEN = 128 };
enum { MEMORY_TRAINING, MEMORY_EVALUATION }; // kinds of repeated steps that the pool plans

typedef struct seen_kernel {
    const bt_kernel *kernel; // borrowed, a row
    char label[96];
} seen_kernel;

typedef struct trainer {
    const bt_train_plan *plan;         // borrowed
    const bt_train_observer *observer; // borrowed
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_adamw optimizer;
    bt_loader *train, *val;
    bt_feed feed;
    bt_profile *profile;
    bt_tensor *losses; // [accumulation] f32, a step's micro-batch losses
    float *host_losses;
    bt_event step_start, step_stop;
    int64_t accumulation;
    seen_kernel seen[KERNELS_SEEN]; // reported once each
    int seen_count, reported_count;
    bool plans_seen; // a training step is done: from now on a row that is known has no news
} trainer;

// ---- opening and closing ------------------------------------------------------------------------

static bool is_seen(const trainer *t, const bt_kernel *kernel, const char *label)
{
    for (int i = 0; i < t->seen_count; ++i) {
        const seen_kernel *seen = &t->seen[i];
        if (seen->kernel == kernel && (!label || strcmp(seen->label, label) == 0)) {
            return true;
        }
    }
    return false;
}

static void on_kernel(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                      const void *args)
{
    trainer *t = self;
    char label[sizeof t->seen[0].label];
    if (t->seen_count == KERNELS_SEEN || (t->plans_seen && is_seen(t, kernel, NULL))) {
        return;
    }
    bt_kernel_label(&t->session.device, kernel, plan, args, label, sizeof label);
    if (!is_seen(t, kernel, label)) {
        seen_kernel *seen = &t->seen[t->seen_count++];
        seen->kernel = kernel;
        memcpy(seen->label, label, sizeof label);
    }
}

// What has come up since the last time. Behind a training step, so every plan of a step is known.
static bt_status report_kernels(trainer *t)
{
    for (; t->reported_count < t->seen_count && t->observer->kernel; ++t->reported_count) {
        const seen_kernel *seen = &t->seen[t->reported_count];
        bt_train_kernel event = {bt_kernel_op_name(seen->kernel->op), seen->label};
        BT_TRY(t->observer->kernel(t->observer->self, &event));
    }
    const char *warning = t->session.tuner ? bt_gemm_tuner_warning(t->session.tuner) : "";
    if (!t->plans_seen && *warning && t->observer->note) {
        BT_TRY(t->observer->note(t->observer->self, warning));
    }
    t->plans_seen = true;
    return BT_OK;
}

static bt_status open_loaders(trainer *t)
{
    const bt_train_plan *plan = t->plan;
    bt_loader_options options = {.shards = plan->train_shards,
                                 .shard_count = plan->train_shard_count,
                                 .micro_batch = plan->micro_batch,
                                 .sequence = plan->sequence,
                                 .vocab = plan->model.vocab,
                                 .world = 1,
                                 .shuffle = !plan->sequential,
                                 .seed = plan->seed};
    BT_TRY(bt_loader_create(&options, &t->train));
    if (plan->val_shard_count == 0 || plan->eval_every == 0) {
        return BT_OK;
    }
    options.shards = plan->val_shards;
    options.shard_count = plan->val_shard_count;
    options.shuffle = false;
    return bt_error_context(bt_loader_create(&options, &t->val), "validation data");
}

static bt_status open_device(trainer *t)
{
    const bt_train_plan *plan = t->plan;
    BT_TRY(bt_session_open(plan->device, plan->ordinal, plan->memory_limit_bytes, &t->session));
    t->session.context.compute =
        plan->precision == BT_PRECISION_TF32 ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE;
    t->session.context.kernel_hook = (bt_kernel_hook){t, on_kernel};
    BT_TRY(t->session.device.backend->event_create(&t->session.device, &t->step_start));
    return t->session.device.backend->event_create(&t->session.device, &t->step_stop);
}

static bt_status open_model(trainer *t)
{
    const bt_train_plan *plan = t->plan;
    const bt_train_optimizer *o = &plan->optimizer;
    bt_dtype compute = plan->precision == BT_PRECISION_BF16 ? BT_BF16 : BT_F32;
    bt_adamw_config config = {.beta1 = o->beta1,
                              .beta2 = o->beta2,
                              .epsilon = o->epsilon,
                              .weight_decay = o->weight_decay,
                              .clip = o->clip};
    bt_params_init(&t->params, &t->session.context, BT_F32, compute, plan->seed);
    BT_TRY(bt_gpt2_init(&t->params, &plan->model, &t->model));
    t->model.recompute = plan->recompute;
    return bt_adamw_init(&t->params, &config, &t->optimizer);
}

static bt_status open_trainer(trainer *t)
{
    const bt_train_plan *plan = t->plan;
    t->accumulation = plan->tokens_per_step / (plan->micro_batch * plan->sequence);
    void *losses = NULL;
    BT_TRY(bt_mem_alloc((size_t)t->accumulation, sizeof *t->host_losses, &losses));
    t->host_losses = losses;
    BT_TRY(open_loaders(t)); // before the device: bad data is the likelier mistake
    BT_TRY(open_device(t));
    BT_TRY(open_model(t));
    BT_TRY(bt_tensor_create(&t->session.context, BT_F32, BT_SHAPE(t->accumulation), "losses",
                            &t->losses));
    BT_TRY(
        bt_feed_init(&t->session.context, t->train, plan->micro_batch, plan->sequence, &t->feed));
    return bt_profile_create(&t->session.context, &t->profile);
}

static void close_trainer(trainer *t)
{
    bt_error_quiet_begin();
    bt_profile_destroy(t->profile);
    bt_feed_release(&t->feed);
    bt_tensor_release(t->losses);
    bt_adamw_release(&t->optimizer);
    bt_gpt2_release(&t->model);
    bt_params_release(&t->params);
    if (t->step_start) {
        t->session.device.backend->event_destroy(&t->session.device, t->step_start);
    }
    if (t->step_stop) {
        t->session.device.backend->event_destroy(&t->session.device, t->step_stop);
    }
    bt_session_close(&t->session);
    bt_loader_destroy(t->val);
    bt_loader_destroy(t->train);
    bt_mem_free(t->host_losses);
    bt_error_quiet_end();
}

static bt_status report_start(trainer *t)
{
    const char *note = t->session.device.note;
    if (*note && t->observer->note) {
        BT_TRY(t->observer->note(t->observer->self, note));
    }
    bt_train_start event = {.device = &t->session.device.info,
                            .parameters = bt_params_element_count(&t->params),
                            .tensors = t->params.count,
                            .accumulation = t->accumulation,
                            .train_tokens = bt_loader_tokens(t->train),
                            .val_tokens = t->val ? bt_loader_tokens(t->val) : 0};
    return t->observer->start ? t->observer->start(t->observer->self, &event) : BT_OK;
}

// ---- evaluation ---------------------------------------------------------------------------------

static bt_status evaluate(trainer *t, int64_t step, double *loss)
{
    const bt_train_plan *plan = t->plan;
    bt_feed feed = {0};
    double sum = 0;
    int64_t start_ns = bt_clock_ns();
    t->session.context.tape = NULL;
    BT_TRY(bt_loader_cursor_set(t->val, (bt_loader_cursor){0, 0}));
    BT_TRY(bt_feed_init(&t->session.context, t->val, plan->micro_batch, plan->sequence, &feed));
    bt_status status = BT_OK;
    bt_range_push(&t->session.context, "evaluation");
    for (int64_t i = 0; i < plan->eval_batches && status == BT_OK; ++i) {
        bt_tensor *ids = NULL;
        bt_tensor *targets = NULL;
        bt_tensor *batch_loss = NULL;
        float value = 0;
        BT_TRY_GOTO(bt_feed_next(&feed, &ids, &targets), done);
        BT_TRY_GOTO(bt_gpt2_loss(&t->session.context, &t->model, ids, targets, &batch_loss), done);
        BT_TRY_GOTO(bt_feed_done(&feed), next);
        BT_TRY_GOTO(bt_tensor_read(&t->session.context, batch_loss, &value), next);
        sum += (double)value;
    next:
        bt_tensor_release(batch_loss);
    }
done:
    bt_range_pop(&t->session.context);
    bt_feed_release(&feed);
    BT_TRY(bt_error_context(status, "evaluation"));
    *loss = sum / (double)plan->eval_batches;
    bt_train_eval event = {.step = step,
                           .loss = *loss,
                           .tokens = plan->eval_batches * plan->micro_batch * plan->sequence,
                           .host_ns = bt_clock_ns() - start_ns};
    return t->observer->eval ? t->observer->eval(t->observer->self, &event) : BT_OK;
}

static bt_status planned_evaluate(trainer *t, int64_t step, double *loss)
{
    bt_pool_step_begin(t->session.pool, MEMORY_EVALUATION);
    bt_status status = evaluate(t, step, loss);
    bt_pool_step_end(t->session.pool);
    return status;
}

static bool evaluates_at(const trainer *t, int64_t step)
{
    int64_t every = t->plan->eval_every;
    return t->val && (step % every == 0 || step == t->plan->steps);
}

// ---- one step -----------------------------------------------------------------------------------

static bt_status micro_step(trainer *t, int64_t i)
{
    bt_device *device = &t->session.device;
    bt_tensor *ids = NULL;
    bt_tensor *targets = NULL;
    bt_tensor *loss = NULL;
    BT_TRY(bt_feed_next(&t->feed, &ids, &targets));
    t->session.context.tape = t->session.tape;
    bt_range_push(&t->session.context, "forward");
    bt_status status = bt_gpt2_loss(&t->session.context, &t->model, ids, targets, &loss);
    bt_range_pop(&t->session.context);
    if (status == BT_OK) {
        status = device->backend->copy(device, (float *)bt_tensor_data(t->losses) + i,
                                       bt_tensor_data(loss), sizeof(float),
                                       BT_COPY_DEVICE_TO_DEVICE, t->session.context.stream);
    }
    if (status == BT_OK) {
        bt_range_push(&t->session.context, "backward");
        status = bt_backward(&t->session.context, loss, NULL);
        bt_range_pop(&t->session.context);
    }
    bt_tensor_release(loss);
    t->session.context.tape = NULL;
    return status == BT_OK ? bt_feed_done(&t->feed) : status;
}

static bt_status work(trainer *t, double lr)
{
    bt_range_push(&t->session.context, "step");
    bt_status status = BT_OK;
    for (int64_t i = 0; i < t->accumulation && status == BT_OK; ++i) {
        status = micro_step(t, i);
    }
    if (status == BT_OK) {
        bt_range_push(&t->session.context, "optimizer");
        status =
            bt_adamw_step(&t->session.context, &t->optimizer, lr, 1.0 / (double)t->accumulation);
        bt_range_pop(&t->session.context);
    }
    bt_range_pop(&t->session.context);
    return status;
}

// Waits for the step and reads what it left on the device.
static bt_status read_results(trainer *t, bt_train_step *event)
{
    double sum = 0;
    BT_TRY(bt_tensor_read(&t->session.context, t->losses, t->host_losses));
    BT_TRY(bt_tensor_read(&t->session.context, t->optimizer.norm, &event->grad_norm));
    for (int64_t i = 0; i < t->accumulation; ++i) {
        sum += (double)t->host_losses[i];
    }
    event->loss = (float)(sum / (double)t->accumulation);
    return BT_OK;
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%*u %llu", &pages) != 1) {
            pages = 0;
        }
        (void)fclose(file);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void read_memory(trainer *t, bt_train_step *event)
{
    bt_pool_stats stats;
    bt_pool_stats_read(t->session.pool, &stats);
    event->allocated_bytes = stats.allocated_bytes;
    event->peak_allocated_bytes = stats.peak_allocated_bytes;
    event->reserved_bytes = stats.reserved_bytes;
    event->resident_bytes = resident_bytes();
}

// The profiled steps divide what follows the warm-up evenly.
static bool profiles_at(const bt_train_plan *plan, int64_t step)
{
    int64_t span = plan->steps - plan->warmup_timing_steps;
    int64_t count = plan->profile_steps < span ? plan->profile_steps : span;
    for (int64_t i = 0; i < count; ++i) {
        if (step == plan->warmup_timing_steps + (2 * i + 1) * span / (2 * count)) {
            return true;
        }
    }
    return false;
}

static bt_status run_step(trainer *t, int64_t step)
{
    const bt_train_plan *plan = t->plan;
    const bt_train_optimizer *o = &plan->optimizer;
    const bt_backend *backend = t->session.device.backend;
    bt_schedule schedule = {.lr = o->lr,
                            .min_lr = o->min_lr,
                            .warmup_steps = o->warmup_steps,
                            .decay_steps = o->decay_steps ? o->decay_steps : plan->steps};
    bt_train_step event = {.step = step,
                           .lr = bt_schedule_rate(&schedule, step),
                           .tokens = plan->tokens_per_step,
                           .warmup = step < plan->warmup_timing_steps,
                           .profiled = profiles_at(plan, step)};
    if (event.profiled) {
        bt_profile_start(t->profile);
    }
    int64_t start_ns = bt_clock_ns();
    BT_TRY(backend->event_record(&t->session.device, t->step_start, t->session.context.stream));
    BT_TRY(work(t, event.lr));
    if (plan->slowdown > 0) {
        BT_TRY(backend->stream_synchronize(&t->session.device, t->session.context.stream));
        bt_clock_stretch(start_ns, plan->slowdown);
    }
    BT_TRY(backend->event_record(&t->session.device, t->step_stop, t->session.context.stream));
    BT_TRY(read_results(t, &event));
    event.host_ns = bt_clock_ns() - start_ns;
    BT_TRY(
        backend->event_elapsed(&t->session.device, t->step_start, t->step_stop, &event.device_ns));
    if (event.profiled) {
        BT_TRY(bt_profile_stop(t->profile, step, t->observer));
    }
    read_memory(t, &event);
    BT_TRY(t->observer->step ? t->observer->step(t->observer->self, &event) : BT_OK);
    return report_kernels(t);
}

// ---- the run ------------------------------------------------------------------------------------

static bt_status loop(trainer *t, bt_train_result *result)
{
    BT_TRY(report_start(t));
    for (int64_t step = 0; step < t->plan->steps; ++step) {
        if (t->observer->should_stop && t->observer->should_stop(t->observer->self)) {
            result->stopped = true;
            break;
        }
        if (evaluates_at(t, step)) {
            BT_TRY(planned_evaluate(t, step, &result->val_loss));
        }
        bt_pool_step_begin(t->session.pool, MEMORY_TRAINING);
        bt_status status = run_step(t, step);
        bt_pool_step_end(t->session.pool);
        BT_TRY(bt_error_context(status, "step %lld", (long long)step));
        result->steps_done = step + 1;
    }
    if (!result->stopped && evaluates_at(t, t->plan->steps)) {
        BT_TRY(planned_evaluate(t, t->plan->steps, &result->val_loss));
    }
    bt_pool_stats stats;
    bt_pool_stats_read(t->session.pool, &stats);
    result->peak_allocated_bytes = stats.peak_allocated_bytes;
    result->peak_reserved_bytes = stats.peak_reserved_bytes;
    return bt_params_digest(&t->params, result->params_digest);
}

bt_status bt_train_run(const bt_train_plan *plan, const bt_train_observer *observer,
                       bt_train_result *result)
{
    *result = (bt_train_result){.val_loss = (double)NAN};
    BT_TRY(bt_train_check(plan));
    trainer t = {.plan = plan, .observer = observer};
    bt_status status = open_trainer(&t);
    if (status == BT_OK) {
        status = loop(&t, result);
    }
    close_trainer(&t);
    return status;
}
