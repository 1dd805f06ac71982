// harness/stats/tdist.h - Student's t distribution: tails and quantiles
//
// Types   degrees of freedom are real (Welch's are), > 0 and at most 1e6; relative error below
//         1e-12 up to a thousand of them, below 1e-9 beyond
// NaN     an argument outside its range gives NaN
// Source  tail by the regularised incomplete beta function, DLMF 8.17.22 (continued fraction)
#ifndef BT_HARNESS_STATS_TDIST_H
#define BT_HARNESS_STATS_TDIST_H

// P(T > t).
double bt_t_upper_tail(double t, double freedom);
// The t that is exceeded with probability `tail`; 0 < tail < 1. For example, 0.05 gives the 95 %
// quantile.
double bt_t_upper_quantile(double tail, double freedom);
// Regularised incomplete beta function I_x(a, b); a, b > 0, 0 <= x <= 1.
double bt_incomplete_beta(double a, double b, double x);

#endif
