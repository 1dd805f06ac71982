// harness/run/record_recoveries.c - recovery times of lost ranks
#include <math.h>
#include <stddef.h>

#include "framework/base/scoped.h"
#include "harness/run/record.h"

bt_status bt_recorder_take_recovery(bt_recorder *self, const bt_run_event_recovery *recovery)
{
    BT_TRY(BT_MEM_GROW(self->recovery_count + 1, &self->recovery_capacity, &self->recoveries));
    bt_run_event_recovery *kept = &self->recoveries[self->recovery_count++];
    *kept = *recovery;
    kept->kind = NULL;
    return BT_OK;
}

// The mean of the known ones; no row if there are none.
static bt_status measure(const bt_recorder *self, bt_metric metric, size_t offset, double *values)
{
    int64_t count = 0;
    double sum = 0;
    for (int64_t i = 0; i < self->recovery_count; ++i) {
        const char *bytes = (const char *)&self->recoveries[i];
        const int64_t time_ns = *(const int64_t *)(const void *)(bytes + offset);
        if (time_ns > 0) {
            values[count++] = (double)time_ns;
            sum += (double)time_ns;
        }
    }
    const bt_store_measurement row = {.metric = metric,
                                      .value = sum / (double)count,
                                      .low = (double)NAN,
                                      .high = (double)NAN,
                                      .samples = values,
                                      .sample_count = count};
    return count > 0 ? bt_store_measure(self->store, self->round, &row) : BT_OK;
}

bt_status bt_recorder_measure_recoveries(const bt_recorder *self)
{
    static const struct {
        bt_metric metric;
        size_t offset;
    } rows[] = {{BT_METRIC_RECOVERY, offsetof(bt_run_event_recovery, resume_ns)},
                {BT_METRIC_RECOVERY_DETECT, offsetof(bt_run_event_recovery, detect_ns)},
                {BT_METRIC_RECOVERY_GROUP, offsetof(bt_run_event_recovery, group_ns)},
                {BT_METRIC_RECOVERY_STEP, offsetof(bt_run_event_recovery, step_ns)}};
    BT_SCOPED_MEM(void *) block = NULL;
    if (self->recovery_count == 0) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)self->recovery_count, sizeof(double), &block));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        BT_TRY(measure(self, rows[i].metric, rows[i].offset, block));
    }
    return BT_OK;
}
