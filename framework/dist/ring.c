// framework/dist/ring.c - a channel over two ring buffers in shared memory
#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"

typedef struct ring_channel {
    bt_ring *out, *in; // borrowed, of the region
} ring_channel;

static bt_status ring_write(void *impl, const void *data, int64_t size_bytes, int64_t *done)
{
    bt_ring *ring = ((ring_channel *)impl)->out;
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    uint64_t read = atomic_load_explicit(&ring->read, memory_order_acquire);
    uint64_t room = BT_REGION_RING_BYTES - (written - read);
    uint64_t size = (uint64_t)size_bytes < room ? (uint64_t)size_bytes : room;
    uint64_t at = written % BT_REGION_RING_BYTES;
    uint64_t head = size < BT_REGION_RING_BYTES - at ? size : BT_REGION_RING_BYTES - at;
    memcpy(ring->data + at, data, head);
    memcpy(ring->data, (const char *)data + head, size - head);
    atomic_store_explicit(&ring->written, written + size, memory_order_release);
    *done = (int64_t)size;
    return BT_OK;
}

static bt_status ring_read(void *impl, void *data, int64_t size_bytes, int64_t *done)
{
    bt_ring *ring = ((ring_channel *)impl)->in;
    uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    uint64_t there = atomic_load_explicit(&ring->written, memory_order_acquire) - read;
    uint64_t size = (uint64_t)size_bytes < there ? (uint64_t)size_bytes : there;
    uint64_t at = read % BT_REGION_RING_BYTES;
    uint64_t head = size < BT_REGION_RING_BYTES - at ? size : BT_REGION_RING_BYTES - at;
    memcpy(data, ring->data + at, head);
    memcpy((char *)data + head, ring->data, size - head);
    atomic_store_explicit(&ring->read, read + size, memory_order_release);
    *done = (int64_t)size;
    return BT_OK;
}

static bool ring_closed(void *impl)
{
    (void)impl; // the region has the state of its members
    return false;
}

static void ring_abort(void *impl)
{
    (void)impl; // the region has an abort word
}

static const bt_channel_ops ring_ops = {ring_write, ring_read, ring_closed, ring_abort,
                                        bt_mem_free};

bt_status bt_ring_channel(const bt_region *region, int rank, int peer, bt_channel *channel)
{
    void *impl;
    BT_TRY(bt_mem_alloc(1, sizeof(ring_channel), &impl));
    *(ring_channel *)impl = (ring_channel){.out = bt_region_ring(region, rank, peer),
                                           .in = bt_region_ring(region, peer, rank)};
    *channel = (bt_channel){.ops = &ring_ops, .impl = impl};
    return BT_OK;
}
