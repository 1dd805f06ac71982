// framework/train/train.c - the training loop
//
// bt_train_run opens what the plan names, then for each step: micro-batches forward and backward
// (gradients accumulate), clip and AdamW, report. Evaluation, profiled steps and checkpoints run
// between steps.
#include "framework/train/train.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/ops/row_chunks.h"
#include "framework/train/trainer.h"

enum { ALONE_EVERY = 32 };

static bt_status report_start(bt_trainer *t)
{
    const char *note = t->session.device.note;
    if (*note && t->observer->note) {
        BT_TRY(t->observer->note(t->observer->self, note));
    }
    BT_TRY(bt_ranks_note(t));
    bt_train_start event = {.device = &t->session.device.info,
                            .parameters = bt_params_element_count(&t->params),
                            .tensors = t->params.spec_count,
                            .accumulation = t->accumulation,
                            .train_tokens = bt_loader_tokens(t->train),
                            .val_tokens = t->val ? bt_loader_tokens(t->val) : 0,
                            .first_step = t->first_step,
                            .compile_ns = bt_trainer_compile_ns(t)};
    BT_TRY(t->observer->start ? t->observer->start(t->observer->self, &event) : BT_OK);
    return bt_trainer_report_compiled(t);
}

// ---- evaluation ---------------------------------------------------------------------------------

// The losses of this rank's batches; in each round every rank has one batch.
static bt_status evaluate_rounds(bt_trainer *t, int64_t rounds, float *losses)
{
    const bt_train_plan *plan = t->plan;
    bt_feed feed = {0};
    t->session.context.tape = NULL;
    BT_TRY(bt_loader_cursor_set(t->val, (bt_loader_cursor){0}));
    BT_TRY(bt_feed_init(&t->session.context, t->val, 1, plan->micro_batch, plan->sequence,
                        &t->sharing, rounds, &feed));
    bt_status status = BT_OK;
    bt_range_push(&t->session.context, "evaluation");
    for (int64_t i = 0; i < rounds && status == BT_OK; ++i) {
        const bt_batch batch = bt_step_batch(t, &feed, 0);
        bt_tensor *batch_loss = NULL;
        BT_TRY_GOTO(bt_feed_next(&feed), done);
        BT_TRY_GOTO(t->parallel ? bt_data_parallel_forward(t->parallel) : BT_OK, done);
        BT_TRY_GOTO(bt_model_loss(&t->session.context, &t->model, &batch, &batch_loss), done);
        BT_TRY_GOTO(bt_feed_ahead(&feed), next);
        BT_TRY_GOTO(bt_tensor_read(&t->session.context, batch_loss, &losses[i]), next);
    next:
        bt_tensor_release(batch_loss);
    }
done:
    bt_range_pop(&t->session.context);
    bt_feed_release(&feed);
    return status;
}

static bt_status evaluate(bt_trainer *t, int64_t step, double *loss)
{
    const bt_train_plan *plan = t->plan;
    const int64_t ranks = bt_ranks_count(t), parts = plan->eval_batches * bt_ranks_sharing(t);
    const int64_t rounds = (parts + ranks - 1) / ranks;
    const int64_t start_ns = bt_clock_ns();
    double sum = 0;
    void *losses = NULL;
    BT_TRY(bt_mem_alloc((size_t)rounds, sizeof(float), &losses));
    bt_status status = evaluate_rounds(t, rounds, losses);
    if (status == BT_OK) {
        status = bt_ranks_sum_rounds(t, losses, rounds, parts, &sum);
    }
    bt_mem_free(losses);
    BT_TRY(bt_error_context(status, "evaluation"));
    *loss = sum / (double)parts;
    bt_train_eval event = {.step = step,
                           .loss = *loss,
                           .tokens = plan->eval_batches * plan->micro_batch * plan->sequence,
                           .host_ns = bt_clock_ns() - start_ns};
    return t->observer->eval ? t->observer->eval(t->observer->self, &event) : BT_OK;
}

static bt_status planned_evaluate(bt_trainer *t, int64_t step, double *loss)
{
    bt_pool_step_begin(t->session.pool, BT_MEMORY_EVALUATION);
    bt_status status = evaluate(t, step, loss);
    bt_pool_step_end(t->session.pool);
    return status;
}

static bool evaluates_at(const bt_trainer *t, int64_t step)
{
    int64_t every = t->plan->eval_every;
    return t->val && (step % every == 0 || step == t->plan->steps);
}

static bool scores_at(const bt_train_plan *plan, int64_t step)
{
    return plan->hellaswag_every > 0 && (step % plan->hellaswag_every == 0 || step == plan->steps);
}

