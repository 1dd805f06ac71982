// harness/run/data.h - finds the shards of a case's dataset, by name or paths
#ifndef BT_HARNESS_RUN_DATA_H
#define BT_HARNESS_RUN_DATA_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/data/dataset.h"

// The shards of one case. Lists and texts are of the dataset or the arena.
typedef struct bt_run_data {
    const char *const *train; // [train_count]
    int64_t train_count;
    const char *const *val; // [val_count]
    int64_t val_count;
    char name[96];         // of the dataset, "shards by path"
    char digest[80];       // identifies its contents; "": unknown
    char tokenizer[80];    // digest of its ranks; "": unknown
    int64_t tokens;        // in the training shards
    int64_t vocab;         // token ids are below this; 0: unknown
    const char *questions; // files of HellaSwag's questions and the tokenizer's ranks; NULL: not
    const char *ranks;     // used
    bt_dataset dataset;    // owned; empty: shards by path
    bt_arena arena;        // owned
} bt_run_data;

// Reports progress of preparing a dataset to the user.
typedef void (*bt_run_data_say)(void *self, const char *line);

// Finds the shards of a case's dataset {name} or {train, val}. A name is a folder data/<name> of
// the working directory or of the installation; "books" is prepared if missing.
// Owns    *out: the caller, bt_run_data_release
// Errors  UNAVAILABLE (not found, with how to get it), IO, CORRUPT_DATA (a shard's header or size),
//         INTERRUPTED
BT_CHECKED bt_status bt_run_data_find(const cJSON *dataset, bt_run_data_say say, void *self,
                                      bt_run_data *out);
// Also finds the files for scoring HellaSwag. Errors  UNAVAILABLE, with how to get them
BT_CHECKED bt_status bt_run_data_find_hellaswag(bt_run_data *out);
void bt_run_data_release(bt_run_data *data);

// The folder of a named dataset: in the working directory if it exists, else in the installation if
// it exists, else (*found false) the folder in which it would be created.
void bt_run_data_folder(const char *name, bt_str *folder, bool *found);
// Prepares the default corpus in `folder` unless it exists.
BT_CHECKED bt_status bt_run_data_prepare(const char *folder, bt_run_data_say say, void *self);

// GPT-2's rank file of the installation. Owns: the caller (bt_mem_free).
// Errors  UNAVAILABLE, with how to get it
BT_CHECKED bt_status bt_run_data_ranks(char **path);
// The file of HellaSwag's questions: `given`, or data/hellaswag.txt of the working directory or the
// installation.
// Errors  UNAVAILABLE, with how to get it
BT_CHECKED bt_status bt_run_data_questions(const char *given, bt_str *path);

#endif
