// harness/run/round.h - one round: runs a worker process and records its events
#ifndef BT_HARNESS_RUN_ROUND_H
#define BT_HARNESS_RUN_ROUND_H

#include "harness/run/running.h"

// After SIGINT or SIGTERM a worker has this time to finish its step; then it is killed.
#define BT_ROUND_GRACE_S 5
// The same if it saves a checkpoint.
#define BT_ROUND_SAVE_GRACE_S 120

// Texts and pointers are borrowed.
typedef struct bt_round_request {
    bt_running *run;
    const bt_run_schedule_round *what;
    const cJSON *item;            // the case
    const bt_peer *peer;          // the system that runs it
    const char *worker;           // its program; NULL: our own worker
    const char *system;           // its name in the record
    const char *log_path;         // of its standard error
    const char *ranks_path;       // file with the status of a mesh's ranks
    const char *checkpoints;      // folder of the round's checkpoints; NULL: it saves none
    bool resume;                  // from them
    const bt_store_round *before; // the interrupted round that is resumed; NULL: none
    bt_child started;             // started early; taken over. Process 0: none
} bt_round_request;

typedef struct bt_round_outcome {
    bt_run_status status;
    bt_status reason;             // why it failed: the worker's error, or how it ended
    char message[1024];           // "" when it passed
    bt_noise noise;               // the round's label
    double bandwidth_bytes_per_s; // of a kernel case that passed, else 0
    double time_ns;               // mean of a call or a step; NaN: it was not timed
} bt_round_outcome;

// Runs the round. A round that passed is INVALID if the machine disturbed it (BT_NOISE_LIST). A
// failure of the worker is a recorded outcome; an error is returned only if recording fails (the
// worker is then stopped).
BT_CHECKED bt_status bt_round_run(const bt_round_request *request, bt_round_outcome *outcome);

#endif
