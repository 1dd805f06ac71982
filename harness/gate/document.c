// harness/gate/document.c - reads JSON for baselines and rules
#include "harness/gate/document.h"

#include <math.h>

#include "framework/base/mem.h"
#include "harness/record/keep.h"

static bt_status lacks(bt_document *in, const cJSON *object, const char *key, const char *expected)
{
    const cJSON *node = bt_json_get(object, key);
    return node ? bt_json_error(in->json, node, BT_JSON_VALUE, "\"%s\" must be %s, not %s", key,
                                expected, bt_json_type_name(node))
                : bt_json_error(in->json, object, BT_JSON_VALUE, "the key \"%s\" is missing", key);
}

bt_status bt_document_text(bt_document *in, const cJSON *object, const char *key, const char **out)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsString(node) ? bt_keep(in->arena, node->valuestring, out)
                                : lacks(in, object, key, "a text");
}

bt_status bt_document_text_if(bt_document *in, const cJSON *object, const char *key,
                              const char **out)
{
    *out = "";
    return bt_json_get(object, key) ? bt_document_text(in, object, key, out) : BT_OK;
}

bt_status bt_document_member(bt_document *in, const cJSON *object, const char *key, bool list,
                             const cJSON **out)
{
    *out = bt_json_get(object, key);
    bool right = list ? cJSON_IsArray(*out) : cJSON_IsObject(*out);
    return right ? BT_OK : lacks(in, object, key, list ? "a list" : "an object");
}

bt_status bt_document_number(bt_document *in, const cJSON *object, const char *key, double minimum,
                             double maximum, double *out)
{
    const cJSON *node = bt_json_get(object, key);
    if (!cJSON_IsNumber(node)) {
        return lacks(in, object, key, "a number");
    }
    *out = node->valuedouble;
    if (!(*out >= minimum && *out <= maximum)) {
        return bt_json_error(in->json, node, BT_JSON_VALUE, "\"%s\" is %g; allowed: %g to %g", key,
                             *out, minimum, maximum);
    }
    return BT_OK;
}

bt_status bt_document_number_if(bt_document *in, const cJSON *object, const char *key, double *out)
{
    const cJSON *node = bt_json_get(object, key);
    *out = (double)NAN;
    return node && !cJSON_IsNull(node)
               ? bt_document_number(in, object, key, 0, BT_DOCUMENT_NUMBER_MAX, out)
               : BT_OK;
}

bt_status bt_document_numbers(bt_document *in, const cJSON *list, const char *key,
                              const double **out, int64_t *count)
{
    if (!cJSON_IsArray(list)) {
        return bt_json_error(in->json, list, BT_JSON_VALUE, "\"%s\" must be a list, not %s", key,
                             bt_json_type_name(list));
    }
    double *values = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, cJSON_GetArraySize(list), &values));
    *count = 0;
    for (const cJSON *node = list->child; node; node = node->next) {
        if (!cJSON_IsNumber(node) || !(node->valuedouble > 0)) {
            return bt_json_error(in->json, node, BT_JSON_VALUE,
                                 "\"%s\" must contain only numbers above 0", key);
        }
        values[(*count)++] = node->valuedouble;
    }
    *out = values;
    return BT_OK;
}
