// harness/launch/launch.h - starts the ranks of one host, supervises and restarts them
//
// Ranks are restarted together: when one fails, the launcher fences and kills the others, creates
// the group of the next generation and gives every rank the task to resume from the last state.
//
// Invariants
//   1. Each generation has its own group memory and flight recorders, so a stale rank cannot reach
//      the next generation.
//   2. The caller receives each event of rank 0 once, in order, whatever the number of restarts. A
//      repeated step must have the same bits, or the run ends.
//   3. Three faults in a row without a step between them end the run.
#ifndef BT_HARNESS_LAUNCH_LAUNCH_H
#define BT_HARNESS_LAUNCH_LAUNCH_H

#include "harness/launch/cause.h"
#include "harness/launch/world.h"

enum { BT_LAUNCH_TRIES = 3, BT_LAUNCH_AT_START = -1 };

// A fault to inject, to test recovery.
typedef struct bt_launch_fault {
    int signal;       // SIGKILL, SIGSTOP, SIGSEGV
    int rank;         // below the number of ranks
    int64_t step;     // after this many steps of the rank; BT_LAUNCH_AT_START: when it is started,
                      // also during recovery from another fault
    int64_t delay_ns; // additional delay
} bt_launch_fault;

// A fault and the recovery from it. Times in ns since the fault was injected, or detected if it was
// not injected; -1: unknown.
typedef struct bt_launch_recovery {
    const bt_cause *cause;
    int64_t generation; // that continues
    int64_t step;       // completed steps of the slowest rank at the fault
    int64_t from_step;  // the new generation restarts after this many steps and repeats those up
                        // to `step`
    int size;           // number of ranks that continue
    int64_t detect_ns;  // the fault was detected; -1 if it was not injected
    int64_t group_ns;   // all ranks are in the new group; standby processes have joined it before
    int64_t resume_ns;  // rank 0 has loaded its state and starts a step
    int64_t first_step_ns; // the first step is done
    int64_t caught_up_ns;  // all ranks have completed `step` steps again
} bt_launch_recovery;

// Callbacks of the launcher. All get `self`.
typedef struct bt_launch_listener {
    void *self;
    // Appends the task of a rank, one line without its newline.
    bt_status (*task)(void *self, const bt_rank_start *rank, int flight_fd, bt_str *out);
    // Appends the line that a standby process gets before its task: the device to open and the
    // group to join. NULL: none.
    bt_status (*prepare)(void *self, const bt_rank_start *rank, int flight_fd, bt_str *out);
    // Whether the work can be divided among `size` ranks.
    bool (*fits)(void *self, int size);
    // An event of rank 0, or a fault: a straggler, or one for which the ranks are restarted.
    bt_status (*event)(void *self, const bt_run_event *event);
    // The first step after a fault is done. Called once if several faults occurred without a step
    // between them, for the last one.
    bt_status (*recovered)(void *self, const bt_launch_recovery *recovery);
    // Then: the repeated steps are done. Not called if another fault occurs before. NULL: none.
    bt_status (*caught_up)(void *self, const bt_launch_recovery *recovery);
    bool (*should_stop)(void *self);
} bt_launch_listener;

typedef struct bt_launch {
    int size;
    const char *program; // of a rank; NULL: this program's worker
    bool shrink;         // continue with fewer ranks when one fails repeatedly
    bool invariant;      // losses have the same bits for each number of ranks
    bool spare;          // keep a standby process for each rank of the next generation
    bool ends;           // a fault ends the run: there is no state to resume from
    bool take_turns;     // ranks share processors (affinity.h): stragglers are not reported
    double hang_s; // time limit without progress outside of steps, or before step times are known
    int64_t steps; // of the plan
    int64_t first_step;            // maximum that a start event may give
    const bt_launch_fault *faults; // [fault_count] faults to inject, one after the other; the run
                                   // fails if its ranks finish first
    int64_t fault_count;
    const char *status_path; // file with the ranks' status, written once a second; NULL: none
    const bool *devices;     // [size] false: this GPU must not be used; NULL: ranks are on the CPU
    bt_launch_listener listener;
} bt_launch;

// Runs the ranks until all have sent their results, the work is stopped or cannot continue.
// Errors  the cause's status, its message naming rank and reason; those of the listener
BT_CHECKED bt_status bt_launch_run(const bt_launch *launch);

#endif
