// framework/device/region.h - what happens before and after a timed region of a device
//
// Before it: persisting lines of the L2 cache become ordinary lines. After its stop event: every
// stream of the process is joined; work that still runs then was not timed. Both are outside of the
// region's time, and end the overlap of streams.
#ifndef BT_DEVICE_REGION_H
#define BT_DEVICE_REGION_H

#include "framework/device/device.h"

// The regions of one measurement. Initialize with zeros.
typedef struct bt_region {
    int64_t count;
    int64_t outlived;  // regions after which work continued
    int64_t behind_ns; // total duration of that work
} bt_region;

// Sync    on CUDA, work that is submitted afterwards, to any stream, waits for all earlier work of
//         the device: call it where the device is idle
BT_CHECKED bt_status bt_region_begin(bt_device *device);
// Call after a region that took inside_ns, whose stop event has been synchronized. Later work
// counts if it takes longer than 0.1 ms and than 5 % of the region, more than an idle device needs
// to respond.
// Sync    waits for the whole device
BT_CHECKED bt_status bt_region_end(bt_region *self, bt_device *device, int64_t inside_ns);
// The mean duration of work after a region; 0 unless there was some after more than half of the
// regions: single occurrences are disturbances of the machine.
int64_t bt_region_behind_ns(const bt_region *self);

#endif
