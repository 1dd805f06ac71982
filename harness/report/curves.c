// harness/report/curves.c - curves over the steps: loss, speed, memory, clocks, of each case
//
// A case of which one round counts is a line; if it is long, its minima and maxima, with medians of
// intervals drawn on top. If several rounds count, it is the band of their values, with their
// median. Of a case without a round that counts, the representative round is drawn. Drawings are
// thinned; figures elsewhere use every step.
#include "harness/report/curves.h"

#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "framework/base/scoped.h"

enum { STILL_BUCKETS = 300, LIVE_POINTS = 50000, LIVE_BUCKETS = 12500, MIDDLE_BUCKETS = 200 };

static bool loss_of(const bt_store_step *step, double *y)
{
    *y = (double)step->loss;
    return true;
}

static bool speed_of(const bt_store_step *step, double *y)
{
    *y = step->host_ns > 0 ? (double)step->tokens * 1e9 / (double)step->host_ns : (double)NAN;
    return !step->warmup && !step->profiled;
}

static bool allocated_of(const bt_store_step *step, double *y)
{
    *y = (double)step->peak_allocated_bytes;
    return step->peak_allocated_bytes > 0;
}

static bool reserved_of(const bt_store_step *step, double *y)
{
    *y = (double)step->reserved_bytes;
    return step->reserved_bytes > 0;
}

static bool resident_of(const bt_store_step *step, double *y)
{
    *y = (double)step->resident_bytes;
    return step->resident_bytes > 0;
}

static double sm_clock_of(const bt_store_telemetry *sample) { return sample->sm_clock_mhz; }

static double memory_clock_of(const bt_store_telemetry *sample) { return sample->memory_clock_mhz; }

static double cpu_clock_of(const bt_store_telemetry *sample) { return sample->cpu_clock_mhz; }

static double power_of(const bt_store_telemetry *sample) { return sample->power_w; }

static double other_cores_of(const bt_store_telemetry *sample) { return sample->other_cores; }

const chart_kind bt_chart_kinds[CHART_KINDS] = {
    {.id = "loss",
     .title = "Loss",
     .note = "line: training, dots: validation",
     .unit = BT_UNIT_NATS,
     .with_evals = true,
     .lines = {{"", loss_of, NULL}}},
    {.id = "hellaswag",
     .title = "HellaSwag",
     .note = "fraction of correct answers, by loss per token",
     .unit = BT_UNIT_NATS,
     .with_scores = true,
     .lines = {{"", NULL, NULL}}},
    {.id = "speed",
     .title = "Tokens per second",
     .note = "without warm-up and profiled steps",
     .unit = BT_UNIT_TOKENS_PER_S,
     .lines = {{"", speed_of, NULL}}},
    {.id = "memory",
     .title = "Memory",
     .note = "peak of the framework's allocator",
     .unit = BT_UNIT_BYTES,
     .from_zero = true,
     .lines = {{"peak of the framework's allocator", allocated_of, NULL},
               {"reserved from the device", reserved_of, NULL},
               {"resident in the host", resident_of, NULL}}},
    {.id = "clock",
     .title = "Clocks, MHz",
     .note = "sampled during the run, placed by the times of the steps",
     .unit = BT_UNIT_NATS,
     .lines = {{"multiprocessors", NULL, sm_clock_of},
               {"GPU memory", NULL, memory_clock_of},
               {"processor", NULL, cpu_clock_of}}},
    {.id = "power",
     .title = "Power, W",
     .note = "drawn by the GPU",
     .unit = BT_UNIT_NATS,
     .from_zero = true,
     .lines = {{"", NULL, power_of}}},
    {.id = "load",
     .title = "Processor cores used by other processes",
     .note = "of the machine, not of the run",
     .unit = BT_UNIT_NATS,
     .from_zero = true,
     .lines = {{"", NULL, other_cores_of}}},
};
const int bt_chart_kind_count = (int)(sizeof bt_chart_kinds / sizeof bt_chart_kinds[0]);

// ---- the rounds that are drawn -----------------------------------------------------------------

// The round that lines and dots of one round show.
static const bt_store_round *shown_round(const report_case *item)
{
    for (int64_t r = 0; r < item->round_count; r++) {
        if (bt_round_counts(item, r)) {
            return item->rounds[r];
        }
    }
    return item->round;
}

static bool is_drawn(const report_case *item, int64_t index)
{
    return bt_round_counts(item, index) || item->rounds[index] == shown_round(item);
}

static bool has_steps(const report_case *item) { return shown_round(item)->step_count > 0; }

// ---- points of a case --------------------------------------------------------------------------

