// framework/ops/loss.h - attributes of cross-entropy, for its two sources
#ifndef BT_OPS_LOSS_H
#define BT_OPS_LOSS_H

#include "framework/ops/ops.h"

typedef struct bt_cross_entropy_attrs {
    int32_t ignore;
    bool in_place;          // the backward overwrites the logits with their gradient
    struct bt_group *group; // over which the vocabulary is dealt out (shard.h); NULL: it is not
    int64_t vocab;          // of all ranks, with a group
} bt_cross_entropy_attrs;

#endif
