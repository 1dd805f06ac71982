// harness/run/run.h - a plan, run and recorded from start to end
#ifndef BT_HARNESS_RUN_RUN_H
#define BT_HARNESS_RUN_RUN_H

#include "harness/plan/plan.h"
#include "harness/store/store.h"

typedef struct bt_run_request {
    const bt_suite *suite;
    const bt_plan *plan;
    const bt_machine *machine;
    const char *database; // file
    const char *out_dir;  // NULL: results/run-<number>
    const char *worker;   // program to run in place of our own worker; NULL: our own
    const char *command;  // as typed
    bool quiet;
} bt_run_request;

typedef struct bt_run_outcome {
    int64_t run; // number in the database; 0: it did not get that far
    bt_run_status status;
    bt_status reason; // of the first round that failed
    char message[1024];
} bt_run_outcome;

// Runs all rounds of all cases, one after the other: round by round, so that slow changes of the
// machine meet every case. A failed round does not keep the others from running; an interruption
// does. Ends with the report in the run's folder.
// Errors  those of the store, the data and the file system; a failed round is an outcome
BT_CHECKED bt_status bt_run_execute(const bt_run_request *request, bt_run_outcome *outcome);
// The exit code of a run: 0 passed, 130 interrupted, otherwise that of the reason.
int bt_run_exit_code(const bt_run_outcome *outcome);

#endif
