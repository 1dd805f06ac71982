// framework/ops/row_chunks.c - exchanges of chunks: a stream, events, and memory for the rows
#include "framework/ops/row_chunks.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/group.h"

// Areas of memory, [ranks, capacity] each: gathered rows, terms to send, terms received.
enum { GIVEN = BT_ROWS_GATHERED, TERMS, AREAS };
// Each rank's rows are exchanged in so many pieces. With more the first leaves earlier, but each
// costs some microseconds: four are slower (framework/dist/lab).
enum { PIECES = 2, WORDS_OF = BT_ROWS_GATHERED + 1 };
enum { MATRICES_MOST = 16 };

struct bt_row_chunks {
    bt_group *group;            // borrowed
    bt_device *device;          // borrowed; NULL: nothing was exchanged yet
    bt_stream stream;           // owned; exchanges
    bt_stream copies;           // owned; own rows beside them: a copy may need multiprocessors
    bt_event produced;          // owned; the context's stream has written the rows to send
    bt_event idle;              // owned; the context's stream reads no area any more
    bool was_idle;              // it was recorded, not in a capture
    bt_event *arrived;          // owned [AREAS, ranks], by step; 0: the copy of own rows
    int64_t *number;            // owned [AREAS, ranks]: which exchange that is, from 1 on
    int64_t begun, awaited;     // the last exchange; the last that the context's stream waits for
    char *memory;               // [AREAS, ranks, capacity]
    bool owns_memory;           // else it is the group's
    int64_t capacity;           // bytes of a chunk
    int64_t allocated;          // bytes in all, outgrown memory of the group included
    int64_t chunk_bytes[AREAS]; // of the current use: distance between the chunks of an area
    const char *gathered[BT_ROWS_GATHERED]; // the current use's own rows; borrowed
    bt_shape matrices[MATRICES_MOST];       // of products that may take pieces
    int matrix_count;
    // Of pieces, [WORDS_OF, ranks, PIECES] by what is gathered, the last for terms.
    uint32_t *words;      // the group's; NULL: there are no pieces
    uint32_t *counts;     // owned; one more each
    bool terms_are_whole; // of the current use: the own ones, too, are in GIVEN
};

static int piece_count(const bt_row_chunks *c) { return c->group->size * PIECES; }

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
    const size_t count = (size_t)group->size * AREAS;
    void *block = NULL, *events = NULL, *numbers = NULL;
    bt_status status = BT_OK;
    *out = NULL;
    BT_TRY_GOTO(bt_mem_alloc(1, sizeof **out, &block), failed);
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof(bt_event), &events), failed);
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof(int64_t), &numbers), failed);
    bt_row_chunks *c = block;
    c->group = group;
    c->arrived = events;
    c->number = numbers;
    *out = c;
    return BT_OK;
failed:
    bt_mem_free(events);
    bt_mem_free(block);
    return status;
}

bool bt_row_chunks_allows_pieces(const bt_row_chunks *c, const bt_shape *matrix)
{
    for (int i = 0; i < c->matrix_count; ++i) {
        if (bt_shape_equal(&c->matrices[i], matrix)) {
            return true;
        }
    }
    return false;
}

void bt_row_chunks_allow_pieces(bt_row_chunks *c, const bt_shape *matrix)
{
    if (c->matrix_count < MATRICES_MOST && !bt_row_chunks_allows_pieces(c, matrix)) {
        c->matrices[c->matrix_count++] = *matrix;
    }
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
    (void)!backend->stream_synchronize(c->device, c->copies);
    bt_error_quiet_end();
    for (int i = 0; i < AREAS * c->group->size; ++i) {
        if (c->arrived[i]) {
            backend->event_destroy(c->device, c->arrived[i]);
        }
    }
    if (c->produced) {
        backend->event_destroy(c->device, c->produced);
    }
    if (c->idle) {
        backend->event_destroy(c->device, c->idle);
    }
    if (c->copies) {
        backend->stream_destroy(c->device, c->copies);
    }
    if (c->stream) {
        backend->stream_destroy(c->device, c->stream);
    }
}

// Words that a failed op has left set are zero for the next user; a group that has failed has none.
static void free_words(bt_row_chunks *c)
{
    const bt_backend *backend = c->device->backend;
    const int count = WORDS_OF * piece_count(c);
    bt_error_quiet_begin();
    if (c->words && bt_group_check(c->group) == BT_OK) {
        (void)!backend->fill(c->device, c->words, 0, (size_t)count * sizeof *c->words, NULL);
        (void)!backend->stream_synchronize(c->device, NULL);
    }
    bt_error_quiet_end();
    bt_group_words_free(c->group, c->words, count);
}

