// kernels/cpu/strided.h - walking several strided operands of one shape as few long rows
//
// bt_strided_collapse drops dimensions of size one and merges neighbours that are one row for
// every operand, so that most calls end up with rank 1 and unit strides. The last dimension is the
// row; a walk is bt_strided_rows() rows, and bt_strided_offsets() says where a row begins.
#ifndef BT_KERNELS_CPU_STRIDED_H
#define BT_KERNELS_CPU_STRIDED_H

#include <stdint.h>

#include "kernels/kernels.h"

enum { BT_STRIDED_OPERANDS = 3 };

typedef struct bt_strided {
    int rank;                                         // 1..BT_MAX_RANK after collapse
    int64_t shape[BT_MAX_RANK];                       // all > 0, or the walk is empty
    int64_t stride[BT_STRIDED_OPERANDS][BT_MAX_RANK]; // elements; unused operands are 0
} bt_strided;

void bt_strided_collapse(bt_strided *walk);
int64_t bt_strided_rows(const bt_strided *walk);
// Where row `row` begins in each operand, in elements.
void bt_strided_offsets(const bt_strided *walk, int64_t row, int64_t offset[BT_STRIDED_OPERANDS]);

#endif
