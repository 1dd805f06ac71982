// kernels/collectives.h - the CUDA backend's interface for process groups (framework/dist)
//
// libbt_cuda.so exports one table in addition to its backend. Two families: windows (memory of a
// GPU that other processes map) with the kernels that sum and move through them, and NCCL.
//
// Invariants
//   1. A sum over ranks is the balanced binary tree of framework/dist/reduce.h over rank order, in
//      the operation's type (bf16 in f32, rounded once). NaN payloads are not kept.
//   2. Calls of one view run one after another in one stream order, the same on all ranks.
//   3. Flag counters are in device memory, so a captured launch may be replayed.
//   4. A wait on the device ends when the flag comes, when the host sets the abort word, or after
//      patience_ns; after the last two the view cannot be used any more, and *fault has the reason.
#ifndef BT_KERNELS_COLLECTIVES_H
#define BT_KERNELS_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/dtype.h"
#include "framework/base/status.h"
#include "framework/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BT_COLLECTIVES_ABI   3
#define BT_COLLECTIVES_ENTRY "bt_collectives_entry"

enum {
    BT_P2P_RANKS_MAX = 8,
    BT_P2P_BLOCKS_MAX = 64,
    BT_P2P_LOW_LATENCY_BYTES = 1 << 18,             // maximum size of such a sum
    BT_P2P_HEAD_BYTES = 1 << 20,                    // size of the head of a window: flags
    BT_P2P_WORDS_OFFSET = BT_P2P_HEAD_BYTES - 4096, // in a window: words for bt_group_words
    BT_P2P_WORDS = 128,                             // of 4 bytes
    // After the head: two sets of low-latency slots, of all ranks.
    BT_P2P_SLOTS_BYTES = 2 * BT_P2P_RANKS_MAX * 2 * BT_P2P_LOW_LATENCY_BYTES,
    BT_P2P_STAGING_OFFSET = BT_P2P_HEAD_BYTES + BT_P2P_SLOTS_BYTES,
    BT_P2P_STATE_BYTES = 1 << 16 // of a view's state
};

// Values of *fault: 0, or one of these and 1 + the rank.
enum { BT_P2P_FAULT_SILENT = 1 << 8, BT_P2P_FAULT_OTHER_CALL = 2 << 8 };

// Memory of one device that other processes can map.
typedef struct bt_window {
    void *base;
    size_t size_bytes; // as mapped: a multiple of the driver's granularity
    uint64_t handle;
} bt_window;

typedef struct bt_p2p_view {
    int32_t rank, size;             // size 2, 4 or 8
    char *window[BT_P2P_RANKS_MAX]; // of each rank, as mapped here; unowned
    uint32_t *state;                // device memory [BT_P2P_STATE_BYTES], initially zero
    const uint32_t *abort_word;     // page-locked host memory; nonzero: abort
    uint32_t *fault;                // page-locked host memory
    uint64_t patience_ns;           // 0: no limit
} bt_p2p_view;

// out[o][i] = reduction over the ranks r of in[r][i], plus base[i] if there is a base.
typedef struct bt_p2p_sum {
    const void *in[BT_P2P_RANKS_MAX]; // [count] each
    const void *base;                 // of a sum without ranks: [count] or NULL; no out
    void *out[BT_P2P_RANKS_MAX];      // [count] each; may be among in
    int32_t in_count, out_count;      // 2, 4 or 8; 1 or in_count
    bt_dtype dtype;                   // f64, f32, bf16, i64, i32
    bool maximum;                     // maximum instead of sum
    int64_t count;
    int32_t blocks; // the same on all ranks; of a fold 0: as the device has SMs
    uint32_t call;  // hash of the collective; ranks with different ones fail
} bt_p2p_sum;

// Copies bytes[r] from from[r] to to[r] for each rank r of the mask, between two barriers with
// those ranks.
typedef struct bt_p2p_push {
    const void *from[BT_P2P_RANKS_MAX];
    void *to[BT_P2P_RANKS_MAX];
    int64_t bytes[BT_P2P_RANKS_MAX];
    uint32_t mask;  // mask of ranks, without this one
    int32_t blocks; // the same on all of them
    uint32_t call;
} bt_p2p_push;

// data[i] = sum over the ranks, in place, at most BT_P2P_LOW_LATENCY_BYTES.
typedef struct bt_p2p_small_sum {
    void *data; // any memory of the device
    int64_t count;
    bt_dtype dtype; // f64, f32
    int32_t blocks; // the same on all ranks
} bt_p2p_small_sum;

