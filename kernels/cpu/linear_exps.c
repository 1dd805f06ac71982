// kernels/cpu/linear_exps.c - loss and gradient of a linear layer's logits as exponentials and
//   scales (bt_linear_exps_args): the reference of the kernels that need no pass over the logits
// Shapes   contiguous x [rows, width], w [vocab, width], exps [rows, vocab]
// Types    f32, f64; logits and sums in double
// Cost     a dot product for each logit: for tests
// Errors   none: see the comment of the arguments
#include <math.h>

#include "kernels/cpu/cpu.h"

#define BT_BODY "kernels/cpu/linear_exps.inl"
#include "kernels/cpu/both.h"
