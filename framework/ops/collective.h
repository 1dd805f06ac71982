// framework/ops/collective.h - attributes of ops over the ranks of a group
#ifndef BT_OPS_COLLECTIVE_H
#define BT_OPS_COLLECTIVE_H

#include "framework/dist/group.h"
#include "framework/ops/aside.h"
#include "framework/ops/ops.h"

typedef struct bt_collective_attrs {
    bt_group *group;        // borrowed, outlives the backward; NULL: one rank
    int axis;               // axis along which the ranks' parts are placed
    bool in_place;          // the result may reuse the operand's memory
    struct bt_aside *aside; // borrowed, outlives the backward: the sum runs there (aside.h); NULL:
                            // on the stream
    int slot;               // of the aside
    int awaits;             // of replicate: the direction in which it waits for the slot; 0: none
} bt_collective_attrs;

typedef struct bt_row_chunks_attrs {
    struct bt_row_chunks *chunks; // borrowed, outlives the backward; NULL: one rank
} bt_row_chunks_attrs;

typedef struct bt_attention_scatter_attrs {
    struct bt_row_chunks *chunks; // as above
    int64_t heads;
    bool causal;
} bt_attention_scatter_attrs;

typedef struct bt_head_exchange_attrs {
    bt_group *group; // borrowed, outlives the backward; NULL: one rank
    bt_head_layout layout;
} bt_head_exchange_attrs;

#endif
