// framework/checkpoint/state.h - the training state: named tensors and plain values
//
// The trainer makes the list once, from parameters and optimizer, and updates the values before
// each save. checkpoint/ iterates over the list and does not know the model.
//
// Invariants
//   1. Names are unique; tensors are contiguous and on one device.
//   2. The digest is a function of names, types, shapes, bytes and values, not of the list's order:
//      equal digests mean that training continues with the same bits.
#ifndef BT_CHECKPOINT_STATE_H
#define BT_CHECKPOINT_STATE_H

#include "framework/base/rng.h"
#include "framework/tensor/tensor.h"

typedef struct bt_state_tensor {
    const char *name;  // borrowed
    bt_tensor *tensor; // borrowed
} bt_state_tensor;

// Integers lie between -2^53 and 2^53, doubles are finite. state_values.c has a row per member.
typedef struct bt_state_values {
    int64_t step;     // updates done
    int64_t epoch;    // of the next sequence to train on, not of the one read ahead
    int64_t position; // sequences of this epoch that were trained on
    bt_rng rng;
    uint64_t rng_index;                // next number of rng
    double lr, min_lr;                 // the schedule: the members of bt_schedule
    int64_t warmup_steps, decay_steps; // likewise
    int64_t heads;                     // attention heads, which no tensor's shape shows; 0: unknown
} bt_state_values;

typedef struct bt_state {
    bt_state_tensor *tensors; // owned [count]
    int64_t count, capacity;
    bt_state_values values;
} bt_state;

// Adds a tensor to a list that was initialized with {0}.
// Errors  INVALID_ARGUMENT (not contiguous), OUT_OF_MEMORY
BT_CHECKED bt_status bt_state_add(bt_state *state, const char *name, bt_tensor *tensor);
void bt_state_release(bt_state *state);
// Errors  INVALID_ARGUMENT naming a value that a manifest cannot represent exactly
BT_CHECKED bt_status bt_state_check_values(const bt_state_values *values);
// XXH3-128 of everything. Waits for the context's stream.
// Errors  INVALID_ARGUMENT, OUT_OF_MEMORY
BT_CHECKED bt_status bt_state_digest(bt_context *context, const bt_state *state, char digest[33]);
// The same over the tensors without the values.
BT_CHECKED bt_status bt_state_tensors_digest(bt_context *context, const bt_state *state,
                                             char digest[33]);

#endif
