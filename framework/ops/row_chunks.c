// framework/ops/row_chunks.c - exchanges of chunks: a stream, events, and memory for the rows
#include "framework/ops/row_chunks.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/group.h"

// Areas of memory, [ranks, capacity] each: gathered rows, terms to send, terms received.
enum { GIVEN = BT_ROWS_GATHERED, TERMS, AREAS };

struct bt_row_chunks {
    bt_group *group;            // borrowed
    bt_device *device;          // borrowed; NULL: nothing was exchanged yet
    bt_stream stream;           // owned
    bt_event produced;          // owned; the context's stream has written the rows to send
    bt_event *arrived;          // owned [AREAS, ranks], by step; 0: the copy of own rows
    char *memory;               // [AREAS, ranks, capacity]
    bool owns_memory;           // else it is the group's
    int64_t capacity;           // bytes of a chunk
    int64_t allocated;          // bytes in all, outgrown memory of the group included
    int64_t chunk_bytes[AREAS]; // of the current use: distance between the chunks of an area
    const char *gathered[BT_ROWS_GATHERED]; // the current use's own rows; borrowed
};

int bt_row_chunks_ranks(const bt_row_chunks *c) { return c ? c->group->size : 1; }

int bt_row_chunks_rank(const bt_row_chunks *c, int distance)
{
    return c ? (c->group->rank + distance + c->group->size) % c->group->size : 0;
}

uint64_t bt_row_chunks_bytes(const bt_row_chunks *c) { return c ? (uint64_t)c->allocated : 0; }

static char *chunk(const bt_row_chunks *c, int area, int rank)
{
    return c->memory + area * c->group->size * c->capacity + rank * c->chunk_bytes[area];
}

static bt_event *arrived(const bt_row_chunks *c, int area, int step)
{
    return &c->arrived[area * c->group->size + step];
}

bt_status bt_row_chunks_create(bt_group *group, bt_row_chunks **out)
{
    void *block = NULL, *events = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof **out, &block));
    bt_status status = bt_mem_alloc((size_t)group->size * AREAS, sizeof(bt_event), &events);
    if (status != BT_OK) {
        bt_mem_free(block);
        return status;
    }
    bt_row_chunks *c = block;
    c->group = group;
    c->arrived = events;
    *out = c;
    return BT_OK;
}

static void free_memory(bt_row_chunks *c)
{
    if (c->owns_memory && c->memory) {
        c->device->backend->memory_free(c->device, c->memory);
    }
    c->memory = NULL;
}

static void close_queues(bt_row_chunks *c)
{
    const bt_backend *backend = c->device->backend;
    bt_error_quiet_begin();
    (void)!backend->stream_synchronize(c->device, c->stream); // its users were notified
    bt_error_quiet_end();
    for (int i = 0; i < AREAS * c->group->size; ++i) {
        if (c->arrived[i]) {
            backend->event_destroy(c->device, c->arrived[i]);
        }
    }
    if (c->produced) {
        backend->event_destroy(c->device, c->produced);
    }
    if (c->stream) {
        backend->stream_destroy(c->device, c->stream);
    }
}

void bt_row_chunks_destroy(bt_row_chunks *c)
{
    if (!c) {
        return;
    }
    if (c->device) {
        close_queues(c);
        free_memory(c);
    }
    bt_mem_free(c->arrived);
    bt_mem_free(c);
}

static bt_status open_queues(bt_row_chunks *c, bt_device *device)
{
    const bt_backend *backend = device->backend;
    c->device = device;
    BT_TRY(backend->stream_create(device, true, &c->stream));
    BT_TRY(backend->event_create(device, &c->produced));
    for (int i = 0; i < AREAS * c->group->size; ++i) {
        BT_TRY(backend->event_create(device, &c->arrived[i]));
    }
    return BT_OK;
}

bt_status bt_row_chunks_open(bt_row_chunks *c, bt_context *context, int64_t chunk_bytes)
{
    const int64_t aligned = (chunk_bytes + 255) / 256 * 256;
    void *memory = NULL;
    if (!c) {
        return BT_OK;
    }
    if (!c->device) {
        BT_TRY(open_queues(c, context->device));
    }
    if (aligned <= c->capacity) {
        return BT_OK;
    }
    const int64_t capacity = bt_group_memory_grown(c->capacity, aligned);
    const int64_t bytes = AREAS * c->group->size * capacity;
    BT_TRY(c->device->backend->stream_synchronize(c->device, context->stream));
    BT_TRY(c->device->backend->stream_synchronize(c->device, c->stream));
    c->allocated -= c->owns_memory ? AREAS * c->group->size * c->capacity : 0;
    free_memory(c);
    c->capacity = 0;
    BT_TRY(bt_group_memory(c->group, bytes, &memory)); // freed with the group
    c->owns_memory = !memory;
    if (!memory) {
        BT_TRY(c->device->backend->memory_alloc(c->device, (size_t)bytes, &memory));
    }
    c->memory = memory;
    c->capacity = capacity;
    c->allocated += bytes;
    return BT_OK;
}

// The stream of exchanges waits for the work submitted to the context's stream so far.
static bt_status follow(bt_row_chunks *c, bt_context *context)
{
    BT_TRY(c->device->backend->event_record(c->device, c->produced, context->stream));
    return c->device->backend->event_wait(c->device, c->produced, c->stream);
}

