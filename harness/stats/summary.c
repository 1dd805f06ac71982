// harness/stats/summary.c - one round in numbers
#include "harness/stats/summary.h"

#include <math.h>

static void set_value(bt_summary *out, bt_metric metric, double value)
{
    out->metrics[metric] = (bt_metric_value){value, (double)NAN, (double)NAN, 1};
}

static void set_median(bt_summary *out, bt_metric metric, const bt_stats *stats)
{
    if (stats->count > 0) {
        out->metrics[metric] =
            (bt_metric_value){stats->median, stats->low, stats->high, stats->count};
    }
}

static void set_peak(bt_summary *out, bt_metric metric, int64_t bytes)
{
    double known = out->metrics[metric].value;
    if (bytes > 0 && !((double)bytes <= known)) {
        set_value(out, metric, (double)bytes);
    }
}

// Of all steps: the lowest loss; NaN when one is.
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
    for (int64_t i = 0; i < round->step_count; i++) {
        const bt_store_step *step = &round->steps[i];
        set_peak(out, BT_METRIC_PEAK_ALLOCATED, step->peak_allocated_bytes);
        set_peak(out, BT_METRIC_PEAK_RESERVED, step->reserved_bytes);
        set_peak(out, BT_METRIC_PEAK_RESIDENT, step->resident_bytes);
    }
    for (int64_t i = 0; i < round->memory_count; i++) {
        const bt_store_memory *memory = &round->memory[i];
        set_peak(out, BT_METRIC_PEAK_ALLOCATED, memory->peak_allocated_bytes);
        set_peak(out, BT_METRIC_PEAK_RESERVED, memory->peak_reserved_bytes);
        set_peak(out, BT_METRIC_PEAK_RESIDENT, memory->peak_resident_bytes);
    }
}

bt_status bt_summary_of(const bt_store_round *round, bt_summary *out)
{
    bt_step_stats steps;
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        out->metrics[i] = (bt_metric_value){(double)NAN, (double)NAN, (double)NAN, 0};
    }
    BT_TRY(bt_stats_of_steps(round->steps, round->step_count, &steps));
    out->left_out = steps.left_out;
    set_median(out, BT_METRIC_TOKENS_PER_S, &steps.tokens_per_s);
    set_median(out, BT_METRIC_STEP_TIME, &steps.host_ns);
    set_median(out, BT_METRIC_STEP_DEVICE_TIME, &steps.device_ns);
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
    for (int64_t i = 0; i < round->measurement_count; i++) {
        const bt_store_measurement *from = &round->measurements[i];
        bt_metric_value *to = &out->metrics[from->metric];
        if (to->count == 0) {
            *to = (bt_metric_value){from->value, from->low, from->high,
                                    from->sample_count > 0 ? from->sample_count : 1};
        }
    }
    return BT_OK;
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
