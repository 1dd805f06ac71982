// kernels/cpu/strided.h - traverses several strided operands of one shape in few long rows
//
// bt_strided_collapse drops dimensions of size one and merges adjacent dimensions that are
// contiguous for every operand, so that most calls have rank 1 and unit strides. The last dimension
// is the row; there are bt_strided_rows() rows, and bt_strided_offsets() gives their offsets.
#ifndef BT_KERNELS_CPU_STRIDED_H
#define BT_KERNELS_CPU_STRIDED_H

#include <stdint.h>

#include "kernels/kernels.h"

enum { BT_STRIDED_OPERANDS = 3 };

typedef struct bt_strided {
    int rank;                                         // 1..BT_MAX_RANK after collapse
    int64_t shape[BT_MAX_RANK];                       // all > 0, or there are no rows
    int64_t stride[BT_STRIDED_OPERANDS][BT_MAX_RANK]; // elements; unused operands are 0
} bt_strided;

void bt_strided_collapse(bt_strided *walk);
int64_t bt_strided_rows(const bt_strided *walk);
// Offset of row `row` in each operand, in elements.
void bt_strided_offsets(const bt_strided *walk, int64_t row, int64_t offset[BT_STRIDED_OPERANDS]);

#endif
