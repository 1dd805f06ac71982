#include "framework/dist/cpu_group.h"

#include <stdio.h>
#include <unistd.h>

#include "framework/base/mem.h"

static bt_status alloc_members(bt_cpu_group *group, size_t size)
{
    BT_TRY(bt_mem_alloc(size, sizeof *group->peers, (void **)&group->peers));
    BT_TRY(bt_mem_alloc(size, sizeof *group->legs, (void **)&group->legs));
    return bt_mem_alloc(size, sizeof *group->parts, (void **)&group->parts);
}

bt_status bt_cpu_group_create(const bt_group_backend *backend, int rank, int size,
                              int64_t timeout_ns, bt_cpu_group **out)
{
    bt_cpu_group *group;
    BT_TRY(bt_mem_alloc(1, sizeof *group, (void **)&group));
    group->group = (bt_group){.backend = backend, .rank = rank, .size = size, .impl = group};
    group->timeout_ns = timeout_ns;
    if (pthread_mutex_init(&group->lock, NULL) != 0) {
        bt_mem_free(group);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot create a mutex for a group");
    }
    bt_status status = alloc_members(group, (size_t)size);
    if (status != BT_OK) {
        bt_cpu_group_destroy(&group->group);
        return status;
    }
    for (int peer = 0; peer < size; ++peer) {
        group->peers[peer].pidfd = -1;
    }
    *out = group;
    return BT_OK;
}

static void release_region(bt_cpu_group *group)
{
    bt_region_leave(group->region, group->group.rank);
    bool last = !group->shared_region || atomic_fetch_sub(&group->region->head->users, 1) == 1;
    if (last) {
        bt_region_detach(group->region);
        bt_mem_free(group->region);
    }
}

void bt_cpu_group_destroy(bt_group *base)
{
    bt_cpu_group *group = base->impl;
    for (int peer = 0; group->peers != NULL && peer < base->size; ++peer) {
        bt_peer *member = &group->peers[peer];
        if (member->channel.ops != NULL) {
            member->channel.ops->close(member->channel.impl);
        }
        if (member->pidfd >= 0) {
            (void)close(member->pidfd);
        }
    }
    if (group->region != NULL) {
        release_region(group);
    }
    (void)pthread_mutex_destroy(&group->lock);
    bt_mem_free(group->members);
    bt_mem_free(group->peers);
    bt_mem_free(group->legs);
    bt_mem_free(group->parts);
    bt_mem_free(group->scratch);
    bt_mem_free(group);
}

void bt_cpu_group_abort(bt_group *base, const char *reason)
{
    bt_cpu_group *group = base->impl;
    if (group->whole != NULL) {
        bt_cpu_group_abort(&group->whole->group, reason);
        return;
    }
    int none = 0;
    if (!atomic_compare_exchange_strong(&group->aborting, &none, 1)) {
        return;
    }
    (void)snprintf(group->abort_reason, sizeof group->abort_reason, "%s", reason);
    atomic_store_explicit(&group->aborting, 2, memory_order_release);
    if (group->region != NULL) {
        bt_region_abort(group->region, base->rank, reason);
    }
    for (int peer = 0; peer < base->size; ++peer) {
        bt_channel *channel = &group->peers[peer].channel;
        if (channel->ops != NULL) {
            channel->ops->abort(channel->impl);
        }
    }
}