// A curve with room for `most` points, behind the last one; it is part of the chart once counted.
static bt_status new_curve(chart *out, const report_case *item, const char *name, int style,
                           curve_shape shape, int64_t most, curve **line)
{
    *line = &out->curves[out->count];
    **line = (curve){.item = item, .name = name, .style = style % CHART_STYLES, .shape = shape};
    BT_TRY(BT_ARENA_ARRAY(&out->arena, most, &(*line)->x));
    return BT_ARENA_ARRAY(&out->arena, most, &(*line)->y);
}

static void add_point(curve *line, int64_t step, double y)
{
    line->x[line->count] = (double)step;
    line->y[line->count++] = y;
}

// A noisy thinned line is hard to read: medians are drawn on top.
static bt_status add_line(chart *out, const report_case *item, int index, int style,
                          int64_t buckets)
{
    const bt_store_round *round = shown_round(item);
    bool sampled = out->kind->lines[index].of_sample;
    int64_t most = sampled ? round->telemetry_count : round->step_count;
    curve *line = NULL, *middle = NULL;
    BT_TRY(new_curve(out, item, out->kind->lines[index].name, style, CURVE_LINE, most, &line));
    for (int64_t i = 0; !sampled && i < most; i++) {
        double y = 0.0;
        if (out->kind->lines[index].of_step(&round->steps[i], &y) && isfinite(y)) {
            add_point(line, round->steps[i].step, y);
        }
    }
    if (sampled) {
        line->count =
            bt_curve_of_samples(round, out->kind->lines[index].of_sample, line->x, line->y);
    }
    out->count += line->count > 0;
    int64_t flat = bt_curve_flatten(line->x, line->y, line->count);
    line->count = flat;
    if (flat <= 2 * STILL_BUCKETS) {
        return BT_OK;
    }
    line->shape = CURVE_FAINT;
    BT_TRY(new_curve(out, item, line->name, style, CURVE_LINE, flat, &middle));
    memcpy(middle->x, line->x, (size_t)flat * sizeof *line->x);
    memcpy(middle->y, line->y, (size_t)flat * sizeof *line->y);
    middle->count = bt_curve_medians(middle->x, middle->y, NULL, NULL, flat, MIDDLE_BUCKETS);
    line->count = bt_curve_thin(line->x, line->y, flat, buckets);
    out->count++;
    return BT_OK;
}

// The values of one step in all rounds that count. Returns the number of finite ones.
static int64_t values_at(const report_case *item, int64_t step, const chart_kind *kind, int64_t *at,
                         double *values)
{
    int64_t count = 0;
    for (int64_t r = 0; r < item->round_count; r++) {
        const bt_store_round *round = item->rounds[r];
        while (at[r] < round->step_count && round->steps[at[r]].step < step) {
            at[r]++;
        }
        double y = 0.0;
        if (bt_round_counts(item, r) && at[r] < round->step_count &&
            round->steps[at[r]].step == step && kind->lines[0].of_step(&round->steps[at[r]], &y) &&
            isfinite(y)) {
            values[count++] = y;
        }
    }
    return count;
}

// Several rounds: the median of each step, in the band from minimum to maximum.
static bt_status add_band(chart *out, const report_case *item, int style, int64_t buckets)
{
    double *values = NULL;
    int64_t *at = NULL;
    const bt_store_round *frame = shown_round(item); // the longest one that counts
    for (int64_t r = 0; r < item->round_count; r++) {
        if (bt_round_counts(item, r) && item->rounds[r]->step_count > frame->step_count) {
            frame = item->rounds[r];
        }
    }
    curve *band = NULL;
    double *middle = NULL; // medians
    BT_TRY(new_curve(out, item, out->kind->lines[0].name, style, CURVE_BAND, frame->step_count,
                     &band));
    BT_TRY(BT_ARENA_ARRAY(&out->arena, frame->step_count, &band->high));
    BT_TRY(BT_ARENA_ARRAY(&out->arena, frame->step_count, &middle));
    BT_TRY(BT_ARENA_ARRAY(&out->arena, item->round_count, &values));
    BT_TRY(BT_ARENA_ARRAY(&out->arena, item->round_count, &at));
    for (int64_t i = 0; i < frame->step_count; i++) {
        bt_stats stats;
        int64_t count = values_at(item, frame->steps[i].step, out->kind, at, values);
        BT_TRY(bt_stats_of(values, count, &stats));
        if (count > 0) {
            band->high[band->count] = stats.max;
            middle[band->count] = stats.median;
            add_point(band, frame->steps[i].step, stats.min);
        }
    }
    band->count = bt_curve_medians(band->x, middle, band->y, band->high, band->count, 2 * buckets);
    if (band->count > 0) {
        curve *line = band + 1;
        *line = *band;
        line->y = middle;
        line->high = NULL;
        line->shape = CURVE_LINE;
        out->count += 2;
    }
    return BT_OK;
}

