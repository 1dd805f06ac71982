// harness/diff/measure.h - the difference of two tensors, and its bound
#ifndef BT_HARNESS_DIFF_MEASURE_H
#define BT_HARNESS_DIFF_MEASURE_H

#include "harness/diff/values.h"

// b compared with a. Relative: to the norm and to the largest magnitude of a; 0 if both sides are
// 0. NaN and infinity on one side only make all four infinite; the same on both sides are equal.
typedef struct bt_difference {
    double l2, l2_relative;
    double max, max_relative;
    double norm;                 // L2 norm of a
    int64_t elements, differing; // number that differ: by bits, by value if types differ
    int64_t first;               // element, row-major; -1: none differs
    double first_a, first_b;
    int64_t worst; // element of the largest difference, -1 likewise
} bt_difference;

double bt_diff_element(const bt_diff_value *value, int64_t i);
// Shapes  a and b have the same number of elements
void bt_difference_of(const bt_diff_value *a, const bt_diff_value *b, bt_difference *out);
// "[3, 17]" of an element of a shape, into text[64]. Returns text.
const char *bt_element_text(const bt_shape *shape, int64_t element, char text[64]);

// The arithmetic of the two sides.
typedef struct bt_diff_arithmetic {
    bt_precision precision;
    bool other_order;   // kernels or ranks sum in another order than those of the other side
    bool other_program; // so does another program, which may also round at other places
} bt_diff_arithmetic;

// The bound of the relative L2 difference of a value:
//   margin * sqrt(depth) * (rounding + drift)
// rounding  u_A + u_B + u_fp32 * sqrt(longest sum): u of fp32 2^-24, of tf32 2^-11, of bf16 2^-8; 0
//           where both sides must give the same bits: one precision, program, device and order
//           of sums over ranks
// depth     ops in front of the value: errors of independent roundings add up as their root
// drift     relative L2 difference of the parameters in front of the step, which is measured
// Second moments are squares: twice the bound. A parameter after an update has the bound of
// update.h if both sides have its moments; else it may differ by 2 lr an update and element, since
// AdamW's update is at most lr, with either sign. That bound does not show another optimizer.
typedef struct bt_diff_bound {
    double margin, rounding, drift;
    double travelled; // sum of the learning rates so far
} bt_diff_bound;

enum { BT_DIFF_MARGIN = 4 };
#define BT_DIFF_U_FP32 0x1p-24 // rounding of fp32

// longest: number of elements in the longest sum of a step. Source: Higham & Mary 2019, SIAM J.
// Sci. Comput. 41(5), probabilistic rounding error analysis.
bt_diff_bound bt_diff_bound_make(const bt_diff_arithmetic sides[2], double longest);
// The bound of a value of A, given its norm.
double bt_diff_bound_of(const bt_diff_bound *bound, const bt_diff_value *value,
                        const bt_difference *difference);

#endif
