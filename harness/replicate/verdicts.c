// harness/replicate/verdicts.c - stores verdicts of claims, and recomputes them from their rules
//
// The rule of a verdict: {"rule", "case", "other", "over", "claimed", "margin", "deviations",
// "title", "counted"}; the metric is that of the verdict. "over" is present if two cases of ours
// are compared. Records of rule 1 have neither "rule" nor "title" nor "counted".
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/record/keep.h"
#include "harness/replicate/replicate.h"
#include "harness/text/json_writer.h"

// ---- to the record -----------------------------------------------------------------------------

static bt_status write_rule(const bt_replication *item, bt_arena *arena, const char **out)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_OF(item, rule), BT_OF(item, title), BT_OF(item, counted),
            BT_KV("case", item->case_name), BT_OF(item, other), BT_OF(item, claimed),
            BT_OF(item, margin), BT_OF(item, deviations));
    if (*item->over) {
        BT_JSON(&json, BT_OF(item, over));
    }
    bt_json_writer_close(&json, '}');
    return bt_keep_str(arena, &text, out);
}

bt_status bt_replications_verdicts(bt_replications *replications, const bt_store_verdict **verdicts)
{
    bt_store_verdict *list = NULL;
    BT_TRY(BT_ARENA_ARRAY(&replications->arena, replications->count, &list));
    for (int64_t i = 0; i < replications->count; ++i) {
        const bt_replication *item = &replications->items[i];
        list[i] = (bt_store_verdict){.kind = "replicate",
                                     .subject = item->subject,
                                     .metric = bt_metric_info(item->metric)->tag,
                                     .verdict = bt_verdict_name(item->verdict),
                                     .ratio = item->ratio,
                                     .low = item->low,
                                     .high = item->high,
                                     .rounds = item->pairs,
                                     .reason = item->reason};
        BT_TRY(write_rule(item, &replications->arena, &list[i].rule_json));
    }
    *verdicts = list;
    return BT_OK;
}

// ---- and back ----------------------------------------------------------------------------------

static bt_status take_text(const cJSON *rule, const char *key, bt_arena *arena, const char **out)
{
    const cJSON *node = bt_json_get(rule, key);
    BT_FAIL_IF(!cJSON_IsString(node), BT_STATUS_CORRUPT_DATA, "the rule has no \"%s\"", key);
    return bt_keep(arena, node->valuestring, out);
}

// A number, NaN if it is null.
static bt_status take_number(const cJSON *rule, const char *key, double *out)
{
    const cJSON *node = bt_json_get(rule, key);
    BT_FAIL_IF(!cJSON_IsNumber(node) && !cJSON_IsNull(node), BT_STATUS_CORRUPT_DATA,
               "the rule has no \"%s\"", key);
    *out = cJSON_IsNumber(node) ? node->valuedouble : (double)NAN;
    return BT_OK;
}

static bt_status take_rule(const cJSON *rule, bt_arena *arena, bt_replication *out)
{
    BT_TRY(take_text(rule, "case", arena, &out->case_name));
    BT_TRY(take_text(rule, "other", arena, &out->other));
    BT_TRY(take_text(rule, "deviations", arena, &out->deviations));
    if (bt_json_get(rule, "over")) {
        BT_TRY(take_text(rule, "over", arena, &out->over));
    }
    const cJSON *number = bt_json_get(rule, "rule");
    out->rule = cJSON_IsNumber(number) ? number->valueint : 1;
    BT_TRY(take_number(rule, "claimed", &out->claimed));
    return take_number(rule, "margin", &out->margin);
}

bt_status bt_replication_again(const bt_store_run *run, const bt_store_verdict *recorded,
                               bt_arena *arena, bt_replication *out)
{
    BT_SCOPED(bt_json_doc) rule = {0};
    *out = (bt_replication){.subject = recorded->subject, .reason = recorded->reason, .over = ""};
    BT_FAIL_IF(!bt_metric_parse(recorded->metric, &out->metric), BT_STATUS_CORRUPT_DATA,
               "claim %s: no metric \"%s\"", recorded->subject, recorded->metric);
    bt_status status =
        bt_json_parse("rule", recorded->rule_json, strlen(recorded->rule_json), &rule);
    BT_IF_OK(status, take_rule(rule.root, arena, out));
    BT_TRY(bt_error_context(status, "claim %s", recorded->subject));
    return bt_replication_of_rounds(run, out);
}
