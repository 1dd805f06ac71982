// harness/cli/gate_resume.c - stores and restores the rule of a gated run
#include "harness/cli/gate_resume.h"

#include <string.h>

#include "framework/base/scoped.h"
#include "harness/ab/ab.h"
#include "harness/gate/gate.h"
#include "harness/text/json_writer.h"

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
    bt_store *store = NULL;
    BT_SCOPED(bt_store_run) run = {0};
    BT_TRY(bt_cli_suite_resume(arguments, bt_cli_value(arguments, "resume"), suite));
    BT_TRY(bt_store_open(suite->database, BT_STORE_READ, &store));
    bt_status status = bt_store_run_read(store, suite->resume, &run);
    if (status == BT_OK && strcmp(run.schedule.kind, BT_GATE_KIND) != 0) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "run %lld was started by 'bt-bench %s', not by gate",
                          (long long)suite->resume, *run.schedule.kind ? run.schedule.kind : "run");
    }
    BT_IF_OK(status, read_rule(run.id, run.schedule.rule_json, policy, record));
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
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
