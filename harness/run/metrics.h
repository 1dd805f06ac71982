// harness/run/metrics.h - metrics of a run for external monitoring
//
// In the folder of `run --metrics DIR`:
//   metrics.jsonl   one object a line, append-only: events with their time
//   bt_bench.prom   the current state in Prometheus' text format, for the textfile collector of a
//                   node exporter; replaced atomically
// METRICS.md lists the fields; the file itself explains each metric (HELP).
//
// Invariants
//   1. If the folder becomes unwritable, metrics stop and the run continues.
//   2. Unknown values are omitted, never written as zero.
#ifndef BT_HARNESS_RUN_METRICS_H
#define BT_HARNESS_RUN_METRICS_H

#include "harness/run/event.h"

typedef struct bt_metrics bt_metrics;

// The current round. Borrowed until it ends.
typedef struct bt_metrics_round {
    int64_t run;
    const char *name, *system; // of the case
    int64_t ordinal;
    int64_t steps; // planned; 0: a kernel case
} bt_metrics_round;

// Creates the folder if needed. `folder` NULL: no metrics; *out is NULL, which the other functions
// accept.
// Owns    *out: the caller, bt_metrics_close
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_metrics_open(const char *folder, bt_metrics **out);
void bt_metrics_round_begin(bt_metrics *metrics, const bt_metrics_round *round);
void bt_metrics_event(bt_metrics *metrics, const bt_run_event *event);
// Writes the state at most once a second. Called when the event loop is idle.
void bt_metrics_tick(bt_metrics *metrics);
void bt_metrics_round_end(bt_metrics *metrics, const char *status, const char *message);
// Why metrics have stopped; "": they have not.
const char *bt_metrics_failure(const bt_metrics *metrics);
void bt_metrics_close(bt_metrics *metrics);

// Name of metric `index` in the order of the file; NULL past the last.
const char *bt_metrics_name(int index);

#endif
