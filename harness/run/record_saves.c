// harness/run/record_saves.c - the cost of checkpoints in a training round
//
// A save affects the steps after its call, until its end was noticed. Its cost is the call plus the
// time by which those steps exceed the median of unaffected steps: so the cost of an asynchronous
// copy that contends with a step is included.
#include <math.h>

#include "framework/base/scoped.h"
#include "harness/run/record.h"
#include "harness/stats/stats.h"

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

static bt_status measure_mean(const bt_recorder *self, bt_metric metric, const double *values)
{
    double sum = 0;
    for (int64_t i = 0; i < self->save_count; ++i) {
        sum += values[i];
    }
    bt_store_measurement row = {.metric = metric,
                                .value = sum / (double)self->save_count,
                                .low = (double)NAN,
                                .high = (double)NAN,
                                .samples = values,
                                .sample_count = self->save_count};
    return isnan(row.value) ? BT_OK : bt_store_measure(self->store, self->round, &row);
}

static bt_status measure_saved(const bt_recorder *self, double *block)
{
    double quiet_ns = 0;
    BT_TRY(quiet_step(self, block, &quiet_ns));
    for (int64_t i = 0; i < self->save_count; ++i) {
        block[i] = stall_of(self, &self->saves[i], quiet_ns);
    }
    BT_TRY(measure_mean(self, BT_METRIC_CHECKPOINT_STALL, block));
    for (int64_t i = 0; i < self->save_count; ++i) {
        block[i] = (double)self->saves[i].host_ns;
    }
    return measure_mean(self, BT_METRIC_CHECKPOINT_SAVE, block);
}

bt_status bt_recorder_measure_saves(const bt_recorder *self)
{
    if (self->load_ns > 0) {
        bt_store_measurement row = {.metric = BT_METRIC_CHECKPOINT_LOAD,
                                    .value = self->load_ns,
                                    .low = (double)NAN,
                                    .high = (double)NAN};
        BT_TRY(bt_store_measure(self->store, self->round, &row));
    }
    if (self->save_count == 0) {
        return BT_OK;
    }
    BT_SCOPED_MEM(void *) block = NULL;
    int64_t count = self->step_count > self->save_count ? self->step_count : self->save_count;
    BT_TRY(bt_mem_alloc((size_t)count, sizeof(double), &block));
    return measure_saved(self, block);
}
