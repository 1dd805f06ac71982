// framework/ops/elementwise.h - attributes of elementwise ops
#ifndef BT_OPS_ELEMENTWISE_H
#define BT_OPS_ELEMENTWISE_H

#include "framework/ops/ops.h"

typedef struct bt_unary_attrs {
    bt_unary function;
    double alpha;
} bt_unary_attrs;

typedef struct bt_binary_attrs {
    bt_binary function;
} bt_binary_attrs;

typedef struct bt_dropout_attrs {
    double rate; // [0, 1)
    uint64_t seed, stream;
} bt_dropout_attrs;

#endif
