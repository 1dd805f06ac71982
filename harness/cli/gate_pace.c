// harness/cli/gate_pace.c - a gated run asks for more rounds while its times are undecided
#include "harness/cli/gate_pace.h"

#include <string.h>

#include "framework/base/mem.h"
#include "harness/gate/pace.h"

// Name of the plan's index-th system, as it is recorded: of a program its file name.
static const char *system_of(const bt_plan *plan, int64_t index)
{
    const cJSON *item = plan->systems ? cJSON_GetArrayItem(plan->systems, (int)index) : NULL;
    const char *name = item && cJSON_IsString(item) ? item->valuestring : BT_GATE_SYSTEM_OURS;
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

// With a worker of another name the case has one side, whatever that is called.
static const bt_gate_side *only_side(const bt_cli_gate_pace *self, const char *name)
{
    const bt_gate_side *found = NULL;
    for (int64_t i = 0; i < self->baseline->sides.count; ++i) {
        const bt_gate_side *side = &self->baseline->sides.items[i];
        if (strcmp(side->bench, self->plan->suite) == 0 && strcmp(side->name, name) == 0) {
            if (found) {
                return NULL;
            }
            found = side;
        }
    }
    return found;
}

static const bt_gate_side *base_of(const bt_cli_gate_pace *self, int64_t case_index, int64_t system)
{
    const char *name = bt_json_get(bt_plan_case(self->plan, case_index), "name")->valuestring;
    const bt_gate_side *side = bt_gate_side_find(&self->baseline->sides, self->plan->suite, name,
                                                 system_of(self->plan, system));
    return side || self->plan->systems ? side : only_side(self, name);
}

// Times of the rounds of a case on a system that were kept.
static int64_t take_times(const bt_run_schedule *schedule, int64_t case_index, int64_t system,
                          double *times_ns)
{
    int64_t count = 0;
    for (int64_t i = 0; i < schedule->rounds_max; ++i) {
        const bt_run_schedule_cell *cell = bt_run_schedule_cell_of(schedule, case_index, system, i);
        if (cell->state == BT_ROUND_KEPT && cell->time_ns > 0) {
            times_ns[count++] = cell->time_ns;
        }
    }
    return count;
}

// The most that any system of the case asks for. A ceiling is measured once.
static bt_status rounds(void *context, const bt_run_schedule *schedule, int64_t case_index,
                        int64_t *wanted)
{
    const bt_cli_gate_pace *self = context;
    void *block = NULL;
    bt_status status = BT_OK;
    *wanted = self->fixed ? schedule->wanted[case_index] : 1;
    if (self->fixed || schedule->alone[case_index]) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)schedule->rounds_max, sizeof(double), &block));
    for (int64_t i = 0; status == BT_OK && i < schedule->system_count; ++i) {
        int64_t asked = 0;
        bt_gate_pace pace = {.policy = self->policy,
                             .base = base_of(self, case_index, i),
                             .family = self->family,
                             .times_ns = block,
                             .count = take_times(schedule, case_index, i, block)};
        status = bt_gate_pace_rounds(&pace, &asked);
        *wanted = asked > *wanted ? asked : *wanted;
    }
    bt_mem_free(block);
    return status;
}

bt_run_wish bt_cli_gate_wish(bt_cli_gate_pace *pace)
{
    int64_t systems = pace->plan->systems ? cJSON_GetArraySize(pace->plan->systems) : 1;
    pace->family = 0;
    for (int64_t i = 0; i < pace->plan->case_count; ++i) {
        for (int64_t j = 0; j < systems; ++j) {
            const bt_gate_side *base = base_of(pace, i, j);
            pace->family += base ? bt_gate_family(base) : 0;
        }
    }
    pace->family = pace->family > 0 ? pace->family : 1;
    return (bt_run_wish){.rounds = rounds,
                         .self = pace,
                         .rounds_max = pace->fixed ? 0 : pace->policy->rounds,
                         .kind = BT_GATE_KIND};
}
