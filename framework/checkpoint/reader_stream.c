// framework/checkpoint/reader_stream.c - reads tensors in pieces, hashed by a second thread
//
// Pieces of at most PIECE_BYTES are numbered consecutively over all requested tensors. The calling
// thread reads piece k into the tensor's memory on the CPU, otherwise into slot k % SLOTS, from
// which it is copied to the device. The hashing thread follows. A slot is reused after it is hashed
// and its copy is complete.
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"
#include "framework/checkpoint/reader.h"
#include "framework/checkpoint/thread.h"

enum { PIECE_BYTES = 4 << 20, SLOTS = 4 };

typedef struct stream {
    bt_reader *reader;
    bt_device *device; // borrowed; NULL: verify only
    bt_tensor *const *targets;
    bool host;          // targets are in host memory, or there are none
    char *slots[SLOTS]; // owned
    bt_event copied[SLOTS];
    bool copying[SLOTS];
    XXH3_state_t *hash; // owned; the hashing thread's
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int64_t read_count, hashed_count; // pieces; guarded by mutex
    int64_t broken;                   // first tensor whose hash differs, -1: none; guarded by mutex
    bool ended;                       // nothing more will be read; guarded by mutex
} stream;

static bool is_wanted(const stream *s, int64_t tensor) { return !s->targets || s->targets[tensor]; }

// Pieces go to the tensors' memory, not to slots.
static bool is_direct(const stream *s) { return s->targets && s->host; }

static char *place_of(const stream *s, int64_t piece, int64_t tensor, uint64_t at)
{
    return s->targets && s->host ? (char *)bt_tensor_data(s->targets[tensor]) + at
                                 : s->slots[piece % SLOTS];
}

static size_t piece_size(const bt_manifest_tensor *tensor, uint64_t at)
{
    return (size_t)(tensor->size_bytes - at < PIECE_BYTES ? tensor->size_bytes - at : PIECE_BYTES);
}

// ---- the hashing thread -------------------------------------------------------------------------

// Waits for a piece. False if there are no more.
static bool await_piece(stream *s, int64_t piece)
{
    (void)pthread_mutex_lock(&s->mutex);
    while (s->read_count <= piece && !s->ended) {
        (void)pthread_cond_wait(&s->changed, &s->mutex);
    }
    bool there = s->read_count > piece;
    (void)pthread_mutex_unlock(&s->mutex);
    return there;
}

static void count_hashed(stream *s, int64_t broken)
{
    (void)pthread_mutex_lock(&s->mutex);
    ++s->hashed_count;
    s->broken = s->broken < 0 ? broken : s->broken;
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->mutex);
}

static void *hash_pieces(void *self)
{
    stream *s = self;
    int64_t piece = 0;
    for (int64_t i = 0; i < s->reader->manifest.tensor_count; ++i) {
        const bt_manifest_tensor *tensor = &s->reader->manifest.tensors[i];
        uint64_t at = 0;
        if (!is_wanted(s, i)) {
            continue;
        }
        (void)XXH3_128bits_reset(s->hash);
        do { // a tensor without bytes has one piece without bytes
            size_t size_bytes = piece_size(tensor, at);
            if (!await_piece(s, piece)) {
                return NULL;
            }
            (void)XXH3_128bits_update(s->hash, place_of(s, piece, i, at), size_bytes);
            at += size_bytes;
            ++piece;
            char xxh3[33];
            bool fine = true;
            if (at == tensor->size_bytes) {
                bt_xxh3_text(XXH3_128bits_digest(s->hash), xxh3);
                fine = strcmp(xxh3, tensor->xxh3) == 0;
            }
            count_hashed(s, fine ? -1 : i);
        } while (at < tensor->size_bytes);
    }
    return NULL;
}

// ---- the reading thread -------------------------------------------------------------------------

static bt_status report_broken(const stream *s, int64_t index)
{
    const bt_manifest_tensor *tensor = &s->reader->manifest.tensors[index];
    return bt_error(BT_STATUS_CORRUPT_DATA,
                    "%s/%s: tensor %s, bytes %llu to %llu, does not have the XXH3-128 %s that the "
                    "manifest has",
                    s->reader->folder, s->reader->manifest.files[tensor->file].name, tensor->name,
                    (unsigned long long)tensor->offset_bytes,
                    (unsigned long long)(tensor->offset_bytes + tensor->size_bytes), tensor->xxh3);
}

// Waits until all pieces below `piece` are hashed.
static bt_status await_hashed(stream *s, int64_t piece)
{
    (void)pthread_mutex_lock(&s->mutex);
    while (s->hashed_count < piece && s->broken < 0) {
        (void)pthread_cond_wait(&s->changed, &s->mutex);
    }
    int64_t broken = s->broken;
    (void)pthread_mutex_unlock(&s->mutex);
    return broken < 0 ? BT_OK : report_broken(s, broken);
}

