// harness/bundle/judge.c - recomputes every verdict with the function that made it
//
// A row of the table is a kind of verdicts. Its function judges the run again and compares. If the
// run contains what determines its verdicts (the policy of 'ab' in its schedule, the file of
// claims), all are recomputed with their rules; otherwise each is recomputed from its recorded
// rule. A kind without a row cannot be checked, and a bundle with one fails.
#include <stdio.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/ab/ab.h"
#include "harness/bundle/content.h"
#include "harness/bundle/recompute.h"
#include "harness/redact/redact.h"
#include "harness/replicate/replicate.h"
#include "harness/suite/json.h"

typedef struct verdict_list {
    const bt_store_verdict *items;
    int64_t count;
} verdict_list;

// ---- comparing ---------------------------------------------------------------------------------

static void compare_number(const bt_store_verdict *item, const char *what, double recorded,
                           double follows, bt_bundle_check *check)
{
    if (!bt_recompute_same(recorded, follows)) {
        bt_bundle_find(check, "%s, %s %s: %s is recorded as %.17g, recomputed as %.17g", item->kind,
                       item->subject, item->metric, what, recorded, follows);
    }
}

static void compare_text(const bt_store_verdict *item, const char *what, const char *recorded,
                         const char *follows, bt_bundle_check *check)
{
    if (strcmp(recorded, follows) != 0) {
        bt_bundle_find(check, "%s, %s %s: %s is recorded as %.200s, recomputed as %.200s",
                       item->kind, item->subject, item->metric, what, recorded, follows);
    }
}

// A verdict that cannot be judged again is a finding; the others are still judged.
static bt_status take_mistake(const bt_store_verdict *item, bt_status status,
                              bt_bundle_check *check)
{
    if (status == BT_STATUS_INVALID_ARGUMENT || status == BT_STATUS_CORRUPT_DATA) {
        bt_bundle_find(check, "%s, %s %s: %s", item->kind, item->subject, item->metric,
                       bt_error_message());
        bt_error_clear();
        return BT_OK;
    }
    return status;
}

// Values that follow from the rounds: the word, its numbers, the number of rounds.
static void compare(const bt_store_verdict *item, const bt_store_verdict *follows,
                    bt_bundle_check *check)
{
    compare_text(item, "the verdict", item->verdict, follows->verdict, check);
    compare_number(item, "the ratio", item->ratio, follows->ratio, check);
    compare_number(item, "low", item->low, follows->low, check);
    compare_number(item, "high", item->high, follows->high, check);
    compare_number(item, "rounds", (double)item->rounds, (double)follows->rounds, check);
}

static const bt_store_verdict *find_verdict(const verdict_list *list, const bt_store_verdict *like)
{
    BT_EACH(const bt_store_verdict, item, list->items, list->count) {
        if (strcmp(item->subject, like->subject) == 0 && strcmp(item->metric, like->metric) == 0) {
            return item;
        }
    }
    return NULL;
}

// Compares all verdicts of a kind with the expected ones, including rules.
static void compare_lists(const verdict_list *recorded, const verdict_list *follows,
                          bt_bundle_check *check)
{
    BT_EACH(const bt_store_verdict, item, recorded->items, recorded->count) {
        const bt_store_verdict *again = find_verdict(follows, item);
        if (again) {
            compare(item, again, check);
            compare_text(item, "the rule", item->rule_json, again->rule_json, check);
        } else {
            bt_bundle_find(check, "%s, %s %s: the verdict %s cannot be recomputed from the run",
                           item->kind, item->subject, item->metric, item->verdict);
        }
    }
    BT_EACH(const bt_store_verdict, again, follows->items, follows->count) {
        if (!find_verdict(recorded, again)) {
            bt_bundle_find(check, "%s, %s %s: the verdict %s is recomputed but not recorded",
                           recorded->items[0].kind, again->subject, again->metric, again->verdict);
        }
    }
}

// ---- gate --------------------------------------------------------------------------------------

// A verdict is for the case and metric that its rule names.
static void check_subject(const bt_store_verdict *item, const cJSON *rule, bt_bundle_check *check)
{
    char with_system[512];
    const char *name = bt_json_text_or_null(rule, "case");
    const char *system = bt_json_text_or_null(rule, "candidate");
    const char *metric = bt_json_text_or_null(rule, "metric");
    if (name && system && metric) {
        (void)snprintf(with_system, sizeof with_system, "%.250s %.250s", name, system);
        if (strcmp(item->subject, name) != 0) {
            compare_text(item, "the subject", item->subject, with_system, check);
        }
        compare_text(item, "the metric", item->metric, metric, check);
    }
}

