// harness/gate/calibrated.c - looks up the calibration of a case, for a paired gate
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/gate/gate.h"
#include "harness/stats/decide_json.h"
#include "harness/text/format.h"

#define DAY_NS (INT64_C(86400) * 1000000000)

void bt_gate_calibrated_rule(const bt_decision_rule *rule, bt_str *out)
{
    bt_decision_rule alone = *rule;
    bt_json_writer json = {.out = out};
    alone.family = 1;
    bt_json_writer_open(&json, NULL, '{');
    bt_decision_rule_write(&alone, &json);
    bt_json_writer_close(&json, '}');
}

static void take(const bt_gate_calibration_query *query, const char *rule,
                 const bt_store_calibration *found, bt_gate_calibration *out)
{
    if (strcmp(rule, found->rule_json) != 0) {
        (void)snprintf(out->why, sizeof out->why,
                       "another rule or tolerance was calibrated; run 'bt-bench calibrate %.60s'",
                       query->suite);
    } else if (query->at_ns - found->made_ns > query->days * DAY_NS) {
        (void)snprintf(out->why, sizeof out->why,
                       "the calibration of %.10s has expired; run 'bt-bench calibrate %.60s'",
                       bt_format_date(found->made_ns).text, query->suite);
    } else if (isnan(found->false_alarm_high)) {
        (void)snprintf(out->why, sizeof out->why,
                       "not calibrated (%" PRId64 " of %" PRId64
                       " pairs); run 'bt-bench calibrate %.60s' again",
                       found->pairs, found->needed, query->suite);
    } else {
        out->known = true;
        out->false_alarm_rate = found->false_alarm_high;
        out->smallest = found->smallest_high;
    }
}

bt_status bt_gate_calibration_find(void *store, const bt_gate_calibration_query *query,
                                   bt_gate_calibration *out)
{
    BT_SCOPED(bt_str) text = {0};
    bt_gate_calibrated_rule(query->rule, &text);
    BT_TRY(bt_str_status(&text));
    const char *rule = bt_str_text(&text);
    const bt_store_calibration wanted = {.rule_json = rule,
                                         .environment = query->side->environment,
                                         .card = query->card,
                                         .bench = query->side->bench,
                                         .name = query->side->name,
                                         .metric = bt_gate_metric_info(query->metric)->tag};
    BT_SCOPED(bt_arena) arena = {0};
    bt_store_calibration found;
    bool known = false;
    BT_TRY(bt_store_calibration_find(store, &wanted, &arena, &found, &known));
    if (known) {
        take(query, rule, &found, out);
    } else {
        (void)snprintf(out->why, sizeof out->why,
                       "not calibrated in this environment; run 'bt-bench calibrate %.60s'",
                       query->suite);
    }
    return BT_OK;
}
