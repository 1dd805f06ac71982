// harness/run/record.c - one round: rows as events arrive, measurements at the end
#include "harness/run/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/scoped.h"
#include "harness/stats/noise.h"
#include "harness/stats/summary.h"

bt_status bt_recorder_begin(bt_store *store, int64_t run, const char *bench, const cJSON *item,
                            const char *system, int64_t ordinal, bt_recorder *out)
{
    memset(out, 0, sizeof *out);
    out->store = store;
    out->item = item;
    out->ours = strcmp(system, "blutrain") == 0;
    out->time_ns = out->rate_tok_s = out->energy_j = out->work_power_w = (double)NAN;
    out->output_error_share = (double)NAN;
    out->started_ns = bt_clock_ns();
    BT_SCOPED(bt_str) axes = {0};
    bt_json_write(item, &axes);
    bt_store_case what = {.bench = bench,
                          .kind = bt_json_get(item, "kind")->valuestring,
                          .name = bt_json_get(item, "name")->valuestring,
                          .axes_json = bt_str_text(&axes),
                          .system = system};
    BT_TRY(bt_str_status(&axes));
    return bt_store_round_begin(store, run, &what, ordinal, &out->round);
}

static bt_status add_step(bt_recorder *self, const bt_store_step *step);
static bt_status add_eval(bt_recorder *self, const bt_store_eval *eval);

// A round resumed from a checkpoint begins with the steps of the previous round. Their times are
// not measurements of this process.
static bt_status take_before(bt_recorder *self, int64_t first_step)
{
    const bt_store_round *before = self->before;
    for (int64_t i = 0; i < first_step; ++i) {
        bt_store_step step = before->steps[i];
        step.warmup = true;
        BT_TRY(add_step(self, &step));
    }
    for (int64_t i = 0; before && i < before->eval_count; ++i) {
        if (before->evals[i].step < first_step) {
            BT_TRY(add_eval(self, &before->evals[i]));
        }
    }
    self->first_step = first_step;
    return BT_OK;
}

static bt_status take_start(bt_recorder *self, const bt_run_event_start *start)
{
    const cJSON *train = bt_json_get(self->item, "train");
    const cJSON *kernel = bt_json_get(self->item, "kernel");
    const cJSON *precision =
        kernel ? bt_json_get(kernel, "dtype") : bt_json_get(train, "precision");
    const cJSON *name = bt_json_get(bt_json_get(self->item, "dataset"), "name");
    bt_store_shape shape = {.device = start->device,
                            .precision = cJSON_IsString(precision) ? precision->valuestring : "",
                            .dataset = cJSON_IsString(name) ? name->valuestring
                                       : !train             ? ""
                                                            : "shards by path",
                            .parameters = start->parameters,
                            .tensors = start->tensors,
                            .accumulation = start->accumulation,
                            .steps = (int64_t)bt_json_number_of(train, "steps"),
                            .train_tokens = start->train_tokens,
                            .val_tokens = start->val_tokens};
    self->compile_ns = start->compile_ns;
    BT_TRY(bt_store_round_describe(self->store, self->round, &shape));
    return take_before(self, start->first_step);
}

static bt_status add_step(bt_recorder *self, const bt_store_step *step)
{
    BT_TRY(BT_MEM_GROW(self->step_count + 1, &self->step_capacity, &self->steps));
    self->steps[self->step_count++] = *step;
    return bt_store_step_add(self->store, self->round, step);
}

static bt_status take_step(bt_recorder *self, const bt_store_step *step)
{
    self->last_step_ns = bt_clock_ns();
    self->first_step_ns = self->first_step_ns ? self->first_step_ns : self->last_step_ns;
    return add_step(self, step);
}

static bt_status add_eval(bt_recorder *self, const bt_store_eval *eval)
{
    BT_TRY(BT_MEM_GROW(self->eval_count + 1, &self->eval_capacity, &self->val_losses));
    self->val_losses[self->eval_count++] = eval->loss;
    return bt_store_eval_add(self->store, self->round, eval);
}

