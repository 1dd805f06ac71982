// harness/report/head.c - the top of the page: what ran, where, did it pass, how fast
#include <math.h>

#include "harness/report/internal.h"

// A shape and a word for each state, so that colour never stands alone.
static const char *const icons[BT_RUN_STATUS_COUNT] = {
    [BT_RUN_RUNNING] = "\xe2\x97\x8f",     // circle
    [BT_RUN_PASSED] = "\xe2\x9c\x93",      // tick
    [BT_RUN_FAILED] = "\xe2\x9c\x95",      // cross
    [BT_RUN_INTERRUPTED] = "\xe2\x96\xa0", // square
    [BT_RUN_UNAVAILABLE] = "\xe2\x88\x92", // minus
    [BT_RUN_INVALID] = "\xe2\x9a\xa0",     // warning sign
};

static void write_status(bt_str *out, bt_run_status status)
{
    bt_str_format(out, "<span class=\"status %s\"><i aria-hidden=true>%s</i> %s</span>",
                  bt_run_status_name(status), icons[status], bt_run_status_name(status));
}

static void write_tile(const report_case *item, int64_t index, bt_str *out)
{
    bt_str_format(out, "<li class=tile id=\"c%lld\">", (long long)index);
    write_status(out, item->round->status);
    bt_str_format(out, "<b class=tag>%s</b> <strong>", item->tag);
    bt_html_text(out, item->label);
    bt_str_append(out, "</strong>");
    if (item->round->message[0]) {
        bt_str_append(out, "<p class=why>");
        bt_html_text(out, item->round->message);
        bt_str_append(out, "</p>");
    }
    bt_str_append(out, "</li>\n");
}

static void write_number(bt_str *out, const char *name, bt_unit unit, const bt_metric_value *value)
{
    bt_text number, interval;
    bt_format_interval(unit, value->value, value->low, value->high, &number, &interval);
    bt_str_format(out, "<div class=number><dt>%s</dt><dd><b>%s</b>", name, number.text);
    if (interval.text[0]) {
        bt_str_format(out, " <span class=muted>%s</span>", interval.text);
    }
}

// Several cases: how many came out how, then those that say why.
static void write_tiles(const report_set *set, bt_str *out)
{
    static const bt_run_status order[] = {BT_RUN_FAILED,  BT_RUN_INVALID,     BT_RUN_INTERRUPTED,
                                          BT_RUN_RUNNING, BT_RUN_UNAVAILABLE, BT_RUN_PASSED};
    for (int s = 0; s < BT_RUN_STATUS_COUNT; s++) {
        long long count = 0;
        for (int64_t i = 0; i < set->case_count; i++) {
            count += set->cases[i].round->status == order[s];
        }
        if (count > 0) {
            bt_str_format(out,
                          "<li class=tile><span class=\"status %s\"><i aria-hidden=true>%s</i> "
                          "%lld %s</span></li>\n",
                          bt_run_status_name(order[s]), icons[order[s]], count,
                          bt_run_status_name(order[s]));
        }
    }
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = set->cases[i].round;
        if (round->message[0] && !(bt_report_is_kernel(round) && round->status == BT_RUN_PASSED)) {
            write_tile(&set->cases[i], i, out);
        }
    }
}

// One case: three numbers, large.
static void write_numbers(const report_case *item, bt_str *out)
{
    const bt_metric_value *metrics = item->summary.metrics;
    const bt_metric_value *val = &metrics[BT_METRIC_VAL_LOSS];
    const bt_metric_value *time = &metrics[BT_METRIC_STEP_TIME];
    bt_str_append(out, "<dl class=numbers>\n");
    write_number(out, "Speed", BT_UNIT_TOKENS_PER_S, &metrics[BT_METRIC_TOKENS_PER_S]);
    bt_str_format(out, "<small>a step %s, median of %s; 95 %% interval</small></dd></div>\n",
                  bt_format_value(BT_UNIT_NS, time->value).text, bt_format_count(time->count).text);
    write_number(out, "Loss", BT_UNIT_NATS, &metrics[BT_METRIC_LOSS_LAST]);
    bt_str_format(out, "<small>from %s",
                  bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_LOSS_FIRST].value).text);
    if (val->count > 0) {
        bt_str_format(out, "; validation %s", bt_format_value(BT_UNIT_NATS, val->value).text);
    }
    bt_str_append(out, "</small></dd></div>\n");
    write_number(out, "Memory", BT_UNIT_BYTES, &metrics[BT_METRIC_PEAK_ALLOCATED]);
    bt_str_format(out, "<small>peak of our allocator; %s resident</small></dd></div>\n</dl>\n",
                  bt_format_value(BT_UNIT_BYTES, metrics[BT_METRIC_PEAK_RESIDENT].value).text);
}

static void write_cell(bt_str *out, bt_unit unit, const bt_metric_value *value)
{
    bt_text number, interval;
    bt_format_interval(unit, value->value, value->low, value->high, &number, &interval);
    bt_str_format(out, "<td class=n data-v=\"%.17g\">%s", isnan(value->value) ? -1.0 : value->value,
                  number.text);
    if (interval.text[0]) {
        bt_str_format(out, " <span class=muted>%s</span>", interval.text);
    }
}

