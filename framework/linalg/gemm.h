// framework/linalg/gemm.h - matrix multiplication through whatever row of the kernel table serves
// it
#ifndef BT_LINALG_GEMM_H
#define BT_LINALG_GEMM_H

#include "framework/tensor/context.h"

// D = epilogue(alpha op(A) op(B)) + beta C, as bt_gemm_args says. An epilogue that no row fuses is
// made of a plain product and elementwise kernels instead: the same values up to the rounding of
// the intermediate result to d_dtype.
// Errors  INVALID_ARGUMENT (an epilogue with beta != 0 that would need decomposing), UNSUPPORTED
BT_CHECKED bt_status bt_gemm(bt_context *context, const bt_gemm_args *args);

#endif