static bt_status add_evals(chart *out, const report_case *item, int style, int64_t buckets)
{
    const bt_store_round *round = shown_round(item);
    curve *dots = NULL;
    BT_TRY(new_curve(out, item, "validation", style, CURVE_DOTS, round->eval_count, &dots));
    BT_EACH(const bt_store_eval, eval, round->evals, round->eval_count) {
        add_point(dots, eval->step, eval->loss);
    }
    dots->count = bt_curve_thin(dots->x, dots->y, dots->count, buckets);
    out->count += dots->count > 0;
    return BT_OK;
}

static bt_status add_scores(chart *out, const report_case *item, int style, int64_t buckets)
{
    const bt_store_round *round = shown_round(item);
    curve *line = NULL;
    BT_TRY(new_curve(out, item, "", style, CURVE_LINE, round->score_count, &line));
    BT_EACH(const bt_store_score, score, round->scores, round->score_count) {
        add_point(line, score->step, (double)score->normalised_correct / (double)score->questions);
    }
    line->count = bt_curve_thin(line->x, line->y, line->count, buckets);
    out->count += line->count > 0;
    return BT_OK;
}

// ---- charts ------------------------------------------------------------------------------------

// Whether any case has a value for a line of telemetry; lines of steps are always shown.
static bool has_samples(const report_set *set, double (*of_sample)(const bt_store_telemetry *))
{
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = shown_round(&set->cases[i]);
        for (int64_t j = 0; round->step_count > 0 && j < round->telemetry_count; j++) {
            if (isfinite(of_sample(&round->telemetry[j]))) {
                return true;
            }
        }
    }
    return false;
}

// The line that is drawn for each of several cases.
static int main_line(const report_set *set, const chart_kind *kind)
{
    int line = 0;
    while (line + 1 < CHART_LINES && kind->lines[line].of_sample &&
           kind->lines[line + 1].of_sample && !has_samples(set, kind->lines[line].of_sample)) {
        line++;
    }
    return line;
}

// The right end of the axis of all charts: the last step of any case. Samples of telemetry lie
// within their step, so that these need the axis up to its end, the number of the next step.
static double last_step(const report_set *set)
{
    double last = 1.0;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        for (int64_t r = 0; r < item->round_count; r++) {
            const bt_store_round *round = item->rounds[r];
            if (is_drawn(item, r) && round->step_count > 0) {
                last = fmax(last, (double)round->steps[round->step_count - 1].step +
                                      (round->telemetry_count > 0));
            }
            if (is_drawn(item, r) && round->eval_count > 0) {
                last = fmax(last, (double)round->evals[round->eval_count - 1].step);
            }
        }
    }
    return last;
}

static void set_axes(const report_set *set, chart *out)
{
    double low = HUGE_VAL, high = -HUGE_VAL;
    out->x_max = last_step(set);
    BT_EACH(const curve, line, out->curves, out->count) {
        for (int64_t j = 0; j < line->count; j++) {
            low = fmin(low, line->y[j]);
            high = fmax(high, line->high ? line->high[j] : line->y[j]);
        }
    }
    low = out->kind->from_zero ? 0.0 : low;
    double margin = 0.06 * (high - low);
    if (!(margin > 1e-3 * fabs(high))) { // nearly flat: two percent around it
        margin = high != 0.0 ? 0.02 * fabs(high) : 1.0;
    }
    out->y_min = out->kind->from_zero ? 0.0 : low - margin;
    out->y_max = high + margin;
}

bt_status bt_chart_make(const report_set *set, const chart_kind *kind, int64_t buckets, chart *out)
{
    int64_t cases = bt_report_count(set, has_steps), index = 0;
    int only = main_line(set, kind);
    memset(out, 0, sizeof *out);
    out->kind = kind;
    BT_TRY(BT_ARENA_ARRAY(&out->arena, cases * 3 + 2 * CHART_LINES + 2, &out->curves));
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        if (!has_steps(item)) {
            continue;
        }
        int64_t first = out->count;
        for (int c = cases > 1 ? only : 0; c < (cases > 1 ? only + 1 : CHART_LINES); c++) {
            bool banded = bt_report_counted(item) > 1 && kind->lines[c].of_step;
            if (banded && c == 0) {
                BT_TRY(add_band(out, item, (int)index, buckets));
            } else if (!banded && (kind->lines[c].of_step || kind->lines[c].of_sample)) {
                BT_TRY(add_line(out, item, c, (int)index + (cases > 1 ? 0 : c), buckets));
            }
        }
        if (kind->with_evals) {
            BT_TRY(add_evals(out, item, (int)index, buckets));
        }
        if (kind->with_scores) {
            BT_TRY(add_scores(out, item, (int)index, buckets));
        }
        for (int64_t c = first; c < out->count; c++) {
            out->curves[c].name =
                cases > 1 && out->curves[c].shape != CURVE_DOTS ? "" : out->curves[c].name;
            out->curves[c].quiet = cases > CHART_CALM_CASES && index > 0 && index + 1 < cases;
        }
        index++;
    }
    if (out->count > 0) {
        set_axes(set, out);
    }
    return BT_OK;
}

