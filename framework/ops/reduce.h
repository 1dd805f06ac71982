// framework/ops/reduce.h - attributes of sums, the kernel of sums
#ifndef BT_OPS_REDUCE_H
#define BT_OPS_REDUCE_H

#include "framework/ops/ops.h"

typedef struct bt_sum_attrs {
    int axis;
} bt_sum_attrs;

// y = x summed over axes begin to end - 1, viewing x as `shape`.
BT_CHECKED bt_status bt_reduce_sum_launch(bt_context *context, const bt_tensor *x,
                                          const bt_shape *shape, int begin, int end, bt_tensor *y);

#endif
