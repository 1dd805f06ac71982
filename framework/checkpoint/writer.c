// framework/checkpoint/writer.c - one thread, one staging block, one save in flight
//
// State of a writer, guarded by `mutex`:
//   idle --start--> busy --thread is done--> idle, with the status of the save
// Only the training thread leaves idle, only the writing thread leaves busy. The staging block
// belongs to the training thread while idle and to the writing thread while busy.
#include "framework/checkpoint/writer.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/image.h"
#include "framework/checkpoint/thread.h"

enum { PIECE_BYTES = 2 << 20 };

struct bt_checkpoint_writer {
    bt_context *context; // borrowed
    bt_checkpoint_store store;
    bool skip_when_busy;
    bool in_place;
    bt_status (*check)(void *self);
    void *self;
    int64_t max_to_keep;
    bt_image image;
    bt_tensor **tensors; // owned [tensor_count], retained; in the manifest's order
    const void **data;   // owned [tensor_count]: address of each in staging, or its own
    char *staging;       // owned host memory: page-locked, except on the CPU; NULL: in_place
    char *device_block;  // owned, from the pool; NULL: no device snapshot
    bt_stream stream;    // owned; for copies to the host
    bt_event ready;      // owned event: the state, or its copy, is ready to be read
    bt_event copied;     // owned event: staging is filled; in_place: the tensors are
    bt_state_values values;
    atomic_bool cancel;
    atomic_bool copying; // the current save has not filled staging yet

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool busy, quit;
    bt_status status; // of the last save, until it is reported
    char message[BT_ERROR_CAPACITY];
};

static bt_device *device_of(const bt_checkpoint_writer *writer) { return writer->context->device; }

// ---- the writing thread -------------------------------------------------------------------------

// Copies from device memory to the host in pieces: a copy engine serves one copy at a time, and the
// small copies of a training step must not wait for a large one.
static bt_status fetch_snapshot(bt_checkpoint_writer *writer)
{
    bt_device *device = device_of(writer);
    const bt_backend *backend = device->backend;
    const size_t size_bytes = (size_t)writer->image.data_bytes;
    for (size_t at = 0; at < size_bytes; at += PIECE_BYTES) {
        const size_t part = size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
        BT_TRY(backend->copy(device, writer->staging + at, writer->device_block + at, part,
                             BT_COPY_DEVICE_TO_HOST, writer->stream));
    }
    return backend->event_record(device, writer->copied, writer->stream);
}

static bt_status write_snapshot(bt_checkpoint_writer *writer)
{
    bt_device *device = device_of(writer);
    if (writer->device_block) {
        BT_TRY(fetch_snapshot(writer));
    }
    BT_TRY(device->backend->event_synchronize(device, writer->copied));
    atomic_store(&writer->copying, false);
    BT_TRY(writer->check ? writer->check(writer->self) : BT_OK);
    return bt_image_write(&writer->image, &writer->store, &writer->values, writer->max_to_keep,
                          writer->data, &writer->cancel);
}

static void *write_saves(void *self)
{
    bt_checkpoint_writer *writer = self;
    (void)pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (!writer->busy && !writer->quit) {
            (void)pthread_cond_wait(&writer->changed, &writer->mutex);
        }
        if (!writer->busy) {
            break;
        }
        (void)pthread_mutex_unlock(&writer->mutex);
        bt_status status = write_snapshot(writer);
        atomic_store(&writer->copying, false); // also after a failure
        (void)pthread_mutex_lock(&writer->mutex);
        writer->status = status;
        (void)snprintf(writer->message, sizeof writer->message, "%s", bt_error_message());
        writer->busy = false;
        (void)pthread_cond_broadcast(&writer->changed);
    }
    (void)pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

// ---- the training thread ------------------------------------------------------------------------

