// framework/dist/p2p_region.c - memory of each rank that all ranks map
//
// A rank creates a window, sends its descriptor to every other rank's mailbox and maps the
// descriptors that arrive in its own. Descriptors are closed at once: an open one would keep a dead
// rank's memory allocated.
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/p2p_group.h"

void bt_p2p_region_destroy(bt_p2p_group *group, bt_p2p_region *region)
{
    for (int peer = 0; peer < group->base.group.size; ++peer) {
        if (region->of[peer].base != NULL) {
            group->base.table->window_destroy(group->base.device, &region->of[peer]);
        }
    }
    memset(region, 0, sizeof *region);
}

const bt_p2p_region *bt_p2p_region_find(const bt_p2p_group *group, const void *data,
                                        int64_t size_bytes)
{
    const char *at = data;
    for (int i = 1; i < group->region_count; ++i) { // the first is the group's own
        const bt_window *own = &group->regions[i].of[group->base.group.rank];
        const char *base = own->base;
        if (at >= base && at + size_bytes <= base + own->size_bytes) {
            return &group->regions[i];
        }
    }
    return NULL;
}

// A message's tag: which rank sends, and for which region. A region that failed may have left
// messages in the mailbox.
static uint64_t tag_of(const bt_p2p_group *group, int rank)
{
    return (uint64_t)group->region_tries << 32 | (uint64_t)rank;
}

static bt_status send_all(const bt_p2p_group *group, int fd, int64_t deadline_ns)
{
    for (int peer = 0; peer < group->base.group.size; ++peer) {
        if (peer != group->base.group.rank) {
            BT_TRY(bt_mailbox_send(&group->mailbox, group->mailboxes[peer],
                                   tag_of(group, group->base.group.rank), fd, deadline_ns));
        }
    }
    return BT_OK;
}

static bt_status receive_all(bt_p2p_group *group, bt_p2p_region *region, size_t size_bytes,
                             int64_t deadline_ns)
{
    int missing = group->base.group.size - 1;
    while (missing > 0) {
        uint64_t tag;
        int fd;
        BT_TRY(bt_mailbox_receive(&group->mailbox, deadline_ns, &tag, &fd));
        int peer = (int)(uint32_t)tag;
        bool wanted = peer >= 0 && peer < group->base.group.size && tag == tag_of(group, peer) &&
                      peer != group->base.group.rank && region->of[peer].base == NULL;
        bt_status status = wanted ? group->base.table->window_import(group->base.device, fd,
                                                                     size_bytes, &region->of[peer])
                                  : BT_OK;
        (void)close(fd);
        BT_TRY(bt_error_context(status, "mapping the memory of rank %d's GPU", peer));
        missing -= wanted;
    }
    return BT_OK;
}

static bt_status create(bt_p2p_group *group, bt_p2p_region *region, int64_t size_bytes)
{
    bt_device_group *base = &group->base;
    int64_t deadline_ns = bt_clock_ns() + base->timeout_ns;
    int fd = -1;
    bt_window *own = &region->of[base->group.rank];
    // All ranks agree before anything is sent: no rank waits for one that failed to allocate.
    const bt_status agreed = bt_device_group_agree(
        base->control, base->table->window_create(base->device, (size_t)size_bytes, own, &fd));
    bt_status status = agreed ? agreed : send_all(group, fd, deadline_ns);
    if (fd >= 0) {
        (void)close(fd);
    }
    BT_TRY(agreed);
    status = status ? status : receive_all(group, region, own->size_bytes, deadline_ns);
    return bt_device_group_agree(base->control, status);
}

bt_status bt_p2p_region_create(bt_p2p_group *group, int64_t size_bytes)
{
    if (group->region_count == BT_P2P_REGIONS_MAX || size_bytes <= 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a group has at most %d blocks of memory, each of 1 byte or more; this is "
                        "number %d of %lld bytes",
                        BT_P2P_REGIONS_MAX - 1, group->region_count, (long long)size_bytes);
    }
    bt_p2p_region *region = &group->regions[group->region_count];
    ++group->region_tries; // equal on all ranks, which call this together
    (void)pthread_mutex_lock(&group->base.lock);
    bt_status status = create(group, region, size_bytes);
    (void)pthread_mutex_unlock(&group->base.lock);
    if (status != BT_OK) {
        bt_p2p_region_destroy(group, region);
        return status;
    }
    ++group->region_count;
    return BT_OK;
}
