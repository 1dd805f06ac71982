// framework/checkpoint/writer.h - saving while training goes on
//
// bt_checkpoint_start takes a snapshot of the state into memory that was allocated once and
// returns; a thread writes it. On the CPU the snapshot is a copy of the tensors. On a GPU the state
// is copied to page-locked memory by a stream of the writer's own:
//   device_snapshot      first to a copy in device memory, in the context's stream; training waits
//                        for that alone
//   no device_snapshot   the context's stream waits for the copy to the host
//
// Invariants
//   1. At most one save is in flight.
//   2. What is written is the state at bt_checkpoint_start, whatever the context's stream does
//      afterwards.
//   3. A save that failed is reported once: by bt_checkpoint_wait or by the next
//      bt_checkpoint_start, whichever comes first, with the message of the failure.
// One thread at a time calls these functions: the one that trains.
#ifndef BT_CHECKPOINT_WRITER_H
#define BT_CHECKPOINT_WRITER_H

#include "framework/checkpoint/checkpoint.h"

typedef struct bt_checkpoint_writer bt_checkpoint_writer;

typedef struct bt_checkpoint_writer_options {
    bt_checkpoint_options checkpoint; // its texts are copied
    bool skip_when_busy;              // a save asked for while one is in flight is left out;
                                      // false: it waits for that one
    bool device_snapshot;             // no effect on the CPU
} bt_checkpoint_writer_options;

// state: the list of tensors to save from now on; the list and the names are copied, the tensors
// are retained. The store's folder and ops are borrowed and outlive the writer, as the context.
// Owns    *out: the caller, until bt_checkpoint_writer_destroy
// Errors  INVALID_ARGUMENT (names, tensors), OUT_OF_MEMORY
BT_CHECKED bt_status bt_checkpoint_writer_create(bt_context *context,
                                                 const bt_checkpoint_store *store,
                                                 const bt_checkpoint_writer_options *options,
                                                 const bt_state *state, bt_checkpoint_writer **out);
// Waits for the save in flight; a failure that was not read is lost. NULL is allowed.
void bt_checkpoint_writer_destroy(bt_checkpoint_writer *writer);

// Begins a save of the tensors as they are now and of these values. *started (may be NULL) is false
// when it was left out, because one is in flight or because of an error.
// Sync    none on a GPU, unless it waits for the save in flight
// Errors  INVALID_ARGUMENT (values); those of the save before, which is forgotten then
BT_CHECKED bt_status bt_checkpoint_start(bt_checkpoint_writer *writer,
                                         const bt_state_values *values, bool *started);
bool bt_checkpoint_is_busy(bt_checkpoint_writer *writer);
// Whether the copy to the host of the save in flight may still run. Sync    none
bool bt_checkpoint_is_copying(bt_checkpoint_writer *writer);
// Waits for the save in flight. Errors  those of that save, or those of the last that were not read
BT_CHECKED bt_status bt_checkpoint_wait(bt_checkpoint_writer *writer);
// Ends the save in flight as soon as possible and waits; nothing of it is left, unless it was
// complete already. Errors  as bt_checkpoint_wait, but that it was cancelled is none
BT_CHECKED bt_status bt_checkpoint_cancel(bt_checkpoint_writer *writer);

#endif