// The baseline that the run was judged with; *out stays zeroed if the record has none.
static bt_status read_baseline(const bt_store_run *run, bt_baseline *out)
{
    const int64_t at = BT_FIND(run->files, run->file_count, kind, BT_BASELINE_FILE_KIND);
    return at < 0 ? BT_OK
                  : bt_baseline_parse("from/baseline.json", run->files[at].bytes,
                                      (size_t)run->files[at].size_bytes, out);
}

// A rule that names a baseline must name the one in the bundle.
static void check_baseline(const bt_store_verdict *item, const cJSON *rule,
                           const bt_baseline *baseline, bt_bundle_check *check)
{
    const char *digest = bt_json_text_or_null(rule, "baseline_digest");
    if (!digest || !bt_json_get(rule, "baseline_system") || !baseline->document) {
        return;
    }
    if (bt_redact_is_short(baseline->document)) {
        bt_str_append(
            &check->notes,
            "the baseline's digest is not checked: a path in the baseline was shortened\n");
    } else {
        compare_text(item, "the baseline's digest", digest, baseline->digest, check);
    }
}

static bt_status judge_gate_item(const bt_gate_sides *sides, const bt_baseline *baseline,
                                 const bt_store_verdict *item, bt_bundle_check *check)
{
    BT_SCOPED(bt_json_doc) rule = {0};
    bt_gate_verdict again;
    BT_TRY(bt_gate_judge(sides, baseline->document ? &baseline->sides : NULL, item->rule_json,
                         &again));
    const bt_store_verdict follows = {.verdict = bt_gate_word_name(again.word),
                                      .ratio = again.ratio,
                                      .low = again.low,
                                      .high = again.high,
                                      .rounds = again.rounds};
    compare(item, &follows, check);
    BT_TRY(bt_json_parse("rule_json", item->rule_json, strlen(item->rule_json), &rule));
    check_baseline(item, rule.root, baseline, check);
    check_subject(item, rule.root, check);
    return BT_OK;
}

static bt_status judge_gate(const bt_store_run *run, const verdict_list *recorded,
                            bt_bundle_check *check)
{
    BT_SCOPED(bt_arena) arena = {0};
    BT_SCOPED(bt_baseline) baseline = {0};
    bt_gate_sides sides;
    BT_TRY(bt_gate_sides_of_run(run, &arena, &sides));
    BT_TRY(read_baseline(run, &baseline));
    BT_EACH(const bt_store_verdict, item, recorded->items, recorded->count) {
        BT_TRY(take_mistake(item, judge_gate_item(&sides, &baseline, item, check), check));
    }
    return BT_OK;
}

// ---- ab ----------------------------------------------------------------------------------------

static void take_calibration(const cJSON *node, bt_gate_calibration *out)
{
    out->known = cJSON_IsTrue(bt_json_get(node, "known"));
    if (out->known) {
        out->false_alarm_rate = bt_json_number_of(node, "false_alarm_rate");
        out->smallest = bt_json_number_of(node, "smallest");
    }
    (void)snprintf(out->why, sizeof out->why, "%s", bt_json_text_of(node, "why"));
}

// Calibrations are not part of the run: the values in a recorded rule are not verified.
static bt_status recorded_calibration(void *self, const bt_gate_calibration_query *query,
                                      bt_gate_calibration *out)
{
    const verdict_list *recorded = self;
    for (int64_t i = 0; i < recorded->count; i++) {
        const char *text = recorded->items[i].rule_json;
        BT_SCOPED(bt_json_doc) rule = {0};
        BT_TRY(bt_json_parse("rule_json", text, strlen(text), &rule));
        if (bt_json_is_text(rule.root, "bench", query->side->bench) &&
            bt_json_is_text(rule.root, "case", query->side->name) &&
            bt_json_is_text(rule.root, "metric", bt_gate_metric_info(query->metric)->tag)) {
            take_calibration(bt_json_get(rule.root, "calibration"), out);
        }
    }
    return BT_OK;
}

static bt_status judge_by_policy(const bt_store_run *run, const bt_policy *policy,
                                 const verdict_list *recorded, bt_bundle_check *check)
{
    const bt_gate_request request = {.run = run,
                                     .policy = policy,
                                     .calibration = recorded_calibration,
                                     .calibration_self = (void *)(uintptr_t)recorded};
    BT_SCOPED(bt_gate_result) result = {0};
    BT_SCOPED(bt_arena) arena = {0};
    bt_store_verdict *verdicts = NULL;
    BT_TRY(bt_gate_run(&request, &result));
    BT_TRY(bt_gate_verdicts(&result, &arena, &verdicts));
    const verdict_list follows = {verdicts, result.count};
    compare_lists(recorded, &follows, check);
    return BT_OK;
}