// What it was that ran, in one line: size, data, and the digest that another run can be held
// against.
static void write_shape(const report_case *item, bt_str *out)
{
    const bt_store_shape *shape = &item->round->shape;
    bt_str_append(out, "<p class=\"muted shape\">");
    if (shape->parameters > 0) {
        bt_str_format(out, "%s parameters in %lld tensors", bt_format_count(shape->parameters).text,
                      (long long)shape->tensors);
    }
    if (shape->dataset[0]) {
        bt_str_append(out, " \xc2\xb7 trained on ");
        bt_html_text(out, shape->dataset);
        bt_str_format(out, ", %s tokens", bt_format_count(shape->train_tokens).text);
    }
    if (item->round->params_digest[0]) {
        bt_str_append(out, " \xc2\xb7 parameters\xe2\x80\x99 digest <code>");
        bt_html_text(out, item->round->params_digest);
        bt_str_append(out, "</code>");
    }
    bt_str_append(out, "</p>\n");
}

// Several cases: a row each.
static void write_cases(const report_set *set, bt_str *out)
{
    bt_str_append(out, "<div class=scroll><table data-name=cases><thead><tr><th>case<th>status");
    for (int c = 0; c < bt_report_column_count; c++) {
        if (bt_report_column_shown(set, &bt_report_columns[c])) {
            bt_str_format(out, "<th class=n>%s", bt_report_columns[c].title);
        }
    }
    bt_str_append(out, "</thead><tbody>\n");
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        const bt_metric_value *metrics = item->summary.metrics;
        bt_str_format(
            out, "<tr id=\"c%lld-row\"><th scope=row><b class=tag>%s</b> <a href=\"#c%lld-row\">",
            (long long)i, item->tag, (long long)i);
        bt_html_text(out, item->label);
        bt_str_append(out, "</a></th><td>");
        write_status(out, item->round->status);
        for (int c = 0; c < bt_report_column_count; c++) {
            const report_column *column = &bt_report_columns[c];
            if (bt_report_column_shown(set, column)) {
                write_cell(out, bt_metric_info(column->metric)->unit, &metrics[column->metric]);
            }
        }
        bt_str_append(out, "\n");
    }
    bt_str_append(out, "</tbody></table></div>\n");
}

// Speed of a case over that of the first, with what the two intervals leave open.
typedef struct speed_ratio {
    double value, low, high;
} speed_ratio;

static speed_ratio ratio_of(const report_set *set, int64_t index)
{
    const bt_metric_value *base = &set->cases[0].summary.metrics[BT_METRIC_TOKENS_PER_S];
    const bt_metric_value *mine = &set->cases[index].summary.metrics[BT_METRIC_TOKENS_PER_S];
    return (speed_ratio){mine->value / base->value, mine->low / base->high, mine->high / base->low};
}

// Ratios on a logarithmic axis that is symmetric about 1 and holds them all.
static void write_forest(const report_set *set, bt_str *out)
{
    double reach = log2(1.1);
    for (int64_t i = 1; i < set->case_count; i++) {
        speed_ratio ratio = ratio_of(set, i);
        reach = fmax(reach, 1.1 * fmax(fabs(log2(ratio.low)), fabs(log2(ratio.high))));
    }
    if (!isfinite(reach)) {
        return;
    }
    bt_str_format(out, "<h3>Speed relative to <b class=tag>%s</b></h3><ol class=forest>\n",
                  set->cases[0].tag);
    for (int64_t i = 1; i < set->case_count; i++) {
        speed_ratio ratio = ratio_of(set, i);
        if (!isfinite(ratio.value)) {
            continue;
        }
        double left = 50.0 + 50.0 * log2(ratio.low) / reach;
        double right = 50.0 + 50.0 * log2(ratio.high) / reach;
        bt_str_format(out, "<li><span><b class=tag>%s</b> ", set->cases[i].tag);
        bt_html_text(out, set->cases[i].label);
        bt_str_format(out,
                      "</span><span class=axis><i class=span style=\"left:%.2f%%;width:%.2f%%\">"
                      "</i><i class=dot style=\"left:%.2f%%\"></i></span><b class=n>%s</b>"
                      "<span class=\"n muted\">[%.3f, %.3f]</span></li>\n",
                      left, right - left, 50.0 + 50.0 * log2(ratio.value) / reach,
                      bt_format_ratio(ratio.value).text, ratio.low, ratio.high);
    }
    bt_str_append(out, "</ol><p class=muted>The line is 1.0; right of it is faster. Intervals come "
                       "from the steps of one round a case: they show, they do not decide.</p>\n");
}

bt_status bt_page_head(const report_set *set, bt_str *out)
{
    bt_str sentence = {0};
    const bt_store_run *first = &set->runs[0];
    bt_str_format(out, "<header%s><p class=eyebrow>bt-bench",
                  set->case_count == 1 ? " class=single" : "");
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_str_format(out, " \xc2\xb7 run %lld", (long long)set->runs[i].id);
    }
    bt_str_format(out, " \xc2\xb7 <time>%s</time></p><h1>", bt_format_date(first->started_ns).text);
    bt_report_headline(set, &sentence);
    bt_html_text(out, bt_str_text(&sentence));
    bt_status status = bt_str_status(&sentence);
    bt_str_release(&sentence);
    bt_str_append(out, "</h1>\n");
    for (int64_t i = 0; i < set->run_count; i++) {
        if (set->runs[i].message[0]) {
            bt_str_format(out, "<p class=why>run %lld: ", (long long)set->runs[i].id);
            bt_html_text(out, set->runs[i].message);
            bt_str_append(out, "</p>\n");
        }
    }
    bt_str_append(out, "<ul class=tiles>\n");
    if (set->case_count == 1) {
        write_tile(&set->cases[0], 0, out);
    } else {
        write_tiles(set, out);
    }
    bt_str_append(out, "</ul>\n");
    if (set->case_count == 1) {
        write_numbers(&set->cases[0], out);
        write_shape(&set->cases[0], out);
    } else if (set->case_count > 1) {
        write_cases(set, out);
        write_forest(set, out);
    }
    bt_str_append(out, "</header>\n");
    return status;
}
