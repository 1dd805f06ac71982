// harness/bundle/fields.h - what each kind of record holds, as one table for writing and reading
//
// Numbers are JSON numbers with as many digits as give the same double again; NaN is null, infinite
// ones are the texts "Infinity" and "-Infinity". Losses have their bits beside them, which win.
// Times of the clock are texts, "2026-11-20T19:20:23.000000001Z".
#ifndef BT_HARNESS_BUNDLE_FIELDS_H
#define BT_HARNESS_BUNDLE_FIELDS_H

#include "harness/store/store.h"
#include "harness/suite/json.h"
#include "harness/text/json_writer.h"

typedef enum bt_fields_of {
    BT_FIELDS_RUN, // of bt_store_run
    BT_FIELDS_SUITE,
    BT_FIELDS_BUILD,
    BT_FIELDS_SCHEDULE,
    BT_FIELDS_GAP,
    BT_FIELDS_SYSTEM,
    BT_FIELDS_FACT,
    BT_FIELDS_FILE, // bt_store_file: kind and name
    BT_FIELDS_VERDICT,
    BT_FIELDS_ROUND, // of bt_store_round
    BT_FIELDS_CASE,
    BT_FIELDS_SHAPE,
    BT_FIELDS_STEP,
    BT_FIELDS_EVAL,
    BT_FIELDS_RANGE,
    BT_FIELDS_KERNEL,
    BT_FIELDS_SCORE,
    BT_FIELDS_FAULT,
    BT_FIELDS_MEMORY,
    BT_FIELDS_TELEMETRY
} bt_fields_of;

// Writes the fields of `item` into the open object.
void bt_fields_write(bt_json_writer *json, bt_fields_of kind, const void *item);
// Reads them back; texts are copied into the arena.
// Errors  INVALID_ARGUMENT "place: key ... is missing, or not what it must be", OUT_OF_MEMORY
BT_CHECKED bt_status bt_fields_read(const cJSON *object, const char *place, bt_fields_of kind,
                                    bt_arena *arena, void *item);
// Reads one number as written above.
BT_CHECKED bt_status bt_fields_real(const cJSON *object, const char *place, const char *key,
                                    double *value);
void bt_fields_write_real(bt_json_writer *json, const char *key, double value);
// A wall clock's ns as text.
void bt_fields_time(int64_t time_ns, char text[40]);
BT_CHECKED bt_status bt_fields_copy(bt_arena *arena, const char *text, const char **out);

#endif
