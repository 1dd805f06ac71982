// harness/history/history.h - one case over all sessions, and its changes
//
// Sessions are grouped into series: one case, one system, one environment, the same settings.
// Only numbers within a series are comparable. The environment is identified by its hard facts,
// without those about data of other cases.
//
// Invariants
//   1. A session counts once, with the median of its rounds: rounds of one session are correlated.
//   2. Only rounds that passed count.
#ifndef BT_HARNESS_HISTORY_HISTORY_H
#define BT_HARNESS_HISTORY_HISTORY_H

#include <stdbool.h>

#include "framework/base/str.h"
#include "harness/stats/change.h"
#include "harness/store/store.h"

typedef struct bt_history_session {
    int64_t run, started_ns; // wall clock
    const char *suite, *git_commit;
    bool modified;    // built from a modified work tree
    int64_t rounds;   // number of rounds in the median
    double median;    // of the rounds' values
    double low, high; // 95 % order-statistic interval; of one round, that of its samples; or NaN
} bt_history_session;

typedef struct bt_history_series {
    const char *name, *system, *axes_json; // case; settings of the case
    bool total; // a round's time or rate is its total; false: its median, as in earlier versions
    const bt_store_env *env;            // of its newest session
    char environment[33];               // digest of what its sessions have in common
    const bt_history_session *sessions; // in the order begun
    int64_t session_count;
    const bt_change *changes; // indices of sessions
    int64_t change_count;
} bt_history_series;

typedef struct bt_history {
    const char *name; // as given: a recorded case, or a case of a suite
    bt_metric metric;
    const bt_history_series *series; // that of the newest session first
    int64_t series_count;
    bt_store_history record; // the rows it was made from; owns the texts
    bt_arena arena;          // holds everything else
} bt_history;

// Reads the history of a case, or of all that a plan makes of a case of a suite. metric NULL: its
// time (time_ns, else step_time_ns, else wall_time_ns). system NULL: all systems. Owns    the
// caller, until bt_history_release; independent of the store Errors  INVALID_ARGUMENT (no such
// metric; no such case, or no values; lists the existing ones)
BT_CHECKED bt_status bt_history_read(bt_store *store, const char *name, const char *metric,
                                     const char *system, bt_history *out);
void bt_history_release(bt_history *history);

// "slower", "faster" if the metric is a time or a rate, else "higher", "lower".
const char *bt_history_change_word(bt_metric metric, const bt_change *change);
// A sparkline of at most `width` characters of the medians of the sessions; if there are more
// sessions than characters, groups of them by their median.
BT_CHECKED bt_status bt_history_sparkline(const bt_history_series *series, int64_t width,
                                          bt_str *out);

// A table per series, newest series first, fitted to `columns` of a terminal, 0: any number; one
// JSON object.
BT_CHECKED bt_status bt_history_text(const bt_history *history, int columns, bt_str *out);
BT_CHECKED bt_status bt_history_json(const bt_history *history, bt_str *out);

#endif
