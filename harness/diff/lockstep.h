// harness/diff/lockstep.h - two trainings step by step, each on its own threads
//
// A side trains by a plan, on a thread for each rank of its mesh, or reads the values of steps that
// another program has written to files. After each step both wait until the listener has compared
// the values of both.
//
// Invariants
//   1. The listener is called on the caller's thread, for steps in order, while both sides wait.
//   2. When a side ends, by an error or after its last step, the other ends too.
#ifndef BT_HARNESS_DIFF_LOCKSTEP_H
#define BT_HARNESS_DIFF_LOCKSTEP_H

#include "harness/diff/values.h"

typedef struct bt_lockstep_side {
    const char *name;          // for messages: "A", "run 3"
    const bt_train_plan *plan; // borrowed; NULL: values come from files
    int ranks;                 // of the plan's mesh, all on the CPU; 0 or 1: one, without a group
    const char *folder;        // borrowed; of those (bt_diff_values_path)
    int64_t first_step;        // of the files; a plan's follows from its checkpoint
} bt_lockstep_side;

// A step of both sides. Values are borrowed during the call only.
typedef struct bt_lockstep_step {
    int64_t step;
    bt_train_step event[2]; // zero if values come from a file
    bt_diff_values *values[2];
} bt_lockstep_step;

typedef struct bt_lockstep_listener {
    void *self;
    // *stop: this was the last step.
    bt_status (*step)(void *self, const bt_lockstep_step *step, bool *stop);
} bt_lockstep_listener;

// Runs both sides until the listener stops or a side has no further step. *steps: number of
// compared steps.
// Errors  those of the sides, with the side's name, and the listener's; INVALID_ARGUMENT if the
//         sides begin with different steps
BT_CHECKED bt_status bt_lockstep_run(const bt_lockstep_side sides[2],
                                     const bt_lockstep_listener *listener, int64_t *steps);

#endif
