// framework/ops/loss.h - attributes of cross-entropy
#ifndef BT_OPS_LOSS_H
#define BT_OPS_LOSS_H

#include "framework/ops/ops.h"

typedef struct bt_cross_entropy_attrs {
    int32_t ignore;
    bool in_place;          // the backward overwrites the logits with their gradient
    struct bt_group *group; // group over which the vocabulary is sharded (shard.h); NULL: not
                            // sharded
    int64_t vocab;          // of all ranks, with a group
} bt_cross_entropy_attrs;

typedef struct bt_linear_cross_entropy_attrs {
    int32_t ignore;
    int64_t chunk_rows; // rows whose logits exist at a time; 0: bt_linear_cross_entropy_rows
} bt_linear_cross_entropy_attrs;

#endif
