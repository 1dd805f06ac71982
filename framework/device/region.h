// framework/device/region.h - what surrounds a timed region of a device
//
// Before it: lines of the L2 cache that earlier work made to persist are ordinary lines again.
// Behind it, when its stop event has been passed: every stream of the process is joined. Work that
// still runs then was not timed. Both happen outside of the region and cost it nothing.
#ifndef BT_DEVICE_REGION_H
#define BT_DEVICE_REGION_H

#include "framework/device/device.h"

// The regions of one measurement. All zero at first.
typedef struct bt_region {
    int64_t count;
    int64_t outlived;  // regions behind which work went on
    int64_t behind_ns; // for how long, behind those
} bt_region;

BT_CHECKED bt_status bt_region_begin(bt_device *device);
// Behind a region that took inside_ns, whose stop event has been synchronised. Work counts that
// goes on for longer than 0.1 ms and than 5 % of the region: an idle device needs less to say so.
// Sync    waits for the whole device
BT_CHECKED bt_status bt_region_end(bt_region *self, bt_device *device, int64_t inside_ns);
// For how long work went on behind a region, on the average; 0 unless it did behind more than half
// of the regions: single ones are disturbed by the machine.
int64_t bt_region_behind_ns(const bt_region *self);

#endif
