#include "framework/dist/host.h"

#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"

static const bt_group_backend host_backend = {.name = "host", BT_CPU_COLLECTIVES};

bt_status bt_group_host_memory(int size, int *fd)
{
    bt_region region;
    BT_TRY(bt_region_create(size, fd, &region));
    bt_region_detach(&region);
    return BT_OK;
}

static bt_status attach(bt_cpu_group *group, int fd, int rank, int size)
{
    bt_region *region;
    BT_TRY(bt_mem_alloc(1, sizeof *region, (void **)&region));
    bt_status status = bt_region_attach(fd, size, region);
    if (status == BT_OK) {
        status = bt_region_join(region, rank);
        if (status != BT_OK) {
            bt_region_detach(region); // without leaving: the rank is another process's
        }
    }
    if (status != BT_OK) {
        bt_mem_free(region);
        return status;
    }
    group->region = region;
    for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
            BT_TRY(bt_ring_channel(region, rank, peer, &group->peers[peer].channel));
        }
    }
    return BT_OK;
}

bt_status bt_group_host_join(int fd, int rank, int size, int64_t timeout_ns, bt_group **out)
{
    if (size < 1 || size > BT_GROUP_MAX_SIZE || rank < 0 || rank >= size) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "expected a rank below %d ranks, got rank %d",
                        size, rank);
    }
    bt_cpu_group *group;
    BT_TRY(bt_cpu_group_create(&host_backend, rank, size, timeout_ns, &group));
    bt_status status = attach(group, fd, rank, size);
    if (status != BT_OK) {
        bt_group_destroy(&group->group);
        return status;
    }
    *out = &group->group;
    return BT_OK;
}

bt_status bt_group_host_connect(const bt_rendezvous *who, int64_t timeout_ns, bt_group **out)
{
    int *sockets;
    BT_TRY(
        bt_mem_alloc((size_t)(who->size > 0 ? who->size : 1), sizeof *sockets, (void **)&sockets));
    bt_cpu_group *group = NULL;
    bt_status status = bt_rendezvous_connect(who, sockets);
    bool connected = status == BT_OK;
    if (connected) {
        status = bt_cpu_group_create(&host_backend, who->rank, who->size, timeout_ns, &group);
    }
    for (int peer = 0; connected && peer < who->size; ++peer) {
        if (sockets[peer] < 0) {
            continue;
        }
        bt_channel unused = {0};
        bt_channel *channel = group != NULL ? &group->peers[peer].channel : &unused;
        bt_status made = bt_socket_channel(sockets[peer], channel);
        if (made == BT_OK && group == NULL) {
            channel->ops->close(channel->impl);
        }
        status = status != BT_OK ? status : made;
    }
    bt_mem_free(sockets);
    if (status != BT_OK) {
        bt_group_destroy(group != NULL ? &group->group : NULL);
        return status;
    }
    *out = &group->group;
    return BT_OK;
}
