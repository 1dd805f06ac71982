// harness/stats/decide_json.c - rules and decisions as JSON
#include "harness/stats/decide_json.h"

#include <string.h>

#include "framework/base/idioms.h"

#define ROUNDS_MAX 1000000.0

void bt_decision_rule_write(const bt_decision_rule *rule, bt_json_writer *json)
{
    BT_JSON(json, BT_OF(rule, tolerance), BT_OF(rule, alpha), BT_OF(rule, miss));
    if (rule->bad_ratio > 0.0) {
        BT_JSON(json, BT_OF(rule, bad_ratio), BT_OF(rule, far_spreads));
    }
    bt_json_writer_integer(json, "family", rule->family);
    BT_JSON_LIST(json, "looks", i, rule->look_count) {
        bt_json_writer_integer(json, NULL, rule->looks[i]);
    }
}

static bt_status read_number(const cJSON *object, const char *key, double low, double high,
                             double *out)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, key);
    BT_FAIL_IF(!cJSON_IsNumber(node) || !(node->valuedouble >= low && node->valuedouble <= high),
               BT_STATUS_CORRUPT_DATA, "\"%s\" of a rule must be a number from %g to %g", key, low,
               high);
    *out = node->valuedouble;
    return BT_OK;
}

static bt_status read_looks(const cJSON *looks, bt_decision_rule *out)
{
    int count = cJSON_IsArray(looks) ? cJSON_GetArraySize(looks) : 0;
    double before = 1;
    BT_FAIL_IF(count < 1 || count > BT_LOOKS_MAX, BT_STATUS_CORRUPT_DATA,
               "\"looks\" of a rule must be a list of 1 to %d numbers of rounds", BT_LOOKS_MAX);
    for (int i = 0; i < count; ++i) {
        const cJSON *look = cJSON_GetArrayItem(looks, i);
        BT_FAIL_IF(!cJSON_IsNumber(look) ||
                       !(look->valuedouble > before && look->valuedouble <= ROUNDS_MAX),
                   BT_STATUS_CORRUPT_DATA,
                   "\"looks\" of a rule must be increasing and at least 2; number %d is not",
                   i + 1);
        before = look->valuedouble;
        out->looks[i] = (int64_t)before;
    }
    out->look_count = count;
    return BT_OK;
}

bt_status bt_decision_rule_read(const cJSON *object, bt_decision_rule *out)
{
    double family = 0;
    memset(out, 0, sizeof *out);
    BT_TRY(read_number(object, "tolerance", 0, 100, &out->tolerance));
    BT_TRY(read_number(object, "alpha", 1e-9, 0.5, &out->alpha));
    BT_TRY(read_number(object, "miss", 1e-9, 0.5, &out->miss));
    if (cJSON_GetObjectItemCaseSensitive(object, "bad_ratio")) { // rules of version 1 have none
        BT_TRY(read_number(object, "bad_ratio", 1.0, 1000, &out->bad_ratio));
        BT_TRY(read_number(object, "far_spreads", 0, 1000, &out->far_spreads));
    }
    BT_TRY(read_number(object, "family", 1, 1e9, &family));
    out->family = (int64_t)family;
    return read_looks(cJSON_GetObjectItemCaseSensitive(object, "looks"), out);
}
