// framework/autograd/offload.c - copies to pinned memory and back, overlapping the computation
#include "framework/autograd/offload.h"

#include "framework/base/mem.h"

enum { WINDOW = 3 }; // tensors in flight: about what a transformer block keeps

struct bt_offloaded {
    bt_offload *owner; // borrowed
    int64_t refs;
    bt_offloaded *older, *newer; // list of live ones, in the order of put; `older` links free ones
    bt_tensor *device;           // retained: the tensor put, until evicted; then the one fetched
    bool evicted, written;       // version at put: written in place before it was evicted is an
                                 // error
    bt_tensor like;           // shape, type, name and producer of the tensor put; retains nothing
    uint64_t serial, version; // of its storage
    void *host;               // owned, pinned
    size_t size_bytes;
    bt_event ready; // the source of the last copy was written, or its target may be
    bt_event done;  // the last copy is complete
};

struct bt_offload {
    bt_device *device; // borrowed
    bt_stream compute, copy;
    bt_offloaded *newest, *resident; // live ones; resident: the oldest that is not evicted
    int64_t resident_count;
    bt_offloaded *unused; // with their host memory and events
    bt_status status;     // first error of functions that cannot return one
};

bt_status bt_offload_create(bt_context *context, bt_offload **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_offload), &block));
    bt_offload *offload = block;
    *offload = (bt_offload){.device = context->device, .compute = context->stream};
    bt_status status =
        context->device->backend->stream_create(context->device, false, &offload->copy);
    if (status != BT_OK) {
        bt_mem_free(offload);
        return status;
    }
    *out = offload;
    return BT_OK;
}

static void free_place(bt_offload *offload, bt_offloaded *away)
{
    const bt_backend *backend = offload->device->backend;
    if (away->ready) {
        backend->event_destroy(offload->device, away->ready);
    }
    if (away->done) {
        backend->event_destroy(offload->device, away->done);
    }
    if (away->host) {
        backend->pinned_free(offload->device, away->host);
    }
    bt_mem_free(away);
}

void bt_offload_destroy(bt_offload *offload)
{
    if (!offload) {
        return;
    }
    (void)offload->device->backend->stream_synchronize(offload->device, offload->copy);
    while (offload->unused) {
        bt_offloaded *next = offload->unused->older;
        free_place(offload, offload->unused);
        offload->unused = next;
    }
    offload->device->backend->stream_destroy(offload->device, offload->copy);
    bt_mem_free(offload);
}

// Host memory and events for a tensor of this size, reused from an earlier tensor if possible.
static bt_status find_place(bt_offload *offload, size_t size_bytes, bt_offloaded **out)
{
    const bt_backend *backend = offload->device->backend;
    for (bt_offloaded **link = &offload->unused; *link; link = &(*link)->older) {
        if ((*link)->size_bytes == size_bytes) {
            *out = *link;
            *link = (*out)->older;
            return BT_OK;
        }
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_offloaded), &block));
    bt_offloaded *made = block;
    bt_status status = backend->pinned_alloc(offload->device, size_bytes, &made->host);
    if (status == BT_OK) {
        status = backend->event_create(offload->device, &made->ready);
    }
    if (status == BT_OK) {
        status = backend->event_create(offload->device, &made->done);
    }
    if (status != BT_OK) {
        free_place(offload, made);
        return bt_error_context(status, "offload to host memory");
    }
    made->size_bytes = size_bytes;
    *out = made;
    return BT_OK;
}

// Starts a copy after the current work of the compute stream.
static bt_status start_copy(bt_offloaded *away, void *to, const void *from, bt_copy_kind kind)
{
    bt_offload *offload = away->owner;
    bt_device *device = offload->device;
    const bt_backend *backend = device->backend;
    BT_TRY(backend->event_record(device, away->ready, offload->compute));
    BT_TRY(backend->event_wait(device, away->ready, offload->copy));
    BT_TRY(backend->copy(device, to, from, away->size_bytes, kind, offload->copy));
    return backend->event_record(device, away->done, offload->copy);
}

static bt_status await_copy(bt_offloaded *away)
{
    bt_device *device = away->owner->device;
    return device->backend->event_wait(device, away->done, away->owner->compute);
}

