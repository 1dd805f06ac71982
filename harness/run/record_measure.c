// harness/run/record_measure.c - the measurements of a round, from what its events have said
//
// A save of a checkpoint affects the steps after its call, until its end was noticed. Its cost is
// the call plus the time by which those steps exceed the median of unaffected steps: so the cost of
// an asynchronous copy that contends with a step is included.
#include <math.h>
#include <stddef.h>

#include "framework/base/clock.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/run/record.h"
#include "harness/stats/stats.h"
#include "harness/stats/summary.h"

static bt_status measure(const bt_recorder *self, bt_metric metric, double value)
{
    bt_store_measurement row = {
        .metric = metric, .value = value, .low = (double)NAN, .high = (double)NAN};
    return bt_store_measure(self->store, self->round, &row);
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

// The mean of `values`, which are its samples; nothing if it is not a number.
static bt_status measure_mean(const bt_recorder *self, bt_metric metric, const double *values,
                              int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += values[i];
    }
    const bt_metric_value mean = {sum / (double)count, (double)NAN, (double)NAN, count};
    return isnan(mean.value) ? BT_OK : measure_value(self, metric, &mean, values);
}

typedef struct reported {
    bt_metric metric;
    double value; // NaN: unknown, which is not written
} reported;

static bt_status measure_known(const bt_recorder *self, const reported *rows, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(isnan(rows[i].value) ? BT_OK : measure(self, rows[i].metric, rows[i].value));
    }
    return BT_OK;
}

// Events report 0 where they know nothing.
static double known(double value) { return value > 0 ? value : (double)NAN; }

// ---- steps -------------------------------------------------------------------------------------

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
    const reported compiled = {BT_METRIC_COMPILE_TIME, known((double)self->compile_ns)};
    bt_step_stats stats;
    BT_SCOPED_MEM(void *) block = NULL;
    BT_TRY(measure_known(self, &compiled, 1));
    BT_TRY(bt_stats_of_steps(self->steps, self->step_count, &stats));
    BT_TRY(bt_mem_alloc((size_t)self->step_count, sizeof(double), &block));
    const bt_metric_value rate = {stats.rate_tok_s, stats.rate_low, stats.rate_high,
                                  collect(self, SAMPLE_RATE, block)};
    BT_TRY(measure_value(self, BT_METRIC_TOKENS_PER_S, &rate, block));
    (void)collect(self, SAMPLE_HOST, block);
    BT_TRY(measure_timed(self, &bt_timed_step, &stats.host_ns, block));
    (void)collect(self, SAMPLE_DEVICE, block);
    BT_TRY(measure_timed(self, &bt_timed_device, &stats.device_ns, block));
    self->time_ns = stats.host_ns.count > 0 ? stats.host_ns.mean : self->time_ns;
    self->rate_tok_s = stats.host_ns.count > 0 ? stats.rate_tok_s : self->rate_tok_s;
    return measure_launches(self, block);
}

// ---- calls -------------------------------------------------------------------------------------

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
    const reported rows[] = {{BT_METRIC_CPU_TIME, known(self->calls.cpu_time_ns)},
                             {BT_METRIC_LAUNCH_TIME, known(self->calls.launch_time_ns)},
                             {BT_METRIC_COMPILE_TIME, known(self->calls.compile_time_ns)},
                             {BT_METRIC_LOAD_TIME, known(self->calls.load_time_ns)},
                             {BT_METRIC_OUTPUT_ERROR_SHARE, self->output_error_share},
                             {BT_METRIC_ERROR_SHARE, self->calls.error_share}};
    return measure_known(self, rows, BT_COUNT(rows));
}

// ---- losses, memory, energy --------------------------------------------------------------------

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

static bt_status measure_memory(const bt_recorder *self)
{
    const reported rows[] = {
        {BT_METRIC_PEAK_ALLOCATED, known((double)self->memory.peak_allocated_bytes)},
        {BT_METRIC_PEAK_RESERVED, known((double)self->memory.peak_reserved_bytes)},
        {BT_METRIC_PEAK_RESIDENT, known((double)self->memory.peak_resident_bytes)}};
    return measure_known(self, rows, BT_COUNT(rows));
}

static bt_status measure_energy(const bt_recorder *self)
{
    const double calls_ns = bt_plan_times_calls(self->item) ? self->time_ns : (double)NAN;
    const reported rows[] = {{BT_METRIC_ENERGY, self->energy_j},
                             {BT_METRIC_ENERGY_PER_TOKEN, self->work_power_w / self->rate_tok_s},
                             {BT_METRIC_ENERGY_PER_CALL, self->work_power_w * calls_ns / 1e9}};
    return measure_known(self, rows, BT_COUNT(rows));
}

// ---- checkpoints -------------------------------------------------------------------------------

static bool concerns(const bt_run_event_save *save, const bt_store_step *step)
{
    return step->step >= save->step && step->step <= save->seen_step;
}

static bool is_timed(const bt_store_step *step) { return !step->warmup && !step->profiled; }

// The median of the timed steps that no save affects; NaN if there are none.
static bt_status quiet_step(const bt_recorder *self, double *block, double *median_ns)
{
    int64_t count = 0;
    for (int64_t i = 0; i < self->step_count; ++i) {
        bool quiet = is_timed(&self->steps[i]);
        for (int64_t s = 0; s < self->save_count && quiet; ++s) {
            quiet = !concerns(&self->saves[s], &self->steps[i]);
        }
        if (quiet) {
            block[count++] = (double)self->steps[i].host_ns;
        }
    }
    bt_stats stats = {.median = (double)NAN};
    bt_status status = count > 0 ? bt_stats_of(block, count, &stats) : BT_OK;
    *median_ns = count > 0 ? stats.median : (double)NAN;
    return status;
}

