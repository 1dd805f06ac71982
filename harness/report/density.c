// harness/report/density.c - the distribution of the samples of each case: a histogram per case
//
// Calls: the times of all counted rounds together; training: host times of the timed steps. The
// last bin has everything above the 99th percentile, so that an outlier does not compress the rest.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/report/internal.h"

enum { BINS = 32, SAMPLES_LEAST = 20, WIDTH = 320, HEIGHT = 64, OPEN_UP_TO = 6 };

typedef struct sample_list {
    double *values; // owned, [count]
    int64_t count, capacity;
} sample_list;

static bt_status add(sample_list *list, double value)
{
    BT_TRY(BT_MEM_GROW(list->count + 1, &list->capacity, &list->values));
    list->values[list->count++] = value;
    return BT_OK;
}

static bt_status gather(const report_case *item, sample_list *list)
{
    for (int64_t i = 0; i < item->round_count; ++i) {
        const bt_store_round *round = item->rounds[i];
        for (int64_t j = 0; bt_round_counts(item, i) && j < round->measurement_count; ++j) {
            const bt_store_measurement *from = &round->measurements[j];
            const bool timed =
                from->metric == BT_METRIC_TIME || from->metric == BT_METRIC_STEP_TIME;
            for (int64_t k = 0; timed && k < from->sample_count; ++k) {
                BT_TRY(add(list, from->samples[k]));
            }
        }
    }
    return BT_OK;
}

// Distributes sorted values over bins from the minimum to the 99th percentile; returns the largest
// bin.
static int64_t fill_bins(const sample_list *list, double high, int64_t bins[BINS])
{
    const double low = list->values[0], span = high > low ? high - low : 1;
    int64_t most = 0;
    memset(bins, 0, BINS * sizeof *bins);
    for (int64_t i = 0; i < list->count; ++i) {
        const double at = (list->values[i] - low) / span * (BINS - 1);
        const int bin = at < BINS - 1 ? (int)at : BINS - 1;
        most = ++bins[bin] > most ? bins[bin] : most;
    }
    return most;
}

static void write_bars(const int64_t bins[BINS], int64_t most, const char *label, bt_str *out)
{
    const double wide = (double)WIDTH / BINS;
    bt_str_format(out,
                  "<svg class=density viewBox=\"0 0 %d %d\" preserveAspectRatio=none role=img "
                  "aria-label=\"%s\">",
                  WIDTH, HEIGHT, label);
    for (int i = 0; i < BINS; ++i) {
        const double tall = HEIGHT * (double)bins[i] / (double)most;
        if (bins[i] > 0) {
            bt_str_format(out, "<rect x=%.1f y=%.1f width=%.1f height=%.1f />", wide * i,
                          HEIGHT - fmax(tall, 1), wide - 1, fmax(tall, 1));
        }
    }
    bt_str_append(out, "</svg>");
}

static void write_figure(const report_case *item, const sample_list *list, bt_str *out)
{
    int64_t bins[BINS];
    char label[320];
    const double high = bt_stats_quantile(list->values, list->count, 0.99);
    const int64_t most = fill_bins(list, high, bins);
    (void)snprintf(
        label, sizeof label, "%lld samples: median %s, 95th percentile %s, largest %s",
        (long long)list->count,
        bt_format_value(BT_UNIT_NS, bt_stats_quantile(list->values, list->count, 0.5)).text,
        bt_format_value(BT_UNIT_NS, bt_stats_quantile(list->values, list->count, 0.95)).text,
        bt_format_value(BT_UNIT_NS, list->values[list->count - 1]).text);
    bt_str_append(out, "<figure><figcaption><h3>");
    bt_html_label(out, item);
    bt_str_format(out, "</h3><span class=muted>%s</span></figcaption>", label);
    write_bars(bins, most, label, out);
    bt_str_format(out,
                  "<div class=\"ends muted\"><span>%s</span><span>%s and above</span></div>"
                  "</figure>\n",
                  bt_format_value(BT_UNIT_NS, list->values[0]).text,
                  bt_format_value(BT_UNIT_NS, high).text);
}

// The figure of a case; nothing if it has too few samples.
static bt_status write_case(const report_case *item, int64_t *written, bt_str *out)
{
    sample_list list = {0};
    bt_status status = gather(item, &list);
    if (status == BT_OK && list.count >= SAMPLES_LEAST && !item->kernel.ceiling) {
        qsort(list.values, (size_t)list.count, sizeof(double), bt_ascending);
        write_figure(item, &list, out);
        ++*written;
    }
    bt_mem_free(list.values);
    return status;
}

bt_status bt_page_density(const report_set *set, bt_str *out)
{
    BT_SCOPED(bt_str) figures = {0};
    int64_t written = 0;
    for (int64_t i = 0; i < set->case_count; ++i) {
        BT_TRY(write_case(&set->cases[i], &written, &figures));
    }
    if (written > 0) {
        const bool folded = written > OPEN_UP_TO;
        bt_str_append(
            out, "<section id=samples><h2>Distribution of the samples</h2>\n<p class=muted>Times "
                 "of calls, or of training steps, of all rounds together: how many "
                 "samples took how long.</p>\n");
        if (folded) {
            bt_str_format(out,
                          "<details><summary>All cases <span class=muted>%lld</span></summary>\n",
                          (long long)written);
        }
        bt_str_format(out, "<div class=trends>\n%s</div>%s</section>\n", bt_str_text(&figures),
                      folded ? "</details>" : "");
    }
    return bt_str_status(&figures);
}
