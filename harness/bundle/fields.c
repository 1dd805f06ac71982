// harness/bundle/fields.c - records as JSON objects, both ways from one table
#include "harness/bundle/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef enum field_type {
    FIELD_INTEGER, // int64_t, magnitude below 2^53
    FIELD_REAL,    // double
    FIELD_FLOAT,
    FIELD_LOSS,      // float, with <key>_bits of 8 hex digits
    FIELD_REAL_LOSS, // double, with <key>_bits of 16
    FIELD_SEED,      // uint64_t as 16 hex digits
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_TIME, // int64_t, ns of the wall clock; "" is 0
    FIELD_STATUS,
    FIELD_LEVEL
} field_type;

typedef struct field {
    bt_fields_of kind;
    const char *key;
    field_type type;
    size_t offset;
} field;

#define ROW(kind, type, record, member)                                                            \
    {                                                                                              \
        BT_FIELDS_##kind, #member, FIELD_##type, offsetof(record, member)                          \
    }
#define NAMED(kind, key, type, record, member)                                                     \
    {                                                                                              \
        BT_FIELDS_##kind, key, FIELD_##type, offsetof(record, member)                              \
    }

static const field fields[] = {NAMED(RUN, "run", INTEGER, bt_store_run, id),
                               ROW(RUN, STATUS, bt_store_run, status),
                               ROW(RUN, TEXT, bt_store_run, message),
                               NAMED(RUN, "started", TIME, bt_store_run, started_ns),
                               NAMED(RUN, "ended", TIME, bt_store_run, ended_ns),
                               NAMED(RUN, "command", TEXT, bt_store_run, info.command),
                               NAMED(RUN, "seed", INTEGER, bt_store_run, info.seed),
                               ROW(SUITE, TEXT, bt_store_suite, name),
                               ROW(SUITE, TEXT, bt_store_suite, profile),
                               ROW(SUITE, TEXT, bt_store_suite, path),
                               ROW(SUITE, TEXT, bt_store_suite, plan_hash),
                               ROW(BUILD, TEXT, bt_store_build, digest),
                               ROW(BUILD, TEXT, bt_store_build, version),
                               ROW(BUILD, TEXT, bt_store_build, git_commit),
                               ROW(BUILD, TEXT, bt_store_build, git_diff),
                               ROW(BUILD, TEXT, bt_store_build, compiler),
                               ROW(BUILD, TEXT, bt_store_build, flags),
                               ROW(BUILD, TEXT, bt_store_build, type),
                               ROW(BUILD, TEXT, bt_store_build, cuda),
                               ROW(SCHEDULE, SEED, bt_store_schedule, seed),
                               ROW(SCHEDULE, TEXT, bt_store_schedule, kind),
                               ROW(SCHEDULE, TEXT, bt_store_schedule, rule_json),
                               NAMED(GAP, "stopped", TIME, bt_store_gap, stopped_ns),
                               NAMED(GAP, "resumed", TIME, bt_store_gap, resumed_ns),
                               ROW(GAP, STATUS, bt_store_gap, status),
                               ROW(SYSTEM, TEXT, bt_store_system, name),
                               ROW(SYSTEM, TEXT, bt_store_system, program),
                               ROW(SYSTEM, REAL, bt_store_system, inject_slowdown),
                               ROW(FACT, TEXT, bt_store_fact, key),
                               ROW(FACT, TEXT, bt_store_fact, value),
                               ROW(FACT, LEVEL, bt_store_fact, level),
                               ROW(FILE, TEXT, bt_store_file, kind),
                               ROW(FILE, TEXT, bt_store_file, name),
                               ROW(VERDICT, TEXT, bt_store_verdict, kind),
                               ROW(VERDICT, TEXT, bt_store_verdict, subject),
                               ROW(VERDICT, TEXT, bt_store_verdict, metric),
                               ROW(VERDICT, TEXT, bt_store_verdict, verdict),
                               ROW(VERDICT, REAL, bt_store_verdict, ratio),
                               ROW(VERDICT, REAL, bt_store_verdict, low),
                               ROW(VERDICT, REAL, bt_store_verdict, high),
                               ROW(VERDICT, INTEGER, bt_store_verdict, rounds),
                               ROW(VERDICT, TEXT, bt_store_verdict, reason),
                               ROW(VERDICT, TEXT, bt_store_verdict, rule_json),
                               ROW(ROUND, INTEGER, bt_store_round, ordinal),
                               ROW(ROUND, STATUS, bt_store_round, status),
                               ROW(ROUND, TEXT, bt_store_round, message),
                               ROW(ROUND, TEXT, bt_store_round, params_digest),
                               ROW(ROUND, TEXT, bt_store_round, label),
                               NAMED(ROUND, "started", TIME, bt_store_round, started_ns),
                               NAMED(ROUND, "ended", TIME, bt_store_round, ended_ns),
                               ROW(CASE, TEXT, bt_store_case, bench),
                               ROW(CASE, TEXT, bt_store_case, kind),
                               ROW(CASE, TEXT, bt_store_case, name),
                               ROW(CASE, TEXT, bt_store_case, axes_json),
                               ROW(CASE, TEXT, bt_store_case, system),
                               ROW(SHAPE, TEXT, bt_store_shape, device),
                               ROW(SHAPE, TEXT, bt_store_shape, precision),
                               ROW(SHAPE, TEXT, bt_store_shape, dataset),
                               ROW(SHAPE, INTEGER, bt_store_shape, parameters),
                               ROW(SHAPE, INTEGER, bt_store_shape, tensors),
                               ROW(SHAPE, INTEGER, bt_store_shape, accumulation),
                               ROW(SHAPE, INTEGER, bt_store_shape, steps),
                               ROW(SHAPE, INTEGER, bt_store_shape, train_tokens),
                               ROW(SHAPE, INTEGER, bt_store_shape, val_tokens),
                               ROW(STEP, INTEGER, bt_store_step, step),
                               ROW(STEP, LOSS, bt_store_step, loss),
                               ROW(STEP, FLOAT, bt_store_step, grad_norm),
                               ROW(STEP, REAL, bt_store_step, lr),
                               ROW(STEP, INTEGER, bt_store_step, tokens),
                               ROW(STEP, INTEGER, bt_store_step, host_ns),
                               ROW(STEP, INTEGER, bt_store_step, device_ns),
                               ROW(STEP, INTEGER, bt_store_step, allocated_bytes),
                               ROW(STEP, INTEGER, bt_store_step, peak_allocated_bytes),
                               ROW(STEP, INTEGER, bt_store_step, reserved_bytes),
                               ROW(STEP, INTEGER, bt_store_step, resident_bytes),
                               ROW(STEP, BOOL, bt_store_step, warmup),
                               ROW(STEP, BOOL, bt_store_step, profiled),
                               ROW(EVAL, INTEGER, bt_store_eval, step),
                               ROW(EVAL, REAL_LOSS, bt_store_eval, loss),
                               ROW(EVAL, INTEGER, bt_store_eval, tokens),
                               ROW(EVAL, INTEGER, bt_store_eval, host_ns),
                               ROW(RANGE, INTEGER, bt_store_range, step),
                               ROW(RANGE, TEXT, bt_store_range, path),
                               ROW(RANGE, INTEGER, bt_store_range, count),
                               ROW(RANGE, INTEGER, bt_store_range, device_ns),
                               ROW(RANGE, INTEGER, bt_store_range, host_ns),
                               ROW(KERNEL, TEXT, bt_store_kernel, op),
                               ROW(KERNEL, TEXT, bt_store_kernel, kernel),
                               ROW(SCORE, INTEGER, bt_store_score, step),
                               ROW(SCORE, INTEGER, bt_store_score, questions),
                               ROW(SCORE, INTEGER, bt_store_score, correct),
                               ROW(SCORE, INTEGER, bt_store_score, normalised_correct),
                               ROW(SCORE, INTEGER, bt_store_score, host_ns),
                               ROW(FAULT, INTEGER, bt_store_fault, step),
                               ROW(FAULT, TEXT, bt_store_fault, kind),
                               ROW(FAULT, TEXT, bt_store_fault, action),
                               ROW(FAULT, TEXT, bt_store_fault, message),
                               ROW(MEMORY, TEXT, bt_store_memory, phase),
                               ROW(MEMORY, INTEGER, bt_store_memory, peak_allocated_bytes),
                               ROW(MEMORY, INTEGER, bt_store_memory, peak_reserved_bytes),
                               ROW(MEMORY, INTEGER, bt_store_memory, device_used_bytes),
                               ROW(MEMORY, INTEGER, bt_store_memory, peak_resident_bytes),
#define TELEMETRY_ROW(member, unit, description) ROW(TELEMETRY, REAL, bt_store_telemetry, member),
                               BT_TELEMETRY_LIST(TELEMETRY_ROW)
#undef TELEMETRY_ROW
};

