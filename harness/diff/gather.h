// harness/diff/gather.h - gathers the values of a step from the ranks of a mesh
//
// Invariants
//   1. A gathered value has the elements of a run on one rank, in the same order (place.h).
//   2. Shards and replicas keep their bits. Partial sums are added in f32 in rank order, and scaled
//      values are f32.
//   3. Replicas of one value must have the same bits. Those that differ from the first rank's
//      follow it as items with `copy_of`.
#ifndef BT_HARNESS_DIFF_GATHER_H
#define BT_HARNESS_DIFF_GATHER_H

#include "harness/diff/values.h"

// ranks: the values reported by each world rank; they outlive *out.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_diff_gather(const bt_diff_mesh *mesh, bt_diff_values *ranks,
                                    bt_diff_values *out);
// The rank that computed an element of a gathered value; -1: several (a sum over ranks, or state
// that training gathered), or a value of a run on one rank.
int bt_diff_rank_of(const bt_diff_value *value, int64_t element);

#endif