static bt_status make_staging(bt_checkpoint_writer *writer, bool device_snapshot)
{
    bt_context *context = writer->context;
    bt_device *device = context->device;
    const bt_backend *backend = device->backend;
    size_t size_bytes = (size_t)writer->image.data_bytes;
    void *block = NULL;
    if (!writer->in_place) {
        BT_TRY(backend->pinned_alloc(device, size_bytes, &block));
        writer->staging = block;
        memset(block, 0, size_bytes); // touches the pages now, not in the first save
    }
    if (device_snapshot && !writer->in_place && backend->kind != BT_DEVICE_CPU) {
        BT_TRY(bt_pool_alloc(context->pool, size_bytes, context->stream, "checkpoint snapshot",
                             &block));
        writer->device_block = block;
    }
    BT_TRY(backend->stream_create(device, false, &writer->stream));
    BT_TRY(backend->event_create(device, &writer->ready));
    return backend->event_create(device, &writer->copied);
}

static bt_status take_tensors(bt_checkpoint_writer *writer, const bt_state *state)
{
    int64_t count = writer->image.manifest.tensor_count;
    size_t at = 0;
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof(void *), &block));
    writer->tensors = block;
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof(void *), &block));
    writer->data = block;
    for (int64_t i = 0; i < count; ++i) {
        writer->tensors[i] = bt_tensor_retain(state->tensors[writer->image.sources[i]].tensor);
        writer->data[i] =
            writer->in_place ? bt_tensor_data(writer->tensors[i]) : writer->staging + at;
        at += (size_t)writer->image.manifest.tensors[i].size_bytes;
    }
    return BT_OK;
}

bt_status bt_checkpoint_writer_create(bt_context *context, const bt_checkpoint_store *store,
                                      const bt_checkpoint_writer_options *options,
                                      const bt_state *state, bt_checkpoint_writer **out)
{
    void *block = NULL;
    bt_status status = BT_OK;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_checkpoint_writer), &block));
    bt_checkpoint_writer *writer = block;
    writer->context = context;
    writer->store = *store;
    writer->skip_when_busy = options->skip_when_busy;
    writer->in_place = options->in_place;
    writer->check = options->check;
    writer->self = options->self;
    writer->max_to_keep = options->checkpoint.max_to_keep;
    (void)pthread_mutex_init(&writer->mutex, NULL); // cannot fail on Linux
    (void)pthread_cond_init(&writer->changed, NULL);
    BT_TRY_GOTO(bt_image_make(&options->checkpoint, state, &writer->image), fail);
    BT_TRY_GOTO(make_staging(writer, options->device_snapshot), fail);
    BT_TRY_GOTO(take_tensors(writer, state), fail);
    writer->has_thread = bt_thread_start(&writer->thread, write_saves, writer);
    if (!writer->has_thread) {
        status = bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot start the writer thread");
        goto fail;
    }
    *out = writer;
    return BT_OK;
fail:
    bt_checkpoint_writer_destroy(writer);
    return status;
}

static void end_thread(bt_checkpoint_writer *writer)
{
    (void)pthread_mutex_lock(&writer->mutex);
    writer->quit = true;
    (void)pthread_cond_broadcast(&writer->changed);
    (void)pthread_mutex_unlock(&writer->mutex);
    (void)pthread_join(writer->thread, NULL);
}

void bt_checkpoint_writer_destroy(bt_checkpoint_writer *writer)
{
    if (!writer) {
        return;
    }
    bt_device *device = device_of(writer);
    const bt_backend *backend = device->backend;
    if (writer->has_thread) {
        end_thread(writer);
    }
    if (writer->copied) { // a started copy may still run
        bt_status status = backend->stream_synchronize(device, writer->stream);
        (void)status; // a device fault is reported at the context's next synchronization
        backend->event_destroy(device, writer->copied);
    }
    if (writer->ready) {
        backend->event_destroy(device, writer->ready);
    }
    if (writer->stream) {
        backend->stream_destroy(device, writer->stream);
    }
    if (writer->staging) {
        backend->pinned_free(device, writer->staging);
    }
    if (writer->device_block) {
        bt_pool_free(writer->context->pool, writer->device_block);
    }
    for (int64_t i = 0; writer->tensors && i < writer->image.manifest.tensor_count; ++i) {
        bt_tensor_release(writer->tensors[i]);
    }
    bt_mem_free(writer->tensors);
    bt_mem_free(writer->data);
    bt_image_release(&writer->image);
    (void)pthread_cond_destroy(&writer->changed);
    (void)pthread_mutex_destroy(&writer->mutex);
    bt_mem_free(writer);
}