static const size_t field_count = sizeof fields / sizeof fields[0];

_Static_assert(sizeof(uint64_t) == sizeof(int64_t), "the seed is read as an int64_t");

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

static void write_loss(bt_json_writer *json, const field *row, const void *place)
{
    char key[64], text[20];
    uint64_t bits = 0;
    uint32_t short_bits = 0;
    bool is_float = row->type == FIELD_LOSS;
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

static void write_field(bt_json_writer *json, const field *row, const void *place)
{
    char text[40];
    switch (row->type) {
    case FIELD_INTEGER:
        bt_json_writer_integer(json, row->key, *(const int64_t *)place);
        break;
    case FIELD_REAL:
        bt_fields_write_real(json, row->key, *(const double *)place);
        break;
    case FIELD_FLOAT:
        bt_fields_write_real(json, row->key, (double)*(const float *)place);
        break;
    case FIELD_LOSS:
    case FIELD_REAL_LOSS:
        write_loss(json, row, place);
        break;
    case FIELD_SEED:
        (void)snprintf(text, sizeof text, "%016" PRIx64, *(const uint64_t *)place);
        bt_json_writer_text(json, row->key, text);
        break;
    case FIELD_BOOL:
        bt_json_writer_bool(json, row->key, *(const bool *)place);
        break;
    case FIELD_TEXT:
        bt_json_writer_text(json, row->key, *(const char *const *)place);
        break;
    case FIELD_TIME:
        bt_fields_time(*(const int64_t *)place, text);
        bt_json_writer_text(json, row->key, text);
        break;
    case FIELD_STATUS:
        bt_json_writer_text(json, row->key, bt_run_status_name(*(const bt_run_status *)place));
        break;
    case FIELD_LEVEL:
        bt_json_writer_text(json, row->key, bt_fact_level_name(*(const bt_fact_level *)place));
        break;
    }
}

void bt_fields_write(bt_json_writer *json, bt_fields_of kind, const void *item)
{
    for (size_t i = 0; i < field_count; i++) {
        if (fields[i].kind == kind) {
            write_field(json, &fields[i], (const char *)item + fields[i].offset);
        }
    }
}

// ---- reading -----------------------------------------------------------------------------------

bt_status bt_fields_copy(bt_arena *arena, const char *text, const char **out)
{
    size_t size_bytes = strlen(text) + 1;
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(arena, size_bytes, &copy));
    memcpy(copy, text, size_bytes);
    *out = copy;
    return BT_OK;
}

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

