// harness/report/head.c - the top of the page: the sentence, a tile per verdict or state, three
// numbers with their intervals, and noise
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/marks.h"

// ---- tiles -------------------------------------------------------------------------------------

static void write_tile(const report_case *item, int64_t index, bt_str *out)
{
    bt_str_format(out, "<li class=tile id=\"c%lld\">", (long long)index);
    bt_mark_write(bt_run_status_name(item->round->status), out);
    bt_html_tag(out, item);
    bt_html(out, " <strong>%s</strong>", item->label);
    if (item->round->message[0]) {
        bt_html(out, "<p class=why>%s</p>", item->round->message);
    }
    bt_str_append(out, "</li>\n");
}

enum { REASONS_MAX = 6 };

// Several cases: the number of each result, then the first few with a reason.
static void write_tiles(const report_set *set, bt_str *out)
{
    static const bt_run_status order[] = {BT_RUN_FAILED,  BT_RUN_INVALID,     BT_RUN_INTERRUPTED,
                                          BT_RUN_RUNNING, BT_RUN_UNAVAILABLE, BT_RUN_PASSED};
    int64_t said = 0, silent = 0;
    for (int s = 0; s < BT_RUN_STATUS_COUNT; s++) {
        long long count = 0;
        for (int64_t i = 0; i < set->case_count; i++) {
            count += set->cases[i].round->status == order[s];
        }
        if (count > 0) {
            bt_mark_tile(bt_mark_of(bt_run_status_name(order[s])), "", count, out);
        }
    }
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = set->cases[i].round;
        if (round->message[0] && !(bt_report_is_kernel(round) && round->status == BT_RUN_PASSED)) {
            if (said++ < REASONS_MAX) {
                write_tile(&set->cases[i], i, out);
            } else {
                silent++;
            }
        }
    }
    if (silent > 0) {
        bt_str_format(out, "<li class=tile><a href=\"#tables\">%lld more with a reason</a></li>\n",
                      (long long)silent);
    }
}

static bool write_verdict_tiles(const report_set *set, bt_str *out)
{
    bool any = false;
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        any = bt_marks_tiles(list, out) || any;
    }
    return any;
}

// ---- three numbers -----------------------------------------------------------------------------

// A number with its interval and a line below it: a format with its texts escaped.
static void write_number(bt_str *out, const char *name, const char *number, const char *interval,
                         const char *format, ...) BT_PRINTF(5, 6);
static void write_number(bt_str *out, const char *name, const char *number, const char *interval,
                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_html(out, "<div class=number><dt>%s</dt><dd><b>%s</b>", name, number);
    bt_html(out, interval[0] ? " <span class=muted>%s</span><small>" : "%s<small>", interval);
    bt_escape_format(out, bt_html_text, format, arguments);
    bt_str_append(out, "</small></dd></div>\n");
    va_end(arguments);
}

typedef struct metric_texts {
    bt_text number, interval;
} metric_texts;

// No interval is shown for equal rounds, or for few rounds.
static bool has_interval(const bt_metric_value *value) { return value->high > value->low; }

static metric_texts texts_of(bt_unit unit, const bt_metric_value *value)
{
    metric_texts texts;
    const double low = has_interval(value) ? value->low : (double)NAN;
    bt_format_interval(unit, value->value, low, value->high, &texts.number, &texts.interval);
    return texts;
}

static void write_one_case(const report_set *set, bt_str *out)
{
    const report_case *item = &set->cases[0];
    const bt_metric_value *metrics = item->summary.metrics;
    const bt_metric_value *rate = &metrics[BT_METRIC_TOKENS_PER_S];
    const bt_metric_value *time = &metrics[BT_METRIC_STEP_TIME];
    const bool median = bt_report_counted(item) != 1;
    const bool checked = metrics[BT_METRIC_VAL_LOSS].count > 0;
    metric_texts texts = texts_of(BT_UNIT_TOKENS_PER_S, rate);
    write_number(out, "Speed", texts.number.text, texts.interval.text, "a step %s, %s of %s%s%s",
                 bt_format_value(BT_UNIT_NS, time->value).text, median ? "median" : "mean",
                 bt_format_count(time->count).text, median ? " rounds" : "",
                 has_interval(rate) ? "; 95 % interval" : "");
    texts = texts_of(BT_UNIT_NATS, &metrics[BT_METRIC_LOSS_LAST]);
    write_number(out, "Loss", texts.number.text, texts.interval.text, "from %s%s%s",
                 bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_LOSS_FIRST].value).text,
                 checked ? "; validation " : "",
                 checked ? bt_format_value(BT_UNIT_NATS, metrics[BT_METRIC_VAL_LOSS].value).text
                         : "");
    texts = texts_of(BT_UNIT_BYTES, &metrics[BT_METRIC_PEAK_ALLOCATED]);
    write_number(out, "Memory", texts.number.text, texts.interval.text,
                 "peak of the framework's allocator; %s resident",
                 bt_format_value(BT_UNIT_BYTES, metrics[BT_METRIC_PEAK_RESIDENT].value).text);
}

