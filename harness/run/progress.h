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
    int64_t began_ns;   // when the first kernel case began
    bool line_open;     // a rewriting line is on the screen
    bool evaluates;     // a validation comes before the first step
    bool eager_said;    // that this round is not compiled
    char label[96];     // "fp32", "fp32 round 2/3"
} bt_progress_view;

void bt_progress_open(bt_progress_view *view, bool quiet);
// A new round begins; steps 0: of a kernel case. `evaluates`: a validation comes before its first
// step.
void bt_progress_round(bt_progress_view *view, const char *label, int64_t steps, bool evaluates);
void bt_progress_event_seen(bt_progress_view *view, const bt_run_event *event);
// A kernel case begins, after `done` rounds of `total`.
void bt_progress_case(bt_progress_view *view, int64_t done, int64_t total);
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
