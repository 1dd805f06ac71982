// harness/watch/watch.c - progress, speed and remaining time
#include "harness/watch/watch.h"

#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/plan/plan.h"
#include "harness/run/schedule.h"
#include "harness/stats/stats.h"

static void find_case(const bt_plan *plan, bt_watch_view *view)
{
    const int64_t at = bt_plan_find(plan, view->current->name);
    if (at >= 0) {
        view->case_index = at;
        view->case_count = plan->case_count;
        view->rounds_per_case = plan->rounds;
    }
}

// Whether a failed round of the list was not repeated and can be, from its checkpoints.
static bool has_resumable(const bt_store_live *live, const bt_plan *plan)
{
    for (int64_t i = 0; i < live->round_count; i++) {
        const bt_store_live_round *round = &live->rounds[i];
        const bt_store_round ended = {.status = round->status,
                                      .what = {.name = round->name, .system = round->system}};
        bool repeated = false;
        BT_EACH(const bt_store_live_round, later, live->rounds, i) {
            repeated = repeated ||
                       (later->ordinal == round->ordinal && strcmp(later->name, round->name) == 0 &&
                        strcmp(later->system, round->system) == 0);
        }
        if (!repeated && bt_run_schedule_goes_on(plan, &ended)) {
            return true;
        }
    }
    return false;
}

// ab and calibrate measure each ceiling of the machine once; other runs measure it in each round.
static void want_ceilings(const char *kind, bt_run_schedule *schedule)
{
    const bool once = strcmp(kind, "ab") == 0 || strcmp(kind, "calibrate") == 0;
    for (int64_t i = 0; once && i < schedule->case_count; i++) {
        if (schedule->alone[i]) {
            bt_run_schedule_want(schedule, i, 1);
        }
    }
}

// Rounds of the plan on all systems: those recorded with the schedule, else those of the plan.
static bt_status read_plan(const bt_store_live *live, bt_watch_view *view)
{
    bt_plan plan;
    bt_run_schedule schedule = {0};
    int64_t open = 0;
    bt_status status = bt_plan_read(live->plan_json, &plan);
    if (status != BT_OK) {
        bt_error_clear();
        return status == BT_STATUS_OUT_OF_MEMORY ? status : BT_OK;
    }
    int64_t systems = plan.systems ? cJSON_GetArraySize(plan.systems) : 1;
    systems = live->system_count > 0 ? live->system_count : systems;
    if (plan.case_count > 0 && plan.rounds > 0 && systems > 0) {
        status = bt_run_schedule_make(&plan, systems, plan.rounds, 0, 0, &schedule);
        if (status == BT_OK) {
            want_ceilings(live->kind, &schedule);
            bt_run_schedule_count(&schedule, &view->rounds_planned, &open);
        }
        bt_run_schedule_release(&schedule);
    }
    if (view->current) {
        find_case(&plan, view);
    }
    view->resumable = has_resumable(live, &plan);
    bt_plan_release(&plan);
    return status;
}

// Remaining time: of the current round by its steps, as in the progress line of 'run', or by
// earlier rounds; of the other rounds by earlier rounds, or by the steps of this one.
static double estimate(const bt_watch_view *view)
{
    const bt_store_live_round *round = view->current;
    double others = (double)(view->rounds_planned - view->rounds_done - 1);
    double round_ns = view->live->round_ns, left_ns = (double)NAN;
    if (!round || view->rounds_planned == 0) {
        return (double)NAN;
    }
    double passed_ns = (double)(view->now_ns - round->started_ns);
    if (view->step && round->steps > 0) {
        const bt_store_live *live = view->live;
        left_ns = bt_time_left((double)live->spent_ns, live->steps_done,
                               round->steps - view->step->step - 1);
        round_ns = isnan(round_ns)
                       ? bt_time_left((double)live->spent_ns, live->steps_done, round->steps)
                       : round_ns;
    } else if (round_ns > 0) {
        left_ns = fmax(0, round_ns - passed_ns);
    }
    return others > 0 ? left_ns + others * round_ns : left_ns;
}

static double share_of(const bt_watch_view *view)
{
    double done = (double)view->rounds_done;
    if (view->rounds_planned == 0) {
        return (double)NAN;
    }
    if (view->step && view->current && view->current->steps > 0) {
        done += (double)(view->step->step + 1) / (double)view->current->steps;
    }
    return fmin(1, done / (double)view->rounds_planned);
}

bt_status bt_watch_look(const bt_store_live *live, int64_t now_ns, bt_watch_view *out)
{
    const int64_t *counts = live->counts;
    *out = (bt_watch_view){.live = live, .now_ns = now_ns, .rate_tok_s = (double)NAN};
    out->rounds_done = counts[BT_RUN_PASSED] + counts[BT_RUN_FAILED] + counts[BT_RUN_UNAVAILABLE];
    if (live->round_count > 0 && live->rounds[0].status == BT_RUN_RUNNING) {
        out->current = &live->rounds[0];
        out->step = live->step_count > 0 ? &live->steps[0] : NULL;
    }
    if (out->step) {
        const bt_store_step *step = out->step;
        bt_step_stats stats;
        BT_TRY(bt_stats_of_steps(live->steps, live->step_count, &stats));
        out->rate_tok_s = stats.tokens_per_s.median;
        out->memory_bytes = step->reserved_bytes ? step->reserved_bytes : step->resident_bytes;
    }
    BT_TRY(read_plan(live, out));
    // More than planned: a run that requests rounds dynamically.
    if (out->rounds_done + (out->current != NULL) > out->rounds_planned) {
        out->rounds_planned = 0;
    }
    out->left_ns = estimate(out);
    out->share = share_of(out);
    return BT_OK;
}

bt_watch_mark bt_watch_mark_of(const bt_watch_view *view)
{
    return (bt_watch_mark){view->live->status, view->rounds_done,
                           view->current ? view->current->id : -1,
                           view->step ? view->step->step : -1};
}

bool bt_watch_mark_equal(const bt_watch_mark *left, const bt_watch_mark *right)
{
    return left->status == right->status && left->rounds_done == right->rounds_done &&
           left->round == right->round && left->step == right->step;
}

int bt_watch_exit_code(bt_run_status status)
{
    static const int codes[BT_RUN_STATUS_COUNT] = {
        [BT_RUN_RUNNING] = 0,       [BT_RUN_PASSED] = 0,      [BT_RUN_FAILED] = 5,
        [BT_RUN_INTERRUPTED] = 130, [BT_RUN_UNAVAILABLE] = 4, [BT_RUN_INVALID] = 4};
    return (int)status >= 0 && status < BT_RUN_STATUS_COUNT ? codes[status] : 5;
}
