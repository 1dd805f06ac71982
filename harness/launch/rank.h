// harness/launch/rank.h - one rank as its launcher sees it: a process, its memory, what it says
//
// Invariants
//   1. The flight recorder belongs to the launcher: it can be read after the rank has died.
//   2. What a rank prints as errors reaches the launcher's standard error line by line, each line
//      with the rank in front; nothing of it is lost when the rank dies.
//   3. The kernel kills the rank when the launcher dies.
#ifndef BT_HARNESS_LAUNCH_RANK_H
#define BT_HARNESS_LAUNCH_RANK_H

#include "framework/dist/flight.h"
#include "harness/run/child.h"
#include "harness/run/event.h"

enum { BT_RANK_MESSAGE_BYTES = 640 };

typedef struct bt_rank {
    int rank, slot; // slot: which device, or which share of the processors, it has
    bt_child child;
    bt_flight flight;
    int flight_fd;            // owned; -1: none
    int pidfd;                // owned; -1: none
    int errors;               // owned: the pipe of its standard error; -1: closed
    bt_str words;             // of a line of its errors that has not ended yet
    bt_run_event_state state; // of its protocol
    bool over;                // its output has ended and it is buried
    bool replaced;            // its launcher ended it because of another rank
    bt_status said;           // of its error event; BT_OK: it said none
    char message[BT_RANK_MESSAGE_BYTES];
    char digest[80];     // of its result; "": none yet
    int64_t over_ns;     // when it was found dead
    int64_t step_max_ns; // longest step so far
    int64_t seen_steps, seen_step_ns;
    int known_steps; // whose time was seen
} bt_rank;

typedef struct bt_rank_start {
    int rank, size, slot;
    int64_t generation;
    const char *program;         // NULL: this program's worker
    int group_fd;                // shared memory of the group
    const cpu_set_t *processors; // NULL: all
} bt_rank_start;

// Makes the flight recorder and starts the process, which waits for its task.
// Owns    *rank: the caller, bt_rank_release, also on failure
BT_CHECKED bt_status bt_rank_begin(const bt_rank_start *start, bt_rank *rank);
// Copies what it printed as errors to standard error. `last`: also half a line.
void bt_rank_drain(bt_rank *rank, bool last);
// Whether a signal has stopped the process (SIGSTOP, a debugger).
bool bt_rank_is_stopped(const bt_rank *rank);
void bt_rank_kill(bt_rank *rank);
void bt_rank_release(bt_rank *rank);

#endif
