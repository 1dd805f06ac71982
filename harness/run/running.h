// harness/run/running.h - a run while it goes on; private to this folder
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
    bt_store_run recorded;      // owned: what a resumed run had
    const bt_store_run *record; // that, or NULL
    bt_progress_view view;
    bt_peers peers; // empty: the request's systems
    bt_run_schedule schedule;
    bt_versions versions;     // of peers
    bt_ahead ahead;           // peers that wait for their turn
    bt_telemetry *telemetry;  // owned
    bt_metrics *metrics;      // owned; NULL: nobody watches from outside
    bt_device_lock locks[64]; // [lock_count] of the GPUs that the plan uses
    int lock_count;
    double copy_bytes_per_s[3];   // of this run, by cache mode; 0: not yet
    double product_flop_per_s[4]; // of this run's large products, by type; 0: not yet
} bt_running;

// running_lock.c: waits until no other run has a GPU that the plan uses; a lock that cannot be had
// at all holds nothing up. Errors  INTERRUPTED (a signal while waiting)
BT_CHECKED bt_status bt_running_lock(bt_running *self);
// Says in the locks which run has them.
void bt_running_sign(bt_running *self);
void bt_running_unlock(bt_running *self);
// GPUs that a case's ranks use, the product of the sizes that its mesh names, and the most that a
// case of the plan uses: CUDA's 0 to N - 1.
int bt_running_gpus_of(const cJSON *item);
int bt_running_gpus(const bt_plan *plan);
// The systems that the cases run on: the request's, or the plan's.
const bt_peer *bt_running_systems(const bt_running *self, int64_t *count);
// resume.c: takes up the run of the request, which must be of this plan, build and machine.
BT_CHECKED bt_status bt_running_resume(bt_running *self);
// Notes what a resumed run had: rounds in the schedule, failures, what ceilings reached.
BT_CHECKED bt_status bt_running_note_record(bt_running *self);
// Where what the copy of this case's cache mode reached is kept, and the large product of its type;
// NULL when it has no such mode or type.
double *bt_running_copy_of(bt_running *self, const cJSON *item);
double *bt_running_product_of(bt_running *self, const cJSON *item);
// Our own worker has no name in logs, unless it is one of several systems that the request names.
bool bt_running_is_named(const bt_running *self, const bt_peer *peer);
// Keeps what a round of a ceiling reached, for the cases that are held against it; a round of
// anything else, or without a result, changes nothing.
void bt_running_take_ceiling(bt_running *self, const cJSON *item, double bandwidth_bytes_per_s,
                             double time_ns);
// Makes the schedule of the rounds, with what a resumed run had; nothing if there is one.
BT_CHECKED bt_status bt_running_schedule(bt_running *self);
// Runs what the schedule asks for, until it asks for nothing or a signal comes.
BT_CHECKED bt_status bt_running_rounds(bt_running *self);
// Records a file of the run, if it is there.
BT_CHECKED bt_status bt_running_artifact(const bt_running *self, const char *kind,
                                         const char *path);

#endif
