// harness/history/history.c - groups rounds into sessions and series
#include "harness/history/history.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/stats/stats.h"
#include "harness/stats/summary.h"
#include "harness/suite/schema.h"

enum { HINTS = 4 }; // number of case names in a message

// State of a history under construction. Series are in the order of their oldest session.
typedef struct making {
    bt_history *history;
    char environment[33];         // of the row before: rows of a session follow each other
    int64_t env;                  // its environment, -1 before the first row
    const char *name, *axes_json; // its case and settings
    bt_history_series *series;    // [row_count]: more than there can be
    int64_t *series_of;           // [row_count]
    double *values;               // [row_count]: rounds of a session, then medians of a series
} making;

// ---- series ------------------------------------------------------------------------------------

// Equal texts of the record are usually the same pointer.
static bool same_text(const char *left, const char *right)
{
    return left == right || (left && right && strcmp(left, right) == 0);
}

// Does a round have another statistic than the total (earlier versions)?
static bool is_of_time(bt_metric metric)
{
    static const bt_metric metrics[] = {
        BT_METRIC_TIME,       BT_METRIC_STEP_TIME,        BT_METRIC_STEP_DEVICE_TIME,
        BT_METRIC_BANDWIDTH,  BT_METRIC_COMPUTE,          BT_METRIC_TOKENS_PER_S,
        BT_METRIC_COPY_SHARE, BT_METRIC_ENERGY_PER_TOKEN, BT_METRIC_ENERGY_PER_CALL};
    bool found = false;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        found = found || metrics[i] == metric;
    }
    return found;
}

static bt_status series_of_row(making *self, const bt_store_history_row *row, int64_t *index)
{
    bt_history *history = self->history;
    if (row->env != self->env || row->name != self->name || row->axes_json != self->axes_json) {
        BT_TRY(bt_plan_environment(&history->record.envs[row->env], row->name, row->axes_json,
                                   self->environment));
        self->env = row->env;
        self->name = row->name;
        self->axes_json = row->axes_json;
    }
    const char *digest = self->environment;
    const bool total = row->total || !is_of_time(history->metric);
    for (int64_t i = history->series_count - 1; i >= 0; i--) {
        const bt_history_series *series = &self->series[i];
        if (strcmp(series->environment, digest) == 0 && strcmp(series->system, row->system) == 0 &&
            series->total == total && same_text(series->name, row->name) &&
            same_text(series->axes_json, row->axes_json)) {
            *index = i;
            return BT_OK;
        }
    }
    bt_history_series *series = &self->series[history->series_count];
    *series = (bt_history_series){
        .name = row->name, .system = row->system, .axes_json = row->axes_json, .total = total};
    memcpy(series->environment, digest, sizeof series->environment);
    *index = history->series_count++;
    return BT_OK;
}

// Ends a session: the median of the values gathered, and the interval.
static bt_status end_session(const making *self, bt_history_session *session,
                             const bt_store_history_row *last)
{
    bt_stats stats;
    BT_TRY(bt_stats_of(self->values, session->rounds, &stats));
    session->median = stats.median;
    session->low =
        bt_metric_low(self->history->metric, session->rounds > 1 ? stats.low : last->low);
    session->high = session->rounds > 1 ? stats.high : last->high;
    return BT_OK;
}

// The sessions of one series, out of all rows.
static bt_status gather_sessions(making *self, int64_t index)
{
    const bt_store_history *record = &self->history->record;
    bt_history_series *series = &self->series[index];
    const bt_store_history_row *last = NULL;
    int64_t rows = 0;
    for (int64_t i = 0; i < record->count; i++) {
        rows += self->series_of[i] == index;
    }
    bt_history_session *sessions = NULL;
    BT_TRY(BT_ARENA_ARRAY(&self->history->arena, rows, &sessions));
    series->sessions = sessions;
    for (int64_t i = 0; i < record->count; i++) {
        const bt_store_history_row *row = &record->rows[i];
        if (self->series_of[i] != index || isnan(row->value)) {
            continue;
        }
        if (!last || last->run != row->run) {
            if (last) {
                BT_TRY(end_session(self, &sessions[series->session_count - 1], last));
            }
            sessions[series->session_count++] =
                (bt_history_session){.run = row->run,
                                     .started_ns = row->started_ns,
                                     .suite = row->suite,
                                     .git_commit = row->git_commit,
                                     .modified = row->git_diff[0] != '\0'};
        }
        self->values[sessions[series->session_count - 1].rounds++] = row->value;
        series->env = &record->envs[row->env];
        last = row;
    }
    return last ? end_session(self, &sessions[series->session_count - 1], last) : BT_OK;
}

static bt_status find_changes(making *self, bt_history_series *series)
{
    BT_SCOPED_MEM(bt_change *) changes = NULL;
    bt_change *kept = NULL;
    for (int64_t i = 0; i < series->session_count; i++) {
        self->values[i] = series->sessions[i].median;
    }
    BT_TRY(bt_change_points(self->values, series->session_count, &changes, &series->change_count));
    BT_TRY(BT_ARENA_ARRAY(&self->history->arena, series->change_count, &kept));
    if (series->change_count > 0) {
        memcpy(kept, changes, (size_t)series->change_count * sizeof *changes);
        series->changes = kept;
    }
    return BT_OK;
}

