// harness/run/progress.h - progress of a run on standard error
//
// On a terminal one line that is rewritten; elsewhere a plain line every ten seconds. No colour.
#ifndef BT_HARNESS_RUN_PROGRESS_H
#define BT_HARNESS_RUN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/run/event.h"

typedef struct bt_progress_view {
    FILE *out; // NULL: quiet
    bool terminal;
    int64_t steps;      // planned, of this round
    int64_t steps_done; // of this round, by this process
    double spent_ns;    // their time, including evaluations between them
    int64_t shown_ns;   // time of the last line
    int64_t heard_ns;   // time of the worker's last event
    double rate_tok_s;  // smoothed
    double others_ns;   // estimate for the rounds after this one; NaN: unknown
    bool line_open;     // a rewriting line is on the screen
    bool evaluates;     // a validation comes before the first step
    bool eager_said;    // that this round is not compiled
    int64_t repeated;   // steps of the last recovery
    char label[96];     // "fp32", "fp32 round 2/3"
} bt_progress_view;

void bt_progress_open(bt_progress_view *view, bool quiet);
// Where a run is when a round begins.
typedef struct bt_progress_place {
    int64_t done, total;          // rounds
    int64_t cases;                // of the plan
    double left_ns, left_most_ns; // for this round and the others; at most. NaN: unknown
} bt_progress_place;

// A new round of a training case begins. `evaluates`: a validation comes before its first step.
// others_ns: estimate for the rounds after it; NaN: unknown.
void bt_progress_round(bt_progress_view *view, const char *label, int64_t steps, bool evaluates,
                       const bt_progress_place *place, double others_ns);
void bt_progress_event_seen(bt_progress_view *view, const bt_run_event *event);
// A new round of a case that times calls begins.
void bt_progress_case(bt_progress_view *view, const char *label, const bt_progress_place *place);
// Called when the worker is silent: shows this after a minute.
void bt_progress_silence(bt_progress_view *view);
// To which a text is fitted; 0: any number, not a terminal.
int bt_progress_columns(const bt_progress_view *view);
// A line of its own: "plan      ...", broken at words for a terminal. The text may have several
// lines.
void bt_progress_say(bt_progress_view *view, const char *format, ...) BT_PRINTF(2, 3);
// Ends a rewritten line, so that other text may be printed.
void bt_progress_pause(bt_progress_view *view);

#endif
