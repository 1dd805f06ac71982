// harness/text/record_json.c - converts records to JSON objects and back, by the table of their
// members
#include "harness/text/record_json.h"
#include "harness/record/keep.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "framework/base/idioms.h"

// ---- writing -----------------------------------------------------------------------------------

void bt_fields_write_real(bt_json_writer *json, const char *key, double value)
{
    if (isinf(value)) {
        bt_json_writer_text(json, key, value > 0 ? "Infinity" : "-Infinity");
    } else {
        bt_json_writer_real(json, key, value);
    }
}

void bt_fields_time(int64_t time_ns, char text[40])
{
    struct tm parts;
    time_t seconds = (time_t)(time_ns / 1000000000);
    text[0] = '\0';
    if (time_ns > 0 && gmtime_r(&seconds, &parts)) {
        size_t length = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &parts);
        (void)snprintf(text + length, 40 - length, ".%09dZ", (int)(time_ns % 1000000000));
    }
}

static void write_loss(bt_json_writer *json, const bt_field *row, const void *place)
{
    char key[64], text[20];
    uint64_t bits = 0;
    uint32_t short_bits = 0;
    bool is_float = row->type == BT_FIELD_LOSS;
    if (is_float) {
        memcpy(&short_bits, place, sizeof short_bits);
        (void)snprintf(text, sizeof text, "%08" PRIx32, short_bits);
    } else {
        memcpy(&bits, place, sizeof bits);
        (void)snprintf(text, sizeof text, "%016" PRIx64, bits);
    }
    (void)snprintf(key, sizeof key, "%s_bits", row->key);
    bt_fields_write_real(json, row->key,
                         is_float ? (double)*(const float *)place : *(const double *)place);
    bt_json_writer_text(json, key, text);
}

static void write_field(bt_json_writer *json, const bt_field *row, const void *place)
{
    char text[40];
    switch (row->type) {
    case BT_FIELD_INTEGER:
        bt_json_writer_integer(json, row->key, *(const int64_t *)place);
        break;
    case BT_FIELD_REAL:
        bt_fields_write_real(json, row->key, *(const double *)place);
        break;
    case BT_FIELD_KNOWN:
        if (!isnan(*(const double *)place)) {
            bt_fields_write_real(json, row->key, *(const double *)place);
        }
        break;
    case BT_FIELD_FLOAT:
        bt_fields_write_real(json, row->key, (double)*(const float *)place);
        break;
    case BT_FIELD_LOSS:
    case BT_FIELD_REAL_LOSS:
        write_loss(json, row, place);
        break;
    case BT_FIELD_SEED:
        (void)snprintf(text, sizeof text, "%016" PRIx64, *(const uint64_t *)place);
        bt_json_writer_text(json, row->key, text);
        break;
    case BT_FIELD_BOOL:
        bt_json_writer_bool(json, row->key, *(const bool *)place);
        break;
    case BT_FIELD_TEXT:
        bt_json_writer_text(json, row->key, *(const char *const *)place);
        break;
    case BT_FIELD_TIME:
        bt_fields_time(*(const int64_t *)place, text);
        bt_json_writer_text(json, row->key, text);
        break;
    case BT_FIELD_STATUS:
        bt_json_writer_text(json, row->key, bt_run_status_name(*(const bt_run_status *)place));
        break;
    case BT_FIELD_LEVEL:
        bt_json_writer_text(json, row->key, bt_fact_level_name(*(const bt_fact_level *)place));
        break;
    }
}

void bt_fields_write(bt_json_writer *json, bt_fields_of kind, const void *item)
{
    const bt_fields *fields = bt_fields_info(kind);
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->rows[i].key) {
            write_field(json, &fields->rows[i], (const char *)item + fields->rows[i].offset);
        }
    }
}

void bt_fields_write_list(bt_json_writer *json, const char *key, bt_fields_of kind,
                          const void *items, int64_t count)
{
    BT_JSON_LIST(json, key, i, count) {
        bt_json_writer_open(json, NULL, '{');
        bt_fields_write(json, kind,
                        (const char *)items + (size_t)i * bt_fields_info(kind)->item_bytes);
        bt_json_writer_close(json, '}');
    }
}

// ---- reading -----------------------------------------------------------------------------------

static bool read_real(const cJSON *node, double *value)
{
    if (cJSON_IsNull(node)) {
        *value = (double)NAN;
    } else if (cJSON_IsNumber(node)) {
        *value = node->valuedouble;
    } else if (cJSON_IsString(node) && strcmp(node->valuestring, "Infinity") == 0) {
        *value = (double)INFINITY;
    } else if (cJSON_IsString(node) && strcmp(node->valuestring, "-Infinity") == 0) {
        *value = -(double)INFINITY;
    } else {
        return false;
    }
    return true;
}

static bool read_integer(const cJSON *node, int64_t *value)
{
    const double limit = 9007199254740992.0;
    if (!cJSON_IsNumber(node) || !(fabs(node->valuedouble) < limit) ||
        floor(node->valuedouble) != node->valuedouble) {
        return false;
    }
    *value = (int64_t)node->valuedouble;
    return true;
}

