// harness/diff/bisect.h - bt-bench bisect-bits: finds where two recorded runs diverge
//
// A record has the bits of the loss and gradient norm of every step, and a digest of parameters and
// moments of every checkpoint and, with train.digest_every, of other steps. These give the range of
// steps in which the runs diverge: after the last checkpoint with equal digests in both, and not
// later than the first record that differs. Those steps are trained again, both sides in lockstep,
// and every value is compared bit by bit: the first that differs is reported, with the op that made
// it and the element.
//
// A replay is also compared with its record. If its bits differ, either another build made the run,
// or the hardware made an error in one of the two.
#ifndef BT_HARNESS_DIFF_BISECT_H
#define BT_HARNESS_DIFF_BISECT_H

#include "harness/diff/lockstep.h"
#include "harness/diff/measure.h"
#include "harness/store/store.h"

typedef struct bt_bisect_side {
    const char *name;            // for messages: "run 3"
    const bt_store_round *round; // borrowed; the record
    const bt_train_plan *plan;   // borrowed; the plan to train again, without checkpoints
    const char *checkpoints;     // borrowed; folder of the round's checkpoints, NULL: none
} bt_bisect_side;

// X(enumerator, which of two records differs first)
#define BT_BISECT_RECORD_LIST(X)                                                                   \
    X(NOTHING, "nothing")                                                                          \
    X(LOSS, "loss")                                                                                \
    X(NORM, "gradient norm")                                                                       \
    X(STATE, "state")                                                                              \
    X(CHECKPOINT, "state of the checkpoint")                                                       \
    X(DIGEST, "state at the end")

typedef enum bt_bisect_record {
#define BT_BISECT_RECORD_ENUM(name, text) BT_BISECT_##name,
    BT_BISECT_RECORD_LIST(BT_BISECT_RECORD_ENUM)
#undef BT_BISECT_RECORD_ENUM
} bt_bisect_record;

const char *bt_bisect_record_name(bt_bisect_record record);

// The range of steps in which two records diverge.
typedef struct bt_bisect_span {
    bt_bisect_record differs;
    int64_t first; // first step to train again: 0, or that of a checkpoint with equal digests in
                   // both
    int64_t last;  // the last step that can be the first to differ; -1: none
} bt_bisect_span;

typedef struct bt_bisect_result {
    bt_bisect_span span;
    int64_t replayed;   // steps
    int64_t strange[2]; // first step whose replay differs from its record; -1: none
    bool found;         // a value differs between the replays:
    int64_t step;
    char name[256], layer[64], op[64];
    bt_shape shape;
    bt_dtype dtype;
    bt_difference difference;
} bt_bisect_result;

// Reads records and checkpoints without training.
// Errors  INVALID_ARGUMENT if the rounds have no common step; IO
BT_CHECKED bt_status bt_bisect_span_of(const bt_bisect_side sides[2], bt_bisect_span *out);
// Also trains the range again, unless nothing differs. Checkpoints are only read.
// Errors  those of bt_lockstep_run
BT_CHECKED bt_status bt_bisect_run(const bt_bisect_side sides[2], bt_bisect_result *out);

// ---- bisect_print.c -----------------------------------------------------------------------------

void bt_bisect_text(const bt_bisect_side sides[2], const bt_bisect_result *result, bt_str *out);
BT_CHECKED bt_status bt_bisect_json(const bt_bisect_side sides[2], const bt_bisect_result *result,
                                    bt_str *out);

#endif
