// tests/support/gemm_values.h - matrix products of special operands, on any device, beside sums in
//   a wider type
//
// Every row of the device's kernel table that serves a call computes it. Element [i,j] of D must be
// within
//   2 (k + 2) eps S + |alpha| (2.01 r S + t (sum |a| + sum |b|)) + what rounding to D's type makes
// of the sum over the operands as memory holds them, where S = |alpha| sum |a| |b| + |bias| +
// |beta c|, eps is the sums' type's (2: tensor cores cut terms off instead of rounding them), and r
// and t are the operands' rounding, relative and among denormals, in tf32. cuBLASLt may round to
// bf16 once more on the way. An element must be NaN or infinite exactly where the sum, rounded to
// D's type, is. Row paddings of a, b and c are NaN and must not be read; nothing but D's elements
// may change.
#ifndef BT_TESTS_SUPPORT_GEMM_VALUES_H
#define BT_TESTS_SUPPORT_GEMM_VALUES_H

#include "kernels/kernels.h"

typedef struct gemm_precision {
    bt_dtype ab, d;
    bt_compute compute;
} gemm_precision;

// X(enumerator, name)
#define GEMM_VALUES_LIST(X)                                                                        \
    X(RANDOM, "random")             /* in [-1, 1] */                                               \
    X(CANCELLING, "cancelling")     /* pairs that cancel, magnitudes from 2^-8 to 2^8 */           \
    X(DENORMAL, "denormal")         /* a is denormal; d likewise, or made normal by b */           \
    X(HUGE_VALUES, "huge")          /* rows and columns whose products overflow, others not */     \
    X(NAN_ONLY, "NaN")              /* in one row of a, in one column of b */                      \
    X(NAN_PAYLOADS, "NaN payloads") /* all of a NaN's bits, or its last alone */                   \
    X(INFINITE, "infinite")         /* both signs, beside zeros and NaN */

typedef enum gemm_values {
#define GEMM_VALUES_ENUM(name, text) GEMM_VALUES_##name,
    GEMM_VALUES_LIST(GEMM_VALUES_ENUM)
#undef GEMM_VALUES_ENUM
        GEMM_VALUES_COUNT
} gemm_values;

// One kind of operands through shapes of every alignment, transposition and ending that the kind is
// for. Fails the test where a row errs; returns how many calls rows have served.
int test_gemm_values(bt_device *device, const gemm_precision *precision, gemm_values values);
// All of m, n and k out of some small sizes, with random values.
int test_gemm_small_sizes(bt_device *device, const gemm_precision *precision);
// Does the row serve calls like this one, as bt_kernel_find asks it?
bool test_gemm_serves(const bt_device *device, const bt_kernel *row, const bt_gemm_args *args);

#endif
