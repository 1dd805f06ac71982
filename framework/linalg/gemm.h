// framework/linalg/gemm.h - matrix multiplication through whatever row of the kernel table serves
// it
#ifndef BT_LINALG_GEMM_H
#define BT_LINALG_GEMM_H

#include "framework/tensor/context.h"

// D = epilogue(alpha op(A) op(B)) + beta C and the sums of its columns, as bt_gemm_args says. What
// no row fuses is made of a plain product, elementwise kernels and column sums instead: the same
// values up to the rounding of the intermediate result to d_dtype. Errors  UNSUPPORTED: no kernel,
// and an epilogue with beta != 0, or that or column sums of D with
//         batches or gaps between rows, which would need decomposing
BT_CHECKED bt_status bt_gemm(bt_context *context, const bt_gemm_args *args);

#endif