static double stall_of(const bt_recorder *self, const bt_run_event_save *save, double quiet_ns)
{
    double stall = (double)save->blocked_ns;
    for (int64_t i = 0; i < self->step_count; ++i) {
        if (concerns(save, &self->steps[i]) && is_timed(&self->steps[i])) {
            stall += (double)self->steps[i].host_ns - quiet_ns;
        }
    }
    return stall;
}

static bt_status measure_saves(const bt_recorder *self)
{
    const reported loaded = {BT_METRIC_CHECKPOINT_LOAD, known(self->load_ns)};
    const int64_t room = self->step_count + self->save_count;
    BT_SCOPED_MEM(double *) block = NULL;
    double quiet_ns = 0;
    BT_TRY(measure_known(self, &loaded, 1));
    if (self->save_count == 0) {
        return BT_OK;
    }
    BT_TRY(BT_MEM_ARRAY(room, &block));
    BT_TRY(quiet_step(self, block, &quiet_ns));
    for (int64_t i = 0; i < self->save_count; ++i) {
        block[i] = stall_of(self, &self->saves[i], quiet_ns);
    }
    BT_TRY(measure_mean(self, BT_METRIC_CHECKPOINT_STALL, block, self->save_count));
    for (int64_t i = 0; i < self->save_count; ++i) {
        block[i] = (double)self->saves[i].host_ns;
    }
    return measure_mean(self, BT_METRIC_CHECKPOINT_SAVE, block, self->save_count);
}

// ---- ranks -------------------------------------------------------------------------------------

// Recoveries from lost ranks: times that are known, and repeated steps.
static bt_status measure_recoveries(const bt_recorder *self)
{
    static const struct {
        bt_metric metric;
        size_t offset;
    } rows[] = {{BT_METRIC_RECOVERY, offsetof(bt_recorder_recovery, event.resume_ns)},
                {BT_METRIC_RECOVERY_DETECT, offsetof(bt_recorder_recovery, event.detect_ns)},
                {BT_METRIC_RECOVERY_GROUP, offsetof(bt_recorder_recovery, event.group_ns)},
                {BT_METRIC_RECOVERY_STEP, offsetof(bt_recorder_recovery, event.step_ns)},
                {BT_METRIC_RECOVERY_REPEATED, offsetof(bt_recorder_recovery, repeated_steps)},
                {BT_METRIC_RECOVERY_CAUGHT_UP, offsetof(bt_recorder_recovery, caught_up_ns)}};
    BT_SCOPED_MEM(double *) values = NULL;
    BT_TRY(BT_MEM_ARRAY(self->recovery_count, &values));
    for (int64_t r = 0; r < BT_COUNT(rows); ++r) {
        int64_t count = 0;
        for (int64_t i = 0; i < self->recovery_count; ++i) {
            const char *bytes = (const char *)&self->recoveries[i];
            const int64_t value = *(const int64_t *)(const void *)(bytes + rows[r].offset);
            values[count] = (double)value;
            count += value > 0 || rows[r].metric == BT_METRIC_RECOVERY_REPEATED;
        }
        BT_TRY(measure_mean(self, rows[r].metric, values, count));
    }
    return BT_OK;
}

// Communication of several ranks, from ranges of profiled steps and by estimate. The estimate is
// for our own trainer: a peer may shard differently.
static bt_status measure_ranks(const bt_recorder *self)
{
    const cJSON *train = bt_json_get(self->item, "train");
    if (!train || !self->ours) {
        return BT_OK;
    }
    const int64_t micro_batch = (int64_t)bt_plan_number(train, "micro_batch");
    const uint64_t planned =
        bt_plan_memory_bytes(train, micro_batch, bt_plan_recompute_of(train), self->on_gpu);
    const double exposed_ns =
        self->profiled_steps > 0 ? self->exposed_ns / (double)self->profiled_steps : (double)NAN;
    const reported rows[] = {{BT_METRIC_PLANNED_MEMORY, known((double)planned)},
                             {BT_METRIC_SENT, known(bt_plan_ranks_of(train).sent_bytes)},
                             {BT_METRIC_EXPOSED, known(exposed_ns)}};
    return measure_known(self, rows, BT_COUNT(rows));
}

bt_status bt_recorder_measure(bt_recorder *self)
{
    BT_TRY(measure_calls(self));
    if (self->step_count > 0) {
        BT_TRY(measure_steps(self));
        BT_TRY(measure(self, BT_METRIC_LOSS_FIRST, (double)self->steps[0].loss));
        BT_TRY(measure_losses(self));
    }
    BT_TRY(measure_memory(self));
    BT_TRY(measure_last(self, BT_METRIC_VAL_LOSS, self->val_losses, self->eval_count));
    BT_TRY(measure_energy(self));
    BT_TRY(measure_saves(self));
    BT_TRY(measure_recoveries(self));
    BT_TRY(measure_ranks(self));
    return measure(self, BT_METRIC_WALL_TIME, (double)(bt_clock_ns() - self->started_ns));
}
