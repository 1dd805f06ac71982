// harness/run/ahead.h - peers that are started ahead of their turn
//
// A peer's imports take seconds and need no task, so where it disturbs nothing each peer has one
// process waiting: it is started while an earlier round runs, gets its task when its turn comes,
// and runs that one round.
//
// Invariants
//   1. A process gets one task at most: a round is a fresh process, started ahead or not.
//   2. Only peers wait, and only where all cases are kernels on a GPU, timed by its own clock. The
//      steps of a training case wait for the host, so that imports beside them would slow them
//      down, those of peers most: the next process starts when a peer's own round begins.
//   3. A peer touches no device before it has read its task.
#ifndef BT_HARNESS_RUN_AHEAD_H
#define BT_HARNESS_RUN_AHEAD_H

#include "harness/plan/plan.h"
#include "harness/run/child.h"
#include "harness/run/peer.h"

enum { BT_AHEAD_DEPTH = 3 };

typedef struct bt_ahead_process {
    bt_child child; // process 0: none waits
    bt_str log;     // owned: where its error output goes
} bt_ahead_process;

typedef struct bt_ahead {
    bt_ahead_process *processes; // owned, [count * BT_AHEAD_DEPTH], those of a system together
    int64_t *next;               // owned, [count]: the process of a system that waits longest
    int64_t count;               // of systems
} bt_ahead;

// Starts the processes of every peer if `allowed`; `folder` takes their logs.
// Owns    *out: the caller, bt_ahead_release, also after a failure
// Errors  OUT_OF_MEMORY; a peer that cannot be started is started in its turn, which says why
BT_CHECKED bt_status bt_ahead_make(const bt_peer *systems, int64_t count, bool allowed,
                                   const char *folder, bt_ahead *out);
// Whether the cases of a plan allow it: invariant 2.
bool bt_ahead_allowed(const bt_plan *plan);
// Hands out the process of a system that waits longest, with its log moved to log_path, and starts
// another in its place. process 0: none waited.
// Owns    *out: the caller, bt_child_release
void bt_ahead_take(bt_ahead *ahead, const bt_peer *systems, int64_t system, const char *log_path,
                   bt_child *out);
// Ends those that still wait.
void bt_ahead_release(bt_ahead *ahead);

#endif
