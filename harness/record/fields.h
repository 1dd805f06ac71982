// harness/record/fields.h - the members of each kind of record, as one table
//
// The database (harness/store), bundles, baselines and JSON (harness/text/record_json.h) are
// written and read from these rows. A new member of a record is a member of its struct, a row here
// and a migration (harness/store/schema.c).
#ifndef BT_HARNESS_RECORD_FIELDS_H
#define BT_HARNESS_RECORD_FIELDS_H

#include <stddef.h>

#include "harness/record/record.h"

typedef enum bt_field_type {
    BT_FIELD_INTEGER, // int64_t; in JSON of a magnitude below 2^53
    BT_FIELD_REAL,    // double
    BT_FIELD_KNOWN,   // double; in JSON absent if NaN
    BT_FIELD_FLOAT,
    BT_FIELD_LOSS,      // float; in JSON <key>_bits of 8 hex digits, in SQL a column <key>_bits
    BT_FIELD_REAL_LOSS, // double; in JSON <key>_bits of 16
    BT_FIELD_SEED,      // uint64_t; in JSON 16 hex digits
    BT_FIELD_BOOL,
    BT_FIELD_TEXT,
    BT_FIELD_TIME, // int64_t, ns of the wall clock; in JSON a text, "" for 0
    BT_FIELD_STATUS,
    BT_FIELD_LEVEL
} bt_field_type;

typedef struct bt_field {
    const char *key;    // in JSON; NULL: absent
    const char *column; // in SQL; NULL: absent
    bt_field_type type;
    size_t offset; // in the struct, bytes
} bt_field;

// X(enumerator, struct): kinds of record
#define BT_FIELDS_LIST(X)                                                                          \
    X(RUN, bt_store_run)                                                                           \
    X(SUITE, bt_store_suite)                                                                       \
    X(BUILD, bt_store_build)                                                                       \
    X(SCHEDULE, bt_store_schedule)                                                                 \
    X(GAP, bt_store_gap)                                                                           \
    X(SYSTEM, bt_store_system) /* without its build */                                             \
    X(FACT, bt_store_fact)                                                                         \
    X(FILE, bt_store_file) /* kind and name */                                                     \
    X(VERDICT, bt_store_verdict)                                                                   \
    X(ARTIFACT, bt_store_artifact)                                                                 \
    X(CALIBRATION, bt_store_calibration)                                                           \
    X(BASELINE, bt_store_baseline)                                                                 \
    X(ROUND, bt_store_round)                                                                       \
    X(CASE, bt_store_case)                                                                         \
    X(SHAPE, bt_store_shape)                                                                       \
    X(STEP, bt_store_step)                                                                         \
    X(EVAL, bt_store_eval)                                                                         \
    X(RANGE, bt_store_range)                                                                       \
    X(KERNEL, bt_store_kernel)                                                                     \
    X(SCORE, bt_store_score)                                                                       \
    X(STATE, bt_store_state)                                                                       \
    X(LAUNCH, bt_store_launch)                                                                     \
    X(TIMELINE, bt_store_timeline)                                                                 \
    X(GROUP, bt_store_group)                                                                       \
    X(GROUP_CALLS, bt_store_group_calls)                                                           \
    X(FAULT, bt_store_fault)                                                                       \
    X(MEMORY, bt_store_memory)                                                                     \
    X(TELEMETRY, bt_store_telemetry)

// X(name, kind): records of a round that arrive one by one, bt_store_<name>
#define BT_STORE_SERIES_LIST(X)                                                                    \
    X(step, STEP)                                                                                  \
    X(eval, EVAL)                                                                                  \
    X(range, RANGE)                                                                                \
    X(kernel, KERNEL)                                                                              \
    X(score, SCORE)                                                                                \
    X(state, STATE)                                                                                \
    X(launch, LAUNCH)                                                                              \
    X(timeline, TIMELINE)                                                                          \
    X(group, GROUP)                                                                                \
    X(group_calls, GROUP_CALLS)                                                                    \
    X(fault, FAULT)                                                                                \
    X(memory, MEMORY)

typedef enum bt_fields_of {
#define BT_FIELDS_ENUM(name, record) BT_FIELDS_##name,
    BT_FIELDS_LIST(BT_FIELDS_ENUM)
#undef BT_FIELDS_ENUM
        BT_FIELDS_COUNT
} bt_fields_of;

typedef struct bt_fields {
    const bt_field *rows; // [count]
    size_t count;
    size_t item_bytes; // of the struct
} bt_fields;

const bt_fields *bt_fields_info(bt_fields_of kind);
// The text of a field of type TEXT.
static inline const char *bt_field_text(const bt_field *row, const void *item)
{
    return *(const char *const *)((const char *)item + row->offset);
}

// A list of records of a round.
typedef struct bt_list {
    bt_fields_of kind;
    bool is_table; // in the database: rows of a table
    bool is_file;  // in a bundle: a file with one record per line; false: an array in the round's
                   // file
    const char *key;
    size_t items, count; // offsets in bt_store_round, bytes
} bt_list;

// All of them but the measurements.
const bt_list *bt_round_lists(size_t *count);
// The records of a list: *count of them.
const void *bt_list_get(const bt_list *list, const bt_store_round *round, int64_t *count);
void bt_list_set(const bt_list *list, bt_store_round *round, const void *items, int64_t count);
// Copies every text of a record into the arena; NULL becomes "".
BT_CHECKED bt_status bt_fields_keep(bt_arena *arena, bt_fields_of kind, void *item);

#endif
