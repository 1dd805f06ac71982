// harness/launch/supervisor.h - the ranks of one generation, and state kept across generations
//
// Private to this folder.
#ifndef BT_HARNESS_LAUNCH_SUPERVISOR_H
#define BT_HARNESS_LAUNCH_SUPERVISOR_H

#include "harness/launch/devices.h"
#include "harness/launch/launch.h"
#include "harness/launch/relay.h"

typedef struct bt_supervisor {
    const bt_launch *launch; // borrowed
    int size, next_size;     // ranks now, and of the next generation
    int last_size;           // of the last generation that began; 0: none did
    int64_t generation;
    bt_rank ranks[BT_LAUNCH_RANKS_MAX];    // [size]
    bool quarantined[BT_LAUNCH_RANKS_MAX]; // by slot
    int group_fd;                          // -1: none
    bt_rank spares[BT_LAUNCH_RANKS_MAX];   // [spare_count] of the next generation
    int spare_count, spare_fd;             // spare_fd: of their group, -1: none
    int64_t spares_of;                     // generation in which they were started last
    bool without_spares;                   // disabled after a rank ran out of memory
    bt_relay relay;
    bool stopping;       // rank 0 was asked to stop
    bt_run_event result; // of rank 0, owned; forwarded when all ranks have sent theirs
    bool has_result;
    bt_run_event timelines[BT_LAUNCH_RANKS_MAX]; // by rank, owned; COUNT: none of this generation
    bool timelines_told;
    // steps
    int64_t steps, steps_at_fault; // done by all ranks; the same at the last fault
    int64_t straggler_step;        // start of the current window
    int64_t waited_ns[BT_LAUNCH_RANKS_MAX], window_ns; // at its beginning
    // faults
    int tries, same_rank, last_rank; // faults in a row without a step; of these by the same rank
    int64_t next_fault;              // of launch->faults
    int64_t fault_due_ns;            // 0: its step is not reached
    int64_t caused_ns;               // when the launcher injected the current fault; 0: it did not
    int64_t noticed_ns;              // when the current fault was detected; 0: not yet
    int64_t fault_ns;                // start of the recovery time
    bool recovering;
    bool behind;    // recovered, but steps before the fault are still being repeated
    bt_cause cause; // of the recovery
    bt_launch_recovery recovery;
    bt_xid_watch xids; // of GPUs
    int64_t xids_ns;   // time of the last request
    int64_t status_ns; // when the status was written last
} bt_supervisor;

void bt_supervisor_init(const bt_launch *launch, bt_supervisor *supervisor);
void bt_supervisor_release(bt_supervisor *supervisor);
// Starts the next generation with next_size ranks.
BT_CHECKED bt_status bt_supervisor_begin(bt_supervisor *supervisor);
// Kills the ranks, waits for them and frees their memory.
void bt_supervisor_end(bt_supervisor *supervisor);
// supervisor_timeline.c: keeps a rank's timeline until all ranks have reported that step; then
// reports them, with starts relative to the first. Once per run.
BT_CHECKED bt_status bt_supervisor_take_timeline(bt_supervisor *supervisor, int rank,
                                                 const bt_run_event *event);
void bt_supervisor_drop_timelines(bt_supervisor *supervisor);
// The slot of a rank of the next generation.
int bt_supervisor_slot_of(const bt_supervisor *supervisor, int rank);
// Starts a rank's process, which waits for its task; the supervisor sets program and processors.
BT_CHECKED bt_status bt_supervisor_start_rank(const bt_supervisor *supervisor,
                                              const bt_rank_start *start, bt_rank *rank);
// Kills ranks [*count], waits for them and closes the memory of their group.
void bt_supervisor_drop(bt_rank *ranks, int *count, int *group_fd);

// ---- spare.c ------------------------------------------------------------------------------------

// Starts standby processes once all ranks have joined their group; ends all if one has exited.
void bt_supervisor_keep_spares(bt_supervisor *supervisor);
// Whether there are standby processes that match the next generation, all in its group.
bool bt_supervisor_spares_joined(const bt_supervisor *supervisor);
// Turns the standby processes into the ranks of the new generation; false: none that match.
bool bt_supervisor_take_spares(bt_supervisor *supervisor);
void bt_supervisor_drop_spares(bt_supervisor *supervisor);

// ---- supervisor_watch.c -------------------------------------------------------------------------

// Reads the ranks' steps from their flight recorders.
void bt_supervisor_note_steps(bt_supervisor *supervisor);
// Seconds without progress of any rank if above the limit, else 0. The limit is 1 s plus 5 of the
// longest steps so far during training steps or if a rank is stopped, otherwise launch->hang_s.
double bt_supervisor_silence_s(const bt_supervisor *supervisor);
// Whether the driver has reported an error of a GPU of these ranks; sets *cause.
bool bt_supervisor_look_for_xids(bt_supervisor *supervisor, bt_cause *cause);
// Injects the fault that is due.
void bt_supervisor_cause_faults(bt_supervisor *supervisor);
// Every 50 steps: reports a rank whose own work, without waiting, took 5 % longer than the median
// of all. Not on GPUs, and not if ranks share processors.
BT_CHECKED bt_status bt_supervisor_note_stragglers(bt_supervisor *supervisor);

// ---- supervisor_status.c ------------------------------------------------------------------------

// Writes launch->status_path, at most once a second unless `now`.
void bt_supervisor_write_status(bt_supervisor *supervisor, bool now);

#endif
