// framework/checkpoint/checkpoint.h - saving, listing, verifying and loading training states
//
// A store is a folder; a checkpoint is a folder step-0000NNNN in it with safetensors files and
// manifest.json.
//
// Invariants
//   1. A checkpoint appears whole or not at all: it is written under the name .tmp-step-0000NNNN,
//      every file and the folder are synced, then it is renamed and the store is synced. After a
//      save has returned BT_OK, its checkpoint survives a power failure.
//   2. No older checkpoint is removed before the new checkpoint is durable.
//   3. Every byte of a checkpoint is covered by a hash, and loaded data is verified against its
//      hash.
//   4. A store has one writer at a time. Names that begin with .tmp- were left by a writer that was
//      killed; the next save removes them.
#ifndef BT_CHECKPOINT_CHECKPOINT_H
#define BT_CHECKPOINT_CHECKPOINT_H

#include "framework/base/str.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/checkpoint/state.h"

typedef struct bt_checkpoint_store {
    const char *folder;     // borrowed
    const bt_file_ops *ops; // borrowed; NULL: the operating system's
} bt_checkpoint_store;

typedef struct bt_checkpoint_options {
    int64_t max_to_keep;   // checkpoints to keep: the highest steps; 0: all
    uint64_t file_bytes;   // maximum size of a file; a larger state is split; 0: one file
    const char *plan_hash; // borrowed; NULL: ""
    const char *build;     // borrowed; NULL: "". Build that wrote it
} bt_checkpoint_options;

// Saves the state as the checkpoint of values.step, replacing one of that step. Returns when it is
// durable. On a device other than the CPU this takes page-locked memory of the state's size; for
// frequent saves use writer.h.
// Sync    waits for the context's stream
// Errors  INVALID_ARGUMENT (names, values), IO (path, operation and reason; the store's other
//         checkpoints are whole), OUT_OF_MEMORY. When only the removal of older checkpoints failed,
//         the message says that the step is saved.
BT_CHECKED bt_status bt_checkpoint_save(bt_context *context, const bt_checkpoint_store *store,
                                        const bt_checkpoint_options *options,
                                        const bt_state *state);

// The steps that the store has, verified or not, ascending. A missing store has none.
// Owns    *steps: the caller (bt_mem_free)
BT_CHECKED bt_status bt_checkpoint_list(const bt_checkpoint_store *store, int64_t **steps,
                                        int64_t *count);
BT_CHECKED bt_status bt_checkpoint_remove(const bt_checkpoint_store *store, int64_t step);
// Finds stores in the folders below one, three levels deep, for the message that it is none.
// Appends a line for each of the first four, "\n  FOLDER (newest: step-00000100)". Folders that
// cannot be read are skipped. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_checkpoint_stores_below(const char *folder, bt_str *out, int64_t *count);

typedef struct bt_checkpoint_info {
    int64_t step;         // -1: the store has no checkpoint
    uint64_t size_bytes;  // of the safetensors files
    int64_t tensor_count; // in all of them
    bt_state_values values;
    char plan_hash[256], build[256];
    char digest[33];         // bt_state_digest of the saved state
    char tensors_digest[33]; // digest of the tensors without the values
    int64_t skipped;         // newer checkpoints that do not verify
    char skip_reason[512];   // of the newest of them
} bt_checkpoint_info;

// Reads all of a checkpoint and compares it with its hashes.
// Errors  CORRUPT_DATA (file, byte offset, tensor), UNSUPPORTED (format), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_checkpoint_verify(const bt_checkpoint_store *store, int64_t step,
                                          bt_checkpoint_info *info);
// Reads the description of a checkpoint: checks its manifest and the headers of its files; does not
// read the data. tensors (may be NULL): names, types, shapes and sizes, sorted by name; offsets are
// in their files.
// Owns    *tensors: the caller, until bt_safetensors_release, also when this fails
// Errors  as bt_checkpoint_verify
BT_CHECKED bt_status bt_checkpoint_describe(const bt_checkpoint_store *store, int64_t step,
                                            bt_checkpoint_info *info, bt_safetensors *tensors);
// The highest step that verifies; info->step is -1 when the store is empty.
// Errors  CORRUPT_DATA if there are checkpoints and none verifies; OUT_OF_MEMORY
BT_CHECKED bt_status bt_checkpoint_newest(const bt_checkpoint_store *store,
                                          bt_checkpoint_info *info);

typedef struct bt_checkpoint_load_options {
    const char *plan_hash; // borrowed; the checkpoint's must be equal. NULL: any
    bool ignore_extra;     // skip tensors that the state does not name instead of failing
    int64_t below;         // the newest of the steps below this; 0: any
} bt_checkpoint_load_options;

// Loads into the state's tensors, whose names, types and shapes must be the checkpoint's, and sets
// its values. Everything except the hashes of the data is checked before a tensor is written: after
// CORRUPT_DATA or IO the tensors may be partly overwritten; load another checkpoint or stop.
// options NULL: strict, any plan. info may be NULL.
// Errors  INVALID_ARGUMENT (another plan; the message lists the first differences), as
//         bt_checkpoint_verify
BT_CHECKED bt_status bt_checkpoint_load(bt_context *context, const bt_checkpoint_store *store,
                                        int64_t step, const bt_checkpoint_load_options *options,
                                        bt_state *state, bt_checkpoint_info *info);
// The highest step that verifies and is below options->below; it is read once. If there is none,
// info->step is -1 and the state is unchanged.
// Errors  as bt_checkpoint_load and bt_checkpoint_newest
BT_CHECKED bt_status bt_checkpoint_load_newest(bt_context *context,
                                               const bt_checkpoint_store *store,
                                               const bt_checkpoint_load_options *options,
                                               bt_state *state, bt_checkpoint_info *info);

#endif
