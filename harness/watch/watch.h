// harness/watch/watch.h - a run as someone beside it sees it, from its record alone
//
// Functions from what is recorded and the time of day to structs and text; the loop that reads,
// draws and waits is the verb. The run does not know that it is watched.
#ifndef BT_HARNESS_WATCH_WATCH_H
#define BT_HARNESS_WATCH_WATCH_H

#include "framework/base/str.h"
#include "harness/store/live.h"

typedef struct bt_watch_view {
    const bt_store_live *live;           // borrowed
    const bt_store_live_round *current;  // borrowed from live; NULL: no round is running
    const bt_store_step *step;           // newest of the current round; NULL: none
    int64_t rounds_done, rounds_planned; // planned 0: not known
    int64_t case_index, case_count;      // of the current round in the plan; count 0: not known
    int64_t rounds_per_case;             // of the plan; 0: not known
    double rate_tok_s;                   // median of the last steps; NaN: none
    int64_t memory_bytes;                // reserved, else resident; 0: not known
    double left_ns;                      // until the end, an estimate; NaN: no idea
    double share;                        // done, 0 to 1; NaN: not known
    int64_t now_ns;                      // wall clock
} bt_watch_view;

// Errors  OUT_OF_MEMORY. A plan that cannot be read leaves what it would say at 0.
BT_CHECKED bt_status bt_watch_look(const bt_store_live *live, int64_t now_ns, bt_watch_view *out);

// What must differ for something to have happened.
typedef struct bt_watch_mark {
    bt_run_status status;
    int64_t rounds_done, round, step; // -1: none
} bt_watch_mark;

bt_watch_mark bt_watch_mark_of(const bt_watch_view *view);
bool bt_watch_mark_equal(const bt_watch_mark *left, const bt_watch_mark *right);

// Appends lines of at most `columns` characters, at most `rows` of them, each with its newline.
BT_CHECKED bt_status bt_watch_block(const bt_watch_view *view, int columns, int rows, bt_str *out);
// For where lines cannot be drawn anew: a heading; a line per round that ended since `seen` (the
// largest number of a round told before), oldest first; where the run is.
BT_CHECKED bt_status bt_watch_heading(const bt_watch_view *view, bt_str *out);
BT_CHECKED bt_status bt_watch_ended(const bt_watch_view *view, int64_t *seen, bt_str *out);
BT_CHECKED bt_status bt_watch_line(const bt_watch_view *view, bt_str *out);
// What came of a run that is over, and the next command.
BT_CHECKED bt_status bt_watch_end(const bt_watch_view *view, bt_str *out);
// ranks.c: a line for each rank of a mesh that is training now: its steps, how long it has been
// silent, how long it has waited for the others, what it does. Nothing where there is none.
void bt_watch_ranks(const bt_watch_view *view, int columns, int rows, bt_str *out);
// Their list as the launcher wrote it (launch/supervisor_status.c); "" where there is none.
void bt_watch_ranks_json(const bt_watch_view *view, bt_str *out);
// One JSON object on a line.
BT_CHECKED bt_status bt_watch_json(const bt_watch_view *view, bt_str *out);

// 0 passed or going on, 130 interrupted, 4 disturbed or unavailable, 5 failed.
int bt_watch_exit_code(bt_run_status status);

#endif
