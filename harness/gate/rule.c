// harness/gate/rule.c - a rule as JSON
#include <math.h>
#include <stdio.h>

#include "framework/base/find.h"
#include "harness/gate/curves.h"
#include "harness/gate/rule_read.h"
#include "harness/stats/decide_json.h"

#define NUMBER_MAX 1e300

static const char *const presence_words[] = {
#define PRESENCE_WORD(name, word) word,
    BT_GATE_PRESENCE_LIST(PRESENCE_WORD)
#undef PRESENCE_WORD
};

// ---- writing -----------------------------------------------------------------------------------

bt_decision_rule bt_gate_decision_rule(const bt_policy *policy, double tolerance, int64_t family)
{
    bt_decision_rule out = bt_decision_rule_of(tolerance, family);
    bt_decision_rule_limit(&out, policy->rounds);
    out.alpha = policy->false_alarm_rate;
    out.miss = policy->miss_rate;
    return out;
}

static void write_loss(const bt_gate_terms *terms, bt_json_writer *json)
{
    bt_loss_rule rule = bt_loss_rule_default(terms->precision);
    BT_JSON(json, BT_KV("tier", terms->rule.loss), BT_OF(&rule, start), BT_OF(&rule, growth),
            BT_OF(&rule, limit), BT_OF(&rule, widen), BT_OF(&rule, margin_nats),
            BT_OF(&rule, alpha), BT_OF(&rule, segments));
}

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

// The other side: a system of the same run, or the side of a baseline.
static void write_base(const bt_gate_terms *terms, bt_json_writer *json)
{
    if (terms->base) {
        bt_json_writer_text(json, "base", terms->base);
        return;
    }
    BT_JSON(json, BT_OF(terms, baseline), BT_OF(terms, baseline_digest));
    if (terms->recorded) {
        BT_JSON(json, BT_KV("baseline_system", terms->recorded->system), BT_OF(terms, other_card));
    }
}

bt_status bt_gate_rule_write(const bt_gate_terms *terms, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bool metric = terms->metric < BT_GATE_METRIC_COUNT;
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("version", BT_GATE_RULE_VERSION), BT_KV("policy", terms->policy->name),
            BT_KV("policy_digest", terms->policy->digest), BT_OF(terms, bench),
            BT_KV("case", terms->name), BT_OF(terms, candidate),
            BT_KV("presence", presence_words[terms->presence]),
            BT_KV("metric", metric ? bt_gate_metric_info(terms->metric)->tag : ""),
            BT_OF(terms->policy, clock_tolerance));
    write_calibration(&terms->calibration, &json);
    if (terms->metric == BT_GATE_MEMORY) {
        bt_json_writer_real(&json, "memory_tolerance_bytes", terms->rule.memory_tolerance_bytes);
    } else if (terms->metric == BT_GATE_LOSS) {
        bt_json_writer_open(&json, "loss", '{');
        write_loss(terms, &json);
        bt_json_writer_close(&json, '}');
    } else if (metric) {
        bt_decision_rule rule =
            bt_gate_decision_rule(terms->policy, terms->rule.tolerance, terms->family);
        bt_decision_rule_write(&rule, &json);
    }
    write_base(terms, &json);
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
    BT_TRY(bt_document_number(in, loss, "start", 0, NUMBER_MAX, &rule->start));
    BT_TRY(bt_document_number(in, loss, "growth", 0, NUMBER_MAX, &rule->growth));
    BT_TRY(bt_document_number(in, loss, "limit", 0, NUMBER_MAX, &rule->limit));
    BT_TRY(bt_document_number(in, loss, "widen", 0, NUMBER_MAX, &rule->widen));
    BT_TRY(bt_document_number(in, loss, "margin_nats", 0, NUMBER_MAX, &rule->margin_nats));
    BT_TRY(bt_document_number(in, loss, "alpha", 0, 1, &rule->alpha));
    BT_TRY(bt_document_number(in, loss, "segments", 1, 1e6, &segments));
    rule->segments = (int64_t)segments;
    return BT_OK;
}

// NaN if it is missing or null.
static bt_status read_share(bt_document *in, const cJSON *object, const char *key, double *out)
{
    const cJSON *node = bt_json_get(object, key);
    *out = (double)NAN;
    return node && !cJSON_IsNull(node) ? bt_document_number(in, object, key, 0, NUMBER_MAX, out)
                                       : BT_OK;
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
    BT_TRY(read_share(in, node, "false_alarm_rate", &out->false_alarm_rate));
    BT_TRY(read_share(in, node, "smallest", &out->smallest));
    BT_TRY(bt_document_number(in, node, "false_alarm_limit", 0, 1, &out->false_alarm_limit));
    return bt_document_number(in, node, "smallest_limit", 0, NUMBER_MAX, &out->smallest_limit);
}

static bt_status read_base(bt_document *in, const cJSON *root, bt_rule *out)
{
    const cJSON *values = bt_json_get(root, "values");
    out->clock_mhz = (double)NAN;
    BT_TRY(bt_document_text_if(in, root, "base", &out->base));
    BT_TRY(bt_document_text_if(in, root, "baseline_system", &out->baseline_system));
    out->other_card = cJSON_IsTrue(bt_json_get(root, "other_card"));
    BT_TRY(bt_document_text_if(in, root, "environment", &out->environment));
    BT_TRY(bt_document_text_if(in, root, "settings", &out->settings));
    if (bt_json_get(root, "sm_clock_mhz")) {
        BT_TRY(bt_document_number(in, root, "sm_clock_mhz", 0, NUMBER_MAX, &out->clock_mhz));
    }
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
        return bt_document_number(in, root, "memory_tolerance_bytes", 0, NUMBER_MAX,
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

bt_status bt_rule_read(bt_document *in, const cJSON *root, bt_rule *out)
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
    BT_TRY(bt_document_number(in, root, "clock_tolerance", 0, NUMBER_MAX, &out->clock_tolerance));
    BT_TRY(read_calibration(in, root, &out->calibration));
    BT_TRY(read_metric(in, root, out));
    return read_base(in, root, out);
}
