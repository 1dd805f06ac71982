// framework/checkpoint/writer.h - saves asynchronously while training continues
//
// bt_checkpoint_start takes a snapshot of the state into memory that was allocated once and
// returns; a thread writes it. On the CPU the snapshot is a copy of the tensors. On a GPU the state
// is copied to page-locked memory on a stream of the writer:
//   device_snapshot      first to a copy in device memory, on the context's stream; training waits
//                        only for that copy
//   no device_snapshot   the context's stream waits for the copy to the host
// With in_place there is no snapshot: the tensors are in host memory, and the caller does not
// change them until the save has ended. Work of the context's stream that writes them is waited
// for.
//
// Invariants
//   1. At most one save is in flight.
//   2. A save writes the state at bt_checkpoint_start, whatever the context's stream does
//      afterwards.
//   3. A failed save is reported once, with its message: by bt_checkpoint_wait or by the next
//      bt_checkpoint_start, whichever comes first.
// Not thread-safe: only the training thread calls these functions.
#ifndef BT_CHECKPOINT_WRITER_H
#define BT_CHECKPOINT_WRITER_H

#include "framework/checkpoint/checkpoint.h"

typedef struct bt_checkpoint_writer bt_checkpoint_writer;

typedef struct bt_checkpoint_writer_options {
    bt_checkpoint_options checkpoint; // its texts are copied
    bool skip_when_busy;              // skip a save requested while one is in flight; false: wait
                                      // for that one
    bool device_snapshot;             // no effect on the CPU
    bool in_place;                    // write from the tensors' own memory, which is the host's
    // Called by the writing thread with `self` (borrowed) when the state is in host memory, before
    // it is written: an error ends the save. NULL: none
    bt_status (*check)(void *self);
    void *self;
} bt_checkpoint_writer_options;

// state: the list of tensors to save; the list and the names are copied, the tensors are retained.
// The store's folder, the ops and the context are borrowed and outlive the writer.
// Owns    *out: the caller, until bt_checkpoint_writer_destroy
// Errors  INVALID_ARGUMENT (names, tensors), OUT_OF_MEMORY
BT_CHECKED bt_status bt_checkpoint_writer_create(bt_context *context,
                                                 const bt_checkpoint_store *store,
                                                 const bt_checkpoint_writer_options *options,
                                                 const bt_state *state, bt_checkpoint_writer **out);
// Waits for the save in flight; an unreported failure is lost. NULL is allowed.
void bt_checkpoint_writer_destroy(bt_checkpoint_writer *writer);

// Begins a save of the current tensors and of these values. *started (may be NULL) is false if it
// was skipped, because one is in flight or because of an error.
// Sync    none on a GPU, unless it waits for the save in flight
// Errors  INVALID_ARGUMENT (values); those of the previous save, which is then cleared
BT_CHECKED bt_status bt_checkpoint_start(bt_checkpoint_writer *writer,
                                         const bt_state_values *values, bool *started);
bool bt_checkpoint_is_busy(bt_checkpoint_writer *writer);
// Whether the save in flight may still copy to the host. Sync    none
bool bt_checkpoint_is_copying(bt_checkpoint_writer *writer);
// Waits until no save is in flight; its result remains to be reported. NULL is allowed.
void bt_checkpoint_settle(bt_checkpoint_writer *writer);
// Waits for the save in flight. Errors  those of that save, or unreported errors of the last one
BT_CHECKED bt_status bt_checkpoint_wait(bt_checkpoint_writer *writer);
// Cancels the save in flight and waits; its files are removed unless it was complete already.
// Errors  as bt_checkpoint_wait; the cancellation itself is not an error
BT_CHECKED bt_status bt_checkpoint_cancel(bt_checkpoint_writer *writer);

#endif
