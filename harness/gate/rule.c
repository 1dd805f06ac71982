// harness/gate/rule.c - a rule as JSON
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/gate/curves.h"
#include "harness/gate/rule.h"
#include "harness/stats/decide_json.h"

static const char *const presence_words[] = {
#define PRESENCE_WORD(name, word) word,
    BT_GATE_PRESENCE_LIST(PRESENCE_WORD)
#undef PRESENCE_WORD
};

// ---- from a policy -----------------------------------------------------------------------------

bt_decision_rule bt_gate_decision_rule(const bt_policy *policy, double tolerance, int64_t family)
{
    bt_decision_rule out = bt_decision_rule_of(tolerance, family);
    bt_decision_rule_limit(&out, policy->rounds);
    out.alpha = policy->false_alarm_rate;
    out.miss = policy->miss_rate;
    return out;
}

int64_t bt_gate_rounds_against(const bt_policy *policy, const bt_gate_side *base)
{
    int64_t rounds = bt_gate_decision_rule(policy, 0, 1).looks[0], session = 0;
    for (int64_t i = 0; base && i < base->round_count; ++i) {
        bool same = i > 0 && base->rounds[i].session == base->rounds[i - 1].session;
        session = same ? session + 1 : 1;
        rounds = session > rounds ? session : rounds;
    }
    return rounds < policy->rounds ? rounds : policy->rounds;
}

bt_rule bt_rule_of(const bt_policy *policy, const bt_gate_rule *own, bt_gate_metric metric,
                   const char *precision, int64_t family)
{
    return (bt_rule){
        .version = BT_GATE_RULE_VERSION,
        .policy = policy->name,
        .policy_digest = policy->digest,
        .base = "",
        .baseline_system = "",
        .metric = metric,
        .clock_tolerance = policy->clock_tolerance,
        .calibration = {.false_alarm_rate = (double)NAN,
                        .smallest = (double)NAN,
                        .false_alarm_limit = policy->calibration_false_alarm_rate,
                        .smallest_limit = policy->calibration_smallest_tolerances * own->tolerance},
        .decision = bt_gate_decision_rule(policy, own->tolerance, family),
        .memory_tolerance_bytes = own->memory_tolerance_bytes,
        .tier = own->loss,
        .loss = bt_loss_rule_default(precision)};
}

// ---- writing -----------------------------------------------------------------------------------

static void write_calibration(const bt_gate_calibration *calibration, bt_json_writer *json)
{
    bt_json_writer_open(json, "calibration", '{');
    BT_JSON(json, BT_OF(calibration, required), BT_OF(calibration, known));
    if (calibration->known) {
        BT_JSON(json, BT_OF(calibration, false_alarm_rate), BT_OF(calibration, smallest));
    }
    if (*calibration->why) {
        bt_json_writer_text(json, "why", calibration->why);
    }
    BT_JSON(json, BT_OF(calibration, false_alarm_limit), BT_OF(calibration, smallest_limit));
    bt_json_writer_close(json, '}');
}

static void write_metric(const bt_rule *rule, bt_json_writer *json)
{
    const bt_loss_rule *loss = &rule->loss;
    if (rule->metric == BT_GATE_MEMORY) {
        BT_JSON(json, BT_OF(rule, memory_tolerance_bytes));
    } else if (rule->metric == BT_GATE_LOSS) {
        BT_JSON_OBJECT(json, "loss", BT_OF(rule, tier), BT_OF(loss, start), BT_OF(loss, growth),
                       BT_OF(loss, limit), BT_OF(loss, widen), BT_OF(loss, margin_nats),
                       BT_OF(loss, alpha), BT_OF(loss, segments));
    } else if (rule->metric < BT_GATE_METRIC_COUNT) {
        bt_decision_rule_write(&rule->decision, json);
    }
}

// The other side: a system of the same run, or the side of a baseline.
static void write_base(const bt_rule *rule, bt_json_writer *json)
{
    if (*rule->base) {
        BT_JSON(json, BT_OF(rule, base));
        return;
    }
    BT_JSON(json, BT_OF(rule, baseline), BT_OF(rule, baseline_digest));
    if (*rule->baseline_system) {
        BT_JSON(json, BT_OF(rule, baseline_system), BT_OF(rule, other_card));
    }
}

bt_status bt_rule_write(const bt_rule *rule, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bool metric = rule->metric < BT_GATE_METRIC_COUNT;
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_OF(rule, version), BT_OF(rule, policy), BT_OF(rule, policy_digest),
            BT_OF(rule, bench), BT_KV("case", rule->name), BT_OF(rule, candidate),
            BT_KV("presence", presence_words[rule->presence]),
            BT_KV("metric", metric ? bt_gate_metric_info(rule->metric)->tag : ""),
            BT_OF(rule, clock_tolerance));
    write_calibration(&rule->calibration, &json);
    write_metric(rule, &json);
    write_base(rule, &json);
    bt_json_writer_close(&json, '}');
    return bt_str_status(out);
}

// ---- reading -----------------------------------------------------------------------------------

static bt_status read_loss(bt_document *in, const cJSON *root, bt_rule *out)
{
    const cJSON *loss = NULL;
    double segments = 0;
    bt_loss_rule *rule = &out->loss;
    BT_TRY(bt_document_member(in, root, "loss", false, &loss));
    BT_TRY(bt_document_text(in, loss, "tier", &out->tier));
    BT_TRY(bt_document_number(in, loss, "start", 0, BT_DOCUMENT_NUMBER_MAX, &rule->start));
    BT_TRY(bt_document_number(in, loss, "growth", 0, BT_DOCUMENT_NUMBER_MAX, &rule->growth));
    BT_TRY(bt_document_number(in, loss, "limit", 0, BT_DOCUMENT_NUMBER_MAX, &rule->limit));
    BT_TRY(bt_document_number(in, loss, "widen", 0, BT_DOCUMENT_NUMBER_MAX, &rule->widen));
    BT_TRY(
        bt_document_number(in, loss, "margin_nats", 0, BT_DOCUMENT_NUMBER_MAX, &rule->margin_nats));
    BT_TRY(bt_document_number(in, loss, "alpha", 0, 1, &rule->alpha));
    BT_TRY(bt_document_number(in, loss, "segments", 1, 1e6, &segments));
    rule->segments = (int64_t)segments;
    return BT_OK;
}

