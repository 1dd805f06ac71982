// harness/diff/values.h - the values of one training step in host memory, by name
//
// They come from a training run (bt_train_observer.value) or from a safetensors file that another
// program wrote, and go to such a file. Names: framework/train/trace.h.
#ifndef BT_HARNESS_DIFF_VALUES_H
#define BT_HARNESS_DIFF_VALUES_H

#include "framework/base/mem.h"
#include "framework/train/train.h"

typedef struct bt_diff_value {
    const char *name, *layer, *op; // of the arena; layer and op are "" for values of a file
    bt_train_value_kind kind;
    int64_t depth; // 0: not known
    bt_dtype dtype;
    bt_shape shape;
    int64_t count;    // elements
    const void *data; // [count]; owned, or of the map
} bt_diff_value;

typedef struct bt_diff_values {
    bt_diff_value *items; // owned [capacity], in the order made or read
    int64_t count, capacity;
    int64_t cursor;  // where the next look-up begins: both sides have nearly the same order
    const void *map; // owned; of the file that they were read from, NULL: there is none
    size_t map_bytes;
    bt_arena arena; // texts
} bt_diff_values;

// Adds a copy of a tensor. Sync    waits for the device
BT_CHECKED bt_status bt_diff_values_add(bt_diff_values *values, bt_context *context,
                                        const bt_train_value *value);
// Forgets all values and keeps the memory of the list.
void bt_diff_values_clear(bt_diff_values *values);
void bt_diff_values_release(bt_diff_values *values);
// NULL when there is none of this name.
const bt_diff_value *bt_diff_values_find(bt_diff_values *values, const char *name);

// FOLDER/step-00000007.safetensors, into path[capacity].
void bt_diff_values_path(const char *folder, int64_t step, char *path, size_t capacity);
// Reads a file in place of what was there. Names that are none of ours are left out.
// Errors  IO, CORRUPT_DATA (bt_safetensors_parse), OUT_OF_MEMORY
BT_CHECKED bt_status bt_diff_values_read(const char *path, bt_diff_values *values);
// Errors  IO (also when the file is there already), OUT_OF_MEMORY
BT_CHECKED bt_status bt_diff_values_write(const bt_diff_values *values, const char *path);

#endif