static bool read_bits(const cJSON *node, size_t digits, uint64_t *bits)
{
    *bits = 0;
    if (!cJSON_IsString(node) || strlen(node->valuestring) != digits) {
        return false;
    }
    for (const char *at = node->valuestring; *at; at++) {
        static const char hex[] = "0123456789abcdef";
        const char *digit = strchr(hex, *at);
        if (!digit) {
            return false;
        }
        *bits = *bits << 4 | (uint64_t)(digit - hex);
    }
    return true;
}

// Only the output of bt_fields_time reads back as the same text, so the caller's comparison of the
// whole file finds any other.
static bool read_time(const cJSON *node, int64_t *time_ns)
{
    struct tm parts = {0};
    *time_ns = 0;
    if (!cJSON_IsString(node)) {
        return false;
    }
    if (!node->valuestring[0]) {
        return true;
    }
    const char *end = strptime(node->valuestring, "%Y-%m-%dT%H:%M:%S", &parts);
    long nanoseconds = 0;
    if (!end || strlen(end) != 11 || end[0] != '.' || strspn(end + 1, "0123456789") != 9 ||
        end[10] != 'Z') {
        return false;
    }
    for (int i = 1; i <= 9; i++) {
        nanoseconds = nanoseconds * 10 + (end[i] - '0');
    }
    int64_t seconds = (int64_t)timegm(&parts);
    if (seconds < 0 || seconds > INT64_MAX / 1000000000 - 1) {
        return false;
    }
    *time_ns = seconds * 1000000000 + nanoseconds;
    return true;
}

typedef const char *(*word_fn)(int value);

static const char *status_word(int value) { return bt_run_status_name((bt_run_status)value); }
static const char *level_word(int value) { return bt_fact_level_name((bt_fact_level)value); }

static bool read_word(const cJSON *node, word_fn word, int count, int *value)
{
    for (*value = 0; cJSON_IsString(node) && *value < count; ++*value) {
        if (strcmp(word(*value), node->valuestring) == 0) {
            return true;
        }
    }
    return false;
}

static bool read_loss(const cJSON *object, const bt_field *row, void *place)
{
    char key[64];
    uint64_t bits = 0;
    (void)snprintf(key, sizeof key, "%s_bits", row->key);
    if (!read_bits(bt_json_get(object, key), row->type == BT_FIELD_LOSS ? 8 : 16, &bits)) {
        return false;
    }
    if (row->type == BT_FIELD_LOSS) {
        uint32_t short_bits = (uint32_t)bits;
        memcpy(place, &short_bits, sizeof short_bits);
    } else {
        memcpy(place, &bits, sizeof bits);
    }
    return true;
}

// False if the value is missing or wrong; the caller handles texts.
static bool read_field(const cJSON *object, const bt_field *row, void *place)
{
    const cJSON *node = bt_json_get(object, row->key);
    double value = 0.0;
    int word = 0;
    bool good = false;
    switch (row->type) {
    case BT_FIELD_INTEGER:
        return read_integer(node, place);
    case BT_FIELD_REAL:
        return read_real(node, place);
    case BT_FIELD_KNOWN:
        *(double *)place = (double)NAN;
        return !node || read_real(node, place);
    case BT_FIELD_FLOAT:
        good = read_real(node, &value);
        *(float *)place = (float)value;
        return good;
    case BT_FIELD_LOSS:
    case BT_FIELD_REAL_LOSS:
        return read_loss(object, row, place);
    case BT_FIELD_SEED:
        return read_bits(node, 16, place);
    case BT_FIELD_BOOL:
        *(bool *)place = cJSON_IsTrue(node);
        return cJSON_IsBool(node);
    case BT_FIELD_TEXT:
        return cJSON_IsString(node);
    case BT_FIELD_TIME:
        return read_time(node, place);
    case BT_FIELD_STATUS:
        good = read_word(node, status_word, BT_RUN_STATUS_COUNT, &word);
        *(bt_run_status *)place = (bt_run_status)word;
        return good;
    case BT_FIELD_LEVEL:
        good = read_word(node, level_word, BT_FACT_LEVEL_COUNT, &word);
        *(bt_fact_level *)place = (bt_fact_level)word;
        return good;
    }
    return false;
}

bt_status bt_fields_read(const cJSON *object, const char *place, bt_fields_of kind, bt_arena *arena,
                         void *item)
{
    const bt_fields *fields = bt_fields_info(kind);
    for (size_t i = 0; i < fields->count; i++) {
        const bt_field *row = &fields->rows[i];
        void *at = (char *)item + row->offset;
        if (!row->key) {
            continue;
        }
        BT_FAIL_IF(!read_field(object, row, at), BT_STATUS_INVALID_ARGUMENT,
                   "%s: \"%s\" is missing or invalid", place, row->key);
        if (row->type == BT_FIELD_TEXT) {
            BT_TRY(bt_keep(arena, bt_json_get(object, row->key)->valuestring, at));
        }
    }
    return BT_OK;
}

bt_status bt_fields_real(const cJSON *object, const char *place, const char *key, double *value)
{
    return read_real(bt_json_get(object, key), value)
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: \"%s\" is missing or not a number",
                          place, key);
}
