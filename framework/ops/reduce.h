// framework/ops/reduce.h - attributes of sums
#ifndef BT_OPS_REDUCE_H
#define BT_OPS_REDUCE_H

#include "framework/ops/ops.h"

typedef struct bt_sum_attrs {
    int axis;
} bt_sum_attrs;

#endif
