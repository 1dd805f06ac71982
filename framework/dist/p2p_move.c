// framework/dist/p2p_move.c - all-gather, all-to-all, broadcast, point to point, reads, barrier
//
// Except for reads, the sender stores into the receiver's memory: directly into the result if that
// is in memory of the group, else in pieces into a slot of the receiver's staging memory. send_recv
// always uses a slot: its sender does not know where the receiver wants the data.
#include "framework/dist/p2p_group.h"

enum { ENGINE_BYTES = 64 << 20 }; // per rank; from this size on copy engines gather faster

enum {
    CALL_ALL_GATHER = 16,
    CALL_ALL_GATHER_ROWS,
    CALL_ALL_TO_ALL,
    CALL_ALL_TO_OTHERS,
    CALL_BROADCAST,
    CALL_SEND_RECV,
    CALL_BARRIER,
    CALL_STEP
};

// This rank's part of a move: `size_bytes` to each receiver and from each sender.
typedef struct move {
    const char *from[BT_P2P_RANKS_MAX]; // data for each rank; NULL: none
    const bt_byte_rows *rows;           // `from` is the first of these rows; NULL: one block
    char *packed;                       // memory for the rows without gaps, if kernels send them
    char *to[BT_P2P_RANKS_MAX];         // destination of each rank's data; NULL: none
    int64_t size_bytes;
    uint32_t mask; // of the ranks that take part
    uint32_t call;
    bt_stream stream;
    const bt_p2p_region *region; // region of the result; NULL: staged
    const char *land;          // destination at the other ranks, as the equal address of this rank
    const bt_group_step *step; // NULL: no parts
    bt_event after;            // when the data may be read; NULL: at once
} move;

static bt_p2p_group *self_of(bt_group *group) { return group->impl; }

static uint32_t everyone(const bt_p2p_group *group)
{
    return ((1U << group->base.group.size) - 1) & ~(1U << group->base.group.rank);
}

static bt_status launch(bt_p2p_group *group, const move *what, bt_p2p_push *push,
                        int64_t size_bytes)
{
    push->mask = what->mask;
    push->call = what->call;
    push->blocks = bt_p2p_blocks(size_bytes);
    return group->base.table->push(group->base.device, what->stream, &group->view, push);
}

static bt_status own_part(bt_p2p_group *group, const move *what)
{
    int rank = group->base.group.rank;
    return what->from[rank] != NULL && what->to[rank] != NULL
               ? bt_p2p_copy(group, what->to[rank], what->from[rank], what->size_bytes,
                             what->stream)
               : BT_OK;
}

static bt_status direct(bt_p2p_group *group, const move *what)
{
    bt_p2p_push push = {0};
    for (int peer = 0; peer < group->base.group.size; ++peer) {
        if (peer != group->base.group.rank && what->from[peer] != NULL) {
            push.from[peer] = what->from[peer];
            push.to[peer] = bt_p2p_region_at(group, what->region, what->land, peer);
            push.bytes[peer] = what->size_bytes;
        }
    }
    BT_TRY(launch(group, what, &push, what->size_bytes));
    return own_part(group, what);
}

static bt_status staged(bt_p2p_group *group, const move *what)
{
    int rank = group->base.group.rank;
    int size = group->base.group.size;
    int64_t slot = group->options.staging_bytes / size / 16 * 16;
    for (int64_t at = 0; at < what->size_bytes; at += slot) {
        int64_t bytes = what->size_bytes - at < slot ? what->size_bytes - at : slot;
        bt_p2p_push push = {0};
        for (int peer = 0; peer < size; ++peer) {
            if (peer != rank && what->from[peer] != NULL) {
                push.from[peer] = what->from[peer] + at;
                push.to[peer] = bt_p2p_staging(group, peer) + slot * rank;
                push.bytes[peer] = bytes;
            }
        }
        BT_TRY(launch(group, what, &push, bytes));
        for (int peer = 0; peer < size; ++peer) {
            if (peer != rank && what->to[peer] != NULL) {
                BT_TRY(bt_p2p_copy(group, what->to[peer] + at,
                                   bt_p2p_staging(group, rank) + slot * peer, bytes, what->stream));
            }
        }
    }
    return own_part(group, what);
}

// The address in rank `peer`'s memory of a word in this rank's.
static uint32_t *word_at(const bt_p2p_group *group, const uint32_t *word, int peer)
{
    return (uint32_t *)(void *)bt_p2p_region_at(group, &group->regions[0], word, peer);
}

// A block in parts, each when it is there.
static bt_status send_parts(bt_p2p_group *group, const move *what, char *to, int peer)
{
    const bt_device_collectives *table = group->base.table;
    bt_device *device = group->base.device;
    const bt_group_step *step = what->step;
    const int64_t bytes = what->size_bytes / step->parts;
    for (int part = 0; part < step->parts; ++part) {
        BT_TRY(step->produced ? table->await_mark(device, what->stream, &step->produced[part])
                              : BT_OK);
        BT_TRY(bt_p2p_copy(group, to + part * bytes, what->from[peer] + part * bytes, bytes,
                           what->stream));
        BT_TRY(step->arrived ? table->mark(device, what->stream,
                                           word_at(group, &step->arrived[part], peer), 1)
                             : BT_OK);
    }
    return BT_OK;
}

