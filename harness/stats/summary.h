// harness/stats/summary.h - the metrics of one round, one value each
//
// The value of a round is its total: the tokens divided by the sum of the step times, or the mean
// time of a step or a call. A slowdown of some steps changes the total, but not the median. The
// 95th percentile and the median are separate metrics.
#ifndef BT_HARNESS_STATS_SUMMARY_H
#define BT_HARNESS_STATS_SUMMARY_H

#include <stdbool.h>

#include "harness/stats/stats.h"

typedef struct bt_metric_value {
    double value;     // NaN: unknown
    double low, high; // 95 % interval of a mean or median; NaN: none
    int64_t count;    // number of samples
} bt_metric_value;

// The lower bound of an interval, as it is shown: at least 0 unless the metric is a loss, because
// times, rates, sizes and energies are not negative. A t interval of scattered samples can extend
// below. Records keep the computed bound. NaN stays NaN.
double bt_metric_low(bt_metric metric, double low);

typedef struct bt_summary {
    bt_metric_value metrics[BT_METRIC_COUNT];
    double median_tok_s; // of the steps' rates; NaN: none
    int64_t left_out;    // steps whose time is not a measurement
} bt_summary;

// Statistics of timed samples, in order of time.
typedef struct bt_timed {
    bt_metric_value mean, p95, median;
} bt_timed;

bt_timed bt_timed_of(const bt_stats *stats);
// The metrics of a time: its mean, 95th percentile and median; BT_METRIC_COUNT: none.
typedef struct bt_timed_metrics {
    bt_metric mean, p95, median;
} bt_timed_metrics;

extern const bt_timed_metrics bt_timed_call, bt_timed_step, bt_timed_device;

// Whether calls are timed, of a kernel or a command, not training steps.
bool bt_summary_times_calls(const bt_store_case *what);
// Whether the recorded value of a time or rate is the mean or total. Rounds of earlier versions
// have the median in its place, and no separate median.
bool bt_summary_is_total(const bt_store_round *round);

// Computed from the raw steps, evaluations and memory; if there are none, recorded measurements are
// used. Lower bounds are those of bt_metric_low.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_summary_of(const bt_store_round *round, bt_summary *out);
// The same with the computed lower bounds, to verify a record.
BT_CHECKED bt_status bt_summary_computed(const bt_store_round *round, bt_summary *out);
// The metrics of several rounds of a case: each is the median of the rounds' values, its interval
// the order-statistic one over them, its count the number of rounds. Fewer than 6 rounds have no
// interval. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_summary_over(const bt_summary *rounds, int64_t count, bt_summary *out);
// The gated time, in ns: of a call of a kernel case, of a step of a training case (host time). NaN
// unless the round passed and was timed.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_summary_time(const bt_store_round *round, double *time_ns);

#endif
