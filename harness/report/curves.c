// harness/report/curves.c - curves over the steps: a still picture, and data for the script
//
// The picture is an SVG without text, stretched to whatever width there is; its labels are HTML, so
// they stay readable on a phone. Where scripts run, uPlot draws the same curves with zoom and a
// shared cursor in its place. Both are thinned; figures elsewhere use every step.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/internal.h"

enum {
    STILL_BUCKETS = 300,
    LIVE_BUCKETS = 1000,
    MIDDLE_BUCKETS = 200,
    MANY_DOTS = 60,
    SERIES_STYLES = 6,
    VIEW_W = 1000,
    VIEW_H = 300
};

typedef bool (*step_value)(const bt_store_step *step, double *y);

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

// What a chart draws of each case. The later curves are drawn only where there is one case.
typedef struct chart_kind {
    const char *id, *title, *note;
    bt_unit unit;
    bool from_zero, with_evals;
    struct {
        const char *name; // "" where the case's label says enough
        step_value value;
    } curves[3];
} chart_kind;

static const chart_kind kinds[] = {
    {"loss",
     "Loss",
     "line: training, dots: validation",
     BT_UNIT_NATS,
     false,
     true,
     {{"", loss_of}}},
    {"speed",
     "Tokens per second",
     "warm-up and profiled steps left out",
     BT_UNIT_TOKENS_PER_S,
     false,
     false,
     {{"", speed_of}}},
    {"memory",
     "Memory",
     "peak of our allocator",
     BT_UNIT_BYTES,
     true,
     false,
     {{"peak of our allocator", allocated_of},
      {"held from the device", reserved_of},
      {"resident in the host", resident_of}}},
};

enum { KIND_COUNT = (int)(sizeof kinds / sizeof kinds[0]) };

typedef struct curve {
    const report_case *item; // borrowed
    const char *name;        // of the curve, "" for the case's own
    double *x, *y;           // [count]
    int64_t count;
    int style;  // 0..SERIES_STYLES-1
    bool dots;  // points, not a line
    bool faint; // smallest and largest values, behind a line of medians
} curve;

typedef struct chart {
    const chart_kind *kind;
    curve *curves;
    int64_t count;
    double x_max, y_min, y_max; // of the axes
    bt_arena arena;
} chart;

int64_t bt_curve_thin(double *x, double *y, int64_t count, int64_t buckets)
{
    int64_t finite = 0, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(y[i])) {
            x[finite] = x[i];
            y[finite++] = y[i];
        }
    }
    if (finite <= 2 * buckets) {
        return finite;
    }
    for (int64_t b = 0; b < buckets; b++) {
        int64_t begin = finite * b / buckets, end = finite * (b + 1) / buckets;
        int64_t low = begin, high = begin;
        for (int64_t i = begin; i < end; i++) {
            low = y[i] < y[low] ? i : low;
            high = y[i] > y[high] ? i : high;
        }
        int64_t first = low < high ? low : high, second = low < high ? high : low;
        double first_x = x[first], first_y = y[first], second_x = x[second], second_y = y[second];
        x[kept] = first_x;
        y[kept++] = first_y;
        if (second != first) {
            x[kept] = second_x;
            y[kept++] = second_y;
        }
    }
    return kept;
}

