// framework/nn/batch.c - the tensors of a batch by name
#include <string.h>

#include "framework/base/str.h"
#include "framework/nn/model.h"

bt_status bt_batch_find(const bt_batch *batch, const char *name, bt_tensor **tensor)
{
    bt_str names = {0};
    *tensor = NULL;
    for (int i = 0; i < batch->count; ++i) {
        if (strcmp(batch->items[i].name, name) == 0) {
            *tensor = batch->items[i].tensor;
            return BT_OK;
        }
    }
    for (int i = 0; i < batch->count; ++i) {
        bt_str_format(&names, "%s%s", i ? ", " : "", batch->items[i].name);
    }
    bt_status status = bt_error(BT_STATUS_INVALID_ARGUMENT, "the batch has no \"%s\"; it has: %s",
                                name, bt_str_text(&names));
    bt_str_release(&names);
    return status;
}