static bt_status score(bt_trainer *t, int64_t step)
{
    bt_train_score event = {.step = step};
    const int64_t start_ns = bt_clock_ns();
    t->session.context.tape = NULL;
    bt_range_push(&t->session.context, "hellaswag");
    bt_status status = bt_hellaswag_run(&t->session.context, &t->model, t->plan->hellaswag,
                                        (bt_hellaswag_listener){0}, &event.score);
    bt_range_pop(&t->session.context);
    BT_TRY(bt_error_context(status, "hellaswag"));
    event.host_ns = bt_clock_ns() - start_ns;
    return t->observer->score ? t->observer->score(t->observer->self, &event) : BT_OK;
}

// Evaluations due after `step` steps.
static bt_status examine(bt_trainer *t, int64_t step, bt_train_result *result)
{
    if (evaluates_at(t, step)) {
        BT_TRY(planned_evaluate(t, step, &result->val_loss));
    }
    return scores_at(t->plan, step) ? score(t, step) : BT_OK;
}

// ---- one step -----------------------------------------------------------------------------------

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

// The pool's statistics plus memory for exchanges between ranks.
static void read_pool(const bt_trainer *t, bt_pool_stats *stats)
{
    const uint64_t beside = bt_row_chunks_bytes(t->chunks) + bt_context_ring_bytes(t->ring) +
                            (t->parallel ? bt_data_parallel_window_bytes(t->parallel) : 0);
    bt_pool_stats_read(t->session.pool, stats);
    stats->allocated_bytes += beside;
    stats->peak_allocated_bytes += beside;
    stats->reserved_bytes += beside;
    stats->peak_reserved_bytes += beside;
}

static void read_memory(bt_trainer *t, bt_train_step *event)
{
    bt_pool_stats stats;
    read_pool(t, &stats);
    event->allocated_bytes = stats.allocated_bytes;
    event->peak_allocated_bytes = stats.peak_allocated_bytes;
    event->reserved_bytes = stats.reserved_bytes;
    event->resident_bytes = resident_bytes();
}

// The index of this profiled step, -1 if it is not one. Profiled steps divide the steps after the
// warm-up evenly.
static int64_t profiled_behind(const bt_train_plan *plan, int64_t step)
{
    int64_t span = plan->steps - plan->warmup_timing_steps;
    int64_t count = plan->profile_steps < span ? plan->profile_steps : span;
    for (int64_t i = 0; i < count; ++i) {
        if (step == plan->warmup_timing_steps + (2 * i + 1) * span / (2 * count)) {
            return count - 1 - i;
        }
    }
    return -1;
}

// If the next forward overlaps a step's last exchange, a step's time contains the exchange of the
// previous step. Some steps, none of them profiled, and the last contain their own as well: nothing
// may overlap after these.
static bool ends_alone(const bt_trainer *t, int64_t step)
{
    const bool regular = step % ALONE_EVERY == 0 && profiled_behind(t->plan, step) < 0;
    return !t->parallel || !bt_data_parallel_runs_ahead(t->parallel) || regular ||
           step + 1 == t->plan->steps;
}

static bt_status begin_trace(bt_trainer *t, int64_t step)
{
    bt_state masters = t->keep.state; // which come first in it
    masters.count = masters.count < t->params.spec_count ? masters.count : t->params.spec_count;
    if (t->observer->value && !t->trace.begun) {
        BT_TRY(bt_keep_collect(t));
    }
    return bt_trace_begin(&t->trace, t->observer, &t->session.context, bt_keep_context(t), &masters,
                          step);
}

