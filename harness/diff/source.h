// harness/diff/source.h - the training of a side: a case of a plan, its data, the trainer's plan
#ifndef BT_HARNESS_DIFF_SOURCE_H
#define BT_HARNESS_DIFF_SOURCE_H

#include <cjson/cJSON.h>

#include "framework/train/train.h"
#include "harness/run/data.h"

typedef struct bt_diff_source {
    bt_run_data data;    // owned
    bt_train_plan train; // borrows from data and from the case
    char device[16];
    int ordinal;
    int ranks; // of train, whose group is not set
} bt_diff_source;

// A training case, without what is only measured or kept: evaluation, profiled steps, checkpoints.
// ranks: a case of several ranks is for threads on the CPU; else, and on a GPU, it is trained by
// one, which has the same bits; where it has not it is refused. device: "cpu", "cuda", "cuda:1", or
// a backend that the program has added. say: hears of data that is made; may be NULL.
// Owns    *out, which must not be moved: the caller, bt_diff_source_close, also when this fails
// Errors  INVALID_ARGUMENT (not a training case, a value, a mesh that cannot be), those of
//         bt_run_data_find
BT_CHECKED bt_status bt_diff_source_open(const cJSON *item, const char *device, bool ranks,
                                         bt_run_data_say say, bt_diff_source *out);
void bt_diff_source_close(bt_diff_source *source);

#endif