void bt_row_chunks_destroy(bt_row_chunks *c)
{
    if (!c) {
        return;
    }
    if (c->device) {
        close_queues(c);
        free_memory(c);
        if (c->counts) {
            c->device->backend->memory_free(c->device, c->counts);
        }
        free_words(c);
    }
    bt_mem_free(c->number);
    bt_mem_free(c->arrived);
    bt_mem_free(c);
}

static bt_status open_words(bt_row_chunks *c)
{
    const bt_backend *backend = c->device->backend;
    const size_t bytes = WORDS_OF * (size_t)(piece_count(c) + 1) * sizeof *c->counts;
    void *counts = NULL;
    c->words = c->matrix_count > 0 ? bt_group_words(c->group, WORDS_OF * piece_count(c)) : NULL;
    if (!c->words) {
        return BT_OK;
    }
    BT_TRY(backend->memory_alloc(c->device, bytes, &counts));
    c->counts = counts;
    BT_TRY(backend->fill(c->device, counts, 0, bytes, c->stream));
    return backend->stream_synchronize(c->device, c->stream);
}

static bt_status open_queues(bt_row_chunks *c, bt_device *device)
{
    const bt_backend *backend = device->backend;
    c->device = device;
    BT_TRY(backend->stream_create(device, true, &c->stream));
    BT_TRY(backend->stream_create(device, true, &c->copies));
    BT_TRY(backend->event_create(device, &c->produced));
    BT_TRY(backend->event_create(device, &c->idle));
    for (int i = 0; i < AREAS * c->group->size; ++i) {
        BT_TRY(backend->event_create(device, &c->arrived[i]));
    }
    return open_words(c);
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

static bool is_capturing(const bt_row_chunks *c, const bt_context *context)
{
    const bt_backend *backend = c->device->backend;
    return backend->graph_capturing && backend->graph_capturing(c->device, context->stream);
}

bt_status bt_row_chunks_idle(bt_row_chunks *c, bt_context *context)
{
    if (!c || !c->device) {
        return BT_OK;
    }
    c->was_idle = !is_capturing(c, context);
    return c->was_idle ? c->device->backend->event_record(c->device, c->idle, context->stream)
                       : BT_OK;
}

// The stream of exchanges waits until no area is read. In a capture, where an event of before it
// must not be awaited, for all work so far.
static bt_status await_idle(bt_row_chunks *c, bt_context *context)
{
    return c->was_idle && !is_capturing(c, context)
               ? c->device->backend->event_wait(c->device, c->idle, c->stream)
               : follow(c, context);
}

// `after`: as of bt_group_step. `produced`, `arrived`: of the pieces of the rows that are sent;
// both NULL: without pieces.
static bt_status exchange(bt_row_chunks *c, bt_context *context, int area, int step,
                          const char *data, bt_event after, uint32_t *produced,
                          uint32_t *arrived_words)
{
    const int64_t bytes = c->chunk_bytes[area];
    const bt_group_step send = {.distance = c->group->size - step,
                                .data = bt_byte_block(data, bytes),
                                .after = after,
                                .parts = produced || arrived_words ? PIECES : 0,
                                .produced = produced,
                                .arrived = arrived_words};
    c->number[area * c->group->size + step] = ++c->begun;
    bt_range_push(context, "communication");
    bt_status status = bt_exchange_step(c->group, &send, chunk(c, area, 0), bytes, c->stream);
    bt_range_pop(context);
    BT_TRY(status);
    return c->device->backend->event_record(c->device, *arrived(c, area, step), c->stream);
}

// Exchanges end in order, so one that was awaited stands for all before it.
static bt_status await(bt_row_chunks *c, bt_context *context, int area, int step)
{
    const int64_t number = c->number[area * c->group->size + step];
    if (step > 0 && number <= c->awaited) {
        return BT_OK;
    }
    c->awaited = step > 0 ? number : c->awaited;
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
    c->chunk_bytes[area] = (int64_t)bt_tensor_bytes(x);
    return bt_tensor_over(context, x->dtype, shape, chunk(c, area, 0), "rows of all ranks", out);
}

bt_status bt_row_chunks_whole(bt_row_chunks *c, bt_context *context, bt_row_area area, bt_tensor *x,
                              bt_tensor **whole)
{
    if (!c) {
        *whole = bt_tensor_retain(x);
        return BT_OK;
    }
    return whole_of(c, context, (int)area, x, whole);
}

bt_row_pieces bt_row_chunks_pieces(const bt_row_chunks *c, bt_row_area area)
{
    if (!c || !c->words || c->owns_memory) {
        return (bt_row_pieces){0};
    }
    uint32_t *words = c->words + (int)area * piece_count(c);
    return (bt_row_pieces){.of_rank = PIECES,
                           .own = c->group->rank * PIECES,
                           .words = words,
                           .count = c->counts + (int)area * (piece_count(c) + 1)};
}

// The own rows, once they are produced; the area is idle.
static bt_status copy_own(bt_row_chunks *c, int area, bt_tensor *x)
{
    const size_t bytes = bt_tensor_bytes(x);
    BT_TRY(c->device->backend->event_wait(c->device, c->produced, c->copies));
    BT_TRY(bytes ? c->device->backend->copy(c->device, chunk(c, area, c->group->rank),
                                            bt_tensor_data(x), bytes, BT_COPY_DEVICE_TO_DEVICE,
                                            c->copies)
                 : BT_OK);
    return c->device->backend->event_record(c->device, *arrived(c, area, 0), c->copies);
}

bt_status bt_row_chunks_gather(bt_row_chunks *c, bt_context *context, bt_row_area area,
                               bt_tensor *x, bool complete, const bt_row_pieces *pieces)
{
    if (!c) {
        return BT_OK;
    }
    uint32_t *own_words = pieces ? pieces->words + pieces->own : NULL;
    c->gathered[area] = bt_tensor_data(x);
    BT_TRY(await_idle(c, context));
    BT_TRY(c->device->backend->event_record(c->device, c->produced, context->stream));
    for (int step = 1; step < c->group->size && c->group->backend->on_gpu; ++step) {
        BT_TRY(
            exchange(c, context, (int)area, step, c->gathered[area], c->produced, NULL, own_words));
    }
    return complete ? copy_own(c, (int)area, x) : BT_OK;
}

bt_status bt_row_chunks_await(bt_row_chunks *c, bt_context *context, bt_row_area area, int step)
{
    if (!c) {
        return BT_OK;
    }
    if (step > 0 && !c->group->backend->on_gpu) {
        return exchange(c, context, (int)area, step, c->gathered[area], NULL, NULL, NULL);
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
    c->terms_are_whole = false;
    return bt_tensor_over(context, sum->dtype, sum->shape,
                          chunk(c, step ? GIVEN : TERMS, bt_row_chunks_rank(c, -step)),
                          "term of a rank", out);
}

// To the rank that the rows of `step` belong to; words: of its pieces, or NULL.
static bt_status send_term(bt_row_chunks *c, bt_context *context, int step, uint32_t *words)
{
    const int to = bt_row_chunks_rank(c, -step);
    return exchange(c, context, TERMS, step, chunk(c, GIVEN, to), NULL, words, NULL);
}

bt_status bt_row_chunks_send(bt_row_chunks *c, bt_context *context, int step)
{
    if (!c || step == 0) {
        return BT_OK;
    }
    BT_TRY(follow(c, context));
    return send_term(c, context, step, NULL);
}

bt_status bt_row_chunks_begin_pieces(bt_row_chunks *c, bt_context *context)
{
    return await_idle(c, context);
}

bt_status bt_row_chunks_send_pieces(bt_row_chunks *c, bt_context *context, int step)
{
    uint32_t *words = bt_row_chunks_pieces(c, BT_ROWS_GATHERED).words;
    return send_term(c, context, step, words + bt_row_chunks_rank(c, -step) * PIECES);
}

bt_status bt_row_chunks_terms(bt_row_chunks *c, bt_context *context, bt_tensor *sum,
                              bt_tensor **out)
{
    c->chunk_bytes[TERMS] = (int64_t)bt_tensor_bytes(sum);
    c->terms_are_whole = true;
    return whole_of(c, context, GIVEN, sum, out);
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
        const bool here = rank == c->group->rank && c->terms_are_whole;
        terms[rank] = chunk(c, here ? GIVEN : TERMS, rank);
    }
    BT_TRY(bt_group_fold(c->group, terms, residual ? bt_tensor_data(residual) : NULL,
                         bt_tensor_data(sum), bt_tensor_count(sum), sum->dtype, context->stream));
    return bt_row_chunks_idle(c, context);
}