static bt_status run_step(bt_trainer *t, int64_t step, bool profiled, bt_train_launch launch)
{
    const bt_train_plan *plan = t->plan;
    const bt_backend *backend = t->session.device.backend;
    bt_train_step event = {.step = step,
                           .lr = bt_schedule_rate(&t->schedule, step),
                           .tokens = plan->tokens_per_step,
                           .warmup = step - t->first_step < plan->warmup_timing_steps,
                           .profiled = profiled};
    if (event.profiled) {
        bt_profile_start(t->profile);
    }
    BT_TRY(begin_trace(t, step));
    const bool alone_before = step == t->first_step || ends_alone(t, step - 1);
    const bool idle = alone_before && !bt_keep_copies(t); // the device
    BT_TRY(idle ? bt_region_begin(&t->session.device) : BT_OK);
    int64_t start_ns = bt_clock_ns();
    BT_TRY(backend->event_record(&t->session.device, t->step_start, t->session.context.stream));
    BT_TRY(bt_step_work(t, event.lr, launch));
    if (backend->kind != BT_DEVICE_CPU) {
        event.enqueue_ns = bt_clock_ns() - start_ns;
    }
    const bool alone = ends_alone(t, step);
    if (alone && t->parallel) {
        BT_TRY(bt_data_parallel_catch_up(t->parallel));
    }
    if (plan->slowdown > 0) {
        BT_TRY(backend->stream_synchronize(&t->session.device, t->session.context.stream));
        bt_clock_stretch(start_ns, plan->slowdown);
    }
    BT_TRY(backend->event_record(&t->session.device, t->step_stop, t->session.context.stream));
    BT_TRY(bt_step_read(t));
    BT_TRY(t->observer->value ? bt_keep_collect(t) : BT_OK);
    BT_TRY(bt_trace_end(&t->trace, &t->session.context, bt_keep_context(t), &t->keep.state));
    event.loss = t->loss;
    event.grad_norm = t->grad_norm;
    event.launch =
        t->graph.failed && launch == BT_TRAIN_LAUNCH_CAPTURE ? BT_TRAIN_LAUNCH_FAILED : launch;
    event.host_ns = bt_clock_ns() - start_ns;
    // The join waits for every stream. Training must not wait for a checkpoint's copy, least of all
    // within a step's time: a step during which one runs is not joined.
    if (alone && !bt_keep_copies(t)) {
        BT_TRY(bt_region_end(&t->steps, &t->session.device, event.host_ns));
    }
    BT_TRY(
        backend->event_elapsed(&t->session.device, t->step_start, t->step_stop, &event.device_ns));
    if (event.profiled) {
        BT_TRY(bt_profile_stop(t->profile, step, t->observer));
        const bool last = profiled_behind(plan, step) == 0;
        BT_TRY(last ? bt_profile_timeline(t->profile, step, t->observer) : BT_OK);
        BT_TRY(last ? bt_trainer_report_groups(t) : BT_OK);
    }
    read_memory(t, &event);
    BT_TRY(t->observer->step ? t->observer->step(t->observer->self, &event) : BT_OK);
    BT_TRY(bt_step_graph_report(t, step, event.launch));
    return bt_trainer_report_kernels(t);
}

static bt_status watched_step(bt_trainer *t, int64_t step)
{
    const bool profiled = profiled_behind(t->plan, step) >= 0;
    const bt_train_launch launch = bt_step_graph_choose(t, profiled);
    const bool allocates = launch != BT_TRAIN_LAUNCH_GRAPH;
    BT_TRY(bt_faults_begin(t, step));
    if (allocates) {
        bt_pool_step_begin(t->session.pool, BT_MEMORY_TRAINING);
    }
    bt_status status = run_step(t, step, profiled, launch);
    if (allocates) {
        bt_pool_step_end(t->session.pool);
    }
    return status == BT_OK ? bt_faults_end(t, step) : bt_faults_failed(t, step, status);
}

// ---- the run ------------------------------------------------------------------------------------

// Asks rank 0's observer.
static bt_status ask_to_stop(bt_trainer *t, bool *stop)
{
    const bt_train_observer *o = t->observer;
    *stop = bt_ranks_is_first(t) && o->should_stop && o->should_stop(o->self);
    return bt_ranks_share(t, stop, sizeof *stop);
}

static bt_status loop(bt_trainer *t, bt_train_result *result)
{
    result->steps_done = t->first_step;
    for (int64_t step = t->first_step; step < t->plan->steps; ++step) {
        BT_TRY(bt_faults_failed(t, step, ask_to_stop(t, &result->stopped)));
        if (result->stopped) {
            break;
        }
        BT_TRY(examine(t, step, result));
        BT_TRY(bt_error_context(watched_step(t, step), "step %lld", (long long)step));
        result->steps_done = step + 1;
        BT_TRY(bt_keep_report_state(t, step + 1));
        BT_TRY(bt_keep_tick(t, step + 1));
    }
    BT_TRY(bt_keep_finish(t, result->steps_done));
    if (!result->stopped) {
        BT_TRY(examine(t, t->plan->steps, result));
    }
    bt_pool_stats stats;
    read_pool(t, &stats);
    result->behind_ns = bt_region_behind_ns(&t->steps);
    result->peak_allocated_bytes = stats.peak_allocated_bytes;
    result->peak_reserved_bytes = stats.peak_reserved_bytes;
    return bt_keep_digest(t, result->steps_done, result->state_digest);
}

bt_status bt_train_run(const bt_train_plan *plan, const bt_train_observer *observer,
                       bt_train_result *result)
{
    *result = (bt_train_result){.val_loss = (double)NAN};
    BT_TRY(bt_train_check(plan));
    if (observer->value && plan->parallel.half_batches && plan->parallel.mesh.tensor > 1) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "the values of a step need whole micro-batches: set train.mesh.half_batches to false");
    }
    bt_trainer t = {.plan = plan, .observer = observer};
    bt_status status = bt_trainer_open(&t);
    if (status == BT_OK) {
        status = report_start(&t);
    }
    if (status == BT_OK && plan->checkpoints.folder && plan->checkpoints.resume) {
        status = bt_keep_report_load(&t);
    }
    if (status == BT_OK) {
        status = loop(&t, result);
    }
    if (status != BT_OK && !t.faults.alike) { // an abort could overtake the values
        bt_ranks_fail(plan);
    }
    bt_trainer_close(&t);
    return status;
}
