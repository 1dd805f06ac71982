// harness/launch/rank.h - one rank, seen from its launcher: process, flight recorder, output
//
// Invariants
//   1. The launcher owns the flight recorder, which can be read after the rank has died.
//   2. The kernel kills the rank when the launcher dies.
#ifndef BT_HARNESS_LAUNCH_RANK_H
#define BT_HARNESS_LAUNCH_RANK_H

#include "framework/dist/flight.h"
#include "harness/run/child.h"
#include "harness/run/event.h"

enum { BT_RANK_MESSAGE_BYTES = 640 };

typedef struct bt_rank {
    int rank, slot; // slot: index of its device, or of its share of the processors
    bt_child child;
    bt_flight flight;
    int flight_fd;            // owned; -1: none
    int pidfd;                // owned; -1: none
    bt_run_event_state state; // of its protocol
    bool over;                // its output has ended and it has been waited for
    bool replaced;            // the launcher killed it because of another rank
    bt_status said;           // of its error event; BT_OK: none
    char message[BT_RANK_MESSAGE_BYTES];
    char digest[80];     // of its result; "": none yet
    int64_t over_ns;     // when it was found dead
    int64_t step_max_ns; // longest step so far
    int64_t seen_steps, seen_step_ns;
    int known_steps; // number of steps whose time was measured
} bt_rank;

typedef struct bt_rank_start {
    int rank, size, slot;
    int64_t generation;
    const char *program;         // NULL: this program's worker
    int group_fd;                // shared memory of the group
    const cpu_set_t *processors; // NULL: all
} bt_rank_start;

// Creates the flight recorder and starts the process, which waits for its task.
// Owns    *rank: the caller, bt_rank_release, also on failure
BT_CHECKED bt_status bt_rank_begin(const bt_rank_start *start, bt_rank *rank);
// Whether a signal has stopped the process (SIGSTOP, a debugger).
bool bt_rank_is_stopped(const bt_rank *rank);
void bt_rank_kill(bt_rank *rank);
void bt_rank_release(bt_rank *rank);

#endif
