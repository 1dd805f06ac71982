// harness/launch/gang.h - the ranks of one generation, and what is known over all of them
//
// For this folder only.
#ifndef BT_HARNESS_LAUNCH_GANG_H
#define BT_HARNESS_LAUNCH_GANG_H

#include "harness/launch/devices.h"
#include "harness/launch/launch.h"
#include "harness/launch/relay.h"

typedef struct bt_gang {
    const bt_launch *launch; // borrowed
    int size, next_size;     // ranks now, and of the next generation
    int64_t generation;
    bt_rank ranks[BT_LAUNCH_RANKS_MAX];    // [size]
    bool quarantined[BT_LAUNCH_RANKS_MAX]; // by slot
    int group_fd;                          // -1: none
    bt_rank spares[BT_LAUNCH_RANKS_MAX];   // [spare_count] of the next generation
    int spare_count, spare_fd;             // spare_fd: of their group, -1: none
    int64_t spares_of;                     // generation in which they were started last
    bool without_spares;                   // their memory was needed
    bt_relay relay;
    bool stopping;       // rank 0 was asked to stop
    bt_run_event result; // of rank 0, owned; told when all ranks have given theirs
    bool has_result;
    bt_run_event timelines[BT_LAUNCH_RANKS_MAX]; // by rank, owned; COUNT: none of this generation
    bool timelines_told;
    // steps
    int64_t steps, steps_at_fault; // done by all ranks; the same at the last fault
    int64_t straggler_step;        // where the present window begins
    int64_t waited_ns[BT_LAUNCH_RANKS_MAX], window_ns; // at its beginning
    // faults
    int tries, same_rank, last_rank; // in a row without a step; of them by the same rank
    int64_t next_fault;              // of launch->faults
    int64_t fault_due_ns;            // 0: its step is not reached
    int64_t caused_ns;               // when the launcher caused the present fault; 0: it did not
    int64_t noticed_ns;              // when the present fault was noticed; 0: it was not yet
    int64_t fault_ns;                // from when on recovery is counted
    bool recovering;
    bt_cause cause; // of the recovery
    bt_launch_recovery recovery;
    bt_xid_watch xids; // of GPUs
    int64_t xids_ns;   // when they were asked for last
    int64_t status_ns; // when the status was written last
} bt_gang;

void bt_gang_init(const bt_launch *launch, bt_gang *gang);
void bt_gang_release(bt_gang *gang);
// Starts the next generation with next_size ranks.
BT_CHECKED bt_status bt_gang_begin(bt_gang *gang);
// Buries the ranks and drops their memory.
void bt_gang_end(bt_gang *gang);
BT_CHECKED bt_status bt_gang_keep_result(bt_gang *gang, const char *line, size_t size_bytes);
BT_CHECKED bt_status bt_gang_tell_result(bt_gang *gang);
// gang_timeline.c: keeps the timeline that a rank has said in `line` until all ranks have said
// theirs of that step; then tells them, their starts behind the first one. Once per run.
BT_CHECKED bt_status bt_gang_take_timeline(bt_gang *gang, int rank, const char *line,
                                           size_t size_bytes);
void bt_gang_drop_timelines(bt_gang *gang);
// The slot of a rank of the next generation.
int bt_gang_slot_of(const bt_gang *gang, int rank);
// Starts a rank's process, which waits for its task; program and processors are the gang's.
BT_CHECKED bt_status bt_gang_start_rank(const bt_gang *gang, const bt_rank_start *start,
                                        bt_rank *rank);

// ---- spare.c ------------------------------------------------------------------------------------

// Starts spares once all ranks are in their group, and ends them when one of them has ended.
void bt_gang_keep_spares(bt_gang *gang);
// Makes the spares the ranks of the generation that begins; false: there are none that fit.
bool bt_gang_take_spares(bt_gang *gang);
void bt_gang_drop_spares(bt_gang *gang);

// ---- gang_watch.c -------------------------------------------------------------------------------

// Looks how far the ranks are.
void bt_gang_note_steps(bt_gang *gang);
// Seconds for which no rank has moved, when they are too many; else 0. Within training steps a rank
// may be silent for 1 s and 5 of the longest steps so far, as where a rank is stopped, otherwise
// for launch->hang_s.
double bt_gang_silence_s(const bt_gang *gang);
// An error of a GPU of these ranks that the driver reported: true, and *cause.
bool bt_gang_look_for_xids(bt_gang *gang, bt_cause *cause);
// Causes the fault that is due.
void bt_gang_cause_faults(bt_gang *gang);
// Every 50 steps: reports a rank whose own work, without waiting, took 5 % longer than the median
// of all.
BT_CHECKED bt_status bt_gang_note_stragglers(bt_gang *gang);

// ---- gang_status.c ------------------------------------------------------------------------------

// Writes launch->status_path, at most once a second unless `now`.
void bt_gang_write_status(bt_gang *gang, bool now);

#endif
