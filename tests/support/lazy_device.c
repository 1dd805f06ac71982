// tests/support/lazy_device.c - a queue per stream
#include "tests/support/lazy_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

typedef enum work_kind { WORK_COPY, WORK_FILL, WORK_RECORD, WORK_WAIT } work_kind;

typedef struct work {
    work_kind kind;
    void *target;
    const void *source;
    size_t size_bytes;
    uint8_t byte;
    struct bt_stream_impl *stream; // of the event, when the wait was given
    int64_t until;                 // likewise
} work;

struct bt_stream_impl {
    work *queue; // owned
    int64_t count, capacity, next;
};

struct bt_event_impl {
    struct bt_stream_impl *stream; // where it was recorded; NULL: never
    int64_t until;                 // how far that stream must have run
};

static struct {
    bt_backend backend;
    pthread_mutex_t mutex; // of everything below
    struct bt_stream_impl own;
    int64_t live, countdown;
    bool failed;
    pthread_t failing; // calls of this thread are counted: a writer's come at any time
} lazy = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct bt_stream_impl *stream_of(bt_stream stream) { return stream ? stream : &lazy.own; }

static void run_until(struct bt_stream_impl *stream, int64_t until)
{
    while (stream && stream->next < until) {
        const work w = stream->queue[stream->next++];
        if (w.kind == WORK_COPY) {
            memmove(w.target, w.source, w.size_bytes);
        } else if (w.kind == WORK_FILL) {
            memset(w.target, w.byte, w.size_bytes);
        } else if (w.kind == WORK_WAIT) {
            run_until(w.stream, w.until);
        }
    }
}

static void push(bt_stream stream, const work *w)
{
    struct bt_stream_impl *to = stream_of(stream);
    if (to->count == to->capacity) {
        to->capacity = to->capacity ? 2 * to->capacity : 64;
        to->queue = realloc(to->queue, (size_t)to->capacity * sizeof *to->queue);
    }
    to->queue[to->count++] = *w;
}

// Locks; false when this call is to fail.
static bool enter(bool may_fail)
{
    (void)pthread_mutex_lock(&lazy.mutex);
    bool fails = may_fail && lazy.countdown > 0 && pthread_equal(lazy.failing, pthread_self()) &&
                 --lazy.countdown == 0;
    lazy.failed = lazy.failed || fails;
    return !fails;
}

static bt_status leave(bool fine)
{
    (void)pthread_mutex_unlock(&lazy.mutex);
    return fine ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "the lazy device fails");
}

static bt_status make(void **out, size_t size_bytes)
{
    bool fine = enter(true);
    *out = fine ? aligned_alloc(256, (size_bytes + 256) / 256 * 256) : NULL;
    if (fine) {
        memset(*out, 0xee, size_bytes);
    }
    lazy.live += fine;
    return leave(fine);
}

static void drop(void *block)
{
    bool fine = enter(false);
    lazy.live -= block != NULL;
    bt_status status = leave(fine);
    (void)status;
    free(block);
}

static bt_status memory_alloc(bt_device *device, size_t size_bytes, void **out)
{
    (void)device;
    return make(out, size_bytes);
}

static void memory_free(bt_device *device, void *block)
{
    (void)device;
    drop(block);
}

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    (void)device, (void)kind;
    bool fine = enter(true);
    if (fine) {
        push(stream, &(work){WORK_COPY, target, source, size_bytes, 0, NULL, 0});
    }
    return leave(fine);
}

static bt_status copy_rows(bt_device *device, void *target, int64_t pitch_bytes,
                           const bt_byte_rows *source, bt_stream stream)
{
    (void)device;
    bool fine = enter(true);
    for (int64_t row = 0; row < source->rows && fine; ++row) {
        push(stream, &(work){.kind = WORK_COPY,
                             .target = (char *)target + row * pitch_bytes,
                             .source = (const char *)source->data + row * source->pitch_bytes,
                             .size_bytes = (size_t)source->row_bytes});
    }
    return leave(fine);
}

