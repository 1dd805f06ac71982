// framework/ops/aside.h - collectives on a separate stream, overlapping a context's products
//
// A collective begins after the current work of the context's stream, and has a slot. A user of its
// result waits for the slot. Collectives of one aside run one after another.
#ifndef BT_OPS_ASIDE_H
#define BT_OPS_ASIDE_H

#include "framework/tensor/context.h"

struct bt_group;
struct bt_tensor;

enum { BT_ASIDE_SLOTS = 2 };

typedef struct bt_aside bt_aside;

// The device is that of the first context that uses it, which outlives it.
// Owns    the caller. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_aside_create(bt_aside **out);
// Waits for its stream. Safe on NULL.
void bt_aside_destroy(bt_aside *aside);
// *stream: the stream of the collective; borrowed.
BT_CHECKED bt_status bt_aside_begin(bt_aside *aside, bt_context *context, bt_stream *stream);
// The collective has been submitted to the stream.
BT_CHECKED bt_status bt_aside_end(bt_aside *aside, int slot);
// The context's stream waits for the slot; no effect if nothing was begun in it.
BT_CHECKED bt_status bt_aside_await(bt_aside *aside, bt_context *context, int slot);

// ---- ops ----------------------------------------------------------------------------------------
// As their counterparts in ops.h. In place; the user waits for the result.
BT_CHECKED bt_status bt_group_all_reduce_aside(bt_context *context, struct bt_group *group,
                                               struct bt_tensor *x, bt_aside *aside, int slot,
                                               struct bt_tensor **out);
// The user waits for the gradient of x.
BT_CHECKED bt_status bt_group_replicate_aside(bt_context *context, struct bt_group *group,
                                              struct bt_tensor *x, bt_aside *aside, int slot,
                                              struct bt_tensor **out);
// Returns x and waits for the slot: now, or in the backward before the gradient is used.
BT_CHECKED bt_status bt_group_await(bt_context *context, struct bt_tensor *x, bt_aside *aside,
                                    int slot, bool in_backward, struct bt_tensor **out);

#endif
