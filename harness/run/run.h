// harness/run/run.h - a plan, run and recorded from start to end
#ifndef BT_HARNESS_RUN_RUN_H
#define BT_HARNESS_RUN_RUN_H

#include "harness/launch/world.h"
#include "harness/plan/plan.h"
#include "harness/run/peer.h"
#include "harness/run/schedule.h"
#include "harness/store/store.h"

// How many rounds a case is to have, given what is known; asked before the first round of a run and
// after each. A function of the schedule alone, so that a run that is resumed goes on alike.
typedef struct bt_run_wish {
    bt_status (*rounds)(void *self, const bt_run_schedule *schedule, int64_t case_index,
                        int64_t *rounds);
    void *self;
    int64_t rounds_max;    // it never asks for more
    const char *kind;      // recorded with the run, that it may be resumed: "ab"; NULL: ""
    const char *rule_json; // likewise: all that the wish is made of; NULL: ""
} bt_run_wish;

typedef struct bt_run_request {
    const bt_world *world; // who started this process as one rank of several; NULL: nobody
    const bt_suite *suite; // not looked at in a run that is resumed
    const bt_plan *plan;
    const bt_machine *machine;
    const char *database;    // file
    const char *out_dir;     // NULL: results/run-<number>
    const char *worker;      // program to run in place of our own worker; NULL: our own
    const char *metrics_dir; // where harness/run/metrics.h writes; NULL: nowhere
    const char *command;     // as typed
    const char *name, *note; // of the run, by the user; NULL: none
    // Writes the report of a run that ended into a file (bt_report_write); NULL: there is none.
    bt_status (*report)(bt_store *store, const int64_t *runs, int64_t count, const char *path);
    bool quiet;
    bool trusted;           // the user named the plan's programs by path, or allowed them all
    bool trusts_commands;   // the user allowed the commands of the plan's cases
    const bt_peer *systems; // [system_count], in place of the plan's
    int64_t system_count;
    uint64_t schedule_seed;  // of the order of rounds; 0: the plan's order
    const bt_run_wish *wish; // NULL: the plan's number of rounds
    int64_t resume;          // a recorded run to finish, with its plan; 0: a new one begins
} bt_run_request;

typedef struct bt_run_outcome {
    int64_t run; // number in the database; 0: it did not get that far
    bt_run_status status;
    bt_status reason; // of the first round that failed
    char message[1024];
} bt_run_outcome;

// Runs all rounds of all cases, one after the other, in the order of schedule.h. A failed round
// does not keep the others from running; an interruption does. Ends with the report in the run's
// folder. Errors  those of the store, the data and the file system; a failed round is an outcome
BT_CHECKED bt_status bt_run_execute(const bt_run_request *request, bt_run_outcome *outcome);
// The exit code of a run: 0 passed, 130 interrupted, otherwise that of the reason.
int bt_run_exit_code(const bt_run_outcome *outcome);

#endif
