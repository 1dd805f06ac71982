// framework/data/dataset.h - a folder of shards and its manifest
//
// dataset.json names every shard with tokens, bytes and SHA-256, the sources and the tokenizer. It
// is written last, so a folder that has it is complete. Without a manifest, the shards are the
// files named *_train_*.bin and *_val_*.bin, sorted by name.
#ifndef BT_DATA_DATASET_H
#define BT_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/data/digest.h"

#define BT_DATASET_MANIFEST "dataset.json"

typedef struct bt_dataset_shard {
    char *path; // owned: folder/file
    int64_t tokens;
    uint64_t size_bytes;
    bt_digest digest; // of the file; "" if unknown
} bt_dataset_shard;

typedef struct bt_dataset_split {
    bt_dataset_shard *shards; // [count], owned
    const char **paths;       // [count], owned; the paths belong to shards. As a loader takes them
    int64_t count, capacity;
    int64_t tokens;    // in all shards
    int64_t documents; // documents that begin in this split; -1: unknown
} bt_dataset_split;

typedef struct bt_dataset_source {
    char *path; // owned, as given
    uint64_t size_bytes;
    bt_digest digest;
} bt_dataset_source;

typedef struct bt_dataset {
    char *folder, *name; // owned; the name is "" without a manifest
    bt_dataset_split train, val;
    bt_dataset_source *sources; // [source_count], owned
    int64_t source_count;
    bt_digest tokenizer; // of the rank file; "" if unknown
    bt_digest digest;    // of all shards' names and digests: identifies the data; "" if unknown
    int64_t vocab;       // token ids are below this; 0 if unknown
    bool has_manifest;
} bt_dataset;

// Reads a folder and checks the size, header and token count of every shard.
// Owns    *dataset: the caller, until bt_dataset_release
// Errors  IO, CORRUPT_DATA (manifest, or a shard that differs from it), INVALID_ARGUMENT (no
//         shards in the folder), OUT_OF_MEMORY
BT_CHECKED bt_status bt_dataset_open(const char *folder, bt_dataset *dataset);
// Reads every shard: compares digests if the manifest has them, and token ids with the vocabulary.
// Errors  CORRUPT_DATA (file, expected, got), IO
BT_CHECKED bt_status bt_dataset_verify(const bt_dataset *dataset);
// Safe on a zeroed struct.
void bt_dataset_release(bt_dataset *dataset);

// For code that makes datasets. Adds a shard; its digest may be NULL.
BT_CHECKED bt_status bt_dataset_add_shard(bt_dataset *dataset, bool val, const char *file,
                                          int64_t tokens, const bt_digest *digest);
// Computes dataset->digest and writes the manifest into `folder`.
BT_CHECKED bt_status bt_dataset_write(bt_dataset *dataset, const char *folder);
// "<folder>/<name>". Owns: the caller.
BT_CHECKED bt_status bt_path_join(const char *folder, const char *name, char **path);

#endif