// The policy is in the schedule of the session.
static bt_status judge_ab(const bt_store_run *run, const verdict_list *recorded,
                          bt_bundle_check *check)
{
    BT_SCOPED(bt_policy) policy = {0};
    for (int64_t i = 0; i < recorded->count; i++) {
        int64_t version = bt_gate_rule_version(recorded->items[i].rule_json);
        if (version > 0 && version < BT_GATE_RULE_VERSION) {
            bt_str_format(
                &check->notes,
                "the verdicts of ab were made by version %lld of the rules and are recomputed by "
                "the same version; this program uses version %d for new runs\n",
                (long long)version, BT_GATE_RULE_VERSION);
            return judge_gate(run, recorded, check);
        }
    }
    BT_TRY(bt_ab_policy_recorded(run->schedule.rule_json, &policy));
    return judge_by_policy(run, &policy, recorded, check);
}

// ---- replicate ---------------------------------------------------------------------------------

static bt_status judge_by_claims(const bt_store_run *run, const bt_store_file *file,
                                 const verdict_list *recorded, bt_bundle_check *check)
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_SCOPED(bt_claims) claims = {0};
    BT_SCOPED(bt_replications) got = {0};
    const bt_store_verdict *items = NULL;
    BT_TRY(bt_json_parse("from/claims.json", file->bytes, (size_t)file->size_bytes, &json));
    BT_TRY(bt_claims_read(&json, &claims));
    BT_TRY(bt_replicate(&claims, run, &got));
    BT_TRY(bt_replications_verdicts(&got, &items));
    const verdict_list follows = {items, got.count};
    compare_lists(recorded, &follows, check);
    return BT_OK;
}

static bt_status judge_replication(const bt_store_run *run, const bt_store_verdict *item,
                                   bt_bundle_check *check)
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_replication again;
    BT_TRY(bt_replication_again(run, item, &arena, &again));
    const bt_store_verdict follows = {.verdict = bt_verdict_name(again.verdict),
                                      .ratio = again.ratio,
                                      .low = again.low,
                                      .high = again.high,
                                      .rounds = again.pairs};
    compare(item, &follows, check);
    return BT_OK;
}

static bt_status judge_replicate(const bt_store_run *run, const verdict_list *recorded,
                                 bt_bundle_check *check)
{
    const int64_t at = BT_FIND(run->files, run->file_count, kind, "claims");
    if (at >= 0) {
        return judge_by_claims(run, &run->files[at], recorded, check);
    }
    BT_EACH(const bt_store_verdict, item, recorded->items, recorded->count) {
        BT_TRY(take_mistake(item, judge_replication(run, item, check), check));
    }
    return BT_OK;
}

// ---- all kinds ---------------------------------------------------------------------------------

static const struct {
    const char *kind;
    bt_status (*judge)(const bt_store_run *run, const verdict_list *recorded,
                       bt_bundle_check *check);
} judges[] = {{BT_AB_KIND, judge_ab}, {BT_GATE_KIND, judge_gate}, {"replicate", judge_replicate}};

static bt_status judge_kind(const bt_store_run *run, const verdict_list *recorded,
                            bt_bundle_check *check)
{
    const char *kind = recorded->items[0].kind;
    const int64_t at = BT_FIND(judges, BT_COUNT(judges), kind, kind);
    if (at < 0) {
        bt_bundle_find(check, "this program does not know verdicts of the kind \"%s\"", kind);
        return BT_OK;
    }
    bt_status status = judges[at].judge(run, recorded, check);
    check->verdict_count += recorded->count;
    return take_mistake(&recorded->items[0], status, check);
}

bt_status bt_recompute_verdicts(const bt_store_run *run, bt_bundle_check *check)
{
    for (int64_t i = 0; i < run->verdict_count;) {
        verdict_list recorded = {&run->verdicts[i], 0};
        while (i < run->verdict_count &&
               strcmp(run->verdicts[i].kind, recorded.items[0].kind) == 0) {
            recorded.count++;
            i++;
        }
        BT_TRY(judge_kind(run, &recorded, check));
    }
    // A completed 'ab' session has verdicts.
    const bool judged = BT_FIND(run->verdicts, run->verdict_count, kind, BT_AB_KIND) >= 0;
    if (run->status == BT_RUN_PASSED && !judged && run->schedule.kind &&
        strcmp(run->schedule.kind, BT_AB_KIND) == 0) {
        bt_bundle_find(check, "a session of ab without a verdict");
    }
    return BT_OK;
}
