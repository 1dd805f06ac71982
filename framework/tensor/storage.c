// framework/tensor/storage.c - storages whose memory is freed and restored
#include "framework/tensor/tensor.h"

void bt_storage_give_up(bt_storage *storage)
{
    if (storage->data && storage->pool) {
        bt_pool_free(storage->pool, storage->data);
    }
    storage->data = NULL;
}

bt_status bt_storage_take_back(bt_context *context, bt_storage *storage, const char *name)
{
    return bt_pool_alloc(context->pool, storage->size_bytes, context->stream, name, &storage->data);
}

bt_status bt_tensors_fetch(bt_context *context, bt_tensor *const *tensors, int count)
{
    for (int i = 0; i < count; ++i) {
        bt_storage *storage = tensors[i] ? tensors[i]->storage : NULL;
        if (storage && storage->source.fetch) {
            BT_TRY(storage->source.fetch(storage->source.self, context, storage));
        }
    }
    return BT_OK;
}
