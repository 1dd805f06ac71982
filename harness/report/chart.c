// harness/report/chart.c - a chart as a static picture, and as data for the script
//
// With scripts, curves.js can zoom: it draws the same elements again from the data.
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/report/curves.h"

enum { MANY_DOTS = 60 };

// 1, 2 or 5 times a power of ten, such that about `wanted` steps cover the range.
static double tick_step(double range, double wanted)
{
    double raw = range / wanted, power = pow(10.0, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0);
}

static bt_text y_label(const chart *from, double y, double step)
{
    const bt_unit unit = from->kind->unit;
    if (from->kind->decades) {
        return bt_textf("%.2g", pow(10.0, y));
    }
    if (unit == BT_UNIT_NATS || y == 0.0) {
        return bt_textf("%.4g", fabs(y) < 1e-9 * step ? 0.0 : y);
    }
    bt_text label = bt_format_value(unit, y);
    // The title contains the unit: 2050 tok/s and 412K tok/s without it.
    if (unit == BT_UNIT_TOKENS_PER_S) {
        label.text[strcspn(label.text, " ")] = '\0';
    }
    return label;
}

static void add_labels(const chart *from, picture *to)
{
    const double unit = from->kind->unit == BT_UNIT_BYTES ? 1073741824.0 : 1.0;
    const double step = tick_step((to->y.high - to->y.low) / unit, 4.0) * unit;
    const double first = ceil(to->y.low / step) * step;
    const int count = (int)floor((to->y.high - first) / step) + 1;
    for (int i = 0; i < count; i++) {
        const double y = first + i * step;
        bt_picture_y(to, y, y_label(from, y, step).text, true);
    }
    const double apart = fmax(1.0, tick_step(to->x.high, 5.0));
    for (int i = 0; i * apart <= to->x.high; i++) {
        bt_picture_x(to, i * apart, bt_textf("%.0f", i * apart).text, false);
    }
}

static void write_class(const curve *line, bt_str *out)
{
    static const char *const shapes[] = {[CURVE_LINE] = "",
                                         [CURVE_FAINT] = " faint",
                                         [CURVE_DOTS] = " dots",
                                         [CURVE_BAND] = " band"};
    bt_str_format(out, "<path class=\"s%d%s%s%s\" data-tag=\"%s\" d=\"", line->style,
                  line->count == 1 && !line->high ? " dots" : shapes[line->shape],
                  line->shape == CURVE_DOTS && line->count > MANY_DOTS ? " many" : "",
                  line->quiet ? " quiet" : "", line->item->tag);
}

static void write_path(const curve *line, picture *to)
{
    bool dots = line->shape == CURVE_DOTS || line->count == 1; // a single point is no line
    write_class(line, to->out);
    for (int64_t i = 0; i < line->count; i++) {
        bt_picture_to(to, i == 0 || dots ? "M" : i == 1 ? "L" : " ", line->x[i], line->y[i]);
        bt_str_append(to->out, dots ? "h0" : "");
    }
    for (int64_t i = line->high ? line->count : 0; i > 0; i--) { // back along the upper edge
        bt_picture_to(to, "L", line->x[i - 1], line->high[i - 1]);
    }
    bt_str_append(to->out, line->high ? "Z\"/>" : "\"/>");
}

void bt_chart_draw(const chart *from, picture *to)
{
    to->x = (picture_axis){.low = 0.0, .high = from->x_max};
    to->y = (picture_axis){.low = from->y_min, .high = from->y_max};
    add_labels(from, to);
    bt_picture_open(to);
    for (int64_t i = 0; i < from->count; i++) {
        write_path(&from->curves[i], to);
    }
    bt_picture_close(to);
}

static void write_legend(const chart *from, bt_str *out)
{
    bt_str_append(out, "<ul class=legend>");
    BT_EACH(const curve, line, from->curves, from->count) {
        if (line->shape != CURVE_LINE) {
            continue;
        }
        bt_str_format(out,
                      "<li data-tag=\"%s\"%s><svg class=swatch viewBox=\"0 0 30 8\" "
                      "aria-hidden=true><path class=\"s%d\" d=\"M0 4H30\"/></svg>",
                      line->item->tag, line->quiet ? " class=quiet" : "", line->style);
        bt_html_tag(out, line->item);
        bt_html(out, "%s</li>", line->name[0] ? line->name : line->item->label);
    }
    bt_str_append(out, "</ul>");
}

static bool has_band(const chart *from)
{
    bool band = false;
    for (int64_t i = 0; i < from->count; i++) {
        band = band || from->curves[i].shape == CURVE_BAND;
    }
    return band;
}

enum { LEGENDS_UP_TO = 3 };

int bt_chart_lines(const chart *from)
{
    int count = 0;
    for (int64_t i = 0; i < from->count; i++) {
        count += from->curves[i].shape == CURVE_LINE;
    }
    return count;
}

void bt_chart_write(const chart *from, bool first, bt_str *out)
{
    const chart_kind *kind = from->kind;
    // If the legend names the curves, the note would repeat it.
    const char *note = from->curves[0].name[0] ? "" : kind->note;
    bt_str_format(out,
                  "<figure class=chart data-chart=\"%s\"><figcaption><h3>%s</h3><span "
                  "class=muted>%s%s</span></figcaption>\n<div class=plot><div class=still role=img "
                  "aria-label=\"%s over steps; the raw tables hold the numbers\">",
                  kind->id, kind->title, note,
                  !has_band(from) ? ""
                  : note[0]       ? "; band: smallest to largest of the rounds, line: median"
                                  : "band: smallest to largest of the rounds, line: median",
                  kind->title);
    bt_chart_draw(from, &(picture){.out = out});
    bt_str_append(out, "</div></div>\n");
    if (first ||
        bt_chart_lines(from) <= LEGENDS_UP_TO) { // many curves have one legend for all charts
        write_legend(from, out);
    }
    bt_str_append(out, "</figure>\n");
}

// ---- data for the script -----------------------------------------------------------------------

static void write_values(bt_json_writer *json, const char *key, const double *values, int64_t count)
{
    BT_JSON_LIST(json, key, i, count) {
        bt_json_writer_rounded(json, NULL, values[i], 6);
    }
}

void bt_chart_write_data(const chart *from, const report_set *set, bt_json_writer *json)
{
    static const char *const shapes[] = {
#define CURVE_SHAPE_WORD(name, word) word,
        CURVE_SHAPE_LIST(CURVE_SHAPE_WORD)
#undef CURVE_SHAPE_WORD
    };
    bt_json_writer_open(json, NULL, '{');
    BT_JSON(json, BT_OF(from->kind, id), BT_FLAG("fromZero", from->kind->from_zero));
    bt_json_writer_rounded(json, "last", from->x_max, 9);
    BT_JSON_LIST(json, "curves", i, from->count) {
        const curve *line = &from->curves[i];
        bt_json_writer_open(json, NULL, '{');
        BT_JSON(json, BT_KV("tag", set->case_count > 1 ? line->item->tag : ""),
                BT_KV("label", line->name), BT_OF(line, style), BT_KV("shape", shapes[line->shape]),
                BT_OF(line, quiet));
        bt_json_writer_open(json, "dx", '['); // differences: short, and exact for whole steps
        for (int64_t j = 0; j < line->count; j++) {
            bt_json_writer_rounded(json, NULL, line->x[j] - (j ? line->x[j - 1] : 0.0), 9);
        }
        bt_json_writer_close(json, ']');
        write_values(json, "y", line->y, line->count);
        if (line->high) {
            write_values(json, "high", line->high, line->count);
        }
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, '}');
}
