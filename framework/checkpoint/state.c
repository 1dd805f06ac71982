// framework/checkpoint/state.c - the list of tensors and its digest
#include "framework/checkpoint/state.h"

#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"
#include "framework/checkpoint/manifest.h"

enum { CHUNK_BYTES = 8 << 20 };

bt_status bt_state_add(bt_state *state, const char *name, bt_tensor *tensor)
{
    BT_TRY(bt_tensor_expect(tensor, tensor ? tensor->dtype : BT_F32, name));
    if (state->count == state->capacity) {
        int64_t capacity = state->capacity ? 2 * state->capacity : 64;
        void *tensors = state->tensors;
        BT_TRY(bt_mem_resize(&tensors, (size_t)capacity, sizeof *state->tensors));
        state->tensors = tensors;
        state->capacity = capacity;
    }
    state->tensors[state->count++] = (bt_state_tensor){name, tensor};
    return BT_OK;
}

void bt_state_release(bt_state *state)
{
    bt_mem_free(state->tensors);
    *state = (bt_state){0};
}

// The tensor's bytes are in host memory, or are copied through `host` piece by piece.
static bt_status hash_tensor(bt_context *context, const bt_tensor *tensor, void *host, char hex[33])
{
    const bt_backend *backend = context->device->backend;
    const char *data = bt_tensor_data(tensor);
    size_t size_bytes = bt_tensor_bytes(tensor);
    if (!host) {
        bt_xxh3_hex(data, size_bytes, hex);
        return BT_OK;
    }
    XXH3_state_t *hash = XXH3_createState();
    bt_status status = hash ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "digest state");
    if (hash) {
        (void)XXH3_128bits_reset(hash);
    }
    for (size_t at = 0; at < size_bytes && status == BT_OK; at += CHUNK_BYTES) {
        size_t part = size_bytes - at < CHUNK_BYTES ? size_bytes - at : CHUNK_BYTES;
        status = backend->copy(context->device, host, data + at, part, BT_COPY_DEVICE_TO_HOST,
                               context->stream);
        if (status == BT_OK) {
            status = bt_context_synchronize(context);
        }
        if (status == BT_OK) {
            (void)XXH3_128bits_update(hash, host, part);
        }
    }
    if (status == BT_OK) {
        bt_xxh3_text(XXH3_128bits_digest(hash), hex);
    }
    (void)XXH3_freeState(hash);
    return status;
}

static bt_status digest_of(bt_context *context, const bt_state *state, bool values, char digest[33])
{
    bt_manifest manifest = {.values = state->values};
    void *tensors = NULL;
    void *host = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_context_synchronize(context), done);
    BT_TRY_GOTO(bt_mem_alloc((size_t)state->count + 1, sizeof *manifest.tensors, &tensors), done);
    manifest.tensors = tensors;
    if (context->device->backend->kind != BT_DEVICE_CPU) {
        BT_TRY_GOTO(bt_mem_alloc(CHUNK_BYTES, 1, &host), done);
    }
    for (int64_t i = 0; i < state->count; ++i) {
        bt_manifest_tensor *row = &manifest.tensors[manifest.tensor_count];
        const bt_tensor *tensor = state->tensors[i].tensor;
        row->dtype = tensor->dtype;
        row->shape = tensor->shape;
        BT_TRY_GOTO(bt_mem_strdup(state->tensors[i].name, &row->name), done);
        ++manifest.tensor_count;
        BT_TRY_GOTO(hash_tensor(context, tensor, host, row->xxh3), done);
    }
    BT_TRY_GOTO(bt_manifest_digest(&manifest, values, digest), done);
done:
    bt_mem_free(host);
    bt_manifest_release(&manifest);
    return status;
}

bt_status bt_state_digest(bt_context *context, const bt_state *state, char digest[33])
{
    return digest_of(context, state, true, digest);
}

bt_status bt_state_tensors_digest(bt_context *context, const bt_state *state, char digest[33])
{
    return digest_of(context, state, false, digest);
}
