// framework/dist/collectives.c - the collectives as exchanges
//
// A reduction sends to each rank its segment, reduces the own segment over all ranks in the tree's
// order, and (all_reduce) sends the result to all. Long data go in chunks, so that scratch memory
// is bounded.
#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"
#include "framework/dist/reduce.h"

enum { SEGMENT_BYTES = 1 << 20 }; // of one rank in one chunk

static bt_cpu_group *cpu_group(bt_group *group) { return group->impl; }

static bt_signature signature(bt_call call, int64_t size)
{
    return (bt_signature){
        .size = size, .call = (int32_t)call, .dtype = -1, .reduction = -1, .root = -1};
}

static bt_status reserve(bt_cpu_group *group, int64_t size_bytes)
{
    if (size_bytes <= group->scratch_bytes) {
        return BT_OK;
    }
    BT_TRY(bt_mem_resize(&group->scratch, (size_t)size_bytes, 1));
    group->scratch_bytes = size_bytes;
    return BT_OK;
}

static void set_leg(bt_cpu_group *group, int peer, const void *out, int64_t out_bytes, void *in,
                    int64_t in_bytes)
{
    group->legs[peer] =
        (bt_leg){.out = out, .in = in, .out_bytes = out_bytes, .in_bytes = in_bytes};
}

static void move(void *to, const void *from, int64_t size_bytes)
{
    if (to != from && size_bytes > 0) {
        memmove(to, from, (size_t)size_bytes);
    }
}

// What is dealt out to the ranks: segment s is [s * stride, s * stride + length), cut at count.
typedef struct bt_split {
    const char *in;
    int64_t count, stride, length;
} bt_split;

static int64_t split_begin(const bt_split *split, int segment)
{
    int64_t begin = split->stride * segment;
    return begin < split->count ? begin : split->count;
}

static int64_t split_length(const bt_split *split, int segment)
{
    int64_t left = split->count - split_begin(split, segment);
    return left < split->length ? left : split->length;
}

// out = the reduction over the ranks of this rank's segment.
static bt_status reduce_segment(bt_cpu_group *group, const bt_signature *call,
                                const bt_split *split, void *out)
{
    bt_dtype dtype = (bt_dtype)call->dtype;
    int64_t width = (int64_t)bt_dtype_size(dtype);
    int rank = group->group.rank;
    int64_t own = split_length(split, rank);
    int64_t own_bytes = own * width;
    BT_TRY(reserve(group, own_bytes * group->group.size));
    for (int peer = 0; peer < group->group.size; ++peer) {
        int64_t begin = split_begin(split, peer);
        int64_t bytes = split_length(split, peer) * width;
        char *slot = (char *)group->scratch + own_bytes * peer;
        set_leg(group, peer, split->in + begin * width, bytes, slot, own_bytes);
        group->parts[peer] = slot;
    }
    group->parts[rank] = split->in + split_begin(split, rank) * width;
    BT_TRY(bt_exchange(group, call));
    if (own > 0) {
        bt_reduce_tree(group->parts, group->group.size, out, own, dtype,
                       (bt_reduction)call->reduction);
    }
    return BT_OK;
}

static bt_signature reduce_signature(bt_call call, int64_t count, bt_dtype dtype,
                                     bt_reduction reduction)
{
    bt_signature mine = signature(call, count);
    mine.dtype = (int32_t)dtype;
    mine.reduction = (int32_t)reduction;
    return mine;
}

static bt_status all_reduce_chunk(bt_cpu_group *group, const bt_signature *call, char *data,
                                  int64_t count)
{
    int64_t width = (int64_t)bt_dtype_size((bt_dtype)call->dtype);
    int size = group->group.size;
    int64_t stride = (count + size - 1) / size;
    bt_split split = {.in = data, .count = count, .stride = stride, .length = stride};
    int64_t begin = split_begin(&split, group->group.rank);
    int64_t bytes = split_length(&split, group->group.rank) * width;
    BT_TRY(reduce_segment(group, call, &split, data + begin * width));
    for (int peer = 0; peer < size; ++peer) {
        int64_t at = split_begin(&split, peer);
        set_leg(group, peer, data + begin * width, bytes, data + at * width,
                split_length(&split, peer) * width);
    }
    return bt_exchange(group, call);
}