// Series without values are dropped, the others sorted by their newest session.
static void order_series(making *self)
{
    bt_history *history = self->history;
    int64_t kept = 0;
    for (int64_t i = 0; i < history->series_count; i++) {
        bt_history_series series = self->series[i];
        if (series.session_count == 0) {
            continue;
        }
        int64_t at = kept++, run = series.sessions[series.session_count - 1].run;
        for (; at > 0; at--) {
            const bt_history_series *before = &self->series[at - 1];
            if (before->sessions[before->session_count - 1].run >= run) {
                break;
            }
            self->series[at] = *before;
        }
        self->series[at] = series;
    }
    history->series_count = kept;
    history->series = self->series;
}

static bt_status make_series(bt_history *history)
{
    const bt_store_history *record = &history->record;
    making self = {.history = history, .env = -1};
    BT_TRY(BT_ARENA_ARRAY(&history->arena, record->count, &self.series));
    BT_TRY(BT_ARENA_ARRAY(&history->arena, record->count, &self.series_of));
    BT_TRY(BT_ARENA_ARRAY(&history->arena, record->count, &self.values));
    for (int64_t i = 0; i < record->count; i++) {
        BT_TRY(series_of_row(&self, &record->rows[i], &self.series_of[i]));
    }
    for (int64_t i = 0; i < history->series_count; i++) {
        BT_TRY(gather_sessions(&self, i));
        BT_TRY(find_changes(&self, &self.series[i]));
    }
    order_series(&self);
    return BT_OK;
}

// ---- selection ---------------------------------------------------------------------------------

// The nearest of the words, or the first of them.
static void append_hint(const char *name, const char *words, bt_str *out)
{
    const size_t start = out->length_bytes;
    bt_words_hint(name, words, out);
    if (out->length_bytes == start && *words) {
        size_t length = 0;
        for (int shown = 0; words[length] && shown < HINTS; shown++) {
            length += strcspn(words + length, "|");
            length += words[length] && shown + 1 < HINTS;
        }
        bt_str_append(out, "; there are ");
        for (size_t i = 0; i < length; i++) {
            bt_str_append_bytes(out, words[i] == '|' ? ", " : words + i, words[i] == '|' ? 2 : 1);
        }
        bt_str_append(out, words[length] ? " and others" : "");
    }
}

// Adds the names that suites give to cases: those recorded, up to each dot.
static void add_suite_names(bt_str *names)
{
    BT_SCOPED(bt_str) found = {0};
    bt_word word;
    for (const char *rest = bt_str_text(names); bt_words_next(&rest, &word);) {
        const char *dot = memchr(word.text, '.', word.length);
        for (; dot; dot = memchr(dot + 1, '.', (size_t)(word.text + word.length - dot - 1))) {
            bt_words_add(&found, word.text, (size_t)(dot - word.text));
        }
    }
    if (found.length_bytes > 0) {
        bt_words_add(names, bt_str_text(&found), found.length_bytes);
    }
}

// Explains an empty result: no such case, or no values of this metric and system.
static bt_status nothing_found(bt_store *store, const char *name, const char *metric,
                               const char *system)
{
    BT_SCOPED(bt_str) names = {0}, hint = {0};
    BT_TRY(bt_store_case_names(store, &names));
    add_suite_names(&names);
    BT_FAIL_IF(bt_words_have(bt_str_text(&names), name), BT_STATUS_INVALID_ARGUMENT,
               "%s: case \"%s\" has no passed round with %s%s%s", bt_store_path(store), name,
               metric ? metric : "a time", system ? " on " : "", system ? system : "");
    append_hint(name, bt_str_text(&names), &hint);
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no case \"%s\" has been recorded%s",
                    bt_store_path(store), name, bt_str_text(&hint));
}

static bt_status no_such_metric(const char *given)
{
    BT_SCOPED(bt_str) words = {0};
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        bt_str_format(&words, "%s%s", i ? ", " : "", bt_metric_info((bt_metric)i)->tag);
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "no metric \"%s\"; expected one of: %s", given,
                    bt_str_text(&words));
}

// Reads the rows of the requested metric, or of the first that the case has.
static bt_status read_record(bt_store *store, const char *metric, const char *system,
                             bt_history *out)
{
    static const bt_metric times[] = {BT_METRIC_TIME, BT_METRIC_STEP_TIME, BT_METRIC_WALL_TIME};
    int64_t tried = metric ? 1 : (int64_t)(sizeof times / sizeof times[0]);
    if (metric && !bt_metric_parse(metric, &out->metric)) {
        return no_such_metric(metric);
    }
    for (int64_t i = 0; i < tried; i++) {
        out->metric = metric ? out->metric : times[i];
        bt_store_history_release(&out->record);
        BT_TRY(bt_store_history_read(store, out->name, out->metric, system, &out->record));
        if (out->record.count > 0) {
            return BT_OK;
        }
    }
    return nothing_found(store, out->name, metric, system);
}

bt_status bt_history_read(bt_store *store, const char *name, const char *metric, const char *system,
                          bt_history *out)
{
    memset(out, 0, sizeof *out);
    bt_status status = bt_keep(&out->arena, name, &out->name);
    BT_IF_OK(status, read_record(store, metric, system, out));
    BT_IF_OK(status, make_series(out));
    if (status == BT_OK && out->series_count == 0) {
        status = nothing_found(store, name, metric, system);
    }
    if (status != BT_OK) {
        bt_history_release(out);
    }
    return status;
}

void bt_history_release(bt_history *history)
{
    bt_store_history_release(&history->record);
    bt_arena_release(&history->arena);
    memset(history, 0, sizeof *history);
}
