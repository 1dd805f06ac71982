// framework/ops/layernorm.h - attributes of layer normalization, with or without residual sum
#ifndef BT_OPS_LAYERNORM_H
#define BT_OPS_LAYERNORM_H

#include "framework/ops/ops.h"

typedef struct bt_layernorm_attrs {
    double epsilon;
} bt_layernorm_attrs;

#endif