// Only what bt_fields_time writes reads back as the same text, so the caller's comparison of the
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

static bool read_loss(const cJSON *object, const field *row, void *place)
{
    char key[64];
    uint64_t bits = 0;
    (void)snprintf(key, sizeof key, "%s_bits", row->key);
    if (!read_bits(bt_json_get(object, key), row->type == FIELD_LOSS ? 8 : 16, &bits)) {
        return false;
    }
    if (row->type == FIELD_LOSS) {
        uint32_t short_bits = (uint32_t)bits;
        memcpy(place, &short_bits, sizeof short_bits);
    } else {
        memcpy(place, &bits, sizeof bits);
    }
    return true;
}

// False when the value is missing or wrong; texts are the caller's.
static bool read_field(const cJSON *object, const field *row, void *place)
{
    const cJSON *node = bt_json_get(object, row->key);
    double value = 0.0;
    int word = 0;
    bool good = false;
    switch (row->type) {
    case FIELD_INTEGER:
        return read_integer(node, place);
    case FIELD_REAL:
        return read_real(node, place);
    case FIELD_FLOAT:
        good = read_real(node, &value);
        *(float *)place = (float)value;
        return good;
    case FIELD_LOSS:
    case FIELD_REAL_LOSS:
        return read_loss(object, row, place);
    case FIELD_SEED:
        return read_bits(node, 16, place);
    case FIELD_BOOL:
        *(bool *)place = cJSON_IsTrue(node);
        return cJSON_IsBool(node);
    case FIELD_TEXT:
        return cJSON_IsString(node);
    case FIELD_TIME:
        return read_time(node, place);
    case FIELD_STATUS:
        good = read_word(node, status_word, BT_RUN_STATUS_COUNT, &word);
        *(bt_run_status *)place = (bt_run_status)word;
        return good;
    case FIELD_LEVEL:
        good = read_word(node, level_word, BT_FACT_LEVEL_COUNT, &word);
        *(bt_fact_level *)place = (bt_fact_level)word;
        return good;
    }
    return false;
}

bt_status bt_fields_read(const cJSON *object, const char *place, bt_fields_of kind, bt_arena *arena,
                         void *item)
{
    for (size_t i = 0; i < field_count; i++) {
        const field *row = &fields[i];
        void *at = (char *)item + row->offset;
        if (row->kind != kind) {
            continue;
        }
        if (!read_field(object, row, at)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "%s: \"%s\" is missing, or not what it must be", place, row->key);
        }
        if (row->type == FIELD_TEXT) {
            BT_TRY(bt_fields_copy(arena, bt_json_get(object, row->key)->valuestring, at));
        }
    }
    return BT_OK;
}

bt_status bt_fields_real(const cJSON *object, const char *place, const char *key, double *value)
{
    return read_real(bt_json_get(object, key), value)
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: \"%s\" is missing, or no number", place,
                          key);
}
