// harness/report/axis.h - a logarithmic axis for ratios
#ifndef BT_HARNESS_REPORT_AXIS_H
#define BT_HARNESS_REPORT_AXIS_H

#include "harness/report/ratios.h"

enum { RATIO_TICKS_MAX = 12 };

// Ratios from `low` to `high`, drawn from 0 to 100 %.
typedef struct ratio_axis {
    double low, high;
    double ticks[RATIO_TICKS_MAX];
    int tick_count;
} ratio_axis;

// Contains 1, every ratio and mark, and the intervals up to twice the range of the ratios.
ratio_axis bt_axis_of(const ratio_list *list);
// Position of a ratio in percent, clamped to the ends.
double bt_axis_place(const ratio_axis *on, double ratio);

#endif
