// framework/autograd/recompute.h - attributes of a recomputed body
#ifndef BT_AUTOGRAD_RECOMPUTE_H
#define BT_AUTOGRAD_RECOMPUTE_H

#include "framework/ops/ops.h"

typedef struct bt_recompute_attrs {
    bt_recompute_body body;
    const void *self; // borrowed, outlives the backward
    int in_count;
} bt_recompute_attrs;

#endif
