// harness/text/record_json.h - converts records to JSON objects and back, by
// harness/record/fields.h
//
// Numbers are JSON numbers with as many digits as give the same double; NaN is null, infinite ones
// are the texts "Infinity" and "-Infinity". Losses also have their bits, which take precedence.
// Clock times are texts, "2026-11-20T19:20:23.000000001Z".
#ifndef BT_HARNESS_TEXT_RECORD_JSON_H
#define BT_HARNESS_TEXT_RECORD_JSON_H

#include "harness/record/fields.h"
#include "harness/suite/json.h"
#include "harness/text/json_writer.h"

// Writes the fields of `item` into the open object.
void bt_fields_write(bt_json_writer *json, bt_fields_of kind, const void *item);
// Writes a list of records, one object each.
void bt_fields_write_list(bt_json_writer *json, const char *key, bt_fields_of kind,
                          const void *items, int64_t count);
// Reads a record; texts are copied into the arena.
// Errors  INVALID_ARGUMENT "place: key ... is missing, or not what it must be", OUT_OF_MEMORY
BT_CHECKED bt_status bt_fields_read(const cJSON *object, const char *place, bt_fields_of kind,
                                    bt_arena *arena, void *item);
// Reads one number as written above.
BT_CHECKED bt_status bt_fields_real(const cJSON *object, const char *place, const char *key,
                                    double *value);
void bt_fields_write_real(bt_json_writer *json, const char *key, double value);
// A wall-clock time in ns as text.
void bt_fields_time(int64_t time_ns, char text[40]);

#endif