static bt_status take_eval(bt_recorder *self, const bt_store_eval *eval)
{
    self->evals_ns += (double)eval->host_ns;
    return add_eval(self, eval);
}

// Events must be durable no later than the save: both are needed to resume.
static bt_status take_save(bt_recorder *self, const bt_run_event_save *save)
{
    self->saves_ns += (double)save->blocked_ns;
    if (strcmp(save->kind, "failed") == 0) {
        ++self->failed_saves;
        (void)snprintf(self->failed_save, sizeof self->failed_save, "%s", save->message);
    }
    if (strcmp(save->kind, "loaded") == 0) {
        self->load_ns = (double)save->host_ns;
    }
    if (strcmp(save->kind, "saved") != 0) {
        return BT_OK;
    }
    BT_TRY(BT_MEM_GROW(self->save_count + 1, &self->save_capacity, &self->saves));
    self->saves[self->save_count] = *save;
    self->saves[self->save_count].kind = self->saves[self->save_count].message = NULL;
    ++self->save_count;
    return bt_store_flush(self->store);
}

static bt_status take_samples(bt_recorder *self, const bt_run_event_samples *samples)
{
    BT_TRY(BT_MEM_GROW(self->time_count + samples->count, &self->time_capacity, &self->times_ns));
    memcpy(self->times_ns + self->time_count, samples->times_ns,
           (size_t)samples->count * sizeof(double));
    self->time_count += samples->count;
    return BT_OK;
}

