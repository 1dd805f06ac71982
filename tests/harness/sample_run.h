// tests/harness/sample_run.h - made-up runs for the tests of store, compare and report
#ifndef BT_TESTS_HARNESS_SAMPLE_RUN_H
#define BT_TESTS_HARNESS_SAMPLE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/store/store.h"

typedef struct sample_run {
    const char *suite, *profile, *device;
    const char *plan_json;
    const char *cases[4];              // names, up to NULL
    int64_t steps;                     // of each case
    double step_ms;                    // typical time of a step
    double loss_shift;                 // added to every loss from step 5 on
    const char *command;               // as typed
    const char *fact;                  // value of the fact "gpu.driver"
    const char *message;               // of the run's end; NULL: by its status
    bt_store_env env;                  // without facts: a made-up one
    int64_t rounds;                    // of each case; 0 is one
    int64_t noise_stream;              // another one: another seed
    bool no_evals;                     // no validation losses
    bool telemetry;                    // ten samples a second, clocks lower for a tenth of the time
    const char *git_commit, *git_diff; // of the build; NULL: "3f50b31c" and none
    const char *system;                // NULL: blutrain
    const char *axes_json;             // of each case; NULL: some
    const char *kind;                  // of each case; NULL: "training"
    const bt_store_fault *fault;       // of each round; NULL: none
    const bt_store_launch *launches;   // [launch_count], of each round
    int64_t launch_count;
    const bt_store_group *groups; // [group_count], of the first case's rounds
    int64_t group_count;
    const bt_store_group_calls *group_calls; // [group_calls_count], likewise
    int64_t group_calls_count;
    int64_t ranks;        // of which each round has a timeline (sample_timeline); 0: none has
    bt_run_status status; // RUNNING: left without an end
} sample_run;

// A plain one: suite gpt2_124m, one case, 60 steps.
sample_run sample_run_default(void);
// Step i of the sample: loss falls from 11 to about 3, times vary a little, the first two steps
// are warm-up and each tenth is profiled.
bt_store_step sample_step(const sample_run *sample, int64_t index);
// How rank r spent a step of 1 ms: a forward and a backward, in which rank 1 waits longest.
// work, phases: [BT_TIMELINE_PARTS + 1], filled; the timeline borrows them.
bt_store_timeline sample_timeline(int64_t rank, char *work, char *phases);
// Records the whole run; fails as the store does.
BT_CHECKED bt_status sample_run_record(bt_store *store, const sample_run *sample, int64_t *run);

#endif
