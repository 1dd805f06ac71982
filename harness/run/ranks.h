// harness/run/ranks.h - training with several ranks, seen from a worker
//
// A worker whose task has a train.mesh of several ranks and no key "ranks" is the launcher: it
// starts a worker for each rank, whose task says in "ranks" which rank it is and where its group
// is.
#ifndef BT_HARNESS_RUN_RANKS_H
#define BT_HARNESS_RUN_RANKS_H

#include "framework/base/ranges.h"
#include "framework/dist/flight.h"
#include "framework/dist/group.h"
#include "harness/run/event.h"

// Whether this task is one for a launcher.
bool bt_ranks_wanted(const cJSON *task);

// ---- ranks_launch.c: the launcher ---------------------------------------------------------------

typedef struct bt_ranks_listener {
    void *self;
    bt_status (*event)(void *self, const bt_run_event *event);
    bool (*should_stop)(void *self);
} bt_ranks_listener;

// Runs the case with its ranks. Adds keys to `task`. `program`: of the ranks, NULL: our own worker.
// Errors  those of bt_launch_run; INVALID_ARGUMENT for a mesh that cannot be
BT_CHECKED bt_status bt_ranks_launch(cJSON *task, const char *program,
                                     const bt_ranks_listener *listener);

// ---- ranks.c: a rank ----------------------------------------------------------------------------

typedef struct bt_ranks bt_ranks;

// For a spare rank, before it is told to begin: opens the device and joins the group of the task.
// Owns    *out: the caller, who gives it to bt_ranks_join or bt_ranks_leave
// Errors  as bt_ranks_join
BT_CHECKED bt_status bt_ranks_prepare(const cJSON *task, const bt_ranges *ranges, bt_ranks **out);
// Joins the group that the task names; a thread keeps the flight recorder up to date from `ranges`.
// Ranks on GPUs exchange over the GPUs' links or, with a note in the log, over NCCL; training runs
// on the group's device. Without the key "ranks" *out is NULL.
// *out: on entry what was prepared for this task, or NULL; left on failure.
// Owns    *out: the caller, bt_ranks_leave
// Errors  INVALID_ARGUMENT, UNAVAILABLE; a rank on a GPU without NCCL_NVLS_ENABLE=0 is refused
BT_CHECKED bt_status bt_ranks_join(const cJSON *task, const bt_ranges *ranges, bt_ranks **out);
bt_group *bt_ranks_group(const bt_ranks *ranks);
// Whether our launcher has started it: then the host's clock is that of all ranks.
bool bt_ranks_launched(const bt_ranks *ranks);
int bt_ranks_slot(const bt_ranks *ranks);
// Records the number of completed steps. NULL is allowed, here and below.
void bt_ranks_step(bt_ranks *ranks, int64_t steps);
void bt_ranks_leave(bt_ranks *ranks);

#endif
