// framework/dist/context_ring.c - blocks of keys and values between the ranks of a group
//
// Invariants
//   1. Blocks are at equal offsets on all ranks: that of rank r in slot r.
//   2. No rank writes another rank's block before that rank sends its own: in send the ring's
//      stream waits for the context's, and each collective waits for its peers' streams.
//   3. When the last step is fetched and gradients are collected, the context's stream has waited
//      for all copies of the round, those included that another rank made from this rank's memory,
//      so the next round may overwrite every slot.
#include "framework/dist/context_ring.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/agree.h"

static const char *const rotation_names[] = {
#define BT_ROTATION_NAME(name, text) text,
    BT_ROTATION_LIST(BT_ROTATION_NAME)
#undef BT_ROTATION_NAME
};

const char *bt_rotation_name(bt_rotation rotation) { return rotation_names[rotation]; }

bool bt_rotation_parse(const char *name, bt_rotation *rotation)
{
    for (int i = 0; i < BT_ROTATION_COUNT; ++i) {
        if (strcmp(name, rotation_names[i]) == 0) {
            *rotation = (bt_rotation)i;
            return true;
        }
    }
    return false;
}

struct bt_context_ring {
    bt_ring ring; // self points here
    bt_group *group;
    bt_rotation rotation;
    bt_device *device;   // of the first round; borrowed. NULL: there was none
    bt_stream stream;    // owned
    bt_event produced;   // owned; the context's stream has written the data to send
    bt_event *arrived;   // owned [size]: block of a step; [0]: the gradients
    char *memory;        // [3, size, capacity]: blocks, gradients given, gradients received
    bool owns_memory;    // else it is the group's
    int64_t capacity;    // bytes of a slot
    int64_t allocated;   // bytes in all, outgrown memory of the group included
    int64_t block_bytes; // of this round; distance between slots
};

enum { BLOCKS, GIVEN, RECEIVED, PARTS };

static bt_context_ring *self_of(void *self) { return self; }

static char *slot(const bt_context_ring *r, int part, int index)
{
    return r->memory + ((int64_t)part * r->ring.size + index) * r->block_bytes;
}

// The rank at a distance, positive or negative.
static int rank_at(const bt_context_ring *r, int distance)
{
    return (r->ring.rank + distance + r->ring.size) % r->ring.size;
}

static bt_status open_queues(bt_context_ring *r, bt_device *device)
{
    const bt_backend *backend = device->backend;
    r->device = device;
    BT_TRY(backend->stream_create(device, true, &r->stream));
    BT_TRY(backend->event_create(device, &r->produced));
    for (int i = 0; i < r->ring.size; ++i) {
        BT_TRY(backend->event_create(device, &r->arrived[i]));
    }
    return BT_OK;
}

static void free_memory(bt_context_ring *r)
{
    if (r->owns_memory && r->memory) {
        r->device->backend->memory_free(r->device, r->memory);
    }
    r->memory = NULL;
}

// Makes room for blocks of this size. Group memory is freed only with the group.
static bt_status reserve(bt_context_ring *r, bt_context *context, int64_t block_bytes)
{
    const bt_backend *backend = r->device->backend;
    const int64_t capacity = bt_group_memory_grown(r->capacity, block_bytes);
    const int64_t bytes = PARTS * r->ring.size * capacity;
    void *memory = NULL;
    if (block_bytes <= r->capacity) {
        return BT_OK;
    }
    BT_TRY(backend->stream_synchronize(r->device, context->stream));
    BT_TRY(backend->stream_synchronize(r->device, r->stream));
    r->allocated -= r->owns_memory ? PARTS * r->ring.size * r->capacity : 0;
    free_memory(r);
    r->capacity = 0;
    BT_TRY(bt_group_memory(r->group, bytes, &memory));
    r->owns_memory = !memory;
    if (!memory) {
        BT_TRY(backend->memory_alloc(r->device, (size_t)bytes, &memory));
    }
    r->memory = memory;
    r->capacity = capacity;
    r->allocated += bytes;
    return BT_OK;
}

// Makes the ring's stream wait for the work submitted to the context's stream so far.
static bt_status follow(bt_context_ring *r, bt_context *context)
{
    BT_TRY(r->device->backend->event_record(r->device, r->produced, context->stream));
    return r->device->backend->event_wait(r->device, r->produced, r->stream);
}