static bt_status await_slot(stream *s, int64_t piece)
{
    if (is_direct(s)) {
        return BT_OK;
    }
    BT_TRY(await_hashed(s, piece - SLOTS + 1));
    if (s->copying[piece % SLOTS]) {
        s->copying[piece % SLOTS] = false;
        return s->device->backend->event_synchronize(s->device, s->copied[piece % SLOTS]);
    }
    return BT_OK;
}

static void count_read(stream *s, bool ended)
{
    (void)pthread_mutex_lock(&s->mutex);
    s->read_count += !ended;
    s->ended = ended;
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->mutex);
}

static bt_status copy_slot(stream *s, bt_context *context, int64_t piece, int64_t tensor,
                           uint64_t at, size_t size_bytes)
{
    const bt_backend *backend = s->device->backend;
    int slot = (int)(piece % SLOTS);
    char *target = (char *)bt_tensor_data(s->targets[tensor]) + at;
    BT_TRY(backend->copy(s->device, target, s->slots[slot], size_bytes, BT_COPY_HOST_TO_DEVICE,
                         context->stream));
    BT_TRY(backend->event_record(s->device, s->copied[slot], context->stream));
    s->copying[slot] = true;
    return BT_OK;
}

static bt_status read_pieces(stream *s, bt_context *context)
{
    const bt_reader *reader = s->reader;
    const bt_manifest *manifest = &reader->manifest;
    char path[BT_PATH_CAPACITY];
    int64_t piece = 0;
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        const bt_manifest_tensor *tensor = &manifest->tensors[i];
        uint64_t at = 0;
        if (!is_wanted(s, i)) {
            continue;
        }
        BT_TRY(bt_io_path(reader->folder, manifest->files[tensor->file].name, path));
        do {
            size_t size_bytes = piece_size(tensor, at);
            BT_TRY(await_slot(s, piece));
            bt_status status = bt_io_read(reader->ops, reader->files[tensor->file], path,
                                          place_of(s, piece, i, at), size_bytes,
                                          (int64_t)(tensor->offset_bytes + at));
            BT_TRY(bt_error_context(status, "tensor %s", tensor->name));
            count_read(s, false);
            if (s->targets && !s->host) {
                BT_TRY(copy_slot(s, context, piece, i, at, size_bytes));
            }
            at += size_bytes;
            ++piece;
        } while (at < tensor->size_bytes);
        if (s->targets) {
            bt_tensor_touch(s->targets[i]);
        }
    }
    return await_hashed(s, piece);
}

// ---- both ---------------------------------------------------------------------------------------

static bt_status make_slots(stream *s)
{
    s->hash = XXH3_createState();
    if (!s->hash) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "digest state");
    }
    for (int i = 0; i < SLOTS && !is_direct(s); ++i) {
        void *block = NULL;
        if (s->host) {
            BT_TRY(bt_mem_alloc(PIECE_BYTES, 1, &block));
        } else {
            BT_TRY(s->device->backend->pinned_alloc(s->device, PIECE_BYTES, &block));
        }
        s->slots[i] = block;
        if (!s->host) {
            BT_TRY(s->device->backend->event_create(s->device, &s->copied[i]));
        }
    }
    return BT_OK;
}

static void release_slots(stream *s)
{
    for (int i = 0; i < SLOTS; ++i) {
        if (s->host) {
            bt_mem_free(s->slots[i]);
        } else if (s->slots[i]) {
            s->device->backend->pinned_free(s->device, s->slots[i]);
        }
        if (s->copied[i]) {
            s->device->backend->event_destroy(s->device, s->copied[i]);
        }
    }
    (void)XXH3_freeState(s->hash);
}

static bt_status run(stream *s, bt_context *context)
{
    pthread_t thread;
    if (!bt_thread_start(&thread, hash_pieces, s)) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "cannot start the hashing thread");
    }
    bt_status status = read_pieces(s, context);
    count_read(s, true);
    (void)pthread_join(thread, NULL);
    return status;
}

bt_status bt_reader_read(bt_reader *reader, bt_context *context, bt_tensor *const *targets)
{
    bool host = !targets || context->device->backend->kind == BT_DEVICE_CPU;
    stream s = {.reader = reader,
                .device = targets ? context->device : NULL,
                .targets = targets,
                .host = host,
                .mutex = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
                .broken = -1};
    // Pending reads and writes of the tensors must complete before they are overwritten.
    bt_status status = targets ? bt_context_synchronize(context) : BT_OK;
    if (status == BT_OK) {
        status = make_slots(&s);
    }
    if (status == BT_OK) {
        status = run(&s, context);
    }
    if (targets) { // copies from the slots must complete before the slots are freed, also after a
                   // failure
        bt_status copies = bt_context_synchronize(context);
        status = status == BT_OK ? copies : status;
    }
    release_slots(&s);
    return status;
}