// The best of several cases, with their names: for training speed, loss and memory, for commands
// time. Times of different kernels are not comparable.
static void write_bests(const report_set *set, bt_str *out)
{
    static const struct {
        const char *name;
        bt_metric metric;
        bool commands_only;
    } bests[] = {{"Fastest", BT_METRIC_TOKENS_PER_S, false},
                 {"Shortest time", BT_METRIC_TIME, true},
                 {"Least processor time", BT_METRIC_CPU_TIME, true},
                 {"Lowest validation loss", BT_METRIC_VAL_LOSS, false},
                 {"Least memory", BT_METRIC_PEAK_ALLOCATED, false}};
    for (int64_t i = 0; i < BT_COUNT(bests); i++) {
        const report_case *best = bt_report_best(set, bests[i].metric);
        if (best && (!bests[i].commands_only || bt_report_is_command(best->round))) {
            const metric_texts texts = texts_of(bt_metric_info(bests[i].metric)->unit,
                                                &best->summary.metrics[bests[i].metric]);
            write_number(out, bests[i].name, texts.number.text, texts.interval.text,
                         best->tag[0] ? "<b class=tag>%s</b> %s" : "%s%s", best->tag, best->label);
        }
    }
}

static bt_text interval_of(double low, double high)
{
    const ratio_row row = {.low = low, .high = high};
    return isfinite(low) && isfinite(high) ? bt_format_ratio_interval(&row) : (bt_text){""};
}

static void write_row(const char *name, const ratio_row *row, bt_str *out)
{
    write_number(out, name, bt_format_ratio(row->ratio).text, interval_of(row->low, row->high).text,
                 "%s%s", row->name, row->wide ? ": one round with a wide interval" : "");
}

// For comparisons: the mean, the worst and the best of the rows that count.
static void write_ratios(const ratio_list *list, bt_str *out)
{
    const bool slower = list->more_is_slower;
    const ratio_row *least = NULL, *most = NULL;
    BT_EACH(const ratio_row, row, list->rows, list->count) {
        if (bt_ratios_counts(list->rows, list->count, row)) {
            least = !least || row->ratio < least->ratio ? row : least;
            most = !most || row->ratio > most->ratio ? row : most;
        }
    }
    if (!least || !most) {
        return;
    }
    const ratio_mean mean = bt_ratios_mean(list->rows, list->count);
    write_number(out, "Geometric mean", bt_format_ratio(mean.value).text,
                 interval_of(mean.low, mean.high).text, "of %s; %s %s",
                 bt_format_items(mean.count, "ratio").text,
                 slower                                 ? "time over that of"
                 : strcmp(list->kind, "replicate") == 0 ? "times better than"
                                                        : "times faster than",
                 slower ? list->base : list->other);
    write_row(slower ? "Slowest" : "Least ahead", slower ? most : least, out);
    write_row(slower ? "Fastest" : "Most ahead", slower ? least : most, out);
}

// The bandwidth of the session's own copy; if its case is not in the set, that of a case divided by
// its share.
static double copy_bandwidth(const report_set *set, double computed)
{
    double copy = computed;
    for (int64_t i = set->case_count; i-- > 0;) {
        const report_case *item = &set->cases[i];
        const bt_metric_value *bandwidth = &item->summary.metrics[BT_METRIC_BANDWIDTH];
        if (item->kernel.ceiling && strcmp(item->kernel.op, "copy") == 0 && bandwidth->count > 0) {
            copy = bandwidth->value;
        }
    }
    return copy;
}

