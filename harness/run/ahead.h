// harness/run/ahead.h - starts peers before their round
//
// A peer's imports take seconds and need no task. So, where this does not disturb measurements,
// each peer has a process that is started during an earlier round, gets its task when its round
// begins, and runs that one round.
//
// Invariants
//   1. A process gets at most one task: every round is a fresh process.
//   2. Only peers are started early, and only if all cases are kernels on a GPU, timed by the GPU's
//      clock. Steps of training cases depend on the host, which the imports would slow down. The
//      next process is started when a peer's own round begins.
//   3. A peer touches no device before it has read its task.
#ifndef BT_HARNESS_RUN_AHEAD_H
#define BT_HARNESS_RUN_AHEAD_H

#include "harness/plan/plan.h"
#include "harness/run/child.h"
#include "harness/run/peer.h"

enum { BT_AHEAD_DEPTH = 3 };

typedef struct bt_ahead_process {
    bt_child child; // process 0: none
    bt_str log;     // owned: path of its error log
} bt_ahead_process;

typedef struct bt_ahead {
    bt_ahead_process *processes; // owned, [count * BT_AHEAD_DEPTH], those of a system together
    int64_t *next;               // owned, [count]: a system's process that has waited longest
    int64_t count;               // of systems
} bt_ahead;

// Starts the processes of every peer if `allowed`; `folder` is for their logs.
// Owns    *out: the caller, bt_ahead_release, also after a failure
// Errors  OUT_OF_MEMORY. A peer that fails to start is started again in its round, which reports
// why
BT_CHECKED bt_status bt_ahead_make(const bt_peer *systems, int64_t count, bool allowed,
                                   const char *folder, bt_ahead *out);
// Whether the cases of a plan allow it: invariant 2.
bool bt_ahead_allowed(const bt_plan *plan);
// Returns the system's oldest waiting process, with its log moved to log_path, and starts another
// one. process 0: there was none.
// Owns    *out: the caller, bt_child_release
void bt_ahead_take(bt_ahead *ahead, const bt_peer *systems, int64_t system, const char *log_path,
                   bt_child *out);
// Ends the waiting processes.
void bt_ahead_release(bt_ahead *ahead);

#endif
