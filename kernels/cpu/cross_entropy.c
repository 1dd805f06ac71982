// kernels/cpu/cross_entropy.c - softmax cross-entropy over the vocabulary, and its backward
//   lse[r] = log sum_c exp(logits[r,c]);  loss[r] = lse[r] - logits[r, target[r]];  mean over rows
//   dlogits[r,c] = (exp(logits[r,c] - lse[r]) - [c == target[r]]) dmean inv_count
// Shapes   logits [rows, vocab] with row stride logits_stride; dlogits may be logits. Columns from
//          vocab on are neither read nor written
// Types    f32, f64; sums of a few exps in the type (exps.inl), of such sums and the mean in
//          double, ascending rows; exp as in math.h
// Cost     forward reads logits once, a block twice, the second time from cache; backward reads and
//          writes once
// Errors   none: a target outside [0, vocab) that is not `ignore` gives NaN and *bad_row
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

bt_cross_entropy_mean_args bt_cross_entropy_mean_of(const bt_cross_entropy_args *op)
{
    return (bt_cross_entropy_mean_args){.targets = op->targets,
                                        .loss = op->loss,
                                        .mean = op->mean,
                                        .inv_count = op->inv_count,
                                        .bad_row = op->bad_row,
                                        .rows = op->rows,
                                        .vocab = op->vocab,
                                        .ignore = op->ignore};
}

enum { BLOCK = 2048 }; // number of logits whose maximum is computed before their exps are summed

#define BT_BODY "kernels/cpu/cross_entropy.inl"
#include "kernels/cpu/both.h"