static bt_status by_engines(bt_p2p_group *group, const move *what)
{
    bt_device *device = group->base.device;
    int size = group->base.group.size;
    BT_TRY(bt_p2p_copies_begin(group, what->stream));
    BT_TRY(what->after ? device->backend->event_wait(device, what->after, what->stream) : BT_OK);
    for (int step = 1; step < size; ++step) {
        int peer = (group->base.group.rank + step) % size;
        char *to = bt_p2p_region_at(group, what->region, what->land, peer);
        if (what->from[peer] == NULL) {
            continue;
        }
        if (what->step != NULL) {
            BT_TRY(send_parts(group, what, to, peer));
            continue;
        }
        BT_TRY(what->rows != NULL
                   ? device->backend->copy_rows(device, to, what->rows->row_bytes, what->rows,
                                                what->stream)
                   : bt_p2p_copy(group, to, what->from[peer], what->size_bytes, what->stream));
    }
    BT_TRY(own_part(group, what));
    return bt_p2p_copies_end(group, what->stream);
}

// Kernels send blocks only.
static bt_status pack(bt_p2p_group *group, move *what)
{
    bt_device *device = group->base.device;
    if (what->rows == NULL || bt_byte_rows_are_block(what->rows, what->size_bytes)) {
        return BT_OK;
    }
    BT_TRY(device->backend->copy_rows(device, what->packed, what->rows->row_bytes, what->rows,
                                      what->stream));
    for (int peer = 0; peer < group->base.group.size; ++peer) {
        what->from[peer] = what->from[peer] != NULL ? what->packed : NULL;
    }
    return BT_OK;
}

static bt_status run(bt_p2p_group *group, move *what)
{
    if (what->size_bytes == 0) {
        return BT_OK;
    }
    BT_TRY(pack(group, what));
    BT_TRY(bt_p2p_enter(group, &group->kernels, what->stream));
    BT_TRY(what->region != NULL ? direct(group, what) : staged(group, what));
    return bt_p2p_leave(group, &group->kernels, what->stream);
}

// All-gather, all-to-all (or -others): every rank sends to every rank, and `out` has a part for
// each.
static bt_status to_everyone(bt_group *base, move *what, void *out, int64_t size_bytes)
{
    bt_p2p_group *group = self_of(base);
    what->size_bytes = size_bytes;
    what->mask = everyone(group);
    what->region = bt_p2p_region_find(group, out, size_bytes * base->size);
    what->land = (char *)out + size_bytes * base->rank;
    for (int peer = 0; peer < base->size; ++peer) {
        what->to[peer] = (char *)out + size_bytes * peer;
    }
    if (what->region != NULL && size_bytes > 0 &&
        (group->options.engines || size_bytes >= ENGINE_BYTES)) {
        return by_engines(group, what);
    }
    return run(group, what);
}

bt_status bt_p2p_all_gather(bt_group *base, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    BT_TRY(bt_device_group_check(base));
    move what = {.call = bt_p2p_call(CALL_ALL_GATHER, size_bytes, -1, -1, -1), .stream = stream};
    for (int peer = 0; peer < base->size; ++peer) {
        what.from[peer] = in;
    }
    return to_everyone(base, &what, out, size_bytes);
}

bt_status bt_p2p_all_gather_rows(bt_group *base, const bt_byte_rows *in, void *out,
                                 int64_t size_bytes, bt_stream stream)
{
    BT_TRY(bt_device_group_check(base));
    move what = {.rows = in,
                 .packed = (char *)out + size_bytes * base->rank,
                 .call = bt_p2p_call(CALL_ALL_GATHER_ROWS, size_bytes, -1, -1, -1),
                 .stream = stream};
    for (int peer = 0; peer < base->size; ++peer) {
        what.from[peer] = peer != base->rank ? in->data : NULL;
    }
    return to_everyone(base, &what, out, size_bytes);
}

bt_status bt_p2p_all_to_all(bt_group *base, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    BT_TRY(bt_device_group_check(base));
    move what = {.call = bt_p2p_call(CALL_ALL_TO_ALL, size_bytes, -1, -1, -1), .stream = stream};
    for (int peer = 0; peer < base->size; ++peer) {
        what.from[peer] = (const char *)in + size_bytes * peer;
    }
    return to_everyone(base, &what, out, size_bytes);
}

bt_status bt_p2p_all_to_others(bt_group *base, const void *in, void *out, int64_t size_bytes,
                               bt_stream stream)
{
    BT_TRY(bt_device_group_check(base));
    move what = {.call = bt_p2p_call(CALL_ALL_TO_OTHERS, size_bytes, -1, -1, -1), .stream = stream};
    for (int peer = 0; peer < base->size; ++peer) {
        what.from[peer] = peer != base->rank ? (const char *)in + size_bytes * peer : NULL;
    }
    return to_everyone(base, &what, out, size_bytes);
}

