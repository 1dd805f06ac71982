#include "framework/dist/host.h"

#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"
#include "framework/dist/mailbox.h"

static const bt_group_backend host_backend = {.name = "host", BT_CPU_COLLECTIVES};

bt_status bt_group_host_memory(int size, int *fd)
{
    bt_region region;
    BT_TRY(bt_region_create(size, fd, &region));
    bt_region_detach(&region);
    return BT_OK;
}

static bool is_near(const bt_place *places, int rank, int peer)
{
    return peer != rank && (places == NULL || places[peer].machine == places[rank].machine);
}

// Rings to the ranks of this host; all ranks when `places` is NULL.
static bt_status attach(bt_cpu_group *group, int fd, const bt_place *places)
{
    int rank = group->group.rank;
    bt_region *region;
    BT_TRY(bt_mem_alloc(1, sizeof *region, (void **)&region));
    bt_status status = bt_region_attach(fd, group->group.size, region);
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
    for (int peer = 0; peer < group->group.size; ++peer) {
        bt_channel *channel = &group->peers[peer].channel;
        if (!is_near(places, rank, peer)) {
            continue;
        }
        if (channel->ops != NULL) {
            channel->ops->close(channel->impl);
            *channel = (bt_channel){0};
        }
        BT_TRY(bt_ring_channel(region, rank, peer, channel));
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
    bt_status status = attach(group, fd, NULL);
    if (status != BT_OK) {
        bt_group_destroy(&group->group);
        return status;
    }
    *out = &group->group;
    return BT_OK;
}

// The lowest rank of each host makes its memory and sends it to the others there.
static bt_status share_memory(bt_cpu_group *group, const bt_place *places, const bt_mailbox *box,
                              int64_t deadline_ns)
{
    int rank = group->group.rank;
    int size = group->group.size;
    int lowest = rank;
    int near = 0;
    for (int peer = size - 1; peer >= 0; --peer) {
        lowest = is_near(places, rank, peer) && peer < lowest ? peer : lowest;
        near += is_near(places, rank, peer);
    }
    if (near == 0) {
        return BT_OK;
    }
    int fd = -1;
    uint64_t from = (uint64_t)lowest;
    bt_status status = lowest == rank ? bt_group_host_memory(size, &fd)
                                      : bt_mailbox_receive(box, deadline_ns, &from, &fd);
    for (int peer = rank + 1; lowest == rank && peer < size && status == BT_OK; ++peer) {
        if (is_near(places, rank, peer)) {
            status = bt_mailbox_send(box, places[peer].mailbox, from, fd, deadline_ns);
        }
    }
    if (status == BT_OK && from != (uint64_t)lowest) {
        status = bt_error(BT_STATUS_INTERNAL, "rank %d got the memory of rank %d's host from %d",
                          rank, lowest, (int)from);
    }
    status = status != BT_OK ? bt_error_context(status, "sharing memory with rank %d", lowest)
                             : attach(group, fd, places);
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

// Takes the sockets over, also on failure.
static bt_status make_channels(bt_cpu_group *group, const int *sockets)
{
    bt_status status = BT_OK;
    for (int peer = 0; peer < group->group.size; ++peer) {
        if (sockets[peer] >= 0) {
            bt_status made = bt_socket_channel(sockets[peer], &group->peers[peer].channel);
            status = status != BT_OK ? status : made;
        }
    }
    return status;
}

static bt_status connect_all(const bt_rendezvous *who, const bt_mailbox *box, int64_t timeout_ns,
                             int *sockets, bt_place *places, bt_group **out)
{
    int64_t deadline_ns = bt_clock_ns() + who->timeout_ns;
    bt_rendezvous self = *who;
    self.mailbox = box->name;
    BT_TRY(bt_rendezvous_connect(&self, sockets, places));
    bt_cpu_group *group;
    bt_status status = bt_cpu_group_create(&host_backend, who->rank, who->size, timeout_ns, &group);
    if (status != BT_OK) {
        for (int peer = 0; peer < who->size; ++peer) {
            if (sockets[peer] >= 0) {
                (void)close(sockets[peer]);
            }
        }
        return status;
    }
    status = make_channels(group, sockets);
    status = status != BT_OK ? status : share_memory(group, places, box, deadline_ns);
    if (status != BT_OK) {
        bt_group_destroy(&group->group);
        return status;
    }
    *out = &group->group;
    return BT_OK;
}

bt_status bt_group_host_connect(const bt_rendezvous *who, int64_t timeout_ns, bt_group **out)
{
    size_t size = (size_t)(who->size > 0 ? who->size : 1);
    int *sockets = NULL;
    bt_place *places = NULL;
    bt_mailbox box;
    BT_TRY(bt_mailbox_open(&box));
    bt_status status = bt_mem_alloc(size, sizeof *sockets, (void **)&sockets);
    status = status ? status : bt_mem_alloc(size, sizeof *places, (void **)&places);
    status = status ? status : connect_all(who, &box, timeout_ns, sockets, places, out);
    bt_mem_free(sockets);
    bt_mem_free(places);
    bt_mailbox_close(&box);
    return status;
}