static bt_status make_points(chart *out, curve *line, int64_t capacity)
{
    void *x = NULL, *y = NULL;
    BT_TRY(bt_arena_alloc(&out->arena, (size_t)capacity * sizeof(double), &x));
    BT_TRY(bt_arena_alloc(&out->arena, (size_t)capacity * sizeof(double), &y));
    line->x = x;
    line->y = y;
    return BT_OK;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int64_t bt_curve_medians(double *x, double *y, int64_t count, int64_t buckets)
{
    int64_t kept = 0;
    for (int64_t b = 0; b < buckets; b++) {
        int64_t begin = count * b / buckets, end = count * (b + 1) / buckets;
        if (begin == end) {
            continue;
        }
        double middle_x = x[begin + (end - begin) / 2];
        qsort(y + begin, (size_t)(end - begin), sizeof *y, ascending);
        double middle_y = bt_stats_quantile(y + begin, end - begin, 0.5);
        x[kept] = middle_x;
        y[kept++] = middle_y;
    }
    return kept;
}

// A curve that had to be thinned is hard to follow where it is noisy: medians of stretches go on
// top.
static bt_status add_medians(chart *out, const curve *all)
{
    curve *line = &out->curves[out->count];
    *line = *all;
    BT_TRY(make_points(out, line, all->count));
    memcpy(line->x, all->x, (size_t)all->count * sizeof *line->x);
    memcpy(line->y, all->y, (size_t)all->count * sizeof *line->y);
    line->count = bt_curve_medians(line->x, line->y, all->count, MIDDLE_BUCKETS);
    out->count++;
    return BT_OK;
}

static bt_status add_line(chart *out, const report_case *item, const char *name, step_value value,
                          int style, int64_t buckets)
{
    const bt_store_round *round = item->round;
    curve *line = &out->curves[out->count];
    *line = (curve){.item = item, .name = name, .style = style % SERIES_STYLES};
    BT_TRY(make_points(out, line, round->step_count));
    for (int64_t i = 0; i < round->step_count; i++) {
        double y = 0.0;
        if (value(&round->steps[i], &y) && isfinite(y)) {
            line->x[line->count] = (double)round->steps[i].step;
            line->y[line->count++] = y;
        }
    }
    if (line->count > 2 * buckets) {
        line->faint = true;
        out->count++;
        curve all = *line;
        all.faint = false;
        BT_TRY(add_medians(out, &all));
        line->count = bt_curve_thin(line->x, line->y, line->count, buckets);
        return BT_OK;
    }
    out->count += line->count > 0;
    return BT_OK;
}

static bt_status add_evals(chart *out, const report_case *item, int style, int64_t buckets)
{
    const bt_store_round *round = item->round;
    curve *dots = &out->curves[out->count];
    *dots =
        (curve){.item = item, .name = "validation", .style = style % SERIES_STYLES, .dots = true};
    BT_TRY(make_points(out, dots, round->eval_count));
    for (int64_t i = 0; i < round->eval_count; i++) {
        dots->x[dots->count] = (double)round->evals[i].step;
        dots->y[dots->count++] = round->evals[i].loss;
    }
    dots->count = bt_curve_thin(dots->x, dots->y, dots->count, buckets);
    out->count += dots->count > 0;
    return BT_OK;
}

// The last step of any case, so that the charts stand under each other.
static double last_step(const report_set *set)
{
    double last = 1.0;
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = set->cases[i].round;
        if (round->step_count > 0) {
            last = fmax(last, (double)round->steps[round->step_count - 1].step);
        }
        if (round->eval_count > 0) {
            last = fmax(last, (double)round->evals[round->eval_count - 1].step);
        }
    }
    return last;
}

