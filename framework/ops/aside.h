// framework/ops/aside.h - collectives on a stream of their own, beside the products of a context
//
// A collective begins behind what the context's stream has to do so far, and has a slot. Whoever
// uses its result waits for the slot. Collectives of one aside run one after the other.
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
// *stream: where the collective goes; borrowed.
BT_CHECKED bt_status bt_aside_begin(bt_aside *aside, bt_context *context, bt_stream *stream);
// The collective has been given to the stream.
BT_CHECKED bt_status bt_aside_end(bt_aside *aside, int slot);
// The context's stream waits for the slot; nothing where nothing was begun in it.
BT_CHECKED bt_status bt_aside_await(bt_aside *aside, bt_context *context, int slot);

// ---- ops ----------------------------------------------------------------------------------------
// As those without an aside in ops.h. In place; the result is to be awaited.
BT_CHECKED bt_status bt_group_all_reduce_aside(bt_context *context, struct bt_group *group,
                                               struct bt_tensor *x, bt_aside *aside, int slot,
                                               struct bt_tensor **out);
// The gradient of x is to be awaited.
BT_CHECKED bt_status bt_group_replicate_aside(bt_context *context, struct bt_group *group,
                                              struct bt_tensor *x, bt_aside *aside, int slot,
                                              struct bt_tensor **out);
// x, with the slot awaited now, or in front of what the backward does with its gradient.
BT_CHECKED bt_status bt_group_await(bt_context *context, struct bt_tensor *x, bt_aside *aside,
                                    int slot, bool in_backward, struct bt_tensor **out);

#endif
