// harness/store/live.h - how far a run is: little to read, however much it has recorded
#ifndef BT_HARNESS_STORE_LIVE_H
#define BT_HARNESS_STORE_LIVE_H

#include "harness/store/store.h"

enum { BT_STORE_LIVE_ROUNDS = 12, BT_STORE_LIVE_STEPS = 16 };

// A round in the list of the last ones.
typedef struct bt_store_live_round {
    int64_t id, ordinal;
    const char *kind, *name, *system; // of the case; what runs it
    bt_run_status status;
    const char *message;
    int64_t started_ns, ended_ns; // wall clock; ended_ns 0: not ended
    int64_t steps;                // planned; 0: not known, or a kernel case
    double time_ns, rate_tok_s;   // measured; NaN: not
} bt_store_live_round;

typedef struct bt_store_live {
    int64_t run;
    const char *suite, *profile, *plan_json, *out_dir, *message;
    const char *kind; // of its schedule: "ab", "calibrate"; "": a fixed number of rounds
    bt_run_status status;
    int64_t started_ns, ended_ns; // wall clock; ended_ns 0: not ended
    int64_t process_id;
    int64_t counts[BT_RUN_STATUS_COUNT]; // rounds so far, by status
    int64_t system_count;                // different ones so far
    double round_ns;                     // mean of the rounds that passed; NaN: none has
    const bt_store_live_round *rounds;   // the last ones, newest first; the first may be running
    int64_t round_count;
    const bt_store_step *steps; // the last ones of the newest round, newest first
    int64_t step_count;
    int64_t steps_done; // of the newest round, and what they took with the evaluations between
    int64_t spent_ns;
    bt_arena arena; // holds all of it
} bt_store_live;

// The newest run whose process is there, 0 when none is.
BT_CHECKED bt_status bt_store_newest_running(bt_store *store, int64_t *run);
// The newest run, 0 when there is none.
BT_CHECKED bt_status bt_store_newest(bt_store *store, int64_t *run);
// How far a run is, as of one moment.
// Owns    the caller, until bt_store_live_release
// Errors  INVALID_ARGUMENT when there is no such run: says which there are
BT_CHECKED bt_status bt_store_live_read(bt_store *store, int64_t run, bt_store_live *out);
void bt_store_live_release(bt_store_live *live);

#endif
