// harness/report/svg.c - ratios and curves as SVG files
#include "harness/report/svg.h"

#include <math.h>

#include "framework/base/scoped.h"
#include "harness/report/axis.h"
#include "harness/report/marks.h"
#include "harness/report/plot.h"

enum {
    WIDTH = 960,
    ROW_HEIGHT = 22,
    HEAD_HEIGHT = 64,
    PLOT_LEFT = 330,
    PLOT_WIDTH = 400,
    ROWS_MAX = 60,
    LEGEND_TOP = FILE_TOP + PICTURE_H + 60
};

static void write_text(bt_str *out, double x, double y, const char *kind, const char *text)
{
    bt_str_format(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, kind);
    bt_html(out, "%s</text>", text);
}

// A picture with its heading; the caller closes it.
static void open_svg(const char *title, int height, bt_str *out)
{
    bt_html(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "role=\"img\"><title>%s</title>\n",
            WIDTH, height, WIDTH, title);
    bt_page_plot_style(out);
    write_text(out, 10, 24, "class=\"h\"", title);
}

// ---- ratios ------------------------------------------------------------------------------------

static double across(const ratio_axis *on, double ratio)
{
    return PLOT_LEFT + 0.01 * PLOT_WIDTH * bt_axis_place(on, ratio);
}

static void write_axis(const ratio_list *list, const ratio_axis *on, int height, bt_str *out)
{
    for (int i = 0; i < on->tick_count; i++) {
        double x = across(on, on->ticks[i]);
        bt_str_format(out, "<path class=\"r\" d=\"M%.1f %dV%d\"/>", x, HEAD_HEIGHT, height - 10);
        write_text(out, x, HEAD_HEIGHT - 4, "class=\"m\" text-anchor=\"middle\"",
                   bt_textf("%.4g", on->ticks[i]).text);
    }
    bt_str_format(out, "<path class=\"one\" d=\"M%.1f %dV%d\"/>\n", across(on, 1.0), HEAD_HEIGHT,
                  height - 10);
    write_text(out, PLOT_LEFT, HEAD_HEIGHT - 22, "class=\"m\"",
               bt_textf("\xe2\x86\x90 %s", bt_ratios_less(list)).text);
    write_text(out, PLOT_LEFT + PLOT_WIDTH, HEAD_HEIGHT - 22, "class=\"m\" text-anchor=\"end\"",
               bt_textf("%s \xe2\x86\x92", bt_ratios_more(list)).text);
}

static void write_row(const ratio_row *row, const ratio_axis *on, double y, bt_str *out)
{
    double middle = y + 0.5 * ROW_HEIGHT, text = middle + 4.5;
    const report_mark *mark = bt_mark_of(row->verdict);
    write_text(out, 10, text, "", row->name);
    if (isfinite(row->band_low)) {
        bt_str_format(out,
                      "<rect class=\"band\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>",
                      across(on, row->band_low), y,
                      across(on, row->band_high) - across(on, row->band_low), ROW_HEIGHT);
    }
    if (isfinite(row->low) && isfinite(row->high)) {
        bt_str_format(out, "<path class=\"a\" d=\"M%.1f %.1fH%.1f\"/>", across(on, row->low),
                      middle, across(on, row->high));
    }
    if (isfinite(row->mark)) {
        bt_str_format(out, "<path class=\"p\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"/>",
                      across(on, row->mark), middle - 5);
    }
    bt_str_format(out, "<circle class=\"a\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
                  across(on, row->ratio), middle);
    write_text(out, PLOT_LEFT + PLOT_WIDTH + 70, text, "text-anchor=\"end\" font-weight=\"600\"",
               bt_format_ratio(row->ratio).text);
    if (row->verdict[0]) {
        bt_str_format(out, "<text x=\"%d\" y=\"%.1f\" class=\"%s\">%s ",
                      PLOT_LEFT + PLOT_WIDTH + 86, text, mark->tone, mark->shape);
        bt_html(out, "%s</text>", row->verdict);
    }
    bt_str_append(out, "\n");
}

static void write_group(const ratio_list *list, int64_t begin, int64_t end, const ratio_axis *on,
                        double y, bt_str *out)
{
    double middle = y + 0.5 * ROW_HEIGHT, text = middle + 4.5;
    write_text(out, 10, text, "",
               bt_textf("%.50s, %lld", list->rows[begin].group, (long long)(end - begin)).text);
    for (int64_t i = begin; i < end; i++) {
        bt_str_format(out, "<path class=\"a\" d=\"M%.1f %.1fv12\"/>",
                      across(on, list->rows[i].ratio), middle - 6);
    }
    ratio_mean mean = bt_ratios_mean(&list->rows[begin], end - begin);
    write_text(out, PLOT_LEFT + PLOT_WIDTH + 20, text, "font-weight=\"600\"",
               bt_textf("%.20s mean", bt_format_ratio(mean.value).text).text);
    bt_str_append(out, "\n");
}

static int64_t group_count(const ratio_list *list)
{
    int64_t groups = 0;
    for (int64_t i = 0; i < list->count; i = bt_ratios_group_end(list, i)) {
        groups++;
    }
    return groups;
}