// Kernels of one system: their median fraction of a copy, the lowest one, and the copy.
static bt_status write_shares(const report_set *set, bt_str *out)
{
    BT_SCOPED_MEM(double *) shares = NULL;
    double copy = (double)NAN;
    int64_t count = 0;
    const report_case *lowest = NULL;
    BT_TRY(BT_MEM_ARRAY(set->case_count, &shares));
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_metric_value *metrics = set->cases[i].summary.metrics;
        double share = metrics[BT_METRIC_COPY_SHARE].value;
        if (metrics[BT_METRIC_COPY_SHARE].count > 0 && share > 0.0 &&
            !set->cases[i].kernel.ceiling &&
            !bt_report_flops_dominate(metrics[BT_METRIC_COMPUTE].value,
                                      metrics[BT_METRIC_BANDWIDTH].value)) {
            if (!lowest || share < lowest->summary.metrics[BT_METRIC_COPY_SHARE].value) {
                lowest = &set->cases[i];
            }
            copy = metrics[BT_METRIC_BANDWIDTH].value / share;
            shares[count++] = share;
        }
    }
    bt_stats stats;
    BT_TRY(bt_stats_of(shares, count, &stats));
    if (count > 0) {
        bt_metric_value middle = {stats.median, stats.low, stats.high, count};
        metric_texts texts = texts_of(BT_UNIT_SHARE, &middle);
        write_number(out, "Fraction of copy bandwidth", texts.number.text, texts.interval.text,
                     "median of %s%s", bt_format_items(count, "memory-bound case").text,
                     has_interval(&middle) ? "; 95 % interval" : "");
        texts = texts_of(BT_UNIT_SHARE, &lowest->summary.metrics[BT_METRIC_COPY_SHARE]);
        write_number(out, "Lowest fraction", texts.number.text, texts.interval.text, "%s",
                     lowest->label);
        write_number(out, "Copy on this machine",
                     bt_format_value(BT_UNIT_BYTES_PER_S, copy_bandwidth(set, copy)).text, "",
                     "256 MiB, measured in this run");
    }
    return BT_OK;
}

static bt_status write_numbers(const report_set *set, bt_str *out)
{
    bt_status status = BT_OK;
    const ratio_list *list = set->run_count == 1 ? bt_report_main_list(set) : NULL;
    bool kernels = set->case_count > 0 && set->cases[0].kernel.op[0] != '\0';
    bt_str_append(out, "<dl class=numbers>\n");
    if (list && list->count > 0) {
        write_ratios(list, out);
    } else if (kernels) {
        status = write_shares(set, out);
    } else if (set->case_count == 1 && !bt_report_is_command(set->cases[0].round)) {
        write_one_case(set, out);
    } else {
        write_bests(set, out);
    }
    bt_str_append(out, "</dl>\n");
    return status;
}

// ---- the rest of the head ----------------------------------------------------------------------

// What ran, in one line: size, data, and the digest for comparison with other runs.
static void write_shape(const report_case *item, bt_str *out)
{
    const bt_store_shape *shape = &item->round->shape;
    bt_str_append(out, "<p class=\"muted shape\">");
    if (shape->parameters > 0) {
        bt_str_format(out, "%s parameters in %lld tensors", bt_format_count(shape->parameters).text,
                      (long long)shape->tensors);
    }
    if (shape->dataset[0]) {
        bt_html(out, " \xc2\xb7 trained on %s, %s tokens", shape->dataset,
                bt_format_count(shape->train_tokens).text);
    }
    if (item->round->params_digest[0]) {
        bt_html(out, " \xc2\xb7 digest <code>%s</code>", item->round->params_digest);
    }
    bt_str_append(out, "</p>\n");
}