static bt_status read_calibration(bt_document *in, const cJSON *root, bt_gate_calibration *out)
{
    const cJSON *node = NULL;
    const char *why = "";
    BT_TRY(bt_document_member(in, root, "calibration", false, &node));
    BT_TRY(bt_document_text_if(in, node, "why", &why));
    (void)snprintf(out->why, sizeof out->why, "%s", why);
    out->required = cJSON_IsTrue(bt_json_get(node, "required"));
    out->known = cJSON_IsTrue(bt_json_get(node, "known"));
    BT_TRY(bt_document_number_if(in, node, "false_alarm_rate", &out->false_alarm_rate));
    BT_TRY(bt_document_number_if(in, node, "smallest", &out->smallest));
    BT_TRY(bt_document_number(in, node, "false_alarm_limit", 0, 1, &out->false_alarm_limit));
    return bt_document_number(in, node, "smallest_limit", 0, BT_DOCUMENT_NUMBER_MAX,
                              &out->smallest_limit);
}

static bt_status read_base(bt_document *in, const cJSON *root, bt_rule *out)
{
    const cJSON *values = bt_json_get(root, "values");
    BT_TRY(bt_document_text_if(in, root, "base", &out->base));
    BT_TRY(bt_document_text_if(in, root, "baseline_system", &out->baseline_system));
    out->other_card = cJSON_IsTrue(bt_json_get(root, "other_card"));
    BT_TRY(bt_document_text_if(in, root, "environment", &out->environment));
    BT_TRY(bt_document_text_if(in, root, "settings", &out->settings));
    BT_TRY(bt_document_number_if(in, root, "sm_clock_mhz", &out->clock_mhz));
    if (values) {
        BT_TRY(bt_document_numbers(in, values, "values", &out->values, &out->value_count));
    }
    return bt_document_read_curves(in, root, &out->recorded);
}

static bt_status read_metric(bt_document *in, const cJSON *root, bt_rule *out)
{
    const char *tag = NULL;
    BT_TRY(bt_document_text(in, root, "metric", &tag));
    out->metric = BT_GATE_METRIC_COUNT;
    if (*tag && !bt_gate_metric_parse(tag, &out->metric)) {
        return bt_json_error(in->json, bt_json_get(root, "metric"), BT_JSON_VALUE,
                             "\"%s\" is not a metric that gate compares", tag);
    }
    if (out->metric == BT_GATE_MEMORY) {
        return bt_document_number(in, root, "memory_tolerance_bytes", 0, BT_DOCUMENT_NUMBER_MAX,
                                  &out->memory_tolerance_bytes);
    }
    if (out->metric == BT_GATE_LOSS) {
        return read_loss(in, root, out);
    }
    return *tag ? bt_decision_rule_read(root, &out->decision) : BT_OK;
}

// The first rules have no version.
static bt_status read_version(bt_document *in, const cJSON *root, int64_t *out)
{
    double version = 1;
    if (bt_json_get(root, "version")) {
        BT_TRY(bt_document_number(in, root, "version", 1, BT_GATE_RULE_VERSION, &version));
    }
    *out = (int64_t)version;
    return BT_OK;
}

int64_t bt_gate_rule_version(const char *rule_json)
{
    cJSON *root = cJSON_Parse(rule_json);
    const cJSON *version = bt_json_get(root, "version");
    int64_t out = !cJSON_IsObject(root)     ? 0
                  : cJSON_IsNumber(version) ? (int64_t)version->valuedouble
                                            : 1;
    cJSON_Delete(root);
    return out;
}

static bt_status read_rule(bt_document *in, const cJSON *root, bt_rule *out)
{
    const char *presence = NULL;
    *out = (bt_rule){.presence = BT_GATE_PRESENCE_COUNT};
    BT_TRY(read_version(in, root, &out->version));
    BT_TRY(bt_document_text(in, root, "bench", &out->bench));
    BT_TRY(bt_document_text(in, root, "case", &out->name));
    BT_TRY(bt_document_text(in, root, "candidate", &out->candidate));
    BT_TRY(bt_document_text(in, root, "presence", &presence));
    const int64_t at = BT_FIND_WORD(presence_words, BT_GATE_PRESENCE_COUNT, presence);
    out->presence = at < 0 ? BT_GATE_PRESENCE_COUNT : (bt_gate_presence)at;
    if (at < 0) {
        return bt_json_error(in->json, bt_json_get(root, "presence"), BT_JSON_VALUE,
                             "\"presence\" is \"%s\"; allowed: both, new, missing", presence);
    }
    BT_TRY(bt_document_number(in, root, "clock_tolerance", 0, BT_DOCUMENT_NUMBER_MAX,
                              &out->clock_tolerance));
    BT_TRY(read_calibration(in, root, &out->calibration));
    BT_TRY(read_metric(in, root, out));
    return read_base(in, root, out);
}

bt_status bt_rule_read(const char *rule_json, bt_arena *arena, bt_rule *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_json_parse("the rule of a verdict", rule_json, strlen(rule_json), &json));
    bt_document in = {&json, arena};
    return read_rule(&in, json.root, out);
}