// Copies all tensors to `target`, back to back.
static bt_status copy_tensors(bt_checkpoint_writer *writer, char *target, bt_copy_kind kind,
                              bt_stream stream)
{
    bt_device *device = device_of(writer);
    for (int64_t i = 0; i < writer->image.manifest.tensor_count; ++i) {
        size_t size_bytes = (size_t)writer->image.manifest.tensors[i].size_bytes;
        BT_TRY(device->backend->copy(device, target, bt_tensor_data(writer->tensors[i]), size_bytes,
                                     kind, stream));
        target += size_bytes;
    }
    return BT_OK;
}

static bt_status take_snapshot(bt_checkpoint_writer *writer)
{
    bt_device *device = device_of(writer);
    const bt_backend *backend = device->backend;
    bt_stream training = writer->context->stream;
    if (writer->in_place) {
        return backend->event_record(device, writer->copied, training);
    }
    if (writer->device_block) {
        BT_TRY(copy_tensors(writer, writer->device_block, BT_COPY_DEVICE_TO_DEVICE, training));
    }
    BT_TRY(backend->event_record(device, writer->ready, training));
    BT_TRY(backend->event_wait(device, writer->ready, writer->stream));
    if (writer->device_block) {
        return BT_OK; // the writing thread copies it to the host
    }
    BT_TRY(copy_tensors(writer, writer->staging, BT_COPY_DEVICE_TO_HOST, writer->stream));
    BT_TRY(backend->event_record(device, writer->copied, writer->stream));
    return backend->event_wait(device, writer->copied, training);
}

bt_status bt_checkpoint_start(bt_checkpoint_writer *writer, const bt_state_values *values,
                              bool *started)
{
    bool ignored = false;
    started = started ? started : &ignored;
    *started = false;
    BT_TRY(bt_state_check_values(values));
    if (writer->skip_when_busy && bt_checkpoint_is_busy(writer)) {
        return BT_OK;
    }
    BT_TRY(bt_error_context(bt_checkpoint_wait(writer), "the previous checkpoint"));
    BT_TRY(take_snapshot(writer));
    writer->values = *values;
    atomic_store(&writer->cancel, false);
    atomic_store(&writer->copying, true);
    (void)pthread_mutex_lock(&writer->mutex);
    writer->busy = true;
    (void)pthread_cond_broadcast(&writer->changed);
    (void)pthread_mutex_unlock(&writer->mutex);
    *started = true;
    return BT_OK;
}

bool bt_checkpoint_is_busy(bt_checkpoint_writer *writer)
{
    (void)pthread_mutex_lock(&writer->mutex);
    bool busy = writer->busy;
    (void)pthread_mutex_unlock(&writer->mutex);
    return busy;
}

bool bt_checkpoint_is_copying(bt_checkpoint_writer *writer)
{
    return atomic_load(&writer->copying);
}

// With the mutex.
static void await_idle(bt_checkpoint_writer *writer)
{
    while (writer->busy) {
        (void)pthread_cond_wait(&writer->changed, &writer->mutex);
    }
}

void bt_checkpoint_settle(bt_checkpoint_writer *writer)
{
    if (writer) {
        (void)pthread_mutex_lock(&writer->mutex);
        await_idle(writer);
        (void)pthread_mutex_unlock(&writer->mutex);
    }
}

bt_status bt_checkpoint_wait(bt_checkpoint_writer *writer)
{
    (void)pthread_mutex_lock(&writer->mutex);
    await_idle(writer);
    bt_status status = writer->status;
    writer->status = BT_OK;
    if (status != BT_OK) {
        status = bt_error(status, "%s", writer->message);
    }
    (void)pthread_mutex_unlock(&writer->mutex);
    return status;
}

bt_status bt_checkpoint_cancel(bt_checkpoint_writer *writer)
{
    atomic_store(&writer->cancel, true);
    bt_status status = bt_checkpoint_wait(writer);
    return status == BT_STATUS_INTERRUPTED ? BT_OK : status;
}
