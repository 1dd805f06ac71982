// framework/dist/p2p.h - GPU backend for one host: collectives over peer memory
//
// Every rank maps memory of the others (unicast; no multicast). Sums follow the tree of reduce.h,
// so all ranks and all algorithms give the same bits.
#ifndef BT_DIST_P2P_H
#define BT_DIST_P2P_H

#include "framework/dist/group.h"

typedef struct bt_p2p_options {
    int64_t timeout_ns;    // how long work on the GPU waits for another rank
    int64_t staging_bytes; // device memory for operands outside of group memory and for slots;
                           // 0: 128 MiB; below 32 bytes a rank: that
    bool engines;          // sums and gathers of any size by copy engines, which leave all SMs to
                           // overlapping computation
} bt_p2p_options;

// Joins 2, 4 or 8 ranks of one host that are the ranks of `control`, which it takes over on
// success. All ranks succeed or all fail. `device` outlives the group.
// Operands in memory of the group (bt_group_memory) are used in place; others, and those of
// send_recv, are copied through staging memory. Calls run in the order of submission, whatever
// their streams; with `engines`, all_to_all, all_to_others, all_gather and exchange_step into
// memory of the group overlap other calls, as read_rows always does. Copy engines compare no calls:
// ranks that make different ones of these copy what each was told, without an error.
// Errors   UNAVAILABLE (no CUDA backend, ranks on several hosts, GPUs without peer access, kernels
//          that are loaded lazily), UNSUPPORTED (number of ranks), OUT_OF_MEMORY: naming the rank
BT_CHECKED bt_status bt_group_p2p_create(bt_group *control, bt_device *device,
                                         const bt_p2p_options *options, bt_group **out);
// Whether that function and the next one support so many ranks: 2, 4 or 8.
bool bt_group_gpu_supports(int ranks);
// The above, or if it is unavailable NCCL with the same order of sums, hence the same bits. `note`
// is then the reason, else "".
// Shapes   note [note_capacity]
BT_CHECKED bt_status bt_group_gpu_create(bt_group *control, bt_device *device,
                                         const bt_p2p_options *options, char *note,
                                         size_t note_capacity, bt_group **out);

#endif
