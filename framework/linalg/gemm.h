// framework/linalg/gemm.h - matrix multiplication through whatever row of the kernel table serves
// it
#ifndef BT_LINALG_GEMM_H
#define BT_LINALG_GEMM_H

#include "framework/tensor/context.h"

// Are the sizes and strides of a call such that arithmetic on them stays in range?
// Errors  INVALID_ARGUMENT: a negative size, or an operand that reaches beyond 2^56 elements
BT_CHECKED bt_status bt_gemm_check(const bt_gemm_args *args);

// D = epilogue(alpha op(A) op(B)) + beta C and the sums of its columns, as bt_gemm_args says. What
// no row fuses is made of a plain product, elementwise kernels and column sums instead: the same
// values up to the rounding of the intermediate result to d_dtype.
// Errors  INVALID_ARGUMENT: a negative size, or an operand that reaches beyond 2^56 elements
//         UNSUPPORTED: no kernel; or what would need decomposing is an epilogue with beta != 0, or
//         has a batch or gaps between the rows of D
BT_CHECKED bt_status bt_gemm(bt_context *context, const bt_gemm_args *args);

// `count` products of shapes of their own, as if by bt_gemm for each: one launch where a row of the
// kernel table serves the group, else one product after the other. Which of the two it is may
// change the order of a product's sum, hence its bits; both repeat.
// Shapes  any, also none: a group of no products does nothing
// Owns    nothing: `products` and what it points to are read before the call returns
// Errors  INVALID_ARGUMENT (products without an address), or what bt_gemm says of a product; the
//         products before it are computed then
BT_CHECKED bt_status bt_gemm_grouped(bt_context *context, const bt_gemm_args *products,
                                     int64_t count);

#endif
