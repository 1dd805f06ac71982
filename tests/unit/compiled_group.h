// tests/unit/compiled_group.h - fused groups that tests construct, compile and run
#ifndef BT_TESTS_UNIT_COMPILED_GROUP_H
#define BT_TESTS_UNIT_COMPILED_GROUP_H

#include "framework/compiler/run.h"
#include "tests/support/kernel.h"

enum { GROUP_OPERANDS = 8 };

// Compiles the group for 1 and 3 threads, runs each from the buffers' contents and fails unless
// all give the same bits. Keeps code in the scratch folder (tests/support/scratch.h). operands[i]
// belongs to operand i of the group.
void run_group(const bt_fused *group, int64_t rows, test_buffer *const *operands);
// Both buffers' elements are the same bits, or NaN.
void assert_same_bits(const test_buffer *got, const test_buffer *expected, const char *what);

// Sizes of a product. pad: elements between rows of a and b, and between entries.
typedef struct product_sizes {
    int64_t batch, m, n, k;
    bool trans_a, trans_b;
    int64_t pad;
} product_sizes;

// Rows of a or b as they lie, and elements of all entries.
int64_t product_a_count(const product_sizes *sizes);
int64_t product_b_count(const product_sizes *sizes);
// y = relu(A B + bias) + c: operands a, b, bias [n], c, y; c and y [batch m, n], c f32 (f64 at
// F64). ordered: the sums over k ascend, for the CPU; else in any order, F32 as tf32.
bt_fused group_product(bt_dtype dtype, const product_sizes *sizes, bool ordered);
// y = f(x), dx = f'(x): operands x, y, dx.
bt_fused group_unary(bt_dtype dtype, int64_t count, bt_unary function, double alpha);
// Operands x, y; [rows, cols]. wide F64: sums in the order of the CPU's kernel; F32: in any order.
bt_fused group_softmax(bt_dtype dtype, int64_t rows, int64_t cols, bt_dtype wide);
// Operands x, gamma, beta, y, mean, rstd, likewise.
bt_fused group_layernorm(bt_dtype dtype, int64_t rows, int64_t cols, double epsilon, bt_dtype wide);
// The reductions that follow are in any order, and sums in `wide`.
// Operands x, residual, gamma, sum, y: y = sum / sqrt(mean(sum^2) + epsilon) gamma.
bt_fused group_rmsnorm(bt_dtype dtype, int64_t rows, int64_t cols, double epsilon, bt_dtype wide);
// Operands logits, targets [rows, 1], loss [rows, 1].
bt_fused group_cross_entropy(bt_dtype dtype, int64_t rows, int64_t cols, bt_dtype wide);
// Operands x, weight [1, cols], y, total: y = x weight, total += sums of y's columns.
bt_fused group_column(bt_dtype dtype, int64_t rows, int64_t cols, bt_dtype wide);
// Operands x [rows, 1], y [1, cols]: y = -(sum of x), the same sum for each column. In f32.
bt_fused group_column_of_rows(int64_t rows, int64_t cols);

#endif
