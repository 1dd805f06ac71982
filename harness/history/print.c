// harness/history/print.c - a history as text with a small curve, and as JSON
#include <math.h>

#include "framework/base/scoped.h"
#include "harness/history/history.h"
#include "harness/stats/stats.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

enum { SPARKLINE_WIDTH = 60 };

const char *bt_history_change_word(bt_metric metric, const bt_change *change)
{
    const bt_metric_row *row = bt_metric_info(metric);
    bool rises = change->after > change->before;
    if (row->unit == BT_UNIT_NS) {
        return rises ? "slower" : "faster";
    }
    if (row->direction == BT_DIRECTION_HIGHER) {
        return rises ? "faster" : "slower";
    }
    return rises ? "higher" : "lower";
}

// ---- sparkline ---------------------------------------------------------------------------------

// The medians of `buckets` parts of the series.
static bt_status thin(const bt_history_series *series, int64_t buckets, double *heights)
{
    BT_SCOPED_MEM(double *) values = NULL;
    BT_TRY(BT_MEM_ARRAY(series->session_count, &values));
    for (int64_t i = 0; i < buckets; i++) {
        int64_t begin = i * series->session_count / buckets;
        int64_t end = (i + 1) * series->session_count / buckets;
        for (int64_t j = begin; j < end; j++) {
            values[j - begin] = series->sessions[j].median;
        }
        BT_TRY(bt_stats_median(values, end - begin, &heights[i]));
    }
    return BT_OK;
}

bt_status bt_history_sparkline(const bt_history_series *series, int64_t width, bt_str *out)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int64_t buckets = series->session_count < width ? series->session_count : width;
    double low = (double)INFINITY, high = -(double)INFINITY;
    BT_SCOPED_MEM(double *) heights = NULL;
    BT_TRY(BT_MEM_ARRAY(buckets, &heights));
    BT_TRY(thin(series, buckets, heights));
    for (int64_t i = 0; i < buckets; i++) {
        low = fmin(low, heights[i]);
        high = fmax(high, heights[i]);
    }
    for (int64_t i = 0; i < buckets; i++) {
        double share = high > low ? (heights[i] - low) / (high - low) : 0;
        bt_str_append(out, share >= 0 && share <= 1 ? bars[(int)(share * 7.999)] : " ");
    }
    return bt_str_status(out);
}

// ---- text --------------------------------------------------------------------------------------

static const char *device_of(const bt_store_env *env)
{
    const char *gpu = bt_fact_of(env, "gpu.name"), *cpu = bt_fact_of(env, "cpu.model");
    return gpu ? gpu : cpu ? cpu : "";
}

// "slower by 3.0 %: 27.1 us -> 27.9 us (p 0.0005)"
static void append_change(bt_metric metric, const bt_change *change, bt_str *out)
{
    bt_unit unit = bt_metric_info(metric)->unit;
    double ratio = change->after / change->before;
    bt_str_format(out, "<- %s by %.*f %%: %s -> %s (p %.2g)",
                  bt_history_change_word(metric, change), fabs(ratio - 1) < 0.0995 ? 1 : 0,
                  fabs(ratio - 1) * 100, bt_format_value(unit, change->before).text,
                  bt_format_value(unit, change->after).text, change->p);
}

static bt_status append_sessions(const bt_history *history, const bt_history_series *series,
                                 int columns, bt_str *out)
{
    bt_unit unit = bt_metric_info(history->metric)->unit;
    bt_table table = {0};
    int64_t next = 0;
    bt_table_heads(&table, ">run|date|commit|>rounds|>median~interval|<");
    bt_table_fit(&table, columns, "rounds|commit");
    for (int64_t i = 0; i < series->session_count; i++) {
        const bt_history_session *session = &series->sessions[i];
        bt_str mark = {0};
        if (next < series->change_count && series->changes[next].index == i) {
            append_change(history->metric, &series->changes[next++], &mark);
        }
        bt_table_cells(&table, "%lld|%.16s|%.8s%s|%lld", (long long)session->run,
                       bt_format_date(session->started_ns).text, session->git_commit,
                       session->modified ? "+" : "", (long long)session->rounds);
        bt_table_interval(&table, unit, session->median, session->low, session->high);
        bt_table_cells(&table, "%s", bt_str_text(&mark));
        bt_str_release(&mark);
    }
    return bt_table_print(&table, 0, out);
}