// ---- the parts of the page ---------------------------------------------------------------------

// The numbers of steps of the cases that have any.
static bt_status take_lengths(const report_set *set, bt_stats *lengths)
{
    BT_SCOPED_MEM(double *) values = NULL;
    int64_t count = 0;
    BT_TRY(BT_MEM_ARRAY(set->case_count, &values));
    for (int64_t i = 0; i < set->case_count; i++) {
        const int64_t steps = shown_round(&set->cases[i])->step_count;
        values[count] = (double)steps;
        count += steps > 0;
    }
    return bt_stats_of(values, count, lengths);
}

// Where a case is much longer than most, their common axis leaves little room for most curves.
static void write_lengths(const bt_stats *lengths, bt_str *out)
{
    if (lengths->max >= 4.0 * lengths->median) {
        const double usual = floor(lengths->median);
        bt_str_format(out,
                      "<p class=\"muted hint\">The cases have %.0f to %.0f steps. <button "
                      "type=button class=link id=usual data-steps=%.0f>Show the first "
                      "%.0f</button></p>\n",
                      lengths->min, lengths->max, usual, usual);
    }
}

bt_status bt_page_curves(const report_set *set, bt_str *out)
{
    bt_stats lengths;
    BT_TRY(take_lengths(set, &lengths));
    if (lengths.count == 0) {
        return BT_OK;
    }
    const int64_t steps = (int64_t)lengths.max;
    bt_str_append(out, "<section id=curves><h2>Over the steps</h2>\n");
    bt_str_append(out, "<p class=\"muted hint\">Drag to zoom, double-click to see all; the cursor "
                       "is shared. With the keyboard: arrows move the cursor, + and - zoom, 0 "
                       "shows all. <button type=button class=link id=whole hidden>Show all"
                       "</button></p>\n");
    write_lengths(&lengths, out);
    for (int k = 0; k < bt_chart_kind_count; k++) {
        chart drawn;
        bt_status status = bt_chart_make(set, &bt_chart_kinds[k], STILL_BUCKETS, &drawn);
        if (status == BT_OK && drawn.count > 0) {
            bt_chart_write(&drawn, k == 0, out);
        }
        bt_arena_release(&drawn.arena);
        BT_TRY(status);
    }
    if (steps > 2 * STILL_BUCKETS) {
        bt_str_format(out,
                      "<p class=muted>%s steps: the pale band shows the smallest and largest value "
                      "of each interval of steps, the line the medians of %d intervals; every "
                      "figure on this page is computed from all steps.</p>\n",
                      bt_format_count(steps).text, MIDDLE_BUCKETS);
    }
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

// Maximum number of buckets per curve, so that all together stay within LIVE_POINTS.
static int64_t live_buckets(const report_set *set)
{
    int64_t cases = bt_report_count(set, has_steps), curves = cases > 1 ? 3 * cases : 2;
    int64_t buckets = LIVE_POINTS / (2 * (curves > 0 ? curves : 1));
    return buckets > LIVE_BUCKETS    ? LIVE_BUCKETS
           : buckets < STILL_BUCKETS ? STILL_BUCKETS
                                     : buckets;
}

bt_status bt_page_data(const report_set *set, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_str_append(out, "<script type=\"application/json\" id=\"data\">");
    bt_json_writer_open(&json, NULL, '[');
    for (int k = 0; k < bt_chart_kind_count; k++) {
        chart drawn;
        bt_status status = bt_chart_make(set, &bt_chart_kinds[k], live_buckets(set), &drawn);
        if (status == BT_OK && drawn.count > 0) {
            bt_chart_write_data(&drawn, set, &json);
        }
        bt_arena_release(&drawn.arena);
        BT_TRY(status);
    }
    bt_json_writer_close(&json, ']');
    bt_str_append(out, "</script>\n");
    return BT_OK;
}
