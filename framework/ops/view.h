// framework/ops/view.h - attributes of views that more than one source reads
#ifndef BT_OPS_VIEW_H
#define BT_OPS_VIEW_H

#include "framework/ops/ops.h"

typedef struct bt_permute_attrs {
    int axis[BT_MAX_RANK]; // result axis i is input axis axis[i]
} bt_permute_attrs;

#endif
