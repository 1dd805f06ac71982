#include "harness/plan/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTS = 4 };

typedef struct combining {
    const bt_json_doc *json;
    const cJSON *node;
    const cJSON *item;
    bt_plan_selects selects;
    const void *by;
    cJSON *cases;
} combining;

bool bt_collective_size_parse(const char *text, int64_t *size_bytes)
{
    static const struct {
        const char *unit;
        int64_t bytes;
    } units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    char *end = NULL;
    long long value = text[0] >= '1' && text[0] <= '9' ? strtoll(text, &end, 10) : 0;
    for (size_t i = 0; value > 0 && i < sizeof units / sizeof *units; ++i) {
        if (strcmp(end, units[i].unit) == 0 && value <= (1LL << 40) / units[i].bytes) {
            *size_bytes = value * units[i].bytes;
            return true;
        }
    }
    return false;
}

static double factor_of(const char *op, double n)
{
#define BT_COLLECTIVE_CASE_OP(name, factor)                                                        \
    if (strcmp(op, #name) == 0) {                                                                  \
        return factor;                                                                             \
    }
#include "harness/suite/collective_ops.inl"
#undef BT_COLLECTIVE_CASE_OP
    return 0;
}

// The index-th value of a text or a list of texts, NULL behind the last.
static const char *text_at(const cJSON *values, int index)
{
    if (cJSON_IsArray(values)) {
        const cJSON *item = cJSON_GetArrayItem(values, index);
        return item ? item->valuestring : NULL;
    }
    return index == 0 && values ? values->valuestring : NULL;
}

static bt_status elements_of(const combining *self, const char *size, int64_t ranks,
                             int64_t element_bytes, int64_t *size_bytes)
{
    if (!bt_collective_size_parse(size, size_bytes) || *size_bytes % (element_bytes * ranks) != 0) {
        return bt_json_error(self->json, self->node, BT_JSON_VALUE,
                             "case %s: collective.size is \"%s\"; expected a number of bytes, KiB "
                             "or MiB, as in 25MiB, that is a multiple of %" PRId64
                             " bytes (an element for each of %" PRId64 " ranks)",
                             bt_json_get(self->item, "name")->valuestring, size,
                             element_bytes * ranks, ranks);
    }
    return BT_OK;
}

static bt_status add_case(const combining *self, const char *const values[LISTS])
{
    const char *op = values[0], *dtype = values[1], *size = values[2], *group = values[3];
    const cJSON *from = bt_json_get(self->item, "collective");
    int64_t ranks = (int64_t)bt_json_number_of(from, "ranks"), size_bytes = 0;
    int64_t element_bytes = strcmp(dtype, "bf16") == 0 ? 2 : strcmp(dtype, "f64") == 0 ? 8 : 4;
    BT_TRY(elements_of(self, size, ranks, element_bytes, &size_bytes));
    char name[160], shape[32];
    (void)snprintf(name, sizeof name, "%s.%s.%s.%s.%s",
                   bt_json_get(self->item, "name")->valuestring, op, dtype, size, group);
    (void)snprintf(shape, sizeof shape, "%" PRId64, size_bytes / element_bytes);
    if (!self->selects(name, self->by)) {
        return BT_OK;
    }
    double bytes = factor_of(op, (double)ranks) * (double)size_bytes;
    const cJSON *systems = bt_json_get(self->item, "systems");
    cJSON *item = cJSON_CreateObject();
    cJSON *kernel = item ? cJSON_AddObjectToObject(item, "kernel") : NULL;
    bool made =
        kernel && cJSON_AddStringToObject(item, "name", name) &&
        cJSON_AddStringToObject(item, "kind", "collective") &&
        cJSON_AddStringToObject(kernel, "op", op) &&
        cJSON_AddStringToObject(kernel, "direction", "forward") &&
        cJSON_AddStringToObject(kernel, "dtype", dtype) &&
        cJSON_AddStringToObject(kernel, "cache", "none") &&
        cJSON_AddStringToObject(kernel, "shape", shape) &&
        cJSON_AddNumberToObject(kernel, "ranks", (double)ranks) &&
        cJSON_AddStringToObject(kernel, "group", group) &&
        cJSON_AddNumberToObject(kernel, "max_time_s", bt_json_number_of(from, "max_time_s")) &&
        cJSON_AddNumberToObject(kernel, "timeout_s", bt_json_number_of(from, "timeout_s")) &&
        cJSON_AddNumberToObject(kernel, "bytes", bytes) &&
        cJSON_AddNumberToObject(kernel, "flops", 0) &&
        (!systems || cJSON_AddItemToObject(item, "systems", cJSON_Duplicate(systems, 1)));
    if (!made || !cJSON_AddItemToArray(self->cases, item)) {
        cJSON_Delete(item);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for the plan");
    }
    return BT_OK;
}

bt_status bt_plan_collective_expand(const bt_json_doc *json, const cJSON *node, const cJSON *item,
                                    bt_plan_selects selects, const void *by, cJSON *cases)
{
    static const char *const keys[LISTS] = {"op", "dtype", "size", "group"};
    const cJSON *collective = bt_json_get(item, "collective");
    const combining self = {json, node, item, selects, by, cases};
    int at[LISTS] = {0};
    for (int i = 0; i < LISTS; ++i) {
        if (!text_at(bt_json_get(collective, keys[i]), 0)) {
            return bt_json_error(json, node, BT_JSON_VALUE,
                                 "case %s: a collective case needs collective.%s",
                                 bt_json_get(item, "name")->valuestring, keys[i]);
        }
    }
    for (;;) {
        const char *values[LISTS];
        for (int i = 0; i < LISTS; ++i) {
            values[i] = text_at(bt_json_get(collective, keys[i]), at[i]);
        }
        BT_TRY(add_case(&self, values));
        int axis = LISTS - 1; // the last list turns fastest
        while (axis >= 0 && !text_at(bt_json_get(collective, keys[axis]), ++at[axis])) {
            at[axis--] = 0;
        }
        if (axis < 0) {
            return BT_OK;
        }
    }
}
