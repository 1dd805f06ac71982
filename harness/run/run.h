// harness/run/run.h - a plan, run and recorded from start to end
#ifndef BT_HARNESS_RUN_RUN_H
#define BT_HARNESS_RUN_RUN_H

#include "harness/launch/world.h"
#include "harness/plan/plan.h"
#include "harness/run/peer.h"
#include "harness/run/schedule.h"
#include "harness/store/store.h"

// Number of rounds of a case; called before the first round of a run and after each. It depends
// only on the schedule, so that a resumed run continues in the same way.
typedef struct bt_run_wish {
    bt_status (*rounds)(void *self, const bt_run_schedule *schedule, int64_t case_index,
                        int64_t *rounds);
    void *self;
    int64_t rounds_max;    // upper bound
    int64_t rounds_last;   // after which an undisturbed case is decided; 0: as many as requested
    const char *kind;      // recorded with the run for resuming: "ab"; NULL: ""
    const char *rule_json; // likewise: all parameters of the rule; NULL: ""
} bt_run_wish;

typedef struct bt_run_request {
    const bt_world *world; // external launcher of this rank; NULL: none
    const bt_suite *suite; // ignored for a resumed run
    const bt_plan *plan;
    const bt_machine *machine;
    const char *database;        // file
    const char *database_option; // for printed commands: " --db FILE"; NULL: the default
    const char *out_dir;         // NULL: run-<number> beside the database
    const char *worker;          // program to run in place of our own worker; NULL: our own
    const char *metrics_dir;     // output folder of metrics.h; NULL: no metrics
    const char *command;         // as typed
    const char *name, *note;     // of the run, by the user; NULL: none
    // Writes the report of a completed run to a file (bt_report_write); NULL: no report.
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
    int64_t run; // number in the database; 0: not created
    bt_run_status status;
    bt_status reason; // of the first round that failed
    char message[1024];
    bool resumable;   // a failed round saves checkpoints: run --resume goes on with it
    bt_status report; // of writing the report, which follows the complete record
    char report_message[1024];
} bt_run_outcome;

// Runs all rounds of all cases sequentially, in the order of schedule.h. Other rounds run after a
// failed round, but not after an interruption. Finally writes the report to the run's folder.
// Errors  those of the store, the data and the file system; a failed round is an outcome, and a
//         report that cannot be written is, too
BT_CHECKED bt_status bt_run_execute(const bt_run_request *request, bt_run_outcome *outcome);
// The exit code of a run: 0 passed, 130 interrupted, otherwise that of the reason.
int bt_run_exit_code(const bt_run_outcome *outcome);

#endif