enum { BT_NCCL_ID_BYTES = 128 };

typedef struct bt_nccl_comm bt_nccl_comm;

typedef struct bt_device_collectives {
    int abi; // BT_COLLECTIVES_ABI of the build

    // ---- windows ----
    // UNAVAILABLE unless kernels are loaded eagerly: the first launch of a lazily loaded kernel
    // waits for a stream that waits for another rank.
    bt_status (*p2p_ready)(bt_device *device);
    // Zeroed. Owns: the caller, *fd to close and the window.
    bt_status (*window_create)(bt_device *device, size_t size_bytes, bt_window *out, int *fd);
    // Does not take the descriptor. Errors  UNAVAILABLE: no peer access
    bt_status (*window_import)(bt_device *device, int fd, size_t size_bytes, bt_window *out);
    void (*window_destroy)(bt_device *device, bt_window *window);

    // ---- kernels; asynchronous, on the stream ----
    bt_status (*sum)(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                     const bt_p2p_sum *args);
    bt_status (*small_sum)(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                           const bt_p2p_small_sum *args);
    bt_status (*push)(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                      const bt_p2p_push *args);
    // The same sum without ranks: all operands are already present. With a base, the sum and the
    // result are each rounded to the type.
    bt_status (*fold)(bt_device *device, bt_stream stream, const bt_p2p_sum *args);

    // ---- copy engines: no SM waits; the flags are set and awaited by the stream itself ----
    // A barrier of all ranks' streams. phase alternates between 0 and 1.
    bt_status (*handshake)(bt_device *device, bt_stream stream, const bt_p2p_view *view, int phase);
    // *word (page-locked host memory, or in a window) = value, in stream order.
    bt_status (*mark)(bt_device *device, bt_stream stream, uint32_t *word, uint32_t value);
    // The stream waits until *word, in this rank's window, is 1, and makes it 0.
    bt_status (*await_mark)(bt_device *device, bt_stream stream, uint32_t *word);
    // Ends handshakes in which this rank's streams wait, after an abort, and makes the window's
    // words 1, for streams and kernels that wait for those. `stream`: another one.
    void (*handshake_release)(bt_device *device, bt_stream stream, const bt_p2p_view *view);

    // ---- NCCL ----
    // All except nccl_ready require that it has succeeded.
    // UNAVAILABLE: built without NCCL, or no libnccl.so.2 here
    bt_status (*nccl_ready)(int *version);
    bt_status (*nccl_id)(char id[BT_NCCL_ID_BYTES]);
    // Collective over the ranks that have the id; waits for them, at most timeout_ns.
    bt_status (*nccl_join)(bt_device *device, const char id[BT_NCCL_ID_BYTES], int rank, int size,
                           int64_t timeout_ns, bt_nccl_comm **out);
    bt_status (*nccl_all_reduce)(bt_nccl_comm *comm, void *data, int64_t count, bt_dtype dtype,
                                 bool maximum, bt_stream stream);
    bt_status (*nccl_reduce_scatter)(bt_nccl_comm *comm, const void *in, void *out, int64_t count,
                                     bt_dtype dtype, bool maximum, bt_stream stream);
    bt_status (*nccl_all_gather)(bt_nccl_comm *comm, const void *in, void *out, int64_t size_bytes,
                                 bt_stream stream);
    bt_status (*nccl_broadcast)(bt_nccl_comm *comm, void *data, int64_t size_bytes, int root,
                                bt_stream stream);
    // Sends out_bytes[r] of out[r] to each rank r, receives in_bytes[r] into in[r]; NULL: none.
    bt_status (*nccl_exchange)(bt_nccl_comm *comm, const void *const *out, const int64_t *out_bytes,
                               void *const *in, const int64_t *in_bytes, bt_stream stream);
    // The error of a stream, if any. Any thread.
    bt_status (*nccl_check)(bt_nccl_comm *comm);
    // Makes waiting kernels return. Call once; then the communicator cannot be used. Any thread.
    void (*nccl_abort)(bt_nccl_comm *comm);
    void (*nccl_leave)(bt_nccl_comm *comm); // aborted or not
} bt_device_collectives;

typedef const bt_device_collectives *(*bt_collectives_entry_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
