// framework/dist/device_group.h - base of the GPU backends: control group, monitor thread, failures
//
// GPU work is asynchronous: a rank that waits in a kernel cannot detect that another rank has died.
// So each GPU group is created over a control group on the CPU, and has a thread that polls the
// control group and the device for failures. The first failure is kept, makes waiting kernels
// return, and aborts the control group, which informs the other ranks.
//
// Invariants
//   1. From start to finish the control group is used only by the monitor, or with `lock` held.
//   2. give_up is called by the thread that fails the group, before the failure is visible to
//      calls, and then repeatedly by the monitor, because a stream may hold several waits.
#ifndef BT_DIST_DEVICE_GROUP_H
#define BT_DIST_DEVICE_GROUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "framework/dist/group.h"
#include "kernels/collectives.h"

enum { BT_DEVICE_GROUP_FAILURE_BYTES = 512 };

// Words of page-locked host memory that the device reads or writes.
typedef struct bt_device_words {
    uint32_t abort; // read by kernels that wait
    uint32_t fault; // written by them
    uint32_t begun; // number of calls that the stream has started
    uint32_t done;  // number of calls that it has finished
} bt_device_words;

typedef struct bt_device_group {
    bt_group group;    // impl points here
    bt_group *control; // owned
    bt_device *device; // unowned: outlives the group
    const bt_device_collectives *table;
    int64_t timeout_ns;
    bt_device_words *words; // owned
    uint32_t issued;        // calls between marks
    pthread_mutex_t lock;   // of control
    pthread_t monitor;
    bool is_monitored;
    atomic_bool stopping;
    atomic_int failing; // 0 no, 1 being written, 2 `failed` and `failure` are valid
    bt_status failed;
    char failure[BT_DEVICE_GROUP_FAILURE_BYTES];
    // Polls the device for a failure; called by the monitor. NULL: not supported.
    bt_status (*ask)(struct bt_device_group *group);
    void (*give_up)(struct bt_device_group *group); // makes waiting work on the device return
} bt_device_group;

// Fills the members above except ask and give_up; `group` is zeroed by the caller.
BT_CHECKED bt_status bt_device_group_init(bt_device_group *group, const bt_group_backend *backend,
                                          bt_group *control, bt_device *device, int64_t timeout_ns);
// Frees them. The control group is destroyed when `with_control`.
void bt_device_group_release(bt_device_group *group, bool with_control);
BT_CHECKED bt_status bt_device_group_start(bt_device_group *group);
// Stops the monitor, waits for the device and, in a group that works, for the other ranks.
void bt_device_group_finish(bt_device_group *group);

// Replaces the CUDA backend's table, for tests. Borrowed for the rest of the process.
void bt_device_group_use(const bt_device_collectives *table);
// The table of the CUDA backend. Errors  UNAVAILABLE (no backend, another build)
BT_CHECKED bt_status bt_device_group_table(const bt_device_collectives **out);
// Collective: exchanges the ranks' statuses. All return BT_OK, or the error of one rank, which the
// message names.
BT_CHECKED bt_status bt_device_group_agree(bt_group *control, bt_status mine);
bool bt_device_group_is_capturing(const bt_device_group *group, bt_stream stream);
// Called before and after work whose waits have no timeout on the device; no-ops during capture.
BT_CHECKED bt_status bt_device_group_begin(bt_device_group *group, bt_stream stream);
BT_CHECKED bt_status bt_device_group_end(bt_device_group *group, bt_stream stream);

// Keeps the first failure.
void bt_device_group_fail(bt_device_group *group, bt_status status, const char *text);
// Of bt_group_backend: over the control group.
bt_status bt_device_group_tell(bt_group *group, void *data, int64_t size_bytes, int root);
// Of bt_group_backend: the kernel that sums slots. 2, 4 or 8 ranks.
bt_status bt_device_group_fold(bt_group *group, const void *const *in, const void *base, void *out,
                               int64_t count, bt_dtype dtype, bt_stream stream);
// A part of the control group, for a group on GPUs over it; NULL as bt_group_split says.
BT_CHECKED bt_status bt_device_group_split(bt_device_group *group, int colour, int key,
                                           bt_group **control);
// Of bt_group_backend; every collective first calls check.
bt_status bt_device_group_check(bt_group *group);
void bt_device_group_abort(bt_group *group, const char *reason);

#endif
