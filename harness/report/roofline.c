// harness/report/roofline.c - kernel cases by arithmetic intensity and rate, below the machine's
// ceilings of the same session
//
//   intensity = FLOP of a call / bytes that it must move        x, logarithmic
//   reached   = FLOP per second                                 y, logarithmic
//   roof      = min(intensity * bandwidth of a copy, best matrix product in the case's type)
// Ceilings are the session's cases "ceiling.*": those with a bandwidth are sloped, those with a
// compute rate ("ceiling.gemm.bf16") are flat. Cases without FLOP (copies, casts) are omitted.
#include "harness/report/roofline.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"

enum { RUNS_UP_TO = 2 };

// ---- gathering ---------------------------------------------------------------------------------

static int series_of(roofline *self, const report_case *item)
{
    for (int i = 0; i < self->series_count; i++) {
        if (self->series[i]->run == item->run &&
            strcmp(self->series[i]->round->what.system, item->round->what.system) == 0) {
            return i;
        }
    }
    if (self->series_count == ROOFLINE_SERIES) {
        return -1;
    }
    self->series[self->series_count] = item;
    return self->series_count++;
}

static void add_ceiling(roofline *self, const char *name, double value, bool flat)
{
    if (value > 0.0 && isfinite(value) && self->ceiling_count < ROOFLINE_CEILINGS) {
        self->ceilings[self->ceiling_count++] = (roofline_ceiling){name, value, flat};
    }
}

// Of several runs only the last is drawn, because more points would overlap.
static bool left_out(const report_set *set, const report_case *item)
{
    return set->run_count > RUNS_UP_TO && item->run != &set->runs[set->run_count - 1];
}

// The ceilings of the first drawn run that has kernel cases; if it has no ceiling case, computed
// from the fractions of a copy.
static void find_ceilings(const report_set *set, roofline *self)
{
    double copy = (double)NAN;
    const bt_store_run *run = NULL;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const bt_metric_value *metrics = item->summary.metrics;
        double compute = metrics[BT_METRIC_COMPUTE].value;
        run = !run && bt_report_is_kernel(item->round) && !left_out(set, item) ? item->run : run;
        if (item->run != run) {
            continue;
        }
        if (item->kernel.ceiling) {
            bool flat = metrics[BT_METRIC_COMPUTE].count > 0 && compute > 0.0;
            add_ceiling(self, item->round->what.name + strlen("ceiling."),
                        flat ? compute : metrics[BT_METRIC_BANDWIDTH].value, flat);
        } else if (metrics[BT_METRIC_COPY_SHARE].count > 0) {
            copy = metrics[BT_METRIC_BANDWIDTH].value / metrics[BT_METRIC_COPY_SHARE].value;
        }
    }
    bool slope = false;
    for (int i = 0; i < self->ceiling_count; i++) {
        slope = slope || !self->ceilings[i].flat;
    }
    if (!slope) {
        add_ceiling(self, "copy", copy, false);
    }
}

// Does a flat ceiling apply to a type? "gemm.bf16" to bf16 only, any other to all.
static bool holds_for(const char *name, const char *dtype)
{
    static const char prefix[] = "gemm.";
    return strncmp(name, prefix, sizeof prefix - 1) != 0 ||
           strcmp(name + sizeof prefix - 1, dtype) == 0;
}

// The machine's limit at an intensity and in a type: the smaller of the best slope and the best
// flat ceiling.
static double roof_at(const roofline *self, double intensity, const char *dtype)
{
    double slope = (double)NAN, flat = (double)NAN;
    for (int i = 0; i < self->ceiling_count; i++) {
        if (self->ceilings[i].flat && !holds_for(self->ceilings[i].name, dtype)) {
            continue;
        }
        if (self->ceilings[i].flat) {
            flat = fmax(flat, self->ceilings[i].value);
        } else {
            slope = fmax(slope, self->ceilings[i].value * intensity);
        }
    }
    return fmin(slope, flat);
}

// The highest flat ceiling of all types; 0 where there is none.
static double highest_flat(const roofline *self)
{
    double flat = 0.0;
    for (int i = 0; i < self->ceiling_count; i++) {
        flat = fmax(flat, self->ceilings[i].flat ? self->ceilings[i].value : 0.0);
    }
    return flat;
}

// Widens an axis to whole decades around a value above 0, so that it has at least two marks.
static void include(picture_axis *axis, double value)
{
    if (value > 0.0) {
        axis->low = fmin(axis->low, pow(10.0, floor(log10(value / 1.2))));
        axis->high = fmax(axis->high, pow(10.0, ceil(log10(value * 1.2))));
    }
}