void bt_svg_ratios(const ratio_list *list, bt_str *out)
{
    bool grouped = list->count > ROWS_MAX;
    int64_t rows = grouped ? group_count(list) : list->count;
    int height = HEAD_HEIGHT + ROW_HEIGHT * (int)rows + 14;
    ratio_axis on = bt_axis_of(list);
    BT_SCOPED(bt_str) title = {0};
    bt_str_format(&title, "%s %s %s", list->more_is_slower ? list->other : list->base,
                  list->more_is_slower ? "over" : "and",
                  list->more_is_slower ? list->base : list->other);
    open_svg(bt_str_text(&title), height, out);
    write_axis(list, &on, height, out);
    double y = HEAD_HEIGHT;
    for (int64_t i = 0; i < list->count; y += ROW_HEIGHT) {
        int64_t end = grouped ? bt_ratios_group_end(list, i) : i + 1;
        if (grouped) {
            write_group(list, i, end, &on, y, out);
        } else {
            write_row(&list->rows[i], &on, y, out);
        }
        i = end;
    }
    bt_str_append(out, "</svg>\n");
}

// ---- curves ------------------------------------------------------------------------------------

// A line of the legend below a picture, two to a row.
static void write_legend(int index, const char *kind, const char *name, bt_str *out)
{
    const int x = FILE_LEFT + index % 2 * FILE_W / 2, y = LEGEND_TOP + index / 2 * ROW_HEIGHT;
    bt_str_format(out, "<path class=\"%s\" d=\"M%d %dh26\"/>", kind, x, y - 4);
    write_text(out, x + 34, y, "", name);
}

// A picture with its title and `lines` lines of a legend; the caller draws it, and closes it.
static void open_plot(const char *title, int lines, bt_str *out)
{
    open_svg(title, LEGEND_TOP + (lines + 1) / 2 * ROW_HEIGHT, out);
}

static void close_plot(const char *x_name, bt_str *out)
{
    write_text(out, FILE_LEFT + FILE_W, FILE_TOP + PICTURE_H + 36,
               "class=\"m\" text-anchor=\"end\"", x_name);
    bt_str_append(out, "</svg>\n");
}

void bt_svg_chart(const report_set *set, const chart *from, bt_str *out)
{
    const int lines = set->case_count > 1 ? bt_chart_lines(from) : 0;
    int at = 0;
    open_plot(from->kind->title, lines, out);
    bt_chart_draw(from, &(picture){.out = out, .file = true});
    for (int64_t i = 0; i < from->count && lines > 0; i++) {
        const curve *line = &from->curves[i];
        if (line->shape == CURVE_LINE) {
            write_legend(at++, bt_textf("s%d%s", line->style, line->quiet ? " quiet" : "").text,
                         line->item->label, out);
        }
    }
    close_plot("step", out);
}

// ---- lines over a logarithmic axis -------------------------------------------------------------

// The line's points with the decimal logarithm of y; widens the chart's axes.
static bt_status take_line(const bt_plot_line *line, chart *to, curve *out)
{
    BT_TRY(BT_ARENA_ARRAY(&to->arena, line->count, &out->x));
    BT_TRY(BT_ARENA_ARRAY(&to->arena, line->count, &out->y));
    for (int64_t i = 0; i < line->count; i++) {
        if (line->y[i] > 0.0 && isfinite(line->y[i])) {
            out->x[out->count] = line->x[i];
            out->y[out->count] = log10(line->y[i]);
            to->x_max = fmax(to->x_max, line->x[i]);
            to->y_min = fmin(to->y_min, floor(out->y[out->count]));
            to->y_max = fmax(to->y_max, ceil(out->y[out->count]));
            out->count++;
        }
    }
    return BT_OK;
}

bt_status bt_svg_plot(const char *title, const char *x_name, const bt_plot_line *lines,
                      int64_t count, bt_str *out)
{
    static const chart_kind kind = {.unit = BT_UNIT_NATS, .decades = true};
    static const report_case nobody;
    curve curves[BT_PLOT_LINES_MAX] = {{0}};
    chart from = {.kind = &kind,
                  .curves = curves,
                  .x_max = 1.0,
                  .y_min = (double)INFINITY,
                  .y_max = -(double)INFINITY};
    bt_status status = BT_OK;
    for (int64_t i = 0; i < count && i < BT_PLOT_LINES_MAX && status == BT_OK; i++) {
        curves[i].item = &nobody;
        curves[i].name = "";
        curves[i].style = (int)i;
        status = take_line(&lines[i], &from, &curves[i]);
        from.count++;
    }
    if (!(from.y_min < from.y_max)) { // nothing to draw, or one level
        from.y_max = isfinite(from.y_min) ? from.y_min + 1.0 : 0.0;
        from.y_min = from.y_max - 2.0;
    }
    if (status == BT_OK) {
        open_plot(title, (int)from.count, out);
        bt_chart_draw(&from, &(picture){.out = out, .file = true});
        for (int i = 0; i < (int)from.count; i++) {
            write_legend(i, bt_textf("s%d", i).text, lines[i].label, out);
        }
        close_plot(x_name, out);
        status = bt_str_status(out);
    }
    bt_arena_release(&from.arena);
    return status;
}

// ---- roofline ----------------------------------------------------------------------------------

void bt_svg_roofline(const roofline *from, bt_str *out)
{
    open_plot("Roofline: FLOP/s by FLOP a byte", from->series_count, out);
    bt_roofline_draw(from, &(picture){.out = out, .file = true});
    for (int i = 0; i < from->series_count; i++) {
        write_legend(i, bt_textf("s%d", i).text, from->series[i]->round->what.system, out);
    }
    close_plot("FLOP a byte", out);
}
