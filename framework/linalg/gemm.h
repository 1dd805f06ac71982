// framework/linalg/gemm.h - matrix multiplication through the kernel table
#ifndef BT_LINALG_GEMM_H
#define BT_LINALG_GEMM_H

#include "framework/tensor/context.h"

// Checks that arithmetic on the sizes and strides of a call cannot overflow.
// Errors  INVALID_ARGUMENT: a negative size, or an operand that extends beyond 2^56 elements
BT_CHECKED bt_status bt_gemm_check(const bt_gemm_args *args);

// D = epilogue(alpha op(A) op(B)) + beta C and its column sums, as bt_gemm_args specifies. If no
// row fuses the call, it is decomposed into a plain product, elementwise kernels and column sums:
// the same values up to the rounding of the intermediate result to d_dtype.
// Errors  INVALID_ARGUMENT: a negative size, or an operand that extends beyond 2^56 elements
//         UNSUPPORTED: no kernel; or decomposition is needed and there is an epilogue with beta !=
//         0, a batch, or gaps between the rows of D
BT_CHECKED bt_status bt_gemm(bt_context *context, const bt_gemm_args *args);

// `count` independent products; shapes may differ. The result is that of bt_gemm for each: one
// launch if a row of the kernel table serves the group, else one product after another. The two may
// sum in different orders and so differ in bits; both are deterministic.
// Shapes  any; a group of no products does nothing
// Owns    nothing: `products` and what it points to are read before the call returns
// Errors  INVALID_ARGUMENT (products without an address), or the error of bt_gemm for a product;
//         the products before it are then computed
BT_CHECKED bt_status bt_gemm_grouped(bt_context *context, const bt_gemm_args *products,
                                     int64_t count);

#endif
