// framework/checkpoint/image.h - the layout of a checkpoint on disk, and writing it
//
// Internal to this folder: the interface is checkpoint.h and writer.h.
#ifndef BT_CHECKPOINT_IMAGE_H
#define BT_CHECKPOINT_IMAGE_H

#include <stdatomic.h>

#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/manifest.h"

typedef struct bt_image {
    bt_manifest manifest; // complete except for the values and the tensors' hashes
    bt_str *heads;        // owned [file_count]
    int64_t *sources;     // owned [tensor_count]: the state's tensor of each row
    uint64_t data_bytes;  // of all tensors
} bt_image;

// Assigns the state's tensors to files.
// Owns    the caller, until bt_image_release, also on failure
BT_CHECKED bt_status bt_image_make(const bt_checkpoint_options *options, const bt_state *state,
                                   bt_image *image);
void bt_image_release(bt_image *image);
// Writes the checkpoint of these values and makes it durable; then removes all but max_to_keep
// checkpoints.
// data    [tensor_count] host addresses, in the manifest's order
// cancel  read between writes; true ends the save with INTERRUPTED. NULL: never
BT_CHECKED bt_status bt_image_write(bt_image *image, const bt_checkpoint_store *store,
                                    const bt_state_values *values, int64_t max_to_keep,
                                    const void *const *data, const atomic_bool *cancel);

// Names. path[BT_PATH_CAPACITY]; "step-00000012", or ".tmp-step-00000012" while it is written.
BT_CHECKED bt_status bt_checkpoint_path(const bt_checkpoint_store *store, int64_t step,
                                        bool temporary, char *path);
const bt_file_ops *bt_store_ops(const bt_checkpoint_store *store);
// Removes files left by killed writers.
BT_CHECKED bt_status bt_store_clean(const bt_checkpoint_store *store);
// Removes the lowest steps, never `saved`, until max_to_keep remain; 0: none.
BT_CHECKED bt_status bt_store_retain(const bt_checkpoint_store *store, int64_t saved,
                                     int64_t max_to_keep);

#endif
