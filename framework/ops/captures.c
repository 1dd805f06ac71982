// framework/ops/captures.c - the list of a recomputed body's captured tensors
#include "framework/ops/captures.h"

#include "framework/base/mem.h"

bool bt_captures_have(const bt_captures *captures, const bt_tensor *tensor)
{
    for (int64_t i = 0; i < captures->count; ++i) {
        if (captures->items[i].tensor == tensor) {
            return true;
        }
    }
    return false;
}

static bool have_storage(const bt_captures *captures, const bt_storage *storage)
{
    for (int64_t i = 0; i < captures->count; ++i) {
        if (captures->items[i].tensor->storage == storage) {
            return true;
        }
    }
    return false;
}

static bool belongs(const bt_captures *captures, const bt_tensor *x)
{
    if (x->requires_grad) { // the body's tensors do not: nothing is recorded in it
        return !bt_captures_have(captures, x);
    }
    return x->storage->serial < captures->first_serial && !have_storage(captures, x->storage);
}

bt_status bt_captures_note(bt_captures *captures, bt_tensor *const *in, int in_count)
{
    for (int i = 0; i < in_count; ++i) {
        if (!in[i] || !belongs(captures, in[i])) {
            continue;
        }
        if (captures->count == captures->capacity) {
            const int64_t capacity = captures->capacity ? 2 * captures->capacity : 16;
            void *items = captures->items;
            BT_TRY(bt_mem_resize(&items, (size_t)capacity, sizeof *captures->items));
            captures->items = items;
            captures->capacity = capacity;
        }
        captures->items[captures->count++] =
            (bt_capture){bt_tensor_retain(in[i]), in[i]->storage->version};
    }
    return BT_OK;
}

bool bt_captures_require_grad(const bt_captures *captures)
{
    for (int64_t i = 0; i < captures->count; ++i) {
        if (captures->items[i].tensor->requires_grad) {
            return true;
        }
    }
    return false;
}

void bt_captures_release(bt_captures *captures)
{
    for (int64_t i = 0; i < captures->count; ++i) {
        bt_tensor_release(captures->items[i].tensor);
    }
    bt_mem_free(captures->items);
    *captures = (bt_captures){0};
}
