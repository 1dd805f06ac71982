// harness/run/round.h - one round: runs a worker process and records its events
#ifndef BT_HARNESS_RUN_ROUND_H
#define BT_HARNESS_RUN_ROUND_H

#include "harness/launch/world.h"
#include "harness/run/child.h"
#include "harness/run/metrics.h"
#include "harness/run/progress.h"
#include "harness/run/record.h"
#include "harness/run/telemetry.h"
#include "harness/run/versions.h"

// After SIGINT or SIGTERM a worker has this time to finish its step; then it is killed.
#define BT_ROUND_GRACE_S 5
// The same if it saves a checkpoint.
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
    bool build;                    // the program is a bt-bench: runs its verb `worker`
    const char *system;            // its name in the record; NULL: derived from the program
    double inject_slowdown;        // fraction by which timed work is made longer; 0: none
    bool peer;                     // it may report 'unavailable' without having failed
    double product_flop_per_s;     // of this run's large product of the case's type; 0: not known
    double copy_bytes_per_s;       // of this run's copy in the same cache mode; 0: not known
    const char *log_path;          // of its standard error
    const bt_world *world;         // this process is one rank of an external launcher
    const char *ranks_path;        // file with the status of a mesh's ranks
    const char *checkpoints;       // folder of the round's checkpoints; NULL: it saves none
    bool resume;                   // from them
    const bt_store_round *before;  // the interrupted round that is resumed; NULL: none
    bt_child *started;             // started early; taken over. NULL or process 0: none
    bt_versions *versions;         // of peers, requested if unknown; NULL: not requested
    bt_telemetry *telemetry;       // samples the machine; NULL: none
    int gpus;                      // number of GPUs that this process's ranks of the case use
    bt_metrics *metrics;           // may be NULL
    bt_progress_view *view;
} bt_round_request;

typedef struct bt_round_outcome {
    bt_run_status status;
    bt_status reason;             // why it failed: the worker's error, or how it ended
    char message[1024];           // "" when it passed
    bt_noise noise;               // the round's label
    double bandwidth_bytes_per_s; // of a kernel case that passed, else 0
    double time_ns;               // mean of a call or a step; NaN: it was not timed
} bt_round_outcome;

// Name of a worker's system in the record (NULL: our own): `system` if given, else the last part of
// the program's path.
const char *bt_round_system(const char *worker, const char *system);
// Runs the round. A round that passed is INVALID if the machine disturbed it (BT_NOISE_LIST). A
// failure of the worker is a recorded outcome; an error is returned only if recording fails (the
// worker is then stopped).
BT_CHECKED bt_status bt_round_run(const bt_round_request *request, bt_round_outcome *outcome);

#endif
