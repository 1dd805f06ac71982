#include "framework/dist/mpi.h"

#include <string.h>

#include "framework/base/plugin.h"
#include "framework/dist/cpu_group.h"
#include "framework/dist/mpi/transport.h"

static const bt_mpi_transport *transport; // of the one group that there can be; NULL: none

static void mpi_destroy(bt_group *base)
{
    const bt_mpi_transport *used = transport;
    bt_cpu_group *group = base->impl;
    bool failed = group->failed != BT_OK || atomic_load(&group->aborting) != 0;
    bt_cpu_group_destroy(base);
    transport = NULL;
    used->leave(failed);
}

static const bt_group_backend mpi_backend = {.name = "mpi",
                                             .all_reduce = bt_cpu_all_reduce,
                                             .reduce_scatter = bt_cpu_reduce_scatter,
                                             .all_gather = bt_cpu_all_gather,
                                             .all_to_all = bt_cpu_all_to_all,
                                             .broadcast = bt_cpu_broadcast,
                                             .send_recv = bt_cpu_send_recv,
                                             .barrier = bt_cpu_barrier,
                                             .split = bt_cpu_split,
                                             .check = bt_cpu_check,
                                             .abort = bt_cpu_group_abort,
                                             .destroy = mpi_destroy};

static bt_status open_transport(const bt_mpi_transport **out)
{
    void *symbol = NULL;
    bt_mpi_entry_fn entry = NULL;
    BT_TRY(bt_error_context(bt_plugin_symbol(BT_MPI_LIBRARY, BT_MPI_ENTRY, &symbol),
                            "no MPI backend"));
    memcpy(&entry, &symbol, sizeof entry); // as POSIX has it
    *out = entry();
    if ((*out)->abi != BT_MPI_ABI) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "%s belongs to another build (interface %d, expected %d)", BT_MPI_LIBRARY,
                        (*out)->abi, BT_MPI_ABI);
    }
    return BT_OK;
}

static bt_status make_group(const bt_mpi_transport *used, int64_t timeout_ns, bt_cpu_group **out)
{
    int rank;
    int size;
    BT_TRY(used->join(&rank, &size));
    bt_status status =
        size <= BT_GROUP_MAX_SIZE
            ? bt_cpu_group_create(&mpi_backend, rank, size, timeout_ns, out)
            : bt_error(BT_STATUS_INVALID_ARGUMENT, "a group has 1 to %d ranks, MPI has %d",
                       BT_GROUP_MAX_SIZE, size);
    if (status != BT_OK) {
        used->leave(true);
        return status;
    }
    transport = used;
    for (int peer = 0; peer < size && status == BT_OK; ++peer) {
        if (peer != rank) {
            status = used->channel(peer, &(*out)->peers[peer].channel);
        }
    }
    if (status != BT_OK) {
        (*out)->failed = status;
        bt_group_destroy(&(*out)->group);
    }
    return status;
}

bt_status bt_group_mpi_join(int64_t timeout_ns, bt_group **out)
{
    const bt_mpi_transport *used = NULL;
    bt_cpu_group *group = NULL;
    if (transport != NULL) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "this process has joined its MPI group before");
    }
    BT_TRY(open_transport(&used));
    BT_TRY(make_group(used, timeout_ns, &group));
    *out = &group->group;
    return BT_OK;
}
