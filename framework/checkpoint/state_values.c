// framework/checkpoint/state_values.c - the plain values of a state: one row each
//
// To add a value: add a member of bt_state_values and a row here. Old checkpoints lack it and are
// refused; increment BT_MANIFEST_FORMAT.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/checkpoint/json.h"
#include "framework/checkpoint/manifest.h"

typedef enum value_kind { VALUE_I64, VALUE_U64, VALUE_F64 } value_kind;

static const struct {
    const char *key;
    value_kind kind; // U64 is written as text: a JSON number is exact to 53 bits
    size_t offset;
} rows[] = {
    {"step", VALUE_I64, offsetof(bt_state_values, step)},
    {"cursor_epoch", VALUE_I64, offsetof(bt_state_values, epoch)},
    {"cursor_position", VALUE_I64, offsetof(bt_state_values, position)},
    {"rng_seed", VALUE_U64, offsetof(bt_state_values, rng) + offsetof(bt_rng, seed)},
    {"rng_stream", VALUE_U64, offsetof(bt_state_values, rng) + offsetof(bt_rng, stream)},
    {"rng_index", VALUE_U64, offsetof(bt_state_values, rng_index)},
    {"schedule_lr", VALUE_F64, offsetof(bt_state_values, lr)},
    {"schedule_min_lr", VALUE_F64, offsetof(bt_state_values, min_lr)},
    {"schedule_warmup_steps", VALUE_I64, offsetof(bt_state_values, warmup_steps)},
    {"schedule_decay_steps", VALUE_I64, offsetof(bt_state_values, decay_steps)},
    {"heads", VALUE_I64, offsetof(bt_state_values, heads)},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const int64_t EXACT = (int64_t)1 << 53;

typedef union value {
    int64_t i64;
    uint64_t u64;
    double f64;
} value;

static value get(const bt_state_values *values, int row)
{
    value out;
    memcpy(&out, (const char *)values + rows[row].offset, sizeof out);
    return out;
}

bt_status bt_state_check_values(const bt_state_values *values)
{
    for (int i = 0; i < ROW_COUNT; ++i) {
        value given = get(values, i);
        if (rows[i].kind == VALUE_I64 && (given.i64 < -EXACT || given.i64 > EXACT)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "the state's %s is %lld, allowed -2^53 to 2^53", rows[i].key,
                            (long long)given.i64);
        }
        if (rows[i].kind == VALUE_F64 && !isfinite(given.f64)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "the state's %s is %g, expected a number",
                            rows[i].key, given.f64);
        }
    }
    return values->step >= 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "the state's step is %lld, allowed from 0",
                          (long long)values->step);
}

void bt_state_values_print(const bt_state_values *values, bt_str *json)
{
    for (int i = 0; i < ROW_COUNT; ++i) {
        value given = get(values, i);
        bt_str_format(json, "%s\"%s\":", i ? ",\n" : "", rows[i].key);
        if (rows[i].kind == VALUE_I64) {
            bt_str_format(json, "%lld", (long long)given.i64);
        } else if (rows[i].kind == VALUE_U64) {
            bt_str_format(json, "\"%llu\"", (unsigned long long)given.u64);
        } else {
            bt_str_format(json, "%.17g", given.f64);
        }
    }
}

static bool parse_u64(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsString(item)) {
        return false;
    }
    *out = strtoull(item->valuestring, NULL, 10);
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)*out);
    return strcmp(text, item->valuestring) == 0;
}

bt_status bt_state_values_parse(const char *path, const cJSON *object, bt_state_values *out)
{
    for (int i = 0; i < ROW_COUNT; ++i) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, rows[i].key);
        value read = {0};
        bool fine = false;
        if (rows[i].kind == VALUE_I64) {
            fine = bt_json_i64(item, &read.i64);
        } else if (rows[i].kind == VALUE_U64) {
            fine = parse_u64(item, &read.u64);
        } else {
            fine = cJSON_IsNumber(item) && isfinite(item->valuedouble);
            read.f64 = fine ? item->valuedouble : 0;
        }
        if (!fine) {
            return bt_error(BT_STATUS_CORRUPT_DATA, "%s: values.%s is missing or invalid", path,
                            rows[i].key);
        }
        memcpy((char *)out + rows[i].offset, &read, sizeof read);
    }
    return out->step >= 0 ? BT_OK
                          : bt_error(BT_STATUS_CORRUPT_DATA, "%s: values.step is %lld", path,
                                     (long long)out->step);
}
