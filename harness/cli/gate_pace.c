// harness/cli/gate_pace.c - a gated run has as many rounds as the baseline's sessions
#include "harness/cli/gate_pace.h"

#include <string.h>

#include "framework/base/idioms.h"
#include "harness/gate/pace.h"

// Name of the plan's index-th system in the record: for a program its file name.
static const char *system_of(const bt_plan *plan, int64_t index)
{
    const cJSON *item = plan->systems ? cJSON_GetArrayItem(plan->systems, (int)index) : NULL;
    const char *name = item && cJSON_IsString(item) ? item->valuestring : BT_GATE_SYSTEM_OURS;
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

// If the worker has another name, the case has one side, whatever its name is.
static const bt_gate_side *only_side(const bt_cli_gate_pace *self, const char *name)
{
    const bt_gate_side *found = NULL;
    BT_EACH(const bt_gate_side, side, self->baseline->sides.items, self->baseline->sides.count) {
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

// The maximum over the systems of the case. A ceiling is measured once.
static bt_status rounds(void *context, const bt_run_schedule *schedule, int64_t case_index,
                        int64_t *wanted)
{
    const bt_cli_gate_pace *self = context;
    *wanted = self->fixed ? schedule->wanted[case_index] : 1;
    if (self->fixed || schedule->alone[case_index]) {
        return BT_OK;
    }
    for (int64_t i = 0; i < schedule->system_count; ++i) {
        const bt_gate_pace pace = {.policy = self->policy, .base = base_of(self, case_index, i)};
        int64_t asked = bt_gate_pace_rounds(&pace);
        *wanted = asked > *wanted ? asked : *wanted;
    }
    return BT_OK;
}

bt_run_wish bt_cli_gate_wish(bt_cli_gate_pace *pace)
{
    return (bt_run_wish){.rounds = rounds,
                         .self = pace,
                         .rounds_max = pace->fixed ? 0 : pace->policy->rounds,
                         .kind = BT_GATE_KIND};
}
