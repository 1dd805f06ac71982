// harness/stats/summary.h - one round in numbers: a value per metric of the table
#ifndef BT_HARNESS_STATS_SUMMARY_H
#define BT_HARNESS_STATS_SUMMARY_H

#include "harness/stats/stats.h"

typedef struct bt_metric_value {
    double value;     // NaN: not known
    double low, high; // 95 % interval of a median; NaN: none
    int64_t count;    // samples behind it
} bt_metric_value;

typedef struct bt_summary {
    bt_metric_value metrics[BT_METRIC_COUNT];
    int64_t left_out; // steps whose time is no measurement
} bt_summary;

// What the raw steps, evaluations and memory say; a recorded measurement serves where they say
// nothing.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_summary_of(const bt_store_round *round, bt_summary *out);
// The time that decides, in ns: of a call of a kernel case, of a step of a training case (host
// time). NaN unless the round passed and was timed.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_summary_time(const bt_store_round *round, double *time_ns);

#endif
