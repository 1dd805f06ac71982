// harness/run/record_ranks.c - communication of several ranks: measured by ranges, and estimated
#include <math.h>
#include <string.h>

#include "harness/run/record.h"

// Whether it is communication that computation waits for: "step/../communication", not a range
// within one.
static bool is_communication(const char *path)
{
    const char *name = strstr(path, "/communication");
    return name && strcmp(name, "/communication") == 0;
}

void bt_recorder_note_range(bt_recorder *self, const bt_store_range *range)
{
    self->profiled_steps += strcmp(range->path, "step") == 0;
    if (is_communication(range->path)) {
        self->exposed_ns += (double)range->device_ns;
    }
}

static bt_status measure(const bt_recorder *self, bt_metric metric, double value)
{
    const bt_store_measurement row = {
        .metric = metric, .value = value, .low = (double)NAN, .high = (double)NAN};
    return value > 0 ? bt_store_measure(self->store, self->round, &row) : BT_OK;
}

// The estimate is for our own trainer: a peer may shard differently.
bt_status bt_recorder_measure_ranks(const bt_recorder *self)
{
    const cJSON *train = bt_json_get(self->item, "train");
    if (!train || !self->ours) {
        return BT_OK;
    }
    const int64_t micro_batch = (int64_t)bt_plan_number(train, "micro_batch");
    const uint64_t planned = bt_plan_memory_bytes(train, micro_batch, bt_plan_recompute_of(train));
    BT_TRY(measure(self, BT_METRIC_PLANNED_MEMORY, (double)planned));
    BT_TRY(measure(self, BT_METRIC_SENT, bt_plan_ranks_of(train).sent_bytes));
    return self->profiled_steps > 0
               ? measure(self, BT_METRIC_EXPOSED, self->exposed_ns / (double)self->profiled_steps)
               : BT_OK;
}
