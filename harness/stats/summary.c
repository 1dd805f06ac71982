// harness/stats/summary.c - the metrics of one round
#include "harness/stats/summary.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"

double bt_metric_low(bt_metric metric, double low)
{
    return low < 0.0 && bt_metric_info(metric)->unit != BT_UNIT_NATS ? 0.0 : low;
}

static void set_value(bt_summary *out, bt_metric metric, double value)
{
    out->metrics[metric] = (bt_metric_value){value, (double)NAN, (double)NAN, 1};
}

const bt_timed_metrics bt_timed_call = {BT_METRIC_TIME, BT_METRIC_TIME_P95, BT_METRIC_TIME_MEDIAN};
const bt_timed_metrics bt_timed_step = {BT_METRIC_STEP_TIME, BT_METRIC_STEP_TIME_P95,
                                        BT_METRIC_STEP_TIME_MEDIAN};
const bt_timed_metrics bt_timed_device = {BT_METRIC_STEP_DEVICE_TIME, BT_METRIC_COUNT,
                                          BT_METRIC_COUNT};

bt_timed bt_timed_of(const bt_stats *stats)
{
    const double nan = (double)NAN;
    return (bt_timed){.mean = {stats->mean, stats->mean_low, stats->mean_high, stats->count},
                      .p95 = {stats->p95, nan, nan, isnan(stats->p95) ? 0 : stats->count},
                      .median = {stats->median, stats->low, stats->high, stats->count}};
}

static void set_timed(bt_summary *out, const bt_timed_metrics *metrics, const bt_stats *stats)
{
    bt_timed timed = bt_timed_of(stats);
    const struct {
        bt_metric metric;
        const bt_metric_value *value;
    } rows[] = {
        {metrics->mean, &timed.mean}, {metrics->p95, &timed.p95}, {metrics->median, &timed.median}};
    for (int i = 0; i < 3; i++) {
        if (rows[i].metric < BT_METRIC_COUNT && rows[i].value->count > 0) {
            out->metrics[rows[i].metric] = *rows[i].value;
        }
    }
}

static bool has_measurement(const bt_store_round *round, bt_metric metric)
{
    bool found = false;
    for (int64_t i = 0; i < round->measurement_count && !found; i++) {
        found = round->measurements[i].metric == metric;
    }
    return found;
}

bool bt_summary_is_total(const bt_store_round *round)
{
    return has_measurement(round, BT_METRIC_TIME_MEDIAN) ||
           has_measurement(round, BT_METRIC_STEP_TIME_MEDIAN);
}

// For a round of an earlier version: a call's times from its samples if these were read, else the
// recorded median only.
static bt_status add_call(const bt_store_round *round, const bt_store_measurement *from,
                          bt_summary *out)
{
    if (bt_summary_is_total(round)) {
        return BT_OK;
    }
    if (from->samples && from->sample_count > 0) {
        bt_stats stats;
        BT_TRY(bt_stats_of_series(from->samples, from->sample_count, &stats));
        set_timed(out, &bt_timed_call, &stats);
    } else {
        out->metrics[BT_METRIC_TIME_MEDIAN] = (bt_metric_value){
            from->value, from->low, from->high, from->sample_count > 0 ? from->sample_count : 1};
    }
    return BT_OK;
}

static void set_peak(bt_summary *out, bt_metric metric, int64_t bytes)
{
    double known = out->metrics[metric].value;
    if (bytes > 0 && !((double)bytes <= known)) {
        set_value(out, metric, (double)bytes);
    }
}

// Over all steps: the lowest loss; NaN if one is NaN.
static double lowest_loss(const bt_store_round *round)
{
    double lowest = (double)round->steps[0].loss;
    for (int64_t i = 1; i < round->step_count && !isnan(lowest); i++) {
        double loss = (double)round->steps[i].loss;
        lowest = loss >= lowest ? lowest : loss;
    }
    return lowest;
}

static void add_memory(const bt_store_round *round, bt_summary *out)
{
    BT_EACH(const bt_store_step, step, round->steps, round->step_count) {
        set_peak(out, BT_METRIC_PEAK_ALLOCATED, step->peak_allocated_bytes);
        set_peak(out, BT_METRIC_PEAK_RESERVED, step->reserved_bytes);
        set_peak(out, BT_METRIC_PEAK_RESIDENT, step->resident_bytes);
    }
    BT_EACH(const bt_store_memory, memory, round->memory, round->memory_count) {
        set_peak(out, BT_METRIC_PEAK_ALLOCATED, memory->peak_allocated_bytes);
        set_peak(out, BT_METRIC_PEAK_RESERVED, memory->peak_reserved_bytes);
        set_peak(out, BT_METRIC_PEAK_RESIDENT, memory->peak_resident_bytes);
    }
}

