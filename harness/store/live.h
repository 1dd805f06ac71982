// harness/store/live.h - progress of a run: a small read, independent of the amount recorded
#ifndef BT_HARNESS_STORE_LIVE_H
#define BT_HARNESS_STORE_LIVE_H

#include "harness/store/store.h"

enum { BT_STORE_LIVE_ROUNDS = 12, BT_STORE_LIVE_STEPS = 16 };

// A round in the list of the latest ones.
typedef struct bt_store_live_round {
    int64_t id, ordinal;
    const char *kind, *name, *system; // of the case; system
    bt_run_status status;
    const char *message;
    int64_t started_ns, ended_ns; // wall clock; ended_ns 0: not ended
    int64_t steps;                // planned; 0: unknown, or a kernel case
    double time_ns, rate_tok_s;   // measured; NaN: not measured
} bt_store_live_round;

typedef struct bt_store_live {
    int64_t run;
    const char *suite, *profile, *plan_json, *out_dir, *message;
    const char *kind; // of its schedule: "ab", "calibrate"; "": a fixed number of rounds
    bt_run_status status;
    int64_t started_ns, ended_ns; // wall clock; ended_ns 0: not ended
    int64_t process_id;
    int64_t counts[BT_RUN_STATUS_COUNT]; // rounds so far, by status
    int64_t system_count;                // recorded with its schedule; 0: those of the plan
    double round_ns;                     // mean of the rounds that passed; NaN: none
    const bt_store_live_round *rounds;   // the latest ones, newest first; the first may be running
    int64_t round_count;
    const bt_store_step *steps; // the latest ones of the newest round, newest first
    int64_t step_count;
    int64_t steps_done; // of the newest round, and their time including evaluations between them
    int64_t spent_ns;
    bt_arena arena; // holds all of it
} bt_store_live;
BT_STORE_RELEASED(bt_store_live)

// The newest run whose process exists, 0 if there is none.
BT_CHECKED bt_status bt_store_newest_running(bt_store *store, int64_t *run);
// The newest run, 0 if there is none.
BT_CHECKED bt_status bt_store_newest(bt_store *store, int64_t *run);
// Progress of a run, read in one transaction.
// Owns    the caller, until bt_store_live_release
// Errors  INVALID_ARGUMENT if there is no such run: lists the existing ones
BT_CHECKED bt_status bt_store_live_read(bt_store *store, int64_t run, bt_store_live *out);

#endif
