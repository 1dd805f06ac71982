// harness/report/trends.c - the cases of a report over all recorded sessions, with changes marked
//
// Reads the histories of at most TRENDS_MAX cases: those with a notable verdict, then the first
// ones. Draws the series (same system, machine and settings) that contains the report's last run,
// if it has enough sessions.
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "harness/history/history.h"
#include "harness/report/internal.h"
#include "harness/report/marks.h"
#include "harness/report/picture.h"

enum { TRENDS_MAX = 6, SESSIONS_MIN = 3, ROWS_MAX = 100 };

typedef struct report_trend {
    bt_history history;
    const bt_history_series *series; // of the history
} report_trend;

// ---- reading -----------------------------------------------------------------------------------

static const bt_history_series *series_with(const bt_history *history, int64_t run,
                                            const char *system)
{
    BT_EACH(const bt_history_series, series, history->series, history->series_count) {
        for (int64_t j = 0; j < series->session_count && strcmp(series->system, system) == 0; j++) {
            if (series->sessions[j].run == run) {
                return series;
            }
        }
    }
    return NULL;
}

static bool is_known(const report_set *set, const char *name)
{
    return BT_FIND(set->trends, set->trend_count, history.name, name) >= 0;
}

static bool is_worth_a_look(const report_set *set, const char *name)
{
    for (int64_t i = 0; i < set->ratio_count; i++) {
        BT_EACH(const ratio_row, row, set->ratios[i].rows, set->ratios[i].count) {
            if (strcmp(row->name, name) == 0 && bt_mark_of(row->verdict)->weight > 1) {
                return true;
            }
        }
    }
    return false;
}

static bt_status read_trend(bt_store *store, report_set *set, const report_case *item)
{
    report_trend *trend = &set->trends[set->trend_count];
    const char *name = item->round->what.name, *system = item->round->what.system;
    bt_status status = bt_history_read(store, name, NULL, system, &trend->history);
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        return BT_OK; // nothing passed, or nothing was timed
    }
    BT_TRY(status);
    trend->series = series_with(&trend->history, item->run->id, system);
    if (trend->series && trend->series->session_count >= SESSIONS_MIN) {
        set->trend_count++;
    } else {
        bt_history_release(&trend->history);
    }
    return BT_OK;
}

bt_status bt_trends_read(bt_store *store, report_set *set)
{
    int64_t tried = 0;
    BT_TRY(BT_ARENA_ARRAY(&set->arena, TRENDS_MAX, &set->trends));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < set->case_count && tried < TRENDS_MAX; i++) {
            const report_case *item = &set->cases[i];
            const char *name = item->round->what.name;
            bool last = item->run == &set->runs[set->run_count - 1];
            bool wanted = last && !item->kernel.ceiling && item->round->status == BT_RUN_PASSED &&
                          is_worth_a_look(set, name) == (pass == 0);
            if (wanted && !is_known(set, name)) {
                tried++;
                BT_TRY(read_trend(store, set, item));
            }
        }
    }
    return BT_OK;
}

void bt_trends_release(report_set *set)
{
    for (int64_t i = 0; i < set->trend_count; i++) {
        bt_history_release(&set->trends[i].history);
    }
}

// ---- drawing -----------------------------------------------------------------------------------

// The medians of all sessions, with a margin.
static picture_axis axis_of(const bt_history_series *series)
{
    picture_axis out = {.low = HUGE_VAL, .high = -HUGE_VAL};
    for (int64_t i = 0; i < series->session_count; i++) {
        out.low = fmin(out.low, series->sessions[i].median);
        out.high = fmax(out.high, series->sessions[i].median);
    }
    double margin = fmax(0.15 * (out.high - out.low), 0.01 * fabs(out.high));
    out.low = out.low >= 0.0 ? fmax(0.0, out.low - margin) : out.low - margin; // no negative times
    out.high += margin;
    return out;
}

static bool in_report(const report_set *set, int64_t run)
{
    for (int64_t i = 0; i < set->run_count; i++) {
        if (set->runs[i].id == run) {
            return true;
        }
    }
    return false;
}

// A line at each change, and the level of each interval between changes.
static void draw_changes(const bt_history_series *series, picture *to)
{
    BT_EACH(const bt_change, change, series->changes, series->change_count) {
        bt_str_append(to->out, "<path class=change d=\"");
        bt_picture_to(to, "M", (double)change->index - 0.5, to->y.high);
        bt_picture_to(to, "L", (double)change->index - 0.5, to->y.low);
        bt_str_append(to->out, "\"/>");
    }
    bt_str_append(to->out, "<path class=level d=\"");
    for (int64_t c = 0; c <= series->change_count && series->change_count > 0; c++) {
        double level = c == 0 ? series->changes[0].before : series->changes[c - 1].after;
        double from = c == 0 ? 0.0 : (double)series->changes[c - 1].index - 0.5;
        double until = c == series->change_count ? (double)series->session_count - 1.0
                                                 : (double)series->changes[c].index - 0.5;
        bt_picture_to(to, "M", from, level);
        bt_picture_to(to, "L", until, level);
    }
    bt_str_append(to->out, "\"/>");
}