static bt_status exchange(bt_row_chunks *c, bt_context *context, int area, int step,
                          const char *data)
{
    const int64_t bytes = c->chunk_bytes[area];
    const bt_group_step send = {.distance = c->group->size - step,
                                .data = bt_byte_block(data, bytes)};
    bt_range_push(context, "communication");
    bt_status status = bt_exchange_step(c->group, &send, chunk(c, area, 0), bytes, c->stream);
    bt_range_pop(context);
    BT_TRY(status);
    return c->device->backend->event_record(c->device, *arrived(c, area, step), c->stream);
}

static bt_status await(bt_row_chunks *c, bt_context *context, int area, int step)
{
    bt_range_push(context, "communication");
    bt_status status =
        c->device->backend->event_wait(c->device, *arrived(c, area, step), context->stream);
    bt_range_pop(context);
    return status;
}

static bt_status whole_of(bt_row_chunks *c, bt_context *context, int area, const bt_tensor *x,
                          bt_tensor **out)
{
    bt_shape shape = x->shape;
    shape.size[0] *= c->group->size;
    return bt_tensor_over(context, x->dtype, shape, chunk(c, area, 0), "rows of all ranks", out);
}

// The own rows, behind this matrix' exchanges on their stream; exchanges of a later one wait for
// it.
static bt_status copy_own(bt_row_chunks *c, int area, bt_tensor *x)
{
    const size_t bytes = bt_tensor_bytes(x);
    BT_TRY(bytes ? c->device->backend->copy(c->device, chunk(c, area, c->group->rank),
                                            bt_tensor_data(x), bytes, BT_COPY_DEVICE_TO_DEVICE,
                                            c->stream)
                 : BT_OK);
    return c->device->backend->event_record(c->device, *arrived(c, area, 0), c->stream);
}

bt_status bt_row_chunks_gather(bt_row_chunks *c, bt_context *context, bt_row_area area,
                               bt_tensor *x, bool complete, bt_tensor **whole)
{
    const bool on_gpu = c && c->group->backend->on_gpu;
    if (!c) {
        *whole = bt_tensor_retain(x);
        return BT_OK;
    }
    c->chunk_bytes[area] = (int64_t)bt_tensor_bytes(x);
    c->gathered[area] = bt_tensor_data(x);
    BT_TRY(whole_of(c, context, (int)area, x, whole));
    bt_status status = follow(c, context);
    for (int step = 1; step < c->group->size && on_gpu && status == BT_OK; ++step) {
        status = exchange(c, context, (int)area, step, c->gathered[area]);
    }
    if (status == BT_OK && complete) {
        status = copy_own(c, (int)area, x);
    }
    if (status != BT_OK) {
        BT_TENSOR_RELEASE(*whole);
    }
    return status;
}

bt_status bt_row_chunks_await(bt_row_chunks *c, bt_context *context, bt_row_area area, int step)
{
    if (!c) {
        return BT_OK;
    }
    if (step > 0 && !c->group->backend->on_gpu) {
        return exchange(c, context, (int)area, step, c->gathered[area]);
    }
    return await(c, context, (int)area, step);
}

bt_status bt_row_chunks_term(bt_row_chunks *c, bt_context *context, int step, bt_tensor *sum,
                             bt_tensor **out)
{
    int64_t stride[BT_MAX_RANK];
    if (!c) {
        bt_shape_strides(&sum->shape, stride);
        return bt_tensor_view(sum, sum->shape, stride, 0, out);
    }
    c->chunk_bytes[GIVEN] = c->chunk_bytes[TERMS] = (int64_t)bt_tensor_bytes(sum);
    return bt_tensor_over(context, sum->dtype, sum->shape,
                          chunk(c, step ? GIVEN : TERMS, bt_row_chunks_rank(c, -step)),
                          "term of a rank", out);
}

bt_status bt_row_chunks_send(bt_row_chunks *c, bt_context *context, int step)
{
    if (!c || step == 0) {
        return BT_OK;
    }
    BT_TRY(follow(c, context));
    return exchange(c, context, TERMS, step, chunk(c, GIVEN, bt_row_chunks_rank(c, -step)));
}

// sum += residual
static bt_status add(bt_context *context, bt_tensor *residual, bt_tensor *sum)
{
    const bt_binary_args args = {.function = BT_BINARY_ADD,
                                 .rank = 1,
                                 .shape = {bt_tensor_count(sum)},
                                 .a = bt_tensor_data(sum),
                                 .a_stride = {1},
                                 .b = bt_tensor_data(residual),
                                 .b_stride = {1},
                                 .y = bt_tensor_data(sum),
                                 .dtype = sum->dtype};
    return bt_context_launch(context, BT_KERNEL_BINARY, sum->dtype, &args);
}

bt_status bt_row_chunks_sum(bt_row_chunks *c, bt_context *context, bt_tensor *residual,
                            bt_tensor *sum)
{
    const void *terms[BT_GROUP_MAX_SIZE];
    bt_tensor_touch(sum);
    if (!c) {
        return residual ? add(context, residual, sum) : BT_OK;
    }
    for (int step = 1; step < c->group->size; ++step) {
        BT_TRY(await(c, context, TERMS, step));
    }
    for (int rank = 0; rank < c->group->size; ++rank) {
        terms[rank] = chunk(c, TERMS, rank);
    }
    return bt_group_fold(c->group, terms, residual ? bt_tensor_data(residual) : NULL,
                         bt_tensor_data(sum), bt_tensor_count(sum), sum->dtype, context->stream);
}
