// harness/report/csv.c - runs as CSV for spreadsheets and data frames
//
// FILE.csv has a line per round and metric, FILE.steps.csv per training step, FILE.samples.csv per
// timed call. Every line repeats the identification of its round, so files of several runs can be
// concatenated. Values are in the metric's unit; an empty field is unknown.
#include <inttypes.h>
#include <math.h>

#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/report/report.h"

#define ROUND_HEADS "run,name,suite,profile,case,kind,system,round,status,noise"

static void append_round(const bt_store_run *run, const bt_store_round *round, bt_str *out)
{
    const char *const texts[] = {run->name ? run->name : "", run->info.suite.name,
                                 run->info.suite.profile,    round->what.name,
                                 round->what.kind,           round->what.system};
    bt_str_format(out, "%" PRId64, run->id);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        bt_str_append(out, ",");
        bt_csv_text(out, texts[i]);
    }
    bt_str_format(out, ",%" PRId64 ",%s,", round->ordinal, bt_run_status_name(round->status));
    bt_csv_text(out, bt_noise_of(round));
}

static void append_number(double value, bt_str *out)
{
    bt_str_append(out, ",");
    if (isfinite(value)) {
        bt_str_format(out, "%.17g", value);
    }
}

static bt_status write_metrics(const bt_store_run *run, const bt_store_round *round, bt_str *out)
{
    bt_summary summary;
    BT_TRY(bt_summary_of(round, &summary));
    for (int i = 0; i < BT_METRIC_COUNT; ++i) {
        const bt_metric_row *row = bt_metric_info((bt_metric)i);
        const bt_metric_value *value = &summary.metrics[i];
        if (value->count == 0) {
            continue;
        }
        append_round(run, round, out);
        // A fraction is shown in %, but recorded as a number.
        bt_str_format(out, ",%s,%s", row->tag,
                      row->unit == BT_UNIT_SHARE ? "" : bt_unit_name(row->unit));
        append_number(value->value, out);
        append_number(value->low, out);
        append_number(value->high, out);
        bt_str_format(out, ",%" PRId64 "\n", value->count);
    }
    return BT_OK;
}

static bt_status write_steps(const bt_store_run *run, const bt_store_round *round, bt_str *out)
{
    BT_EACH(const bt_store_step, step, round->steps, round->step_count) {
        append_round(run, round, out);
        bt_str_format(out, ",%" PRId64, step->step);
        append_number((double)step->loss, out);
        append_number((double)step->grad_norm, out);
        append_number(step->lr, out);
        bt_str_format(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%d\n", step->tokens,
                      step->host_ns, step->device_ns, step->peak_allocated_bytes, step->warmup,
                      step->profiled);
    }
    return BT_OK;
}

static bt_status write_samples(const bt_store_run *run, const bt_store_round *round, bt_str *out)
{
    BT_EACH(const bt_store_measurement, from, round->measurements, round->measurement_count) {
        for (int64_t j = 0; from->metric == BT_METRIC_TIME && j < from->sample_count; ++j) {
            append_round(run, round, out);
            bt_str_format(out, ",%" PRId64, j);
            append_number(from->samples[j], out);
            bt_str_append(out, "\n");
        }
    }
    return BT_OK;
}

typedef bt_status (*round_writer)(const bt_store_run *, const bt_store_round *, bt_str *);

static bt_status write_rounds(bt_store *store, const int64_t *runs, int64_t count,
                              const char *heads, round_writer write, bt_str *out)
{
    bt_str_format(out, ROUND_HEADS ",%s\n", heads);
    for (int64_t i = 0; i < count; ++i) {
        bt_store_run run;
        BT_TRY(bt_store_run_read(store, runs[i], &run));
        bt_status status = BT_OK;
        for (int64_t j = 0; status == BT_OK && j < run.round_count; ++j) {
            status = write(&run, &run.rounds[j], out);
        }
        bt_store_run_release(&run);
        BT_TRY(status);
    }
    return bt_str_status(out);
}

bt_status bt_report_csv(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    return write_rounds(store, runs, count, "metric,unit,value,low,high,count", write_metrics, out);
}

bt_status bt_report_steps_csv(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    return write_rounds(store, runs, count,
                        "step,loss,grad_norm,lr,tokens,host_ns,device_ns,peak_allocated_bytes,"
                        "warmup,profiled",
                        write_steps, out);
}

bt_status bt_report_samples_csv(bt_store *store, const int64_t *runs, int64_t count, bt_str *out)
{
    return write_rounds(store, runs, count, "sample,time_ns", write_samples, out);
}
