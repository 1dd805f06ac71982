// framework/ops/view.h - attributes of casts and views
#ifndef BT_OPS_VIEW_H
#define BT_OPS_VIEW_H

#include "framework/ops/ops.h"

typedef struct bt_cast_attrs {
    bt_dtype dtype;
} bt_cast_attrs;

// Attributes of reshape and expand.
typedef struct bt_view_attrs {
    bt_shape shape; // the result's
} bt_view_attrs;

typedef struct bt_permute_attrs {
    int axis[BT_MAX_RANK]; // result axis i is input axis axis[i]
} bt_permute_attrs;

typedef struct bt_narrow_attrs {
    int axis;
    int64_t start, length;
} bt_narrow_attrs;

#endif
