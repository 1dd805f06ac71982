#include "harness/plan/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bt_status elements_of(const bt_plan_expansion *self, const char *size, int64_t ranks,
                             int64_t element_bytes, int64_t *size_bytes)
{
    BT_JSON_FAIL_IF(
        !bt_collective_size_parse(size, size_bytes) || *size_bytes % (element_bytes * ranks) != 0,
        self->json, self->node, BT_JSON_VALUE,
        "case %s: collective.size is \"%s\"; expected a number of bytes, KiB "
        "or MiB, as in 25MiB, that is a multiple of %" PRId64
        " bytes (an element for each of %" PRId64 " ranks)",
        bt_json_get(self->item, "name")->valuestring, size, element_bytes * ranks, ranks);
    return BT_OK;
}

static bt_status add_case(const bt_plan_expansion *self, const char *const values[BT_PLAN_LISTS])
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
    const bt_plan_member members[] = {
        {.key = "op", .text = op},
        {.key = "direction", .text = "forward"},
        {.key = "dtype", .text = dtype},
        {.key = "cache", .text = "none"},
        {.key = "shape", .text = shape},
        {.key = "ranks", .number = (double)ranks},
        {.key = "group", .text = group},
        {.key = "max_time_s", .number = bt_json_number_of(from, "max_time_s")},
        {.key = "timeout_s", .number = bt_json_number_of(from, "timeout_s")},
        {.key = "bytes", .number = factor_of(op, (double)ranks) * (double)size_bytes},
        {.key = "flops", .number = 0}};
    return bt_plan_case_add(self, name, "collective", members,
                            (int)(sizeof members / sizeof *members));
}

bt_status bt_plan_collective_expand(const bt_plan_expansion *self)
{
    static const char *const keys[BT_PLAN_LISTS] = {"op", "dtype", "size", "group"};
    const cJSON *collective = bt_json_get(self->item, "collective");
    for (int i = 0; i < BT_PLAN_LISTS; ++i) {
        BT_JSON_FAIL_IF(!bt_plan_text_at(bt_json_get(collective, keys[i]), 0), self->json,
                        self->node, BT_JSON_VALUE, "case %s: a collective case needs collective.%s",
                        bt_json_get(self->item, "name")->valuestring, keys[i]);
    }
    return bt_plan_combine(self, collective, keys, add_case);
}
