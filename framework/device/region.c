// framework/device/region.c - before and after a timed region
#include "framework/device/region.h"

#define IDLE_NS     100000 // more than an idle device needs to respond
#define SHARE_PARTS 20     // a twentieth of the region: less is ignored

bt_status bt_region_begin(bt_device *device) { return device->backend->cache_reset(device); }

bt_status bt_region_end(bt_region *self, bt_device *device, int64_t inside_ns)
{
    int64_t waited_ns = 0;
    BT_TRY(device->backend->join(device, &waited_ns));
    ++self->count;
    if (waited_ns > IDLE_NS && waited_ns > inside_ns / SHARE_PARTS) {
        ++self->outlived;
        self->behind_ns += waited_ns;
    }
    return BT_OK;
}

int64_t bt_region_behind_ns(const bt_region *self)
{
    return 2 * self->outlived > self->count ? self->behind_ns / self->outlived : 0;
}
