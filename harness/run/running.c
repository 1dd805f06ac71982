// harness/run/running.c - the state of a run in progress: systems, ceilings, record
#include "harness/run/running.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/plan/kernel.h"
#include "harness/stats/summary.h"

double *bt_running_copy_of(bt_running *self, const cJSON *item)
{
    static const char *const modes[] = {"cold", "rotating", "hot"};
    const char *cache = bt_json_text_or_null(bt_json_get(item, "kernel"), "cache");
    const int64_t at = BT_FIND_WORD(modes, BT_COUNT(modes), cache);
    return at < 0 ? NULL : &self->copy_bytes_per_s[at];
}

double *bt_running_product_of(bt_running *self, const cJSON *item)
{
    static const char *const types[] = {"f32", "tf32", "bf16", "f64"};
    const char *dtype = bt_json_text_or_null(bt_json_get(item, "kernel"), "dtype");
    const int64_t at = BT_FIND_WORD(types, BT_COUNT(types), dtype);
    return at < 0 ? NULL : &self->product_flop_per_s[at];
}

void bt_running_take_ceiling(bt_running *self, const cJSON *item, double bandwidth_bytes_per_s,
                             double time_ns)
{
    const bool ceiling = bt_plan_kernel_is_ceiling(item), is_copy = bt_plan_kernel_is_copy(item);
    double *copy = ceiling ? bt_running_copy_of(self, item) : NULL;
    double *product = ceiling ? bt_running_product_of(self, item) : NULL;
    if (is_copy && copy && bandwidth_bytes_per_s > 0) {
        *copy = bandwidth_bytes_per_s;
    } else if (!is_copy && product && time_ns > 0) {
        *product = bt_json_number_of(bt_json_get(item, "kernel"), "flops") * 1e9 / time_ns;
    }
}

bool bt_running_is_named(const bt_running *self, const bt_peer *peer)
{
    return peer->program || (self->request->system_count && peer->name);
}

const char *bt_running_worker_of(const bt_running *self, const bt_peer *peer)
{
    return peer->program ? peer->program : self->request->worker;
}

const char *bt_running_name_of(const bt_running *self, const bt_peer *peer)
{
    const char *worker = bt_running_worker_of(self, peer);
    const char *slash = worker ? strrchr(worker, '/') : NULL;
    return bt_running_is_named(self, peer) ? peer->name
           : slash                         ? slash + 1
           : worker                        ? worker
                                           : "blutrain";
}

// ---- completed rounds ---------------------------------------------------------------------------

// This run's ceilings, to which other cases are compared: the last measured ones.
static bt_status take_ceilings(bt_running *self)
{
    const bt_plan *plan = self->request->plan;
    BT_EACH(const bt_store_round, round, self->record->rounds, self->record->round_count) {
        for (int64_t c = 0; round->status == BT_RUN_PASSED && c < plan->case_count; ++c) {
            const cJSON *item = bt_plan_case(plan, c);
            bt_summary summary;
            if (bt_plan_kernel_is_ceiling(item) &&
                strcmp(bt_json_get(item, "name")->valuestring, round->what.name) == 0) {
                BT_TRY(bt_summary_of(round, &summary));
                bt_running_take_ceiling(self, item, summary.metrics[BT_METRIC_BANDWIDTH].value,
                                        summary.metrics[BT_METRIC_TIME].value);
            }
        }
    }
    return BT_OK;
}

// A failed round that is not repeated makes the run a failed one.
static void take_failure(bt_running *self)
{
    BT_EACH(const bt_store_round, round, self->record->rounds, self->record->round_count) {
        if (round->status == BT_RUN_FAILED && self->outcome->status == BT_RUN_PASSED &&
            !bt_run_schedule_goes_on(self->request->plan, round)) {
            self->outcome->status = BT_RUN_FAILED;
            self->outcome->reason = BT_STATUS_INTERNAL; // the record does not say which one
            (void)snprintf(self->outcome->message, sizeof self->outcome->message, "%s: %.900s",
                           round->what.name, round->message);
        }
    }
}

bt_status bt_running_note_record(bt_running *self)
{
    BT_SCOPED_MEM(const char **) names = NULL;
    if (!self->record) {
        return BT_OK;
    }
    bt_versions_take(&self->versions, self->record);
    BT_TRY(BT_MEM_ARRAY(self->system_count, &names));
    for (int64_t i = 0; i < self->system_count; ++i) {
        names[i] = bt_running_name_of(self, &self->systems[i]);
    }
    BT_TRY(bt_run_schedule_note_run(&self->schedule, self->request->plan, names, self->record));
    take_failure(self);
    return take_ceilings(self);
}
