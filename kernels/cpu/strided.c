// kernels/cpu/strided.c - merging dimensions, finding rows
#include "kernels/cpu/strided.h"

#include <stdbool.h>

static bool continues(const bt_strided *walk, int outer, int64_t inner_size,
                      const int64_t inner_stride[BT_STRIDED_OPERANDS])
{
    for (int operand = 0; operand < BT_STRIDED_OPERANDS; ++operand) {
        if (walk->stride[operand][outer] != inner_stride[operand] * inner_size) {
            return false;
        }
    }
    return true;
}

void bt_strided_collapse(bt_strided *walk)
{
    // Dimensions are taken from the innermost outwards and written from the end of `merged`.
    bt_strided merged = {0};
    int first = BT_MAX_RANK;
    for (int dim = walk->rank - 1; dim >= 0; --dim) {
        int64_t inner_stride[BT_STRIDED_OPERANDS] = {0};
        if (walk->shape[dim] == 1) {
            continue;
        }
        for (int operand = 0; operand < BT_STRIDED_OPERANDS && first < BT_MAX_RANK; ++operand) {
            inner_stride[operand] = merged.stride[operand][first];
        }
        if (first < BT_MAX_RANK && continues(walk, dim, merged.shape[first], inner_stride)) {
            merged.shape[first] *= walk->shape[dim];
            continue;
        }
        --first;
        merged.shape[first] = walk->shape[dim];
        for (int operand = 0; operand < BT_STRIDED_OPERANDS; ++operand) {
            merged.stride[operand][first] = walk->stride[operand][dim];
        }
    }
    *walk = (bt_strided){.rank = 1, .shape = {1}};
    for (int dim = first; dim < BT_MAX_RANK; ++dim) {
        walk->rank = dim - first + 1;
        walk->shape[dim - first] = merged.shape[dim];
        for (int operand = 0; operand < BT_STRIDED_OPERANDS; ++operand) {
            walk->stride[operand][dim - first] = merged.stride[operand][dim];
        }
    }
}

int64_t bt_strided_rows(const bt_strided *walk)
{
    int64_t rows = walk->shape[walk->rank - 1] ? 1 : 0;
    for (int dim = 0; dim < walk->rank - 1; ++dim) {
        rows *= walk->shape[dim];
    }
    return rows;
}

void bt_strided_offsets(const bt_strided *walk, int64_t row, int64_t offset[BT_STRIDED_OPERANDS])
{
    for (int operand = 0; operand < BT_STRIDED_OPERANDS; ++operand) {
        offset[operand] = 0;
    }
    for (int dim = walk->rank - 2; dim >= 0; --dim) {
        const int64_t index = row % walk->shape[dim];
        row /= walk->shape[dim];
        for (int operand = 0; operand < BT_STRIDED_OPERANDS; ++operand) {
            offset[operand] += index * walk->stride[operand][dim];
        }
    }
}
