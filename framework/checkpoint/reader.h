// framework/checkpoint/reader.h - an opened checkpoint, and reading its tensors with verified
// hashes
//
// Internal to this folder. One thread reads while another hashes what has been read.
#ifndef BT_CHECKPOINT_READER_H
#define BT_CHECKPOINT_READER_H

#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/manifest.h"

typedef struct bt_reader {
    const bt_file_ops *ops; // borrowed
    char folder[BT_PATH_CAPACITY];
    bt_manifest manifest;
    int *files; // owned [file_count]; the open files come first
    int64_t open_count;
} bt_reader;

// Opens a checkpoint: checks the manifest, and each file's header against it.
// Owns    the caller, until bt_reader_close, also when this fails
// Errors  CORRUPT_DATA, UNSUPPORTED, IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_reader_open(const bt_checkpoint_store *store, int64_t step,
                                    bt_reader *reader);
void bt_reader_close(bt_reader *reader);

// Reads tensors and compares them with their hashes.
// targets  [tensor_count] destinations; NULL entries are skipped. NULL: all are verified, none is
//          kept
// context  of the targets' device; may be NULL without targets
// Errors  CORRUPT_DATA (tensor, file, byte offset), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_reader_read(bt_reader *reader, bt_context *context,
                                    bt_tensor *const *targets);

#endif