static bt_status fill(bt_device *device, void *target, uint8_t byte, size_t size_bytes,
                      bt_stream stream)
{
    (void)device;
    bool fine = enter(true);
    push(stream, &(work){WORK_FILL, target, NULL, size_bytes, byte, NULL, 0});
    return leave(fine);
}

static bt_status stream_create(bt_device *device, bool high_priority, bt_stream *out)
{
    (void)device, (void)high_priority;
    void *block = NULL;
    bt_status status = make(&block, sizeof **out);
    *out = block;
    if (block) {
        memset(block, 0, sizeof **out);
    }
    return status;
}

static void stream_destroy(bt_device *device, bt_stream stream)
{
    (void)device;
    bool fine = enter(false);
    run_until(stream, stream->count); // what was given is still done
    for (int64_t i = lazy.own.next; i < lazy.own.count; ++i) {
        work *w = &lazy.own.queue[i];
        w->stream = w->stream == stream ? NULL : w->stream; // waits for what is done
    }
    free(stream->queue);
    bt_status status = leave(fine);
    (void)status;
    drop(stream);
}

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    (void)device;
    bool fine = enter(false);
    run_until(stream_of(stream), stream_of(stream)->count);
    return leave(fine);
}

static bt_status event_create(bt_device *device, bt_event *out)
{
    (void)device;
    void *block = NULL;
    bt_status status = make(&block, sizeof **out);
    *out = block;
    if (block) {
        memset(block, 0, sizeof **out);
    }
    return status;
}

static void event_destroy(bt_device *device, bt_event event)
{
    (void)device;
    drop(event);
}

static bt_status event_record(bt_device *device, bt_event event, bt_stream stream)
{
    (void)device;
    bool fine = enter(true);
    push(stream, &(work){.kind = WORK_RECORD});
    event->stream = stream_of(stream);
    event->until = stream_of(stream)->count;
    return leave(fine);
}

static bt_status event_wait(bt_device *device, bt_event event, bt_stream stream)
{
    (void)device;
    bool fine = enter(true);
    push(stream, &(work){.kind = WORK_WAIT, .stream = event->stream, .until = event->until});
    return leave(fine);
}

static bt_status event_synchronize(bt_device *device, bt_event event)
{
    (void)device;
    bool fine = enter(false);
    run_until(event->stream, event->until);
    return leave(fine);
}

void lazy_device_open(bt_device *device)
{
    lazy.backend = bt_cpu_backend;
    lazy.backend.name = "lazy";
    lazy.backend.kind = BT_DEVICE_CUDA;
    lazy.backend.memory_alloc = memory_alloc;
    lazy.backend.memory_free = memory_free;
    lazy.backend.pinned_alloc = memory_alloc;
    lazy.backend.pinned_free = memory_free;
    lazy.backend.copy = copy;
    lazy.backend.copy_rows = copy_rows;
    lazy.backend.fill = fill;
    lazy.backend.stream_create = stream_create;
    lazy.backend.stream_destroy = stream_destroy;
    lazy.backend.stream_synchronize = stream_synchronize;
    lazy.backend.event_create = event_create;
    lazy.backend.event_destroy = event_destroy;
    lazy.backend.event_record = event_record;
    lazy.backend.event_wait = event_wait;
    lazy.backend.event_synchronize = event_synchronize;
    *device = (bt_device){.backend = &lazy.backend};
    lazy_device_fail_at(0);
}

void lazy_device_close(bt_device *device)
{
    (void)device;
    assert_int_equal(lazy.live, 0);
    free(lazy.own.queue);
    lazy.own = (struct bt_stream_impl){0};
}

void lazy_device_fail_at(int64_t n)
{
    (void)pthread_mutex_lock(&lazy.mutex);
    lazy.countdown = n;
    lazy.failed = false;
    lazy.failing = pthread_self();
    (void)pthread_mutex_unlock(&lazy.mutex);
}

bool lazy_device_failed(void)
{
    (void)pthread_mutex_lock(&lazy.mutex);
    const bool failed = lazy.failed;
    (void)pthread_mutex_unlock(&lazy.mutex);
    return failed;
}
