// framework/checkpoint/save.c - saves a state and waits for it
#include "framework/base/mem.h"
#include "framework/checkpoint/image.h"
#include "framework/checkpoint/writer.h"

// On the CPU the tensors' memory is written directly, without a copy.
static bt_status save_host(const bt_checkpoint_store *store, const bt_checkpoint_options *options,
                           const bt_state *state)
{
    bt_image image;
    void *data = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_image_make(options, state, &image), done);
    BT_TRY_GOTO(bt_mem_alloc((size_t)state->count + 1, sizeof(void *), &data), done);
    for (int64_t i = 0; i < state->count; ++i) {
        ((const void **)data)[i] = bt_tensor_data(state->tensors[image.sources[i]].tensor);
    }
    status = bt_image_write(&image, store, &state->values, options->max_to_keep, data, NULL);
done:
    bt_mem_free(data);
    bt_image_release(&image);
    return status;
}

bt_status bt_checkpoint_save(bt_context *context, const bt_checkpoint_store *store,
                             const bt_checkpoint_options *options, const bt_state *state)
{
    if (context->device->backend->kind == BT_DEVICE_CPU) {
        BT_TRY(bt_context_synchronize(context));
        return save_host(store, options, state);
    }
    bt_checkpoint_writer *writer = NULL;
    const bt_checkpoint_writer_options wanted = {.checkpoint = *options};
    bt_status status = bt_checkpoint_writer_create(context, store, &wanted, state, &writer);
    if (status == BT_OK) {
        status = bt_checkpoint_start(writer, &state->values, NULL);
    }
    if (status == BT_OK) {
        status = bt_checkpoint_wait(writer);
    }
    bt_checkpoint_writer_destroy(writer);
    return status;
}
