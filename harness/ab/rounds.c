// harness/ab/rounds.c - judges the existing pairs, and requests more
#include "harness/ab/rounds.h"

#include <string.h>

#include "framework/base/mem.h"
#include "harness/gate/rule.h"
#include "harness/plan/kernel.h"
#include "harness/stats/pairs.h"
#include "harness/stats/stats.h"

enum { BASE, CANDIDATE };

int64_t bt_ab_rounds_first(const bt_policy *policy)
{
    return bt_gate_decision_rule(policy, 0, 1).looks[0];
}

// Maximum number of replacement pairs: as many as the last look needs.
static int64_t rounds_max_of(const bt_policy *policy)
{
    bt_decision_rule rule = bt_gate_decision_rule(policy, 0, 1);
    return 2 * rule.looks[rule.look_count - 1];
}

bt_status bt_ab_rounds_make(const bt_plan *plan, const bt_policy *policy, bt_ab_rounds *out)
{
    *out = (bt_ab_rounds){.plan = plan, .policy = policy, .logs_max = rounds_max_of(policy)};
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        // A case is judged by its total and by its 95th percentile.
        out->family += bt_plan_kernel_is_ceiling(item) ? 0 : 2;
    }
    return BT_MEM_ARRAY(3 * out->logs_max, &out->logs);
}

void bt_ab_rounds_release(bt_ab_rounds *rounds)
{
    bt_mem_free(rounds->logs);
    memset(rounds, 0, sizeof *rounds);
}

// Median time on the base system, for the tolerance; NaN if there is none.
static bt_status base_time(const bt_run_schedule *schedule, int64_t case_index, double *times,
                           double *time_ns)
{
    int64_t count = 0;
    for (int64_t i = 0; i < schedule->rounds_max; ++i) {
        const bt_run_schedule_cell *cell = bt_run_schedule_cell_of(schedule, case_index, BASE, i);
        if (cell->state == BT_ROUND_KEPT && cell->time_ns > 0) {
            times[count++] = cell->time_ns;
        }
    }
    return bt_stats_median(times, count, time_ns);
}

// The first ordinal at which a system failed or was unavailable; -1: none.
static int64_t first_failure(const bt_run_schedule *schedule, int64_t case_index)
{
    for (int64_t i = 0; i < schedule->wanted[case_index]; ++i) {
        for (int64_t system = 0; system < schedule->system_count; ++system) {
            bt_round_state state = bt_run_schedule_cell_of(schedule, case_index, system, i)->state;
            if (state == BT_ROUND_FAILED || state == BT_ROUND_UNAVAILABLE) {
                return i;
            }
        }
    }
    return -1;
}

// Judges a case whose requested rounds are done. The decision rule's error rates hold for looks at
// their planned rounds, so a case with fewer, as in a session resumed early, gets the first look's.
static bt_status look(bt_ab_rounds *self, const bt_run_schedule *schedule, int64_t case_index,
                      int64_t *rounds)
{
    const int64_t first = bt_ab_rounds_first(self->policy);
    if (schedule->wanted[case_index] < first) {
        *rounds = first;
        return BT_OK;
    }
    const cJSON *item = bt_plan_case(self->plan, case_index);
    bool training = !bt_plan_times_calls(item);
    double base_ns = 0;
    BT_TRY(base_time(schedule, case_index, self->logs, &base_ns));
    bt_gate_rule policy =
        bt_policy_rule(self->policy, bt_json_get(item, "name")->valuestring,
                       training ? BT_GATE_STEP_TIME : BT_GATE_TIME, training, base_ns);
    bt_decision_rule rule = bt_gate_decision_rule(self->policy, policy.tolerance, self->family);
    double *base = self->logs + self->logs_max, *candidate = base + self->logs_max;
    int64_t lone = 0;
    bt_run_schedule_logs(schedule, case_index, BASE, base);
    bt_run_schedule_logs(schedule, case_index, CANDIDATE, candidate);
    int64_t count = bt_pairs_of(base, candidate, schedule->rounds_max, self->logs, &lone);
    bt_decision decision = bt_decide_paired(&rule, self->logs, count, lone);
    *rounds = schedule->wanted[case_index];
    if (decision.next_rounds > count) {
        *rounds += decision.next_rounds - count;
    }
    return BT_OK;
}

static bt_status wished(void *context, const bt_run_schedule *schedule, int64_t case_index,
                        int64_t *rounds)
{
    bt_ab_rounds *self = context;
    int64_t failed = first_failure(schedule, case_index);
    *rounds = schedule->wanted[case_index];
    if (schedule->alone[case_index]) {
        *rounds = 1; // a ceiling of the machine; it is not judged
    } else if (failed >= 0) {
        *rounds = failed + 1;
    } else if (!self->fixed && bt_run_schedule_settled(schedule, case_index)) {
        return look(self, schedule, case_index, rounds);
    }
    return BT_OK;
}

bt_run_wish bt_ab_rounds_wish(bt_ab_rounds *rounds)
{
    return (bt_run_wish){.rounds = wished,
                         .self = rounds,
                         .rounds_max = rounds->logs_max,
                         .rounds_last = rounds->fixed ? 0 : rounds->logs_max / 2};
}
