// harness/run/resume.c - resumes a recorded run
//
// Invariants
//   1. The plan is the recorded one, even if the suite's file has changed.
//   2. Build and hard facts must equal those of the record, or the run is not resumed: rounds of
//      one run must be comparable.
//   3. A round that passed is not run again. An interrupted round is repeated under its ordinal,
//      and its records are kept, marked as interrupted. The same holds for a failed training of
//      ours that saves checkpoints; its records stay marked as failed.
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/compare/compare.h"
#include "harness/env/build.h"
#include "harness/plan/kernel.h"
#include "harness/run/round.h"
#include "harness/run/running.h"
#include "harness/stats/summary.h"

// ---- same program, same machine -----------------------------------------------------------------

static bool matters(const bt_compare_item *item)
{
    return strcmp(item->group, "build") == 0 ||
           (strcmp(item->group, "environment") == 0 && item->level == BT_FACT_HARD);
}

// Errors  UNAVAILABLE, with each thing that differs
static bt_status check_same(const bt_running *self)
{
    const bt_store_run *record = self->record;
    bt_store_run now = {.info = self->info};
    const bt_compare_item *items = NULL;
    int64_t count = 0;
    bool hard = false;
    BT_SCOPED(bt_arena) arena = {0};
    BT_SCOPED(bt_str) differs = {0};
    BT_TRY(bt_compare_facts(record, &now, &arena, &items, &count, &hard));
    for (int64_t i = 0; i < count; ++i) {
        if (matters(&items[i])) {
            bt_str_format(&differs, "\n  %s %s: was \"%.60s\", is \"%.60s\"", items[i].group,
                          items[i].key, items[i].left, items[i].right);
        }
    }
    BT_FAIL_IF(differs.length_bytes > 0, BT_STATUS_UNAVAILABLE,
               "run %lld cannot be resumed here: its rounds would not be comparable%.800s",
               (long long)record->id, bt_str_text(&differs));
    return BT_OK;
}

// Other commands that begin runs have their own rules for the number of rounds.
static bt_status check_kind(const bt_running *self)
{
    const bt_store_schedule *schedule = &self->record->schedule;
    const bt_run_wish *wish = self->request->wish;
    if (strcmp(schedule->kind, wish && wish->kind ? wish->kind : "") == 0) {
        return BT_OK;
    }
    const char *kind = *schedule->kind ? schedule->kind : "run";
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "run %lld was started by 'bt-bench %s', which decides after each round whether "
                    "another is needed; resume it with 'bt-bench %s --resume'",
                    (long long)self->record->id, kind, kind);
}

// ---- resuming -----------------------------------------------------------------------------------

static bt_status check_plan(const bt_running *self)
{
    const bt_store_suite *suite = &self->record->info.suite;
    BT_FAIL_IF(strcmp(suite->plan_hash, self->request->plan->hash) != 0, BT_STATUS_CORRUPT_DATA,
               "run %lld: the recorded plan has the hash %.8s, not %.8s",
               (long long)self->record->id, self->request->plan->hash, suite->plan_hash);
    return BT_OK;
}

// A run that failed or was disturbed is complete if every round has ended; one whose recorder was
// killed after the last round only needs its end record.
static bt_status check_open(const bt_running *self)
{
    int64_t wanted = 0, open = 0;
    bt_run_schedule_count(&self->schedule, &wanted, &open);
    bool ended = self->record->status == BT_RUN_FAILED || self->record->status == BT_RUN_INVALID;
    BT_FAIL_IF(ended && open == 0, BT_STATUS_INVALID_ARGUMENT,
               "run %lld is %s, but has no rounds left to run; start a new run",
               (long long)self->record->id, bt_run_status_name(self->record->status));
    return BT_OK;
}

bt_status bt_running_resume(bt_running *self)
{
    bt_store_run *record = &self->recorded;
    BT_TRY(bt_store_run_read(self->store, self->request->resume, record));
    self->record = record;
    BT_TRY(check_kind(self));
    BT_TRY(check_plan(self));
    BT_TRY(check_same(self));
    BT_TRY(bt_running_schedule(self));
    BT_TRY(check_open(self));
    BT_TRY(bt_store_run_resume(self->store, record->id));
    self->outcome->run = record->id;
    bt_str_append(&self->out_dir, record->info.out_dir);
    return bt_str_status(&self->out_dir);
}