// The number of rounds with each noise label, and their status; nothing if all were quiet.
static void write_noise(const report_set *set, bt_str *out)
{
    long long rounds = 0, noisy = 0, invalid = 0;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        rounds += item->round_count;
        noisy += item->noisy;
        for (int64_t r = 0; r < item->round_count; r++) {
            invalid += item->rounds[r]->status == BT_RUN_INVALID;
        }
    }
    if (noisy == 0) {
        return;
    }
    bt_str_format(out,
                  "<p class=noises><span class=noise aria-hidden=true>\xe2\x96\xb3</span> %lld of "
                  "%s %s a noise label (",
                  noisy, bt_format_items(rounds, "round").text, noisy == 1 ? "has" : "have");
    const char *comma = "";
    for (int n = 0; n < BT_NOISE_COUNT; n++) {
        const char *word = bt_noise_name((bt_noise)n);
        long long count = 0;
        for (int64_t i = 0; i < set->case_count; i++) {
            for (int64_t r = 0; r < set->cases[i].round_count; r++) {
                count += word[0] && strcmp(bt_noise_of(set->cases[i].rounds[r]), word) == 0;
            }
        }
        if (count > 0) {
            bt_str_format(out, "%s%s in %lld", comma, word, count);
            comma = ", ";
        }
    }
    if (invalid > 0) {
        bt_str_format(out, "); %lld invalid: kept, not counted.</p>\n", invalid);
    } else {
        bt_str_append(out, "); none of them invalid.</p>\n");
    }
}

// "bt-bench · runs 1, 2, 3 · date"
static void write_eyebrow(const report_set *set, bt_str *out)
{
    bt_str_format(out, "<p class=eyebrow>bt-bench \xc2\xb7 run%s", set->run_count > 1 ? "s" : "");
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_str_format(out, "%s %lld", i ? "," : "", (long long)set->runs[i].id);
    }
    bt_str_format(out, " \xc2\xb7 <time>%s</time></p>",
                  bt_format_date(set->runs[0].started_ns).text);
}

// A line per case with faults: the first one, and their number.
static void write_faults(const report_set *set, bt_str *out)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = set->cases[i].round;
        if (round->fault_count == 0) {
            continue;
        }
        const bt_store_fault *first = &round->faults[0];
        bt_html(out, "<p class=why>%s: %s, the first at step %lld: %s, %s%s%s</p>\n",
                set->cases[i].label, bt_format_items(round->fault_count, "fault").text,
                (long long)first->step, first->kind, first->action, first->message[0] ? ". " : "",
                first->message);
    }
}

// A line per case whose step was to be compiled and ran eagerly.
static void write_eager(const report_set *set, bt_str *out)
{
    for (int64_t i = 0; i < set->case_count; i++) {
        const char *why = bt_report_eager(set->cases[i].round);
        if (why) {
            bt_html(out, "<p class=why>%s: the step ran eagerly: %s</p>\n", set->cases[i].label,
                    why);
        }
    }
}

bt_status bt_page_head(const report_set *set, bt_str *out)
{
    BT_SCOPED(bt_str) sentence = {0};
    bt_str_format(out, "<header%s>", set->case_count == 1 ? " class=single" : "");
    write_eyebrow(set, out);
    bt_report_headline(set, &sentence);
    bt_html(out, "<h1>%s", bt_str_text(&sentence));
    bt_status status = bt_str_status(&sentence);
    bt_str_append(out, "</h1>\n");
    BT_EACH(const bt_store_run, run, set->runs, set->run_count) {
        if (run->message[0]) {
            bt_html(out, "<p class=why>run %lld: %s</p>\n", (long long)run->id, run->message);
        }
        for (int64_t i = 0; i < run->gap_count; i++) {
            bt_str_format(out, "<p class=muted>run %lld was ", (long long)run->id);
            bt_report_gap(&run->gaps[i], out);
            bt_str_append(out, "</p>\n");
        }
    }
    BT_TRY(status);
    write_faults(set, out);
    write_eager(set, out);
    bt_str_append(out, "<ul class=tiles>\n");
    bool judged = write_verdict_tiles(set, out);
    if (judged && bt_report_count(set, bt_report_has_passed) == set->case_count) {
        // The verdicts show it.
    } else if (set->case_count == 1) {
        write_tile(&set->cases[0], 0, out);
    } else {
        write_tiles(set, out);
    }
    bt_str_append(out, "</ul>\n");
    BT_TRY(write_numbers(set, out));
    write_noise(set, out);
    if (set->case_count == 1) {
        write_shape(&set->cases[0], out);
    }
    bt_str_append(out, "</header>\n");
    return BT_OK;
}