bt_status bt_summary_computed(const bt_store_round *round, bt_summary *out)
{
    bt_step_stats steps;
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        out->metrics[i] = (bt_metric_value){(double)NAN, (double)NAN, (double)NAN, 0};
    }
    BT_TRY(bt_stats_of_steps(round->steps, round->step_count, &steps));
    out->left_out = steps.left_out;
    out->median_tok_s = steps.tokens_per_s.median;
    set_timed(out, &bt_timed_step, &steps.host_ns);
    set_timed(out, &bt_timed_device, &steps.device_ns);
    if (steps.host_ns.count > 0) {
        out->metrics[BT_METRIC_TOKENS_PER_S] = (bt_metric_value){
            steps.rate_tok_s, steps.rate_low, steps.rate_high, steps.host_ns.count};
    }
    if (round->step_count > 0) {
        set_value(out, BT_METRIC_LOSS_FIRST, (double)round->steps[0].loss);
        set_value(out, BT_METRIC_LOSS_LAST, (double)round->steps[round->step_count - 1].loss);
        set_value(out, BT_METRIC_LOSS_MIN, lowest_loss(round));
        set_peak(out, BT_METRIC_PEAK_FIRST_STEP, round->steps[0].peak_allocated_bytes);
    }
    if (round->eval_count > 0) {
        set_value(out, BT_METRIC_VAL_LOSS, round->evals[round->eval_count - 1].loss);
    }
    if (round->ended_ns > round->started_ns) {
        set_value(out, BT_METRIC_WALL_TIME, (double)(round->ended_ns - round->started_ns));
    }
    add_memory(round, out);
    BT_EACH(const bt_store_measurement, from, round->measurements, round->measurement_count) {
        bt_metric_value *to = &out->metrics[from->metric];
        if (from->metric == BT_METRIC_TIME) {
            BT_TRY(add_call(round, from, out));
        }
        if (to->count == 0) {
            *to = (bt_metric_value){from->value, from->low, from->high,
                                    from->sample_count > 0 ? from->sample_count : 1};
        }
    }
    return BT_OK;
}

bt_status bt_summary_of(const bt_store_round *round, bt_summary *out)
{
    BT_TRY(bt_summary_computed(round, out));
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        out->metrics[i].low = bt_metric_low((bt_metric)i, out->metrics[i].low);
    }
    return BT_OK;
}

bool bt_summary_times_calls(const bt_store_case *what)
{
    return strcmp(what->kind, "kernel") == 0 || strcmp(what->kind, "collective") == 0 ||
           strcmp(what->kind, "command") == 0;
}

bt_status bt_summary_time(const bt_store_round *round, double *time_ns)
{
    bt_summary summary;
    *time_ns = (double)NAN;
    if (round->status == BT_RUN_PASSED) {
        BT_TRY(bt_summary_of(round, &summary));
        const bt_metric_value *call = &summary.metrics[BT_METRIC_TIME];
        *time_ns = call->count > 0 ? call->value : summary.metrics[BT_METRIC_STEP_TIME].value;
    }
    return BT_OK;
}

bt_status bt_summary_over(const bt_summary *rounds, int64_t count, bt_summary *out)
{
    memset(out, 0, sizeof *out);
    BT_SCOPED_MEM(double *) values = NULL;
    BT_TRY(BT_MEM_ARRAY(count, &values));
    for (int m = 0; m < BT_METRIC_COUNT; m++) {
        bt_stats stats;
        int64_t known = 0;
        for (int64_t i = 0; i < count; i++) {
            const bt_metric_value *value = &rounds[i].metrics[m];
            if (value->count > 0 && isfinite(value->value)) {
                values[known++] = value->value;
            }
        }
        BT_TRY(bt_stats_of(values, known, &stats));
        out->metrics[m] = (bt_metric_value){
            .value = stats.median, .low = stats.low, .high = stats.high, .count = known};
    }
    return BT_OK;
}