static void draw_points(const report_set *set, const bt_history_series *series, bool ours,
                        picture *to)
{
    bt_str_format(to->out, "<path class=\"%s\" d=\"", ours ? "now dots" : "past dots");
    for (int64_t i = 0; i < series->session_count; i++) {
        if (in_report(set, series->sessions[i].run) == ours) {
            bt_picture_to(to, "M", (double)i, series->sessions[i].median);
            bt_str_append(to->out, "h0");
        }
    }
    bt_str_append(to->out, "\"/>");
}

static void write_plot(const report_set *set, const report_trend *trend, bt_str *out)
{
    const bt_history_series *series = trend->series;
    const int64_t ends[] = {0, series->session_count - 1};
    picture to = {.out = out,
                  .x = {.low = -0.5, .high = (double)series->session_count - 0.5},
                  .y = axis_of(series)};
    for (int i = 0; i < 2; i++) {
        const double y = to.y.low + (i ? 0.9 : 0.1) * (to.y.high - to.y.low);
        bt_picture_y(&to, y, bt_format_value(bt_metric_info(trend->history.metric)->unit, y).text,
                     false);
        bt_picture_x(&to, (double)ends[i],
                     bt_textf("run %lld", (long long)series->sessions[ends[i]].run).text, false);
    }
    bt_str_format(out,
                  "<div class=\"plot trend\"><div class=still role=img aria-label=\"time of %lld "
                  "sessions; the table below lists the numbers\">",
                  (long long)series->session_count);
    bt_picture_open(&to);
    draw_changes(series, &to);
    draw_points(set, series, false, &to);
    draw_points(set, series, true, &to);
    bt_picture_close(&to);
    bt_str_append(out, "</div></div>\n");
}

// "slower by 3.1 % from run 17 on", each change.
static void write_changes(const report_trend *trend, bt_str *out)
{
    const bt_history_series *series = trend->series;
    bt_str_append(out, bt_format_items(series->session_count, "session").text);
    bt_str_append(out, series->change_count == 0 ? ", no change" : "");
    BT_EACH(const bt_change, change, series->changes, series->change_count) {
        bt_str_format(out, "; <b>%s %s by %.3g %%</b> from run %lld on",
                      change->after > change->before ? "\xe2\x96\xb2" : "\xe2\x96\xbc",
                      bt_history_change_word(trend->history.metric, change),
                      100.0 * fabs(change->after / change->before - 1.0),
                      (long long)series->sessions[change->index].run);
    }
}

static const bt_change *change_at(const bt_history_series *series, int64_t index)
{
    for (int64_t c = 0; c < series->change_count; c++) {
        if (series->changes[c].index == index) {
            return &series->changes[c];
        }
    }
    return NULL;
}

static void add_session(const report_trend *trend, int64_t index, bt_table *table)
{
    const bt_history_session *session = &trend->series->sessions[index];
    const bt_change *change = change_at(trend->series, index);
    bt_table_cells(table, "%lld|%s|%s%s|%lld", (long long)session->run,
                   bt_format_date(session->started_ns).text, session->git_commit,
                   session->modified ? " modified" : "", (long long)session->rounds);
    bt_table_interval(table, bt_metric_info(trend->history.metric)->unit, session->median,
                      session->low, session->high);
    bt_table_cells(table, "%s",
                   change ? bt_history_change_word(trend->history.metric, change) : "");
}

static void write_trend(const report_set *set, int64_t index, bt_str *out)
{
    const report_trend *trend = &set->trends[index];
    int64_t count = trend->series->session_count;
    int64_t first = count > ROWS_MAX ? count - ROWS_MAX : 0;
    bt_table table = {.name = bt_textf("trend-%lld", (long long)index)};
    bt_str_append(out, "<figure id=\"");
    bt_html_anchor(out, "trend", trend->history.name, "");
    bt_str_append(out, "\"><figcaption><h3><a href=\"#");
    bt_html_anchor(out, "trend", trend->history.name, "");
    bt_html(out, "\">%s</a></h3><span class=muted>%s, %s: ", trend->history.name,
            bt_metric_info(trend->history.metric)->tag, trend->series->system);
    write_changes(trend, out);
    bt_str_append(out, "</span></figcaption>\n");
    write_plot(set, trend, out);
    bt_table_heads(&table, ">run|date|commit|>rounds|>median~95 %% interval|change");
    for (int64_t i = first; i < count; i++) {
        add_session(trend, i, &table);
    }
    bt_html_details(
        "Sessions", NULL,
        bt_textf("%lld%s", (long long)count, first > 0 ? ", the last 100 shown" : "").text, &table,
        out);
    bt_str_append(out, "</figure>\n");
}

bt_status bt_page_trends(const report_set *set, bt_str *out)
{
    if (set->trend_count == 0) {
        return BT_OK;
    }
    bt_str_append(out, "<section id=trends><h2>Over the sessions</h2>\n<p class=muted>The same "
                       "case, system, machine and settings in every recorded session, oldest "
                       "first; this report's are filled. A dashed line is a change of the level, "
                       "which chance alone would produce in one of a hundred histories.");
    bt_str_append(out, set->case_count > TRENDS_MAX
                           ? " At most six cases are drawn; <code>bt-bench history CASE</code> "
                             "has the others.</p>\n"
                           : "</p>\n");
    bt_str_append(out, "<div class=trends>\n");
    for (int64_t i = 0; i < set->trend_count; i++) {
        write_trend(set, i, out);
    }
    bt_str_append(out, "</div></section>\n");
    return BT_OK;
}