static void set_axes(const report_set *set, chart *out)
{
    double low = HUGE_VAL, high = -HUGE_VAL;
    out->x_max = last_step(set);
    for (int64_t i = 0; i < out->count; i++) {
        const curve *line = &out->curves[i];
        for (int64_t j = 0; j < line->count; j++) {
            low = fmin(low, line->y[j]);
            high = fmax(high, line->y[j]);
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

static bt_status make_chart(const report_set *set, const chart_kind *kind, int64_t buckets,
                            chart *out)
{
    void *block = NULL;
    memset(out, 0, sizeof *out);
    out->kind = kind;
    BT_TRY(bt_arena_alloc(&out->arena, ((size_t)set->case_count * 3 + 6) * sizeof *out->curves,
                          &block));
    out->curves = block;
    bool several = set->case_count > 1;
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        for (int c = 0; c < 3 && kind->curves[c].value && (c == 0 || !several); c++) {
            const char *name = several ? "" : kind->curves[c].name;
            BT_TRY(add_line(out, item, name, kind->curves[c].value, (int)i + c, buckets));
        }
        if (kind->with_evals) {
            BT_TRY(add_evals(out, item, (int)i, buckets));
        }
    }
    if (out->count > 0) {
        set_axes(set, out);
    }
    return BT_OK;
}

// 1, 2 or 5 times a power of ten, so that about `wanted` steps fill the range.
static double tick_step(double range, double wanted)
{
    double raw = range / wanted, power = pow(10.0, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0);
}

// Ticks of the y axis: first + i * step, count of them.
typedef struct ticks {
    double first, step;
    int count;
} ticks;

static ticks y_ticks(const chart *from)
{
    double unit = from->kind->unit == BT_UNIT_BYTES ? 1073741824.0 : 1.0;
    double step = tick_step((from->y_max - from->y_min) / unit, 4.0) * unit;
    double first = ceil(from->y_min / step) * step;
    return (ticks){first, step, (int)floor((from->y_max - first) / step) + 1};
}

static void write_grid(const chart *from, bt_str *out)
{
    ticks at = y_ticks(from);
    double height = from->y_max - from->y_min;
    bt_str_append(out, "<path class=grid d=\"");
    for (int i = 0; i < at.count; i++) {
        double y = at.first + i * at.step;
        bt_str_format(out, "M0 %.4gh%d", VIEW_H * (1.0 - (y - from->y_min) / height), VIEW_W);
    }
    bt_str_append(out, "\"/>");
}

static void write_ticks(const chart *from, bt_str *out)
{
    ticks marks = y_ticks(from);
    bt_str_append(out, "<div class=y aria-hidden=true>");
    for (int i = 0; i < marks.count; i++) {
        double y = marks.first + i * marks.step;
        double at = 100.0 * (y - from->y_min) / (from->y_max - from->y_min);
        bt_str_format(out, "<span style=\"bottom:%.2f%%\">", at);
        if (from->kind->unit == BT_UNIT_NATS || y == 0.0) {
            bt_str_format(out, "%.4g</span>", fabs(y) < 1e-9 * marks.step ? 0.0 : y);
        } else {
            bt_text label = bt_format_value(from->kind->unit, y);
            // The title says what is counted: 2050 tok/s and 412K tok/s without the unit.
            if (from->kind->unit == BT_UNIT_TOKENS_PER_S) {
                label.text[strcspn(label.text, " ")] = '\0';
            }
            bt_str_format(out, "%s</span>", label.text);
        }
    }
    bt_str_append(out, "</div><div class=x aria-hidden=true>");
    double step = fmax(1.0, tick_step(from->x_max, 5.0));
    for (int i = 0; i * step <= from->x_max; i++) {
        double x = i * step;
        bt_str_format(out, "<span style=\"left:%.2f%%\">%.0f</span>", 100.0 * x / from->x_max, x);
    }
    bt_str_append(out, "</div>");
}

static void write_path(const chart *from, const curve *line, bt_str *out)
{
    double height = from->y_max - from->y_min;
    bt_str_format(out, "<path class=\"s%d%s\" d=\"", line->style,
                  line->faint               ? " faint"
                  : !line->dots             ? ""
                  : line->count > MANY_DOTS ? " dots many"
                                            : " dots");
    for (int64_t i = 0; i < line->count; i++) {
        double x = VIEW_W * line->x[i] / from->x_max;
        double y = VIEW_H * (1.0 - (line->y[i] - from->y_min) / height);
        const char *verb = i == 0 || line->dots ? "M" : i == 1 ? "L" : " ";
        bt_str_format(out, "%s%.4g %.4g%s", verb, x, y, line->dots ? "h0" : "");
    }
    bt_str_append(out, "\"/>");
}

static void write_legend(const chart *from, bt_str *out)
{
    bt_str_append(out, "<ul class=legend>");
    for (int64_t i = 0; i < from->count; i++) {
        const curve *line = &from->curves[i];
        if (line->dots || line->faint) {
            continue;
        }
        bt_str_format(out,
                      "<li><svg class=swatch viewBox=\"0 0 30 8\" aria-hidden=true><path "
                      "class=\"s%d\" d=\"M0 4H30\"/></svg><b class=tag>%s</b> ",
                      line->style, line->item->tag);
        bt_html_text(out, line->name[0] ? line->name : line->item->label);
        bt_str_append(out, "</li>");
    }
    bt_str_append(out, "</ul>");
}

static void write_chart(const chart *from, bt_str *out)
{
    const chart_kind *kind = from->kind;
    // Where the legend names the curves, the note would say it twice.
    const char *note = from->curves[0].name[0] ? "" : kind->note;
    bt_str_format(out,
                  "<figure class=chart data-chart=\"%s\"><figcaption><h3>%s</h3><span "
                  "class=muted>%s</span></figcaption>\n<div class=plot><div class=still role=img "
                  "aria-label=\"%s over steps\"><svg viewBox=\"0 0 %d %d\" "
                  "preserveAspectRatio=none>",
                  kind->id, kind->title, note, kind->title, VIEW_W, VIEW_H);
    write_grid(from, out);
    for (int64_t i = 0; i < from->count; i++) {
        write_path(from, &from->curves[i], out);
    }
    bt_str_append(out, "</svg>");
    write_ticks(from, out);
    bt_str_append(out, "</div><div class=live></div></div>\n");
    write_legend(from, out);
    bt_str_append(out, "</figure>\n");
}

static int64_t most_steps(const report_set *set)
{
    int64_t most = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        int64_t count = set->cases[i].round->step_count;
        most = count > most ? count : most;
    }
    return most;
}

bt_status bt_page_curves(const report_set *set, bt_str *out)
{
    int64_t steps = most_steps(set);
    if (steps == 0) {
        return BT_OK;
    }
    bt_str_append(out, "<section id=curves><h2>Over the steps</h2>\n");
    bt_str_append(out, "<p class=\"muted hint\">Drag to zoom, double-click to see all; the cursor "
                       "is shared.</p>\n");
    for (int k = 0; k < KIND_COUNT; k++) {
        chart drawn;
        bt_status status = make_chart(set, &kinds[k], STILL_BUCKETS, &drawn);
        if (status == BT_OK && drawn.count > 0) {
            write_chart(&drawn, out);
        }
        bt_arena_release(&drawn.arena);
        BT_TRY(status);
    }
    if (steps > 2 * LIVE_BUCKETS) {
        bt_str_format(out,
                      "<p class=muted>%s steps are drawn as the smallest and largest value of each "
                      "of %d stretches, with the medians of %d on top; every figure on this page "
                      "is computed from all of them.</p>\n",
                      bt_format_count(steps).text, LIVE_BUCKETS, MIDDLE_BUCKETS);
    }
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

static void write_data(const chart *from, const report_set *set, bt_json_writer *json)
{
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "id", from->kind->id);
    bt_json_writer_bool(json, "fromZero", from->kind->from_zero);
    bt_json_writer_rounded(json, "last", from->x_max, 9);
    bt_json_writer_open(json, "curves", '[');
    for (int64_t i = 0; i < from->count; i++) {
        const curve *line = &from->curves[i];
        bt_json_writer_open(json, NULL, '{');
        bt_json_writer_text(json, "tag", set->case_count > 1 ? line->item->tag : "");
        bt_json_writer_text(json, "label", line->name);
        bt_json_writer_integer(json, "style", line->style);
        bt_json_writer_bool(json, "dots", line->dots);
        bt_json_writer_bool(json, "faint", line->faint);
        bt_json_writer_open(json, "x", '[');
        for (int64_t j = 0; j < line->count; j++) {
            bt_json_writer_rounded(json, NULL, line->x[j], 9);
        }
        bt_json_writer_close(json, ']');
        bt_json_writer_open(json, "y", '[');
        for (int64_t j = 0; j < line->count; j++) {
            bt_json_writer_rounded(json, NULL, line->y[j], 6);
        }
        bt_json_writer_close(json, ']');
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, ']');
    bt_json_writer_close(json, '}');
}

bt_status bt_page_data(const report_set *set, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '[');
    for (int k = 0; k < KIND_COUNT; k++) {
        chart drawn;
        // Many cases share the room that one has.
        int64_t buckets = set->case_count > 4 ? LIVE_BUCKETS * 4 / set->case_count : LIVE_BUCKETS;
        bt_status status = make_chart(set, &kinds[k], buckets, &drawn);
        if (status == BT_OK && drawn.count > 0) {
            write_data(&drawn, set, &json);
        }
        bt_arena_release(&drawn.arena);
        BT_TRY(status);
    }
    bt_json_writer_close(&json, ']');
    return BT_OK;
}