// Frees the device memory of the oldest tensor that has it.
static bt_status evict_oldest(bt_offload *offload)
{
    bt_offloaded *away = offload->resident;
    offload->resident = away->newer;
    --offload->resident_count;
    away->evicted = true;
    away->written = away->device->storage->version != away->version;
    bt_status status = await_copy(away);
    BT_TENSOR_RELEASE(away->device);
    return status;
}

static bt_offloaded *find(const bt_offload *offload, const bt_tensor *tensor)
{
    for (bt_offloaded *away = offload->newest; away; away = away->older) {
        if (away->serial == tensor->storage->serial && away->like.offset == tensor->offset &&
            away->version == tensor->storage->version &&
            bt_shape_equal(&away->like.shape, &tensor->shape)) {
            return away;
        }
    }
    return NULL;
}

bt_status bt_offload_put(bt_offload *offload, bt_tensor *tensor, bt_offloaded **out)
{
    *out = NULL;
    BT_TRY(offload->status);
    bt_offloaded *away = find(offload, tensor);
    if (away) {
        ++away->refs;
        *out = away;
        return BT_OK;
    }
    BT_TRY(find_place(offload, bt_tensor_bytes(tensor), &away));
    const bt_offloaded place = *away;
    *away = (bt_offloaded){.owner = offload,
                           .refs = 1,
                           .older = offload->newest,
                           .device = bt_tensor_retain(tensor),
                           .like = *tensor,
                           .serial = tensor->storage->serial,
                           .version = tensor->storage->version,
                           .host = place.host,
                           .size_bytes = place.size_bytes,
                           .ready = place.ready,
                           .done = place.done};
    if (offload->newest) {
        offload->newest->newer = away;
    }
    offload->newest = away;
    offload->resident = offload->resident ? offload->resident : away;
    ++offload->resident_count;
    bt_status status = start_copy(away, away->host, bt_tensor_data(tensor), BT_COPY_DEVICE_TO_HOST);
    while (status == BT_OK && offload->resident && offload->resident_count > WINDOW) {
        status = evict_oldest(offload);
    }
    if (status != BT_OK) {
        bt_offload_drop(away);
        return status;
    }
    *out = away;
    return BT_OK;
}

// Fetches an evicted tensor; it replaces the original on the tape.
static bt_status fetch(bt_context *context, bt_offloaded *away)
{
    if (away->device) {
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, away->like.dtype, away->like.shape, away->like.name,
                            &away->device));
    away->device->requires_grad = away->like.requires_grad;
    away->device->grad_dtype = away->like.grad_dtype;
    away->device->producer = away->like.producer;
    away->device->producer_output = away->like.producer_output;
    away->device->producer_generation = away->like.producer_generation;
    return start_copy(away, bt_tensor_data(away->device), away->host, BT_COPY_HOST_TO_DEVICE);
}

bt_status bt_offload_get(bt_context *context, bt_offloaded *away, bt_tensor **out)
{
    *out = NULL;
    BT_TRY(away->owner->status);
    if (away->written || (!away->evicted && away->device->storage->version != away->version)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the tensor \"%s\", saved for backward, was written in place afterwards",
                        away->like.name);
    }
    bt_offloaded *next = away;
    for (int i = 0; i <= WINDOW && next; ++i, next = next->older) {
        BT_TRY(fetch(context, next));
    }
    BT_TRY(await_copy(away));
    *out = bt_tensor_retain(away->device);
    return BT_OK;
}

static void unlink_live(bt_offloaded *away)
{
    bt_offload *offload = away->owner;
    if (!away->evicted) {
        offload->resident = offload->resident == away ? away->newer : offload->resident;
        --offload->resident_count;
    }
    if (away->newer) {
        away->newer->older = away->older;
    } else {
        offload->newest = away->older;
    }
    if (away->older) {
        away->older->newer = away->newer;
    }
}

void bt_offload_drop(bt_offloaded *away)
{
    if (!away || --away->refs > 0) {
        return;
    }
    bt_offload *offload = away->owner;
    const bt_status status = await_copy(away); // its memory may be reused after that
    offload->status = offload->status == BT_OK ? status : offload->status;
    unlink_live(away);
    BT_TENSOR_RELEASE(away->device);
    away->older = offload->unused;
    offload->unused = away;
}
