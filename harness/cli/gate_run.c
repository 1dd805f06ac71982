// harness/cli/gate_run.c - a gated run: its number of rounds, and how it is resumed
#include "harness/cli/gate_run.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "harness/ab/ab.h"
#include "harness/gate/gate.h"
#include "harness/text/json_writer.h"

// ---- rounds ------------------------------------------------------------------------------------

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
        int64_t asked = bt_gate_rounds_against(self->policy, base_of(self, case_index, i));
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

// ---- resuming ----------------------------------------------------------------------------------

bt_status bt_cli_gate_rule_write(const bt_cli_gate_pace *pace, const char *baseline, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("baseline", baseline), BT_KV("digest", pace->baseline->digest),
            BT_FLAG("fixed", pace->fixed));
    bt_str_append(out, ",\"policy\":");
    bt_json_write(pace->policy->root, out);
    bt_json_writer_close(&json, '}');
    return bt_str_status(out);
}

static bt_status read_rule(int64_t run, const char *rule_json, bt_policy *policy,
                           bt_cli_gate_record *record)
{
    BT_TRY(bt_ab_policy_recorded(rule_json, policy));
    BT_TRY(bt_json_parse("the rule of a run", rule_json, strlen(rule_json), &record->json));
    const cJSON *baseline = bt_json_get(record->json.root, "baseline");
    const cJSON *digest = bt_json_get(record->json.root, "digest");
    BT_FAIL_IF(!cJSON_IsString(baseline) || !cJSON_IsString(digest), BT_STATUS_CORRUPT_DATA,
               "run %lld: the recorded rule has no baseline", (long long)run);
    record->baseline = baseline->valuestring;
    record->digest = digest->valuestring;
    record->fixed = cJSON_IsTrue(bt_json_get(record->json.root, "fixed"));
    return BT_OK;
}

bt_status bt_cli_gate_resume(const bt_cli_arguments *arguments, bt_cli_suite *suite,
                             bt_policy *policy, bt_cli_gate_record *record)
{
    BT_SCOPED(bt_store_run) run = {0};
    BT_TRY(bt_cli_suite_resume(arguments, bt_cli_value(arguments, "resume"), suite));
    BT_TRY(bt_cli_suite_record(suite, BT_GATE_KIND, &run));
    return read_rule(run.id, run.schedule.rule_json, policy, record);
}

bt_status bt_cli_gate_check_baseline(const bt_cli_gate_record *record, int64_t run,
                                     const bt_baseline *found)
{
    return strcmp(record->digest, found->digest) == 0
               ? BT_OK
               : bt_error(BT_STATUS_UNAVAILABLE,
                          "run %lld cannot be resumed: baseline %s was changed after the run "
                          "started (was %.8s, is %.8s). Start a new run, or judge the recorded "
                          "rounds: bt-bench gate %lld --baseline %s",
                          (long long)run, record->baseline, record->digest, found->digest,
                          (long long)run, record->baseline);
}

void bt_cli_gate_record_release(bt_cli_gate_record *record)
{
    bt_json_doc_release(&record->json);
    memset(record, 0, sizeof *record);
}
