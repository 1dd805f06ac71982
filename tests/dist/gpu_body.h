// tests/dist/gpu_body.h - a rank of a group on GPUs: made over the group that it is given
#ifndef BT_TESTS_DIST_GPU_BODY_H
#define BT_TESTS_DIST_GPU_BODY_H

#include "tests/dist/sweep.h"

typedef enum gpu_backend { GPU_P2P, GPU_NCCL_TREE, GPU_NCCL } gpu_backend;

typedef struct gpu_case {
    const char *name;
    gpu_backend backend;
    const char *device; // "cuda", or "cpu" beneath fake_gpu.h
    bool engines;
    bool in_memory; // operands are in memory of the group
    int shift;      // as in sweep
    int64_t staging_bytes;
    int64_t timeout_ns;
    rank_body body;   // gets the group on GPUs, and a sweep
    const void *data; // of the sweep
    bool same;        // in a list: the digest must be that of the case before
} gpu_case;

typedef struct gpu_list {
    const gpu_case *cases; // of one device
    int count;
} gpu_list;

// For main: sets the environment, applies argv[1] (the name of the one test to run, or a pattern)
// and counts the GPUs. False: there is none.
bool gpu_prepare(int argc, char **argv);
int gpu_devices(void);
// Rank r has device r; where gpu_prepare has found a single GPU, all ranks have that one. Processes
// take turns on a GPU, so kernels that wait for each other finish, but slowly. NCCL refuses it.
int gpu_ordinal(const char *device, int rank);

// The body of a rank of run_ranks; the argument is a gpu_case.
bt_status gpu_body(bt_group *control, void *argument, rank_result *result);
// The same for a gpu_list, with a group for each case: a process takes 2 s to open a GPU, longer
// than most cases. The message begins with the name of the case, also if the rank has ended in it.
bt_status gpu_bodies(bt_group *control, void *argument, rank_result *result);

// Bodies: ranks that diverge, that are silent, of which one is killed, of which one aborts,
// and aborts while the other has a queue of calls. Each runs until the device is idle and returns
// the group's status.
bt_status gpu_diverges(bt_group *group, void *argument, rank_result *result);
bt_status gpu_is_silent(bt_group *group, void *argument, rank_result *result);
bt_status gpu_is_killed(bt_group *group, void *argument, rank_result *result);
bt_status gpu_aborts(bt_group *group, void *argument, rank_result *result);
bt_status gpu_aborts_a_queue(bt_group *group, void *argument, rank_result *result);
// Sums of 5 MiB + 1056 bytes over and over, with ranks late by up to 300 us.
bt_status gpu_stress(bt_group *group, void *argument, rank_result *result);
// Parts of two ranks in reverse order, then the whole, by turns.
bt_status gpu_split(bt_group *group, void *argument, rank_result *result);
// Sums given to two streams in turn, without a wait between them.
bt_status gpu_two_streams(bt_group *group, void *argument, rank_result *result);
// Steps of an exchange in parts, with words that are awaited and set; words that run out.
bt_status gpu_in_parts(bt_group *group, void *argument, rank_result *result);

#endif