static bt_status mark(bt_context_ring *r, int index)
{
    return r->device->backend->event_record(r->device, r->arrived[index], r->stream);
}

// Around exchanges. On the CPU they are complete when they return, so the rank waits here and not
// in await.
static void enter(const bt_context_ring *r, bt_context *context)
{
    if (!r->group->backend->on_gpu) {
        bt_range_push(context, "communication");
    }
}

static void leave(const bt_context_ring *r, bt_context *context)
{
    if (!r->group->backend->on_gpu) {
        bt_range_pop(context);
    }
}

// Waits for other ranks, in the range `communication`.
static bt_status await(bt_context_ring *r, bt_context *context, int index)
{
    bt_range_push(context, "communication");
    bt_status status =
        r->device->backend->event_wait(r->device, r->arrived[index], context->stream);
    bt_range_pop(context);
    return status;
}

static bt_status ring_begin(void *self, bt_context *context, int64_t block_bytes)
{
    bt_context_ring *r = self_of(self);
    const int64_t aligned =
        block_bytes > 0 ? (block_bytes + 255) / 256 * 256 : 256; // slots have addresses
    if (!r->device) {
        BT_TRY(open_queues(r, context->device));
    }
    BT_TRY(reserve(r, context, aligned));
    r->block_bytes = aligned;
    return BT_OK;
}

// What this rank sends in a step, so that it receives the block of rank - step.
static bt_group_step step_of(const bt_context_ring *r, const bt_byte_rows *own, int step)
{
    const int hops = r->rotation == BT_ROTATION_POINT_TO_POINT ? step - 1 : 0;
    return (bt_group_step){
        .distance = step - hops,
        .hops = hops,
        .data =
            hops == 0 ? *own : bt_byte_block(slot(r, BLOCKS, rank_at(r, -hops)), r->block_bytes)};
}

// The rows are sent from where they are, or packed, by copies: a kernel on this stream would wait
// for the attention that follows on the context's.
static bt_status send_blocks(bt_context_ring *r, const bt_byte_rows *own)
{
    const bool gathers = r->rotation == BT_ROTATION_ALL_GATHER;
    char *out = slot(r, BLOCKS, 0);
    if (gathers) {
        BT_TRY(bt_all_gather_rows(r->group, own, out, r->block_bytes, r->stream));
    }
    for (int step = 1; step < r->ring.size; ++step) {
        if (!gathers) {
            const bt_group_step sent = step_of(r, own, step);
            BT_TRY(bt_exchange_step(r->group, &sent, out, r->block_bytes, r->stream));
        }
        BT_TRY(mark(r, step));
    }
    return BT_OK;
}

static bt_status ring_send(void *self, bt_context *context, const bt_byte_rows *own)
{
    bt_context_ring *r = self_of(self);
    BT_TRY(follow(r, context));
    enter(r, context);
    const bt_status status = send_blocks(r, own);
    leave(r, context);
    return status;
}

static bt_status ring_fetch(void *self, bt_context *context, int step, const void **block)
{
    bt_context_ring *r = self_of(self);
    *block = slot(r, BLOCKS, rank_at(r, -step));
    return await(r, context, step);
}

static bt_status ring_place(void *self, bt_context *context, int step, void **gradient)
{
    bt_context_ring *r = self_of(self);
    (void)context;
    *gradient = slot(r, GIVEN, rank_at(r, -step));
    return BT_OK;
}

// With all_gather, all gradients are sent at once, after the last one.
static bt_status ring_give(void *self, bt_context *context, int step)
{
    bt_context_ring *r = self_of(self);
    const bool gathers = r->rotation == BT_ROTATION_ALL_GATHER;
    if (gathers && step < r->ring.size - 1) {
        return BT_OK;
    }
    BT_TRY(follow(r, context));
    enter(r, context);
    const bt_group_step back = {
        .distance = r->ring.size - step,
        .data = bt_byte_block(slot(r, GIVEN, rank_at(r, -step)), r->block_bytes)};
    char *out = slot(r, RECEIVED, 0);
    const bt_status status =
        gathers ? bt_all_to_others(r->group, slot(r, GIVEN, 0), out, r->block_bytes, r->stream)
                : bt_exchange_step(r->group, &back, out, r->block_bytes, r->stream);
    leave(r, context);
    return status;
}

