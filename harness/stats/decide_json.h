// harness/stats/decide_json.h - a rule and a decision as JSON, the same in the store, in files and
// on standard output
//
//   rule      "tolerance":0.01,"alpha":0.01,"miss":0.05,"family":60,"looks":[8,16,24]
//   decision  "outcome":"SAME","ratio":..,"low":..,"high":..,"rounds":8,"look":1,"next_rounds":0
#ifndef BT_HARNESS_STATS_DECIDE_JSON_H
#define BT_HARNESS_STATS_DECIDE_JSON_H

#include <cjson/cJSON.h>

#include "framework/base/status.h"
#include "harness/stats/decide.h"
#include "harness/text/json_writer.h"

// Write the members, into an object that is open.
void bt_decision_rule_write(const bt_decision_rule *rule, bt_json_writer *json);
// Reads the members of a rule; ignores others.
// Errors  CORRUPT_DATA (a member is missing or out of range)
BT_CHECKED bt_status bt_decision_rule_read(const cJSON *object, bt_decision_rule *out);

#endif
