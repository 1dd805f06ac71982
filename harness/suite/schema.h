// harness/suite/schema.h - the table of all keys of a suite file or a gate's policy
//
// A row per key: the object it belongs to, type, range, default, meaning. The check of a file (with
// 'did you mean'), the check of --set, the defaults of the plan, and the JSON Schema in
// suites/schema/ are generated from it. A new key is a new row in schema.c.
#ifndef BT_HARNESS_SUITE_SCHEMA_H
#define BT_HARNESS_SUITE_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/suite/json.h"
#include "harness/suite/words.h"

// X(enumerator, name in the schema, name in messages, meaning)
#define BT_SUITE_OBJECT_LIST(X)                                                                    \
    X(SUITE, "suite", "a suite", "A set of cases in profiles, with their datasets.")               \
    X(PROFILE, "profile", "a profile", "The cases for a type of machine.")                         \
    X(CASE, "case", "a case", "One measurement.")                                                  \
    X(DATASET, "shards", "dataset", "Token shards by path, in the order in which they are read.")  \
    X(TRAIN, "train", "train", "A training run.")                                                  \
    X(KERNEL, "kernel", "kernel",                                                                  \
      "Calls of one operation; each combination of the lists is a case.")                          \
    X(COLLECTIVE, "collective", "collective",                                                      \
      "Calls of one collective by several ranks; each combination of the lists is a case.")        \
    X(COMMAND, "command", "command", "Calls of any program.")                                      \
    X(MODEL, "model", "train.model", "The shape of a model.")                                      \
    X(OPTIMIZER, "optimizer", "train.optimizer",                                                   \
      "AdamW, clipping and the learning rate schedule.")                                           \
    X(CHECKPOINT, "checkpoint", "train.checkpoint",                                                \
      "Saving the training state, from which 'run --resume' continues with the same bits.")        \
    X(MESH, "mesh", "train.mesh", "Ranks that train together, and the recovery when one is lost.") \
    X(POLICY, "policy", "a policy", "The rules of a gate.")                                        \
    X(TOLERANCE, "tolerance", "tolerance",                                                         \
      "Fractions by which a case may be slower and still be judged the same.")                     \
    X(CALIBRATION, "calibration", "calibration",                                                   \
      "Results that 'bt-bench calibrate' must have shown.")                                        \
    X(OVERRIDE, "override", "an override", "Rules for some cases or metrics.")

typedef enum bt_suite_object {
#define BT_SUITE_OBJECT_ENUM(name, text, called, meaning) BT_SUITE_##name,
    BT_SUITE_OBJECT_LIST(BT_SUITE_OBJECT_ENUM)
#undef BT_SUITE_OBJECT_ENUM
        BT_SUITE_OBJECT_COUNT
} bt_suite_object;

typedef enum bt_suite_type {
    BT_SUITE_TEXT,
    BT_SUITE_NAME,    // letters, digits, - _ . : usable as a file name and in --filter
    BT_SUITE_CHOICE,  // one of `choices`
    BT_SUITE_CHOICES, // one of them, or a list
    BT_SUITE_INTEGER, // integer
    BT_SUITE_NUMBER,
    BT_SUITE_BOOL,
    BT_SUITE_TEXTS,  // list of texts, or one text
    BT_SUITE_COUNTS, // an integer, a list of them (the first that fits is used), "auto"
    BT_SUITE_GROUP,  // an object of kind `object`
    BT_SUITE_GROUPS, // a list of them, at least one
    BT_SUITE_MAP,    // an object whose keys are names and whose values are of kind `object`
    BT_SUITE_DATA,   // the name of a dataset, or an object of kind `object`
} bt_suite_type;

typedef struct bt_suite_key {
    bt_suite_object owner;
    const char *key;
    bt_suite_type type;
    double minimum, maximum; // of numbers; both 0 for other types
    const char *choices;     // "a|b|c", NULL unless the type is CHOICE or CHOICES
    bt_suite_object object;  // of GROUP, GROUPS, MAP, DATA
    const char *fallback;    // JSON text of the default; NULL if there is none
    bool required;           // in every such object of a file
    bool settable;           // by --set
    const char *meaning;
} bt_suite_key;

extern const bt_suite_key bt_suite_keys[];
extern const int bt_suite_key_count;

// NULL if the object has no such key.
const bt_suite_key *bt_suite_key_find(bt_suite_object owner, const char *key);
// The name of an object in messages: "a case", "train.model".
const char *bt_suite_object_called(bt_suite_object object);

// Checks the members of an object of a file: known keys, required ones, types and ranges.
// Errors  INVALID_ARGUMENT with line and column, what was given and what is allowed
BT_CHECKED bt_status bt_suite_check(const bt_json_doc *json, bt_suite_object kind,
                                    const cJSON *object);
// Checks one value against its row; `node` belongs to `json`.
BT_CHECKED bt_status bt_suite_check_value(const bt_json_doc *json, const bt_suite_key *key,
                                          const cJSON *node);

// The keys of an object, or those that --set can set, as words (words.h).
void bt_suite_key_words(bt_suite_object owner, bool settable, bt_str *words);

// Adds the defaults of all keys that `object` lacks, groups included.
BT_CHECKED bt_status bt_suite_fill_defaults(bt_suite_object kind, cJSON *object);

// The JSON Schema (2020-12) of a suite file, as shipped; the same of a gate's policy.
void bt_suite_schema_write(bt_str *out);
void bt_policy_schema_write(bt_str *out);

#endif
