// harness/run/running.h - state of a run in progress; private to this folder
#ifndef BT_HARNESS_RUN_RUNNING_H
#define BT_HARNESS_RUN_RUNNING_H

#include "harness/env/facts.h"
#include "harness/run/ahead.h"
#include "harness/run/data.h"
#include "harness/run/lock.h"
#include "harness/run/metrics.h"
#include "harness/run/progress.h"
#include "harness/run/run.h"
#include "harness/run/telemetry.h"
#include "harness/run/versions.h"

typedef struct bt_running {
    const bt_run_request *request;
    bt_run_outcome *outcome;
    bt_store *store;
    bt_str out_dir;
    bt_run_data *data; // owned, [case_count]
    bt_facts facts;
    bt_store_run_info info; // of this program, plan and machine; borrows from request and facts
    char build_digest[33];
    bt_store_run recorded;      // owned: the record of a resumed run
    const bt_store_run *record; // that, or NULL
    bt_progress_view view;
    bt_peers peers;         // owned: the plan's systems; empty: the request names others
    const bt_peer *systems; // [system_count], on which the cases run: the request's, or the plan's
    int64_t system_count;
    bt_run_schedule schedule;
    bt_versions versions;     // of peers
    bt_ahead ahead;           // peers that were started early
    bt_telemetry *telemetry;  // owned
    bt_metrics *metrics;      // owned; NULL: no metrics
    bt_device_lock locks[64]; // [lock_count] of the GPUs that the plan uses
    int lock_count;
    double copy_bytes_per_s[3];   // of this run, by cache mode; 0: not yet
    double product_flop_per_s[4]; // of this run's large products, by type; 0: not yet
} bt_running;

// running_lock.c: waits until no other run has a GPU that the plan uses. If lock files cannot be
// created, the run continues without. Errors  INTERRUPTED (a signal while waiting)
BT_CHECKED bt_status bt_running_lock(bt_running *self);
// Writes this run as the owner into its locks.
void bt_running_sign(bt_running *self);
void bt_running_unlock(bt_running *self);
// GPUs that a case's ranks use, the product of the sizes that its mesh names, and the most that a
// case of the plan uses: CUDA's 0 to N - 1.
int bt_running_gpus_of(const cJSON *item);
int bt_running_gpus(const bt_plan *plan);
// resume.c: loads the run of the request, which must be of this plan, build and machine.
BT_CHECKED bt_status bt_running_resume(bt_running *self);
// Restores state from the record of a resumed run: rounds, failures, ceilings.
BT_CHECKED bt_status bt_running_note_record(bt_running *self);
// The measured copy rate of this case's cache mode, and product rate of its type; NULL if the case
// has no such mode or type.
double *bt_running_copy_of(bt_running *self, const cJSON *item);
double *bt_running_product_of(bt_running *self, const cJSON *item);
// Whether logs name the system: our own worker only if the request names several systems.
bool bt_running_is_named(const bt_running *self, const bt_peer *peer);
// The program that runs the cases of a system, NULL: our own worker; and the system's name in the
// record: its own, or else the last part of the program's path.
const char *bt_running_worker_of(const bt_running *self, const bt_peer *peer);
const char *bt_running_name_of(const bt_running *self, const bt_peer *peer);
// Stores the result of a ceiling's round, as a reference for other cases; no effect for rounds of
// other cases or without a result.
void bt_running_take_ceiling(bt_running *self, const cJSON *item, double bandwidth_bytes_per_s,
                             double time_ns);
// Creates the schedule, including the rounds of a resumed run; no effect if it exists.
BT_CHECKED bt_status bt_running_schedule(bt_running *self);
// Runs rounds until the schedule is complete or a signal is received.
BT_CHECKED bt_status bt_running_rounds(bt_running *self);
// Records a file of the run, if it exists.
BT_CHECKED bt_status bt_running_artifact(const bt_running *self, const char *kind,
                                         const char *path);

#endif
