// harness/diff/update.h - the bound of a parameter after an update
//
// Both sides have the parameter p and its moments m, v after the update, which AdamW computes from
// the moments:
//   p -= lr * u(m, v) + lr * decay * p,  u(m, v) = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) +
//   e)
// If both have the same optimizer, their parameters can differ by three terms only:
//   |p_A - p_B|  before the update, which has been measured
//   |lr * u(m_A, v_A) - lr * u(m_B, v_B)|  computed here, with the rates of one side for both
//   roundings of p and of the update, which is elementwise
// So another rate, epsilon or decay exceeds the bound even where gradients near 0 make an update
// differ by its full size. Differences of the moments have their own bounds (measure.h).
#ifndef BT_HARNESS_DIFF_UPDATE_H
#define BT_HARNESS_DIFF_UPDATE_H

#include "harness/diff/measure.h"

typedef struct bt_diff_update {
    double lr, beta1, beta2, epsilon;
    int64_t step;  // updates done, with this one
    double before; // L2 norm of the difference of the parameter before the update
} bt_diff_update;

// The bound of the relative L2 difference.
// Shapes  m, v: of sides A and B, as many elements as the parameter
double bt_diff_update_bound(const bt_diff_update *update, const bt_diff_value *const m[2],
                            const bt_diff_value *const v[2], const bt_difference *parameter);

#endif
