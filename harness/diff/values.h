// harness/diff/values.h - the values of one training step in host memory, by name
//
// They come from a training run (bt_train_observer.value), of several ranks gathered from all of
// them (gather.h), or from a safetensors file of another program, and can be written to such a
// file. Names: framework/train/trace.h.
#ifndef BT_HARNESS_DIFF_VALUES_H
#define BT_HARNESS_DIFF_VALUES_H

#include "framework/base/mem.h"
#include "harness/diff/place.h"

typedef struct bt_diff_value {
    const char *name, *layer, *op; // of the arena; layer and op are "" for values of a file
    bt_train_value_kind kind;
    int64_t depth; // 0: unknown
    bt_dtype dtype;
    bt_shape shape;
    int64_t count;    // elements
    const void *data; // [count]; owned, or of the map; borrowed where it is a copy
    bool so_far;      // a parameter's gradient, summed up to here (bt_train_value); one rank only
    bt_diff_place place;                 // of a value of one of several ranks
    const struct bt_diff_layout *layout; // of the arena: which rank has which shard
    const struct bt_diff_value *copy_of; // borrowed: the first rank's value, from which the replica
    int rank;                            // of `rank` differs; NULL: not a replica
} bt_diff_value;

typedef struct bt_diff_values {
    bt_diff_value *items; // owned [capacity], in the order made or read
    int64_t count, capacity;
    int64_t cursor;  // start of the next look-up: both sides have nearly the same order
    const void *map; // owned; of the file that they were read from, NULL: there is none
    size_t map_bytes;
    bt_arena arena; // texts
} bt_diff_values;

// A new row at the end, which is valid after the caller has filled it and incremented the count.
BT_CHECKED bt_status bt_diff_values_next(bt_diff_values *values, bt_diff_value **out);
// Adds a copy of a tensor. mesh: of `rank`, whose values get the names of a run on one rank, or are
// ignored (place.h); NULL: one rank. Sync    waits for the device
BT_CHECKED bt_status bt_diff_values_add(bt_diff_values *values, bt_context *context,
                                        const bt_train_value *value, const bt_diff_mesh *mesh,
                                        int rank);
// Removes all values and keeps the memory of the list.
void bt_diff_values_clear(bt_diff_values *values);
void bt_diff_values_release(bt_diff_values *values);
// NULL if there is none of this name; never a replica.
const bt_diff_value *bt_diff_values_find(bt_diff_values *values, const char *name);

// FOLDER/step-00000007.safetensors, into path[capacity].
void bt_diff_values_path(const char *folder, int64_t step, char *path, size_t capacity);
// Replaces the values by those of a file. Unknown names are ignored.
// Errors  IO, CORRUPT_DATA (bt_safetensors_parse), OUT_OF_MEMORY
BT_CHECKED bt_status bt_diff_values_read(const char *path, bt_diff_values *values);
// Errors  IO (also if the file exists), OUT_OF_MEMORY
BT_CHECKED bt_status bt_diff_values_write(const bt_diff_values *values, const char *path);

#endif