bt_status bt_cpu_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream)
{
    (void)stream;
    bt_signature call = reduce_signature(BT_CALL_ALL_REDUCE, count, dtype, reduction);
    int64_t width = (int64_t)bt_dtype_size(dtype);
    int64_t chunk = SEGMENT_BYTES / width * group->size;
    int64_t begin = 0;
    do { // once at least: ranks that give nothing wait for each other, too
        int64_t length = count - begin < chunk ? count - begin : chunk;
        BT_TRY(all_reduce_chunk(cpu_group(group), &call, (char *)data + begin * width, length));
        begin += length;
    } while (begin < count);
    return BT_OK;
}

bt_status bt_cpu_reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    (void)stream;
    bt_cpu_group *self = cpu_group(group);
    bt_signature call = reduce_signature(BT_CALL_REDUCE_SCATTER, count, dtype, reduction);
    int64_t width = (int64_t)bt_dtype_size(dtype);
    int64_t chunk = SEGMENT_BYTES / width;
    int64_t begin = 0;
    do {
        bt_split split = {.in = (const char *)in + begin * width,
                          .count = count * group->size - begin,
                          .stride = count,
                          .length = count - begin < chunk ? count - begin : chunk};
        BT_TRY(reduce_segment(self, &call, &split, (char *)out + begin * width));
        begin += split.length;
    } while (begin < count);
    return BT_OK;
}

bt_status bt_cpu_all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    (void)stream;
    bt_signature call = signature(BT_CALL_ALL_GATHER, size_bytes);
    for (int peer = 0; peer < group->size; ++peer) {
        set_leg(cpu_group(group), peer, in, size_bytes, (char *)out + size_bytes * peer,
                size_bytes);
    }
    BT_TRY(bt_exchange(cpu_group(group), &call));
    move((char *)out + size_bytes * group->rank, in, size_bytes);
    return BT_OK;
}

bt_status bt_cpu_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    (void)stream;
    bt_signature call = signature(BT_CALL_ALL_TO_ALL, size_bytes);
    for (int peer = 0; peer < group->size; ++peer) {
        set_leg(cpu_group(group), peer, (const char *)in + size_bytes * peer, size_bytes,
                (char *)out + size_bytes * peer, size_bytes);
    }
    BT_TRY(bt_exchange(cpu_group(group), &call));
    move((char *)out + size_bytes * group->rank, (const char *)in + size_bytes * group->rank,
         size_bytes);
    return BT_OK;
}

bt_status bt_cpu_broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream)
{
    (void)stream;
    bt_signature call = signature(BT_CALL_BROADCAST, size_bytes);
    call.root = root;
    for (int peer = 0; peer < group->size; ++peer) { // the others send an empty message
        set_leg(cpu_group(group), peer, data, group->rank == root ? size_bytes : 0, data,
                peer == root ? size_bytes : 0);
    }
    return bt_exchange(cpu_group(group), &call);
}

bt_status bt_cpu_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                           int64_t size_bytes, bt_stream stream)
{
    (void)stream;
    bt_signature call = signature(BT_CALL_SEND_RECV, size_bytes);
    for (int peer = 0; peer < group->size; ++peer) {
        set_leg(cpu_group(group), peer, out, peer == to ? size_bytes : -1, in,
                peer == from ? size_bytes : -1);
    }
    BT_TRY(bt_exchange(cpu_group(group), &call));
    if (to == group->rank && from == group->rank) {
        move(in, out, size_bytes);
    }
    return BT_OK;
}

bt_status bt_cpu_barrier(bt_group *group, bt_stream stream)
{
    (void)stream;
    bt_signature call = signature(BT_CALL_BARRIER, 0);
    for (int peer = 0; peer < group->size; ++peer) {
        set_leg(cpu_group(group), peer, NULL, 0, NULL, 0);
    }
    return bt_exchange(cpu_group(group), &call);
}
