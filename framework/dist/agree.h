// framework/dist/agree.h - checks that all ranks have the same build, plan and kind of device
#ifndef BT_DIST_AGREE_H
#define BT_DIST_AGREE_H

#include "framework/dist/group.h"

typedef struct bt_agreement {
    const char *key;   // "build"
    const char *value; // at most 127 bytes; must be the same on all ranks
    const char *help;  // what to do when it is not
} bt_agreement;

enum { BT_AGREEMENTS_MAX = 8 };

// What of a device decides which kernels serve a call. No padding: compared as bytes.
typedef struct bt_kernel_device {
    int64_t arch, processor_count, shared_bytes;
} bt_kernel_device;

bt_kernel_device bt_kernel_device_of(const bt_device *device);

// Collective. Every rank gets the same error, which names the first rank whose value differs from
// rank 0's, its host, the key and both values.
// Errors  INVALID_ARGUMENT, those of bt_all_gather
BT_CHECKED bt_status bt_group_agree(bt_group *group, const bt_agreement *rows, int count);

#endif