bt_status bt_p2p_broadcast(bt_group *base, void *data, int64_t size_bytes, int root,
                           bt_stream stream)
{
    bt_p2p_group *group = self_of(base);
    BT_TRY(bt_device_group_check(base));
    move what = {.size_bytes = size_bytes,
                 .mask = everyone(group),
                 .call = bt_p2p_call(CALL_BROADCAST, size_bytes, -1, -1, root),
                 .stream = stream,
                 .region = bt_p2p_region_find(group, data, size_bytes),
                 .land = data};
    for (int peer = 0; peer < base->size && base->rank == root; ++peer) {
        what.from[peer] = peer != root ? data : NULL;
    }
    what.to[root] = base->rank != root ? data : NULL;
    return run(group, &what);
}

bt_status bt_p2p_send_recv(bt_group *base, const void *out, int to, void *in, int from,
                           int64_t size_bytes, bt_stream stream)
{
    BT_TRY(bt_device_group_check(base));
    move what = {.size_bytes = size_bytes,
                 .call = bt_p2p_call(CALL_SEND_RECV, size_bytes, -1, -1, -1),
                 .stream = stream};
    if (to >= 0) {
        what.from[to] = out;
        what.mask |= 1U << to;
    }
    if (from >= 0) {
        what.to[from] = in;
        what.mask |= 1U << from;
    }
    what.mask &= ~(1U << base->rank);
    return what.mask != 0 ? run(self_of(base), &what) : own_part(self_of(base), &what);
}

bt_status bt_p2p_exchange_step(bt_group *base, const bt_group_step *step, void *out,
                               int64_t size_bytes, bt_stream stream)
{
    bt_p2p_group *group = self_of(base);
    const int to = (base->rank + step->distance) % base->size;
    const int from = (base->rank - step->distance + base->size) % base->size;
    char *own = (char *)out + size_bytes * bt_group_step_block(base, step, base->rank);
    BT_TRY(bt_device_group_check(base));
    move what = {.rows = &step->data,
                 .packed = own,
                 .size_bytes = size_bytes,
                 .mask = 1U << to | 1U << from,
                 .call = bt_p2p_call(CALL_STEP, size_bytes, step->distance, step->hops, -1),
                 .stream = stream,
                 .region = bt_p2p_region_find(group, out, size_bytes * base->size),
                 .land = own,
                 .step = step->parts ? step : NULL,
                 .after = step->after};
    what.from[to] = step->data.data;
    what.to[from] = (char *)out + size_bytes * bt_group_step_block(base, step, from);
    if (step->parts && (what.region == NULL || !group->options.engines)) {
        return bt_error(BT_STATUS_UNSUPPORTED, "exchange_step: copy engines send parts, and only "
                                               "into memory of the group");
    }
    if (what.region != NULL && group->options.engines && size_bytes > 0) {
        return by_engines(group, &what);
    }
    BT_TRY(step->after
               ? group->base.device->backend->event_wait(group->base.device, step->after, stream)
               : BT_OK);
    return run(group, &what);
}

// Where the rows are in their owner's memory; NULL: not in memory of the group.
static const char *rows_at_owner(const bt_p2p_group *group, const bt_group_read *read)
{
    const bt_p2p_region *region =
        bt_p2p_region_find(group, read->from, read->rows * read->row_bytes);
    return region ? bt_p2p_region_at(group, region, read->from, read->rank) : NULL;
}

bt_status bt_p2p_read_rows(bt_group *base, const bt_group_read *reads, int count, bt_stream stream)
{
    bt_p2p_group *group = self_of(base);
    bt_device *device = group->base.device;
    BT_TRY(bt_device_group_check(base));
    for (int i = 0; i < count; ++i) {
        if (reads[i].rows * reads[i].row_bytes > 0 && !rows_at_owner(group, &reads[i])) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "read_rows: %lld bytes of rank %d are not memory of the group",
                            (long long)(reads[i].rows * reads[i].row_bytes), reads[i].rank);
        }
    }
    BT_TRY(bt_p2p_copies_begin(group, stream));
    for (int i = 0; i < count; ++i) {
        const bt_group_read *read = &reads[i];
        const bt_byte_rows rows = {rows_at_owner(group, read), read->rows, read->row_bytes,
                                   read->row_bytes};
        BT_TRY(device->backend->copy_rows(device, read->to, read->pitch_bytes, &rows, stream));
    }
    return bt_p2p_copies_end(group, stream);
}

bt_status bt_p2p_barrier(bt_group *base, bt_stream stream)
{
    bt_p2p_group *group = self_of(base);
    BT_TRY(bt_device_group_check(base));
    bt_p2p_push nothing = {0};
    move what = {.mask = everyone(group),
                 .call = bt_p2p_call(CALL_BARRIER, 0, -1, -1, -1),
                 .stream = stream};
    BT_TRY(bt_p2p_enter(group, &group->kernels, stream));
    BT_TRY(launch(group, &what, &nothing, 0));
    return bt_p2p_leave(group, &group->kernels, stream);
}
