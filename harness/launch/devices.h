// harness/launch/devices.h - the GPUs of this host, and their errors (XIDs)
#ifndef BT_HARNESS_LAUNCH_DEVICES_H
#define BT_HARNESS_LAUNCH_DEVICES_H

#include <stdbool.h>

#include "framework/base/status.h"
#include "harness/env/nvml.h"

// Action for an error number that the driver reports for a GPU (an XID).
typedef enum bt_xid_action { BT_XID_NONE, BT_XID_RESTART, BT_XID_QUARANTINE } bt_xid_action;

// Source: NVIDIA, XID Errors, catalogue of driver 580. Numbers that are not listed: NONE.
bt_xid_action bt_xid_action_of(unsigned long long xid, const char **meaning);

// Checks that this host has `count` GPUs of one model, and marks all as usable.
// Shapes  usable [count]
// Errors  UNAVAILABLE (fewer GPUs than ranks, no driver), INVALID_ARGUMENT (another model: names
//         rank, GPU and both models)
BT_CHECKED bt_status bt_launch_devices(int count, bool *usable);

// Receives XIDs of GPUs 0 to count - 1.
typedef struct bt_xid_watch {
    bt_nvml nvml;
    bool open;
    bt_nvml_events events;
    bt_nvml_device devices[64];
    int count;
} bt_xid_watch;

// If the driver does not support events the watch stays closed, which is not an error.
void bt_xid_watch_open(int count, bt_xid_watch *watch);
// The next XID that was reported, without waiting. *gpu: its index.
bool bt_xid_watch_next(bt_xid_watch *watch, int *gpu, unsigned long long *xid);
void bt_xid_watch_close(bt_xid_watch *watch);

#endif
