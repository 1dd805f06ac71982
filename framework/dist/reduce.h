// framework/dist/reduce.h - reductions of equally long parts, in the order of a fixed binary tree
//
//   tree(lo, hi) = tree(lo, mid) + tree(mid, hi), mid = lo + ceil((hi - lo) / 2)
#ifndef BT_DIST_REDUCE_H
#define BT_DIST_REDUCE_H

#include <stdbool.h>

#include "framework/dist/group.h"

bool bt_reduce_supports(bt_dtype dtype);
// out[i] = reduction of parts[0][i] .. parts[parts_count - 1][i].
// Shapes  parts[p], out [count]; out may be one of the parts, else no overlap
// Types   f64, f32, i64, i32, and bf16, which is reduced in f32 and rounded once; integers wrap
// NaN     a NaN in any part gives NaN, for the maximum too
void bt_reduce_tree(const void *const *parts, int parts_count, void *out, int64_t count,
                    bt_dtype dtype, bt_reduction reduction);

#endif