bt_status bt_roofline_make(const report_set *set, roofline *self)
{
    memset(self, 0, sizeof *self);
    BT_TRY(BT_ARENA_ARRAY(&self->arena, set->case_count, &self->points));
    self->x = self->y = (picture_axis){.low = HUGE_VAL, .logarithmic = true};
    find_ceilings(set, self);
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const bt_metric_value *metrics = item->summary.metrics;
        double rate = metrics[BT_METRIC_COMPUTE].value;
        double bytes_per_s = metrics[BT_METRIC_BANDWIDTH].value;
        double intensity = rate / bytes_per_s;
        if (left_out(set, item) || item->kernel.ceiling || !bt_report_is_kernel(item->round) ||
            !(rate > 0.0) || !(intensity > 0.0) || !isfinite(intensity)) {
            continue;
        }
        int series = series_of(self, item);
        if (series < 0) {
            continue; // a seventh system of these runs is only in the table of cases
        }
        double roof = roof_at(self, intensity, item->kernel.dtype);
        self->points[self->count++] = (roofline_point){item, intensity, rate, roof, series};
        include(&self->x, intensity);
        include(&self->y, rate);
        include(&self->y, fmax(rate, roof)); // fmax ignores a NaN
    }
    include(&self->y, highest_flat(self));
    return BT_OK;
}

// ---- drawing -----------------------------------------------------------------------------------

// The ends of a copy's line: within the picture, and up to the highest flat roof, or beyond it for
// a point whose type has none.
static void reach_of(const roofline *self, const roofline_ceiling *item, double *from, double *to)
{
    double flat = highest_flat(self);
    double top = flat > 0.0 ? flat : self->y.high;
    for (int64_t i = 0; i < self->count; i++) {
        top = fmax(top, self->points[i].roof); // fmax ignores a NaN
    }
    *from = fmin(fmax(self->x.low, self->y.low / item->value), self->x.high);
    *to = fmax(fmin(self->x.high, top / item->value), *from);
}

// How far the name of a flat ceiling is below its line: 0, or by a line of text if the name of
// another ceiling is where it would be.
static double sunk(const roofline *self, const roofline_ceiling *item)
{
    static const double text = 0.07; // height of a line of text, as a fraction of the plot's
    double depth = 0.0;
    for (int i = 0; i < self->ceiling_count && item->flat; i++) {
        const roofline_ceiling *other = &self->ceilings[i];
        const double above =
            bt_axis_share(&self->y, other->value) - bt_axis_share(&self->y, item->value);
        depth = other->flat && above > 0.0 && above < text ? text : depth;
    }
    return depth;
}

static double rate_at(const roofline_ceiling *item, double intensity)
{
    return item->flat ? item->value : item->value * intensity;
}

// A ceiling as a line, with its name above it, where there can be no points.
static void draw_ceiling(const roofline *self, const roofline_ceiling *item, picture *to)
{
    double left = self->x.low, right = self->x.high;
    if (!item->flat) {
        reach_of(self, item, &left, &right);
    }
    const double at = left * pow(right / left, item->flat ? 0.99 : 0.62);
    const bt_unit unit = item->flat ? BT_UNIT_FLOP_PER_S : BT_UNIT_BYTES_PER_S;
    bt_str_append(to->out, "<path class=\"roof\" d=\"");
    bt_picture_to(to, "M", left, rate_at(item, left));
    bt_picture_to(to, "L", right, rate_at(item, right));
    bt_str_append(to->out, "\"/>");
    bt_picture_name(to, at, rate_at(item, at), sunk(self, item),
                    bt_textf("%s%.40s %s",
                             item->flat || strcmp(item->name, "copy") == 0 ? "" : "copy, ",
                             item->name, bt_format_value(unit, item->value).text)
                        .text);
}

// "10 T" for ten to the 13th: the axis title has the unit.
static bt_text tick_text(double power)
{
    static const char prefixes[] = " kMGTPE";
    int thousands = 0;
    while (power > 999.0 && prefixes[thousands + 1]) {
        power /= 1000.0;
        thousands++;
    }
    return bt_textf("%.0f %c", power, prefixes[thousands]);
}

// A line and a label for each power of ten; if there are few, also labels between them.
static void add_labels(const roofline *self, picture *to)
{
    const bool between = self->x.high / self->x.low < 150.0;
    for (double x = self->x.low; x < 1.01 * self->x.high; x *= 10.0) {
        for (int lead = 1; lead < (between ? 6 : 2); lead += lead == 1 ? 1 : 3) {
            if (x * lead < 1.01 * self->x.high) {
                bt_picture_x(to, x * lead,
                             bt_textf(x * lead < 1.0 ? "%.4g" : "%.0f", x * lead).text, lead == 1);
            }
        }
    }
    for (double y = self->y.low; y < 1.01 * self->y.high; y *= 10.0) {
        bt_picture_y(to, y, tick_text(y).text, true);
    }
}