static bt_status ring_take(void *self, bt_context *context, const bt_ring_copy *copies, int count)
{
    bt_context_ring *r = self_of(self);
    bt_group_read *reads = NULL;
    void *block = NULL;
    BT_TRY(follow(r, context));
    BT_TRY(bt_mem_alloc((size_t)count, sizeof *reads, &block));
    reads = block;
    for (int i = 0; i < count; ++i) {
        reads[i] = (bt_group_read){.rank = 1 - r->ring.rank,
                                   .from = slot(r, GIVEN, r->ring.rank) + copies[i].from,
                                   .to = copies[i].to,
                                   .rows = copies[i].rows,
                                   .row_bytes = copies[i].row_bytes,
                                   .pitch_bytes = copies[i].pitch_bytes};
    }
    const bt_status status = bt_read_rows(r->group, reads, count, r->stream);
    bt_mem_free(reads);
    return status;
}

static bt_status ring_collect(void *self, bt_context *context, const void **gradients)
{
    bt_context_ring *r = self_of(self);
    BT_TRY(mark(r, 0));
    for (int rank = 0; rank < r->ring.size; ++rank) {
        gradients[rank] = rank != r->ring.rank ? slot(r, RECEIVED, rank) : NULL;
    }
    return await(r, context, 0);
}

// Whether two ranks can read each other's memory, and have devices of one kind. The kernels that
// serve a call depend on the device, and whether a rank takes or gives gradients depends on them:
// both must do the same.
static bt_status may_take(bt_group *group, bool *may)
{
    *may = group->size == 2 && bt_group_reads(group);
    if (!*may) {
        return BT_OK;
    }
    const bt_kernel_device own = bt_kernel_device_of(group->device);
    for (int rank = 0; rank < group->size; ++rank) {
        bt_kernel_device theirs = own;
        BT_TRY(bt_group_tell(group, &theirs, sizeof theirs, rank));
        *may = *may && memcmp(&own, &theirs, sizeof own) == 0;
    }
    return BT_OK;
}

bt_status bt_context_ring_create(bt_group *group, bt_rotation rotation, bt_context_ring **out)
{
    bt_context_ring *r = NULL;
    void *block = NULL;
    bool takes = false;
    *out = NULL;
    if ((unsigned)rotation >= BT_ROTATION_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown rotation %d", (int)rotation);
    }
    BT_TRY(may_take(group, &takes));
    BT_TRY(bt_mem_alloc(1, sizeof *r, &block));
    r = block;
    r->group = group;
    r->rotation = rotation;
    r->ring = (bt_ring){.self = r,
                        .rank = group->rank,
                        .size = group->size,
                        .overlaps = group->backend->on_gpu,
                        .begin = ring_begin,
                        .send = ring_send,
                        .fetch = ring_fetch,
                        .place = ring_place,
                        .give = ring_give,
                        .take = takes ? ring_take : NULL,
                        .collect = ring_collect};
    bt_status status = bt_mem_alloc((size_t)group->size, sizeof(bt_event), &block);
    if (status != BT_OK) {
        bt_mem_free(r);
        return status;
    }
    r->arrived = block;
    *out = r;
    return BT_OK;
}

void bt_context_ring_destroy(bt_context_ring *r)
{
    if (!r) {
        return;
    }
    if (r->device) {
        const bt_backend *backend = r->device->backend;
        bt_error_quiet_begin();
        (void)!backend->stream_synchronize(r->device, r->stream);
        bt_error_quiet_end();
        free_memory(r);
        for (int i = 0; i < r->ring.size; ++i) {
            if (r->arrived[i]) {
                backend->event_destroy(r->device, r->arrived[i]);
            }
        }
        if (r->produced) {
            backend->event_destroy(r->device, r->produced);
        }
        if (r->stream) {
            backend->stream_destroy(r->device, r->stream);
        }
    }
    bt_mem_free(r->arrived);
    bt_mem_free(r);
}

uint64_t bt_context_ring_bytes(const bt_context_ring *r) { return r ? (uint64_t)r->allocated : 0; }

const bt_ring *bt_context_ring_of(const bt_context_ring *ring) { return &ring->ring; }
