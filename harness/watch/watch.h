// harness/watch/watch.h - the view of a run for a watcher, from its record alone
//
// Functions from the record and the time of day to structs and text; the loop that reads, draws and
// waits is the verb. The run is not affected.
#ifndef BT_HARNESS_WATCH_WATCH_H
#define BT_HARNESS_WATCH_WATCH_H

#include "framework/base/str.h"
#include "harness/store/live.h"

typedef struct bt_watch_view {
    const bt_store_live *live;           // borrowed
    const bt_store_live_round *current;  // borrowed from live; NULL: no round is running
    const bt_store_step *step;           // newest of the current round; NULL: none
    int64_t rounds_done, rounds_planned; // planned: of ab until its first look; 0: unknown
    int64_t case_index, case_count;      // of the current round in the plan; count 0: unknown
    int64_t rounds_per_case;             // of the plan; 0: unknown
    double rate_tok_s;                   // median of the latest steps; NaN: none
    int64_t memory_bytes;                // reserved, else resident; 0: unknown
    double left_ns;                      // until the end, an estimate; NaN: unknown
    double share;                        // done, 0 to 1; NaN: unknown
    bool resumable;                      // a round that failed can be run again: run --resume
    int64_t now_ns;                      // wall clock
} bt_watch_view;

// Errors  OUT_OF_MEMORY. If the plan cannot be read, its values are 0.
BT_CHECKED bt_status bt_watch_look(const bt_store_live *live, int64_t now_ns, bt_watch_view *out);

// State whose change is reported.
typedef struct bt_watch_mark {
    bt_run_status status;
    int64_t rounds_done, round, step; // -1: none
} bt_watch_mark;

bt_watch_mark bt_watch_mark_of(const bt_watch_view *view);
bool bt_watch_mark_equal(const bt_watch_mark *left, const bt_watch_mark *right);

// Appends at most `rows` lines of at most `columns` characters, each with its newline.
BT_CHECKED bt_status bt_watch_block(const bt_watch_view *view, int columns, int rows, bt_str *out);
// For output that cannot be redrawn: a heading; a line per round that ended since `seen` (the
// largest number of a reported round), oldest first; the progress of the run.
BT_CHECKED bt_status bt_watch_heading(const bt_watch_view *view, bt_str *out);
BT_CHECKED bt_status bt_watch_ended(const bt_watch_view *view, int64_t *seen, bt_str *out);
BT_CHECKED bt_status bt_watch_line(const bt_watch_view *view, bt_str *out);
// The result of a completed run, and the next command.
BT_CHECKED bt_status bt_watch_end(const bt_watch_view *view, bt_str *out);
// ranks.c: a line for each rank of a mesh that is training: its steps, time since its last
// progress, time waited for the others, current activity. Nothing if there is no mesh.
void bt_watch_ranks(const bt_watch_view *view, int columns, int rows, bt_str *out);
// Their list as the launcher wrote it (launch/supervisor_status.c); "" if there is none.
void bt_watch_ranks_json(const bt_watch_view *view, bt_str *out);
// One JSON object on a line.
BT_CHECKED bt_status bt_watch_json(const bt_watch_view *view, bt_str *out);

// 0 passed or still running, 130 interrupted, 4 disturbed or unavailable, 5 failed.
int bt_watch_exit_code(bt_run_status status);

#endif