static void take_measured(bt_recorder *self, const bt_run_event_measured *measured)
{
    self->measured = true;
    self->error_share = measured->error_share;
    self->cpu_time_ns = measured->cpu_time_ns;
    self->launch_time_ns = measured->launch_time_ns;
    self->compile_time_ns = measured->compile_time_ns;
    self->load_time_ns = measured->load_time_ns;
    for (int64_t i = 0; i < self->time_count; ++i) {
        self->total_ns += self->times_ns[i] *
                          (double)(measured->calls_per_sample ? measured->calls_per_sample : 1);
    }
    (void)snprintf(self->stop, sizeof self->stop, "%s", measured->stop);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void note_memory(bt_store_memory *peak, const bt_store_memory *memory)
{
    peak->peak_allocated_bytes = larger(peak->peak_allocated_bytes, memory->peak_allocated_bytes);
    peak->peak_reserved_bytes = larger(peak->peak_reserved_bytes, memory->peak_reserved_bytes);
    peak->peak_resident_bytes = larger(peak->peak_resident_bytes, memory->peak_resident_bytes);
}

// What a record adds to the sums of the round.
static void note(bt_recorder *self, const bt_run_event *event)
{
    if (event->type == BT_RUN_EVENT_RANGE) {
        bt_recorder_note_range(self, &event->as.range);
    } else if (event->type == BT_RUN_EVENT_SCORE) {
        self->evals_ns += (double)event->as.score.host_ns;
    } else if (event->type == BT_RUN_EVENT_STATE) {
        self->evals_ns += (double)event->as.state.host_ns;
    } else if (event->type == BT_RUN_EVENT_MEMORY) {
        note_memory(&self->memory, &event->as.memory);
    }
}

bt_status bt_recorder_take(bt_recorder *self, const bt_run_event *event)
{
    bt_fields_of kind;
    switch ((int)event->type) {
    case BT_RUN_EVENT_START:
        return take_start(self, &event->as.start);
    case BT_RUN_EVENT_STEP:
        return take_step(self, &event->as.step);
    case BT_RUN_EVENT_EVAL:
        return take_eval(self, &event->as.eval);
    case BT_RUN_EVENT_SAMPLES:
        return take_samples(self, &event->as.samples);
    case BT_RUN_EVENT_MEASURED:
        take_measured(self, &event->as.measured);
        return BT_OK;
    case BT_RUN_EVENT_RESULT:
        (void)snprintf(self->params_digest, sizeof self->params_digest, "%s",
                       event->as.result.params_digest);
        return BT_OK;
    case BT_RUN_EVENT_SAVE:
        return take_save(self, &event->as.save);
    case BT_RUN_EVENT_RECOVERY:
        return bt_recorder_take_recovery(self, &event->as.recovery);
    default:
        note(self, event);
        return bt_run_event_is_record(event->type, &kind)
                   ? bt_store_record_add(self->store, self->round, kind, &event->as)
                   : BT_OK;
    }
}

// ---- measurements ------------------------------------------------------------------------------

static bt_status measure(const bt_recorder *self, bt_metric metric, double value)
{
    bt_store_measurement row = {
        .metric = metric, .value = value, .low = (double)NAN, .high = (double)NAN};
    return bt_store_measure(self->store, self->round, &row);
}

typedef enum sample_kind { SAMPLE_HOST, SAMPLE_DEVICE, SAMPLE_LAUNCH, SAMPLE_RATE } sample_kind;

// Values of the measured steps, in order.
static int64_t collect(const bt_recorder *self, sample_kind kind, double *samples)
{
    int64_t count = 0;
    BT_EACH(const bt_store_step, step, self->steps, self->step_count) {
        const int64_t time_ns = kind == SAMPLE_DEVICE   ? step->device_ns
                                : kind == SAMPLE_LAUNCH ? step->launch_ns
                                                        : step->host_ns;
        if (!step->warmup && !step->profiled && time_ns > 0) {
            samples[count++] = kind == SAMPLE_RATE ? (double)step->tokens * 1e9 / (double)time_ns
                                                   : (double)time_ns;
        }
    }
    return count;
}

static bt_status measure_value(const bt_recorder *self, bt_metric metric,
                               const bt_metric_value *value, const double *samples)
{
    bt_store_measurement row = {.metric = metric,
                                .value = value->value,
                                .low = value->low,
                                .high = value->high,
                                .samples = samples,
                                .sample_count = samples ? value->count : 0};
    return metric < BT_METRIC_COUNT && value->count > 0
               ? bt_store_measure(self->store, self->round, &row)
               : BT_OK;
}

// The mean with its samples, the 95th percentile and the median.
static bt_status measure_timed(const bt_recorder *self, const bt_timed_metrics *metrics,
                               const bt_stats *stats, const double *samples)
{
    bt_timed timed = bt_timed_of(stats);
    BT_TRY(measure_value(self, metrics->mean, &timed.mean, samples));
    BT_TRY(measure_value(self, metrics->p95, &timed.p95, NULL));
    return measure_value(self, metrics->median, &timed.median, NULL);
}

// samples [step_count]: work space.
static bt_status measure_launches(const bt_recorder *self, double *samples)
{
    bt_stats stats;
    const int64_t count = collect(self, SAMPLE_LAUNCH, samples);
    if (count == 0) {
        return BT_OK;
    }
    BT_TRY(bt_stats_of_series(samples, count, &stats));
    const bt_metric_value mean = {stats.mean, stats.mean_low, stats.mean_high, count};
    return measure_value(self, BT_METRIC_LAUNCH_TIME, &mean, samples);
}

static bt_status measure_steps(bt_recorder *self)
{
    bt_step_stats stats;
    BT_SCOPED_MEM(void *) block = NULL;
    if (self->compile_ns > 0) {
        BT_TRY(measure(self, BT_METRIC_COMPILE_TIME, (double)self->compile_ns));
    }
    BT_TRY(bt_stats_of_steps(self->steps, self->step_count, &stats));
    BT_TRY(bt_mem_alloc((size_t)self->step_count, sizeof(double), &block));
    const bt_metric_value rate = {stats.rate_tok_s, stats.rate_low, stats.rate_high,
                                  collect(self, SAMPLE_RATE, block)};
    bt_status status = measure_value(self, BT_METRIC_TOKENS_PER_S, &rate, block);
    if (status == BT_OK) {
        (void)collect(self, SAMPLE_HOST, block);
        status = measure_timed(self, &bt_timed_step, &stats.host_ns, block);
    }
    if (status == BT_OK) {
        (void)collect(self, SAMPLE_DEVICE, block);
        status = measure_timed(self, &bt_timed_device, &stats.device_ns, block);
    }
    BT_IF_OK(status, measure_launches(self, block));
    self->time_ns = stats.host_ns.count > 0 ? stats.host_ns.mean : self->time_ns;
    self->rate_tok_s = stats.host_ns.count > 0 ? stats.rate_tok_s : self->rate_tok_s;
    return status;
}

// An amount per call, computed from the times of calls.
static bt_status measure_rate(const bt_recorder *self, bt_metric metric, double amount,
                              const bt_stats *time)
{
    bt_store_measurement row = {.metric = metric,
                                .value = amount * 1e9 / time->mean,
                                .low = amount * 1e9 / time->mean_high,
                                .high = time->mean_low > 0 ? amount * 1e9 / time->mean_low
                                                           : (double)NAN};
    return amount > 0 ? bt_store_measure(self->store, self->round, &row) : BT_OK;
}

static bt_status measure_rates(bt_recorder *self, const cJSON *kernel, const bt_stats *time)
{
    const double bytes = bt_json_number_of(kernel, "bytes");
    self->bandwidth_bytes_per_s = bytes * 1e9 / time->mean;
    BT_TRY(measure(self, BT_METRIC_BYTES_MOVED, bytes));
    BT_TRY(measure_rate(self, BT_METRIC_BANDWIDTH, bytes, time));
    BT_TRY(measure_rate(self, BT_METRIC_COMPUTE, bt_json_number_of(kernel, "flops"), time));
    return self->copy_bytes_per_s > 0 && bt_plan_kernel_has_share(kernel)
               ? measure_rate(self, BT_METRIC_COPY_SHARE, bytes / self->copy_bytes_per_s, time)
               : BT_OK;
}

// Times of calls, if they were correct: no times without `measured`.
static bt_status measure_calls(bt_recorder *self)
{
    const cJSON *kernel = bt_json_get(self->item, "kernel");
    bt_stats time;
    if (!self->measured || self->time_count == 0) {
        return BT_OK;
    }
    BT_TRY(bt_stats_of_series(self->times_ns, self->time_count, &time));
    BT_TRY(measure_timed(self, &bt_timed_call, &time, self->times_ns));
    self->time_ns = time.mean;
    if (kernel) {
        BT_TRY(measure_rates(self, kernel, &time));
    }
    if (self->cpu_time_ns > 0) {
        BT_TRY(measure(self, BT_METRIC_CPU_TIME, self->cpu_time_ns));
    }
    if (self->launch_time_ns > 0) {
        BT_TRY(measure(self, BT_METRIC_LAUNCH_TIME, self->launch_time_ns));
    }
    if (self->compile_time_ns > 0) {
        BT_TRY(measure(self, BT_METRIC_COMPILE_TIME, self->compile_time_ns));
    }
    if (self->load_time_ns > 0) {
        BT_TRY(measure(self, BT_METRIC_LOAD_TIME, self->load_time_ns));
    }
    if (!isnan(self->output_error_share)) {
        BT_TRY(measure(self, BT_METRIC_OUTPUT_ERROR_SHARE, self->output_error_share));
    }
    return isnan(self->error_share) ? BT_OK
                                    : measure(self, BT_METRIC_ERROR_SHARE, self->error_share);
}

// The last of some losses, with all of them as its samples: a second copy of the curve, which
// `verify` compares with the first.
static bt_status measure_last(const bt_recorder *self, bt_metric metric, const double *losses,
                              int64_t count)
{
    const bt_metric_value last = {count > 0 ? losses[count - 1] : (double)NAN, (double)NAN,
                                  (double)NAN, count};
    return measure_value(self, metric, &last, losses);
}

static bt_status measure_losses(const bt_recorder *self)
{
    BT_SCOPED_MEM(double *) losses = NULL;
    BT_TRY(BT_MEM_ARRAY(self->step_count, &losses));
    for (int64_t i = 0; i < self->step_count; ++i) {
        losses[i] = (double)self->steps[i].loss;
    }
    return measure_last(self, BT_METRIC_LOSS_LAST, losses, self->step_count);
}

bt_status bt_recorder_take_machine(bt_recorder *self, const bt_store_telemetry *samples,
                                   int64_t count)
{
    bt_telemetry_summary summary;
    BT_TRY(bt_telemetry_summary_of(samples, count, &summary));
    self->energy_j = summary.energy_j;
    self->work_power_w = summary.work_power_w;
    return BT_OK;
}

static bt_status measure_energy(const bt_recorder *self)
{
    double calls_ns = bt_plan_times_calls(self->item) ? self->time_ns : (double)NAN;
    const struct {
        bt_metric metric;
        double value;
    } rows[] = {{BT_METRIC_ENERGY, self->energy_j},
                {BT_METRIC_ENERGY_PER_TOKEN, self->work_power_w / self->rate_tok_s},
                {BT_METRIC_ENERGY_PER_CALL, self->work_power_w * calls_ns / 1e9}};
    for (int i = 0; i < 3; ++i) {
        if (!isnan(rows[i].value)) {
            BT_TRY(measure(self, rows[i].metric, rows[i].value));
        }
    }
    return BT_OK;
}

static bt_status measure_all(bt_recorder *self)
{
    BT_TRY(measure_calls(self));
    if (self->step_count > 0) {
        BT_TRY(measure_steps(self));
        BT_TRY(measure(self, BT_METRIC_LOSS_FIRST, (double)self->steps[0].loss));
        BT_TRY(measure_losses(self));
    }
    BT_EACH(const bt_store_step, step, self->steps, self->step_count) {
        bt_store_memory *peak = &self->memory;
        peak->peak_allocated_bytes = larger(peak->peak_allocated_bytes, step->peak_allocated_bytes);
        peak->peak_reserved_bytes = larger(peak->peak_reserved_bytes, step->reserved_bytes);
        peak->peak_resident_bytes = larger(peak->peak_resident_bytes, step->resident_bytes);
    }
    const struct {
        bt_metric metric;
        int64_t value;
    } peaks[] = {{BT_METRIC_PEAK_ALLOCATED, self->memory.peak_allocated_bytes},
                 {BT_METRIC_PEAK_RESERVED, self->memory.peak_reserved_bytes},
                 {BT_METRIC_PEAK_RESIDENT, self->memory.peak_resident_bytes}};
    for (int i = 0; i < 3; ++i) {
        if (peaks[i].value > 0) {
            BT_TRY(measure(self, peaks[i].metric, (double)peaks[i].value));
        }
    }
    BT_TRY(measure_last(self, BT_METRIC_VAL_LOSS, self->val_losses, self->eval_count));
    BT_TRY(measure_energy(self));
    BT_TRY(bt_recorder_measure_saves(self));
    BT_TRY(bt_recorder_measure_recoveries(self));
    BT_TRY(bt_recorder_measure_ranks(self));
    return measure(self, BT_METRIC_WALL_TIME, (double)(bt_clock_ns() - self->started_ns));
}

bt_status bt_recorder_end(bt_recorder *self, bt_run_status status, const char *message)
{
    char saves[sizeof self->failed_save + 128];
    BT_TRY(measure_all(self));
    if (!message[0] && self->stop[0]) {
        message = self->stop;
    }
    if (!message[0] && self->failed_saves > 0) {
        (void)snprintf(saves, sizeof saves,
                       "checkpoints that could not be saved: %lld; the last: %s",
                       (long long)self->failed_saves, self->failed_save);
        message = saves;
    }
    return bt_store_round_end(self->store, self->round, status, message, self->params_digest);
}

void bt_recorder_release(bt_recorder *self)
{
    bt_mem_free(self->steps);
    bt_mem_free(self->times_ns);
    bt_mem_free(self->val_losses);
    bt_mem_free(self->saves);
    bt_mem_free(self->recoveries);
    memset(self, 0, sizeof *self);
}