static bt_status append_series(const bt_history *history, const bt_history_series *series,
                               int columns, bt_str *out)
{
    const bt_metric_row *metric = bt_metric_info(history->metric);
    const bt_history_session *first = &series->sessions[0];
    const bt_history_session *last = &series->sessions[series->session_count - 1];
    bt_str_format(out, "%s, %s   %s%s\n", series->name, series->system, metric->tag,
                  metric->direction == BT_DIRECTION_LOWER    ? ", lower is better"
                  : metric->direction == BT_DIRECTION_HIGHER ? ", higher is better"
                                                             : "");
    bt_str_format(out, "%s%shard facts %.8s, %s, %.10s", device_of(series->env),
                  device_of(series->env)[0] ? ", " : "", series->environment,
                  bt_format_items(series->session_count, "session").text,
                  bt_format_date(first->started_ns).text);
    bt_str_format(out, " to %.10s, %s\n", bt_format_date(last->started_ns).text,
                  bt_format_items(series->change_count, "change").text);
    if (series->session_count > 1) {
        BT_TRY(bt_history_sparkline(
            series, columns > 0 && columns < SPARKLINE_WIDTH ? columns : SPARKLINE_WIDTH, out));
        bt_str_append(out, "\n");
    }
    bt_str_append(out, "\n");
    return append_sessions(history, series, columns, out);
}

bt_status bt_history_text(const bt_history *history, int columns, bt_str *out)
{
    size_t start = out->length_bytes;
    bool modified = false;
    for (int64_t i = 0; i < history->series_count; i++) {
        bt_str_append(out, i ? "\n\n" : "");
        BT_TRY(append_series(history, &history->series[i], columns, out));
        for (int64_t j = 0; j < history->series[i].session_count; j++) {
            modified = modified || history->series[i].sessions[j].modified;
        }
    }
    if (modified) {
        bt_str_append(out, "\n+ built from a tree with uncommitted changes\n");
    }
    if (history->series_count > 1) {
        bt_str_append(out,
                      "\nSeries differ in case, system, environment, settings of the case, or in "
                      "the definition of a round's time (earlier versions used the median, "
                      "later ones the mean); their numbers are not compared.\n");
    }
    bt_wrap_from(out, start, columns);
    return bt_text_end(out, start);
}

// ---- JSON --------------------------------------------------------------------------------------

static void json_session(bt_json_writer *json, const bt_history_session *session)
{
    BT_JSON_OBJECT(json, NULL, BT_OF(session, run), BT_OF(session, started_ns),
                   BT_OF(session, suite), BT_OF(session, git_commit), BT_OF(session, modified),
                   BT_OF(session, rounds), BT_OF(session, median), BT_OF(session, low),
                   BT_OF(session, high));
}

static void json_change(bt_json_writer *json, const bt_history *history,
                        const bt_history_series *series, const bt_change *change)
{
    BT_JSON_OBJECT(json, NULL, BT_OF(&series->sessions[change->index], run),
                   BT_KV("change", bt_history_change_word(history->metric, change)),
                   BT_OF(change, before), BT_OF(change, after),
                   BT_KV("ratio", change->after / change->before), BT_OF(change, p));
}

bt_status bt_history_json(const bt_history *history, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    const bt_metric_row *metric = bt_metric_info(history->metric);
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("case", history->name), BT_KV("metric", metric->tag));
    BT_JSON_LIST(&json, "series", i, history->series_count) {
        const bt_history_series *series = &history->series[i];
        bt_json_writer_open(&json, NULL, '{');
        BT_JSON(&json, BT_KV("case", series->name), BT_OF(series, system),
                BT_OF(series, environment), BT_KV("device", device_of(series->env)),
                BT_KV("settings", series->axes_json), BT_OF(series, total));
        BT_JSON_LIST(&json, "sessions", j, series->session_count) {
            json_session(&json, &series->sessions[j]);
        }
        BT_JSON_LIST(&json, "changes", j, series->change_count) {
            json_change(&json, history, series, &series->changes[j]);
        }
        bt_json_writer_close(&json, '}');
    }
    return bt_json_writer_end(&json, '}');
}
