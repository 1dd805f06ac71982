// framework/ops/table.h - the table of ops; bt_op_row (op.h) reads it
#ifndef BT_OPS_TABLE_H
#define BT_OPS_TABLE_H

#include "framework/ops/op.h"

extern const bt_op bt_op_rows[BT_OP_COUNT];

#endif
