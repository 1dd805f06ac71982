// harness/diff/bisect.h - bt-bench bisect-bits: where two recorded runs part
//
// What is recorded of every step are the bits of its loss and its gradient norm; of every
// checkpoint, and of every so many steps where train.digest_every asks for it, a digest of
// parameters and moments. They say between which steps the runs part: behind the last checkpoint
// that both have with one digest, and not later than the first record that differs. Those steps are
// trained again, both sides in lockstep, and every value is compared bit by bit: the first that
// differs is named, with the op that made it and its element.
//
// A replay is held against its record, too. Where it gives other bits than the record, either
// another build made the run, or the hardware erred in one of the two.
#ifndef BT_HARNESS_DIFF_BISECT_H
#define BT_HARNESS_DIFF_BISECT_H

#include "harness/diff/lockstep.h"
#include "harness/diff/measure.h"
#include "harness/store/store.h"

typedef struct bt_bisect_side {
    const char *name;            // for messages: "run 3"
    const bt_store_round *round; // borrowed; what was recorded
    const bt_train_plan *plan;   // borrowed; what is trained again, without checkpoints
    const char *checkpoints;     // borrowed; folder of the round's, NULL: it has none
} bt_bisect_side;

// X(enumerator, what of two records differs first)
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

// Between which steps two records part.
typedef struct bt_bisect_span {
    bt_bisect_record differs;
    int64_t first; // step from which both are trained again: 0, or that of a checkpoint that both
                   // have with one digest
    int64_t last;  // the last step that can be the first to differ; -1: there is none
} bt_bisect_span;

typedef struct bt_bisect_result {
    bt_bisect_span span;
    int64_t replayed;   // steps
    int64_t strange[2]; // first step whose replay has other bits than its record; -1: none
    bool found;         // a value differs between the replays:
    int64_t step;
    char name[256], layer[64], op[64];
    bt_shape shape;
    bt_dtype dtype;
    bt_difference difference;
} bt_bisect_result;

// Reads records and checkpoints; trains nothing.
// Errors  INVALID_ARGUMENT when the rounds have no common step; IO
BT_CHECKED bt_status bt_bisect_span_of(const bt_bisect_side sides[2], bt_bisect_span *out);
// Also trains the span again, unless nothing differs. Checkpoints are read and not changed.
// Errors  those of bt_lockstep_run
BT_CHECKED bt_status bt_bisect_run(const bt_bisect_side sides[2], bt_bisect_result *out);

// ---- bisect_print.c -----------------------------------------------------------------------------

void bt_bisect_text(const bt_bisect_side sides[2], const bt_bisect_result *result, bt_str *out);
BT_CHECKED bt_status bt_bisect_json(const bt_bisect_side sides[2], const bt_bisect_result *result,
                                    bt_str *out);

#endif
