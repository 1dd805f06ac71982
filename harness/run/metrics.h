// harness/run/metrics.h - a run for who watches from outside: a log of lines, and a file to scrape
//
// In the folder of `run --metrics DIR`:
//   metrics.jsonl   an object a line, appended and never rewritten: what happened, with the time
//   bt_bench.prom   the present state in Prometheus' text format, for the textfile collector of a
//                   node exporter: written under another name and renamed, so a reader never sees
//                   half of it
// harness/run/README.md lists the fields; the file itself explains each metric (HELP).
//
// Invariants
//   1. A folder that cannot be written to any more stops the metrics, not the run.
//   2. What is not known is left out: no zero stands for it.
#ifndef BT_HARNESS_RUN_METRICS_H
#define BT_HARNESS_RUN_METRICS_H

#include "harness/run/event.h"

typedef struct bt_metrics bt_metrics;

// Whose metrics they are from now on. Borrowed until the round ends.
typedef struct bt_metrics_round {
    const char *name, *system; // of the case
    int64_t ordinal;
    int64_t steps; // planned; 0: a kernel case
} bt_metrics_round;

// Makes the folder if it is not there. `folder` NULL: no metrics, *out is NULL, which the other
// functions take.
// Owns    *out: the caller, bt_metrics_close
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_metrics_open(const char *folder, int64_t run, bt_metrics **out);
void bt_metrics_round_begin(bt_metrics *metrics, const bt_metrics_round *round);
void bt_metrics_event(bt_metrics *metrics, const bt_run_event *event);
// Writes the state anew when that was last done a second ago. Call it when the event loop is idle.
void bt_metrics_tick(bt_metrics *metrics);
void bt_metrics_round_end(bt_metrics *metrics, const char *status, const char *message);
// Why nothing is written any more, "" when all is well.
const char *bt_metrics_failure(const bt_metrics *metrics);
void bt_metrics_close(bt_metrics *metrics);

// The names of all metrics, in the order of the file; NULL behind the last.
const char *bt_metrics_name(int index);

#endif
