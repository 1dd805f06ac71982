#include "framework/dist/threads.h"

#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"

static const bt_group_backend threads_backend = {.name = "threads", BT_CPU_COLLECTIVES};

static bt_status create_rank(bt_region *region, int rank, int64_t timeout_ns, bt_group **out)
{
    bt_cpu_group *group;
    int size = region->head->size;
    BT_TRY(bt_cpu_group_create(&threads_backend, rank, size, timeout_ns, &group));
    *out = &group->group;
    group->region = region;
    group->shared_region = true;
    (void)atomic_fetch_add(&region->head->users, 1);
    BT_TRY(bt_region_join(region, rank));
    for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
            BT_TRY(bt_ring_channel(region, rank, peer, &group->peers[peer].channel));
        }
    }
    return BT_OK;
}

bt_status bt_group_threads_create(int size, int64_t timeout_ns, bt_group **groups)
{
    bt_region made;
    bt_region *region;
    BT_TRY(bt_region_create(size, NULL, &made));
    bt_status status = bt_mem_alloc(1, sizeof *region, (void **)&region);
    if (status != BT_OK) {
        bt_region_detach(&made);
        return status;
    }
    *region = made;
    (void)atomic_fetch_add(&region->head->users, 1); // this function's
    for (int rank = 0; rank < size; ++rank) {
        groups[rank] = NULL;
    }
    for (int rank = 0; rank < size && status == BT_OK; ++rank) {
        status = create_rank(region, rank, timeout_ns, &groups[rank]);
    }
    for (int rank = 0; rank < size && status != BT_OK; ++rank) {
        bt_group_destroy(groups[rank]);
        groups[rank] = NULL;
    }
    if (atomic_fetch_sub(&region->head->users, 1) == 1) {
        bt_region_detach(region);
        bt_mem_free(region);
    }
    return status;
}