void bt_roofline_draw(const roofline *self, picture *to)
{
    to->x = self->x;
    to->y = self->y;
    add_labels(self, to);
    bt_picture_open(to);
    for (int i = 0; i < self->ceiling_count; i++) {
        draw_ceiling(self, &self->ceilings[i], to);
    }
    for (int64_t i = 0; i < self->count && to->file; i++) { // in a page they are links, with names
        bt_str_format(to->out, "<path class=\"dots s%d\" d=\"", self->points[i].series);
        bt_picture_to(to, "M", self->points[i].intensity, self->points[i].rate);
        bt_str_append(to->out, "h0\"/>");
    }
    bt_picture_close(to);
}

static void write_point(const report_set *set, const roofline *self, const roofline_point *at,
                        bt_str *out)
{
    const double x = 100.0 * bt_axis_share(&self->x, at->intensity);
    const double y = 100.0 * bt_axis_share(&self->y, at->rate);
    bt_str_format(out, "<a class=\"pt m%d%s%s\" style=\"left:%.2f%%;bottom:%.2f%%\" href=\"#",
                  at->series, x > 50.0 ? " left" : "", y > 80.0 ? " below" : "", x, y);
    bt_html_case_id(out, set, at->item);
    bt_html(out, "\"><span>%s: %s at %.3g FLOP a byte", at->item->label,
            bt_format_value(BT_UNIT_FLOP_PER_S, at->rate).text, at->intensity);
    if (isfinite(at->roof)) {
        bt_str_format(out, ", %.0f %% of the roof", 100.0 * at->rate / at->roof);
    }
    bt_str_append(out, "</span></a>\n");
}

static void write_legend(const report_set *set, const roofline *self, bt_str *out)
{
    bt_str_append(out, "<ul class=legend>");
    for (int i = 0; i < self->series_count && self->series_count > 1; i++) {
        bt_str_format(out, "<li><i class=\"pt m%d\" aria-hidden=true></i> ", i);
        if (set->run_count > 1) {
            bt_str_format(out, "run %lld, ", (long long)self->series[i]->run->id);
        }
        bt_html(out, "%s</li>", self->series[i]->round->what.system);
    }
    bt_str_append(out, "</ul>\n");
}

static void write_table(const report_set *set, const roofline *self, bt_str *out)
{
    bt_table table = {.name = {"roofline"}};
    bt_table_heads(&table, "case|>FLOP a byte|>FLOP/s|>bandwidth|>of the roof");
    BT_EACH(const roofline_point, at, self->points, self->count) {
        bt_table_cells(&table, "%s", at->item->label);
        bt_str *link = bt_table_part(&table, BT_CELL_LINK);
        bt_str_append(link, "#");
        bt_html_case_id(link, set, at->item);
        bt_table_cells(&table, "%.3g", at->intensity);
        bt_table_number(&table, BT_UNIT_FLOP_PER_S, at->rate);
        bt_table_number(&table, BT_UNIT_BYTES_PER_S, at->rate / at->intensity);
        bt_table_number(&table, BT_UNIT_SHARE, at->rate / at->roof);
    }
    bt_str_append(out, "<details id=roofline-table><summary>The roofline as a table</summary>");
    bt_table_html(&table, out);
    bt_str_append(out, "</details>\n");
}

static void write_roofline(const report_set *set, const roofline *self, bt_str *out)
{
    bt_str_append(out, "<section id=roofline><h2>Roofline</h2>\n<p class=muted>What each case "
                       "reached, by how much it computes for a byte that it must move. The lines "
                       "are what this machine reached in the same session. A point links to its "
                       "case. ");
    if (set->run_count > RUNS_UP_TO) {
        bt_str_format(out, "Of these runs, the last one, run %lld. ",
                      (long long)set->runs[set->run_count - 1].id);
    }
    bt_str_append(out, "<a class=skip href=\"#roofline-table\">Skip the points</a></p>\n"
                       "<p class=\"muted y-name\">FLOP/s</p>\n<div class=\"plot roofline\"><div "
                       "class=still>");
    bt_roofline_draw(self, &(picture){.out = out});
    for (int64_t i = 0; i < self->count; i++) {
        write_point(set, self, &self->points[i], out);
    }
    bt_str_append(out, "</div><p class=\"muted x-name\">FLOP a byte</p></div>\n");
    write_legend(set, self, out);
    write_table(set, self, out);
    bt_str_append(out, "</section>\n");
}

bt_status bt_page_roofline(const report_set *set, bt_str *out)
{
    roofline self;
    bt_status status = bt_roofline_make(set, &self);
    if (status == BT_OK && self.count > 0) {
        write_roofline(set, &self, out);
    }
    bt_arena_release(&self.arena);
    return status;
}
