// harness/run/round.h - one round: a worker process from start to end, recorded while it goes on
#ifndef BT_HARNESS_RUN_ROUND_H
#define BT_HARNESS_RUN_ROUND_H

#include "harness/launch/world.h"
#include "harness/run/child.h"
#include "harness/run/metrics.h"
#include "harness/run/progress.h"
#include "harness/run/record.h"
#include "harness/run/telemetry.h"
#include "harness/run/versions.h"

// After SIGINT or SIGTERM a worker may finish its step for so long; then it is killed.
#define BT_ROUND_GRACE_S 5
// The same where it saves a checkpoint then.
#define BT_ROUND_SAVE_GRACE_S 120

typedef struct bt_round_request {
    bt_store *store;
    int64_t run;
    const bt_plan *plan;
    const cJSON *item; // the case
    int64_t ordinal;   // of the round
    const char *const *train_shards;
    int64_t train_shard_count;
    const char *const *val_shards;
    int64_t val_shard_count;
    const char *questions, *ranks; // of HellaSwag and the tokenizer; NULL: it is not scored
    const char *worker;            // program, NULL: our own
    bool build;                    // the program is a bt-bench: its verb `worker` is run
    const char *system;            // what the record calls it; NULL: after the program
    double inject_slowdown;        // what it times is to take longer by this share; 0: not
    bool peer;                     // it may say 'unavailable' without having failed
    double product_flop_per_s;     // of this run's large product of the case's type; 0: not known
    double copy_bytes_per_s;       // of this run's copy in the same cache mode; 0: not known
    const char *log_path;          // of its standard error
    const bt_world *world;         // this process is one of several that somebody else started
    const char *ranks_path;        // file that says how the ranks of a mesh are
    const char *checkpoints;       // folder of the round's checkpoints; NULL: it saves none
    bool resume;                   // from them
    const bt_store_round *before; // what was recorded of the round that is gone on with; NULL: none
    bt_child *started;            // waits for its task; taken over. NULL or process 0: none waits
    bt_versions *versions;   // of peers, asked for where they are not known; NULL: they are not
    bt_telemetry *telemetry; // watches the machine meanwhile; NULL: nobody does
    int gpus;                // that this process's ranks of the case use, on a GPU
    bt_metrics *metrics;     // may be NULL
    bt_progress_view *view;
} bt_round_request;

typedef struct bt_round_outcome {
    bt_run_status status;
    bt_status reason;             // why it failed: the worker's word, or what became of it
    char message[1024];           // "" when it passed
    bt_noise noise;               // the round's label
    double bandwidth_bytes_per_s; // of a kernel case that passed, else 0
    double time_ns;               // mean of a call or a step; NaN: it was not timed
} bt_round_outcome;

// What the record calls the system of a worker (NULL: our own): its name if it has one, otherwise
// the last part of its program's path.
const char *bt_round_system(const char *worker, const char *system);
// Runs the round. One that passed is INVALID when the machine disturbed it (BT_NOISE_LIST). What
// goes wrong with the worker is an outcome, recorded; an error is returned only when recording
// itself fails (the worker is then stopped).
BT_CHECKED bt_status bt_round_run(const bt_round_request *request, bt_round_outcome *outcome);

#endif
