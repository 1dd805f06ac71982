// harness/launch/launch.h - starts the ranks of one host, watches them, and starts them again
//
// All ranks live and die together: when one is lost, the launcher fences and ends the others, makes
// a new group of the next generation and gives every rank the task to go on from the last state.
//
// Invariants
//   1. Nothing that belongs to a generation outlives it: group memory and flight recorders are made
//      anew, so a stale rank reaches nobody.
//   2. The caller hears each event of rank 0 once, in order, whatever the number of restarts. A
//      step that is done again must have the bits that it had before, or the run ends.
//   3. Three faults in a row without a step between them end the run.
#ifndef BT_HARNESS_LAUNCH_LAUNCH_H
#define BT_HARNESS_LAUNCH_LAUNCH_H

#include "harness/launch/cause.h"
#include "harness/launch/inject.h"

enum { BT_LAUNCH_RANKS_MAX = 64, BT_LAUNCH_TRIES = 3 };

// A fault and how the ranks came back from it. Times in ns since the fault was caused, or noticed
// where it was not the launcher that caused it; -1: not known.
typedef struct bt_launch_recovery {
    const bt_cause *cause;
    int64_t generation;    // that goes on
    int64_t step;          // behind which the fault came, as the slowest rank saw it
    int size;              // ranks that go on
    int64_t detect_ns;     // the fault was noticed; -1 where it was not caused here
    int64_t group_ns;      // all ranks are in the new group
    int64_t resume_ns;     // rank 0 has its state and begins with a step
    int64_t first_step_ns; // the first step is done
} bt_launch_recovery;

// What the launcher asks and tells. All get `self`.
typedef struct bt_launch_listener {
    void *self;
    // Appends the task of a rank, one line without its newline.
    bt_status (*task)(void *self, const bt_rank_start *rank, int flight_fd, bt_str *out);
    // Appends what a spare gets before its task, one line: what to open. NULL: nothing.
    bt_status (*prepare)(void *self, const bt_rank_start *rank, bt_str *out);
    // Whether so many ranks can do the work.
    bool (*fits)(void *self, int size);
    // An event of rank 0, or a fault: of a straggler, or one that the ranks are restarted for.
    bt_status (*event)(void *self, const bt_run_event *event);
    // The first step behind a fault is done. Behind several faults without a step between them:
    // once, of the last one.
    bt_status (*recovered)(void *self, const bt_launch_recovery *recovery);
    bool (*should_stop)(void *self);
} bt_launch_listener;

typedef struct bt_launch {
    int size;
    const char *program; // of a rank; NULL: this program's worker
    bool shrink;         // go on with fewer ranks when one is lost again and again
    bool spare;          // keep a started process for each rank of the next generation
    double hang_s;       // nobody moves for so long before step times are known, or outside steps
    int64_t steps;       // of the plan
    int64_t first_step;  // the largest that start may say
    const bt_launch_fault *faults; // [fault_count] to be caused
    int64_t fault_count;
    const char *status_path; // file that says how the ranks are, once a second; NULL: none
    const bool *devices;     // [size] false: this GPU must not be used; NULL: ranks are on the CPU
    bt_launch_listener listener;
} bt_launch;

// Runs the ranks until all have given their result, the work is stopped or it cannot go on.
// Errors  the cause's status, its message naming rank and reason; those of the listener
BT_CHECKED bt_status bt_launch_run(const bt_launch *launch);

#endif
