// harness/gate/document.h - reads JSON for baselines and rules; private
//
// Errors give the position: "path:line:column: ...".
#ifndef BT_HARNESS_GATE_DOCUMENT_H
#define BT_HARNESS_GATE_DOCUMENT_H

#include "harness/gate/side.h"
#include "harness/suite/json.h"
#include "harness/text/json_writer.h"

#define BT_DOCUMENT_NUMBER_MAX 1e300

typedef struct bt_document {
    const bt_json_doc *json; // borrowed
    bt_arena *arena;         // borrowed; owns the values read
} bt_document;

// A copy of a required text.
BT_CHECKED bt_status bt_document_text(bt_document *in, const cJSON *object, const char *key,
                                      const char **out);
// The same for an optional one; "" if missing.
BT_CHECKED bt_status bt_document_text_if(bt_document *in, const cJSON *object, const char *key,
                                         const char **out);
// A required object or list.
BT_CHECKED bt_status bt_document_member(bt_document *in, const cJSON *object, const char *key,
                                        bool list, const cJSON **out);
// A required number within [minimum, maximum].
BT_CHECKED bt_status bt_document_number(bt_document *in, const cJSON *object, const char *key,
                                        double minimum, double maximum, double *out);
// An optional one from 0 to BT_DOCUMENT_NUMBER_MAX; NaN if it is missing or null.
BT_CHECKED bt_status bt_document_number_if(bt_document *in, const cJSON *object, const char *key,
                                           double *out);
// A list of positive numbers: [*count] of them, in the arena.
BT_CHECKED bt_status bt_document_numbers(bt_document *in, const cJSON *list, const char *key,
                                         const double **out, int64_t *count);

#endif
