// harness/run/telemetry.h - watches the machine beside a round, from the recorder's event loop
//
// The worker does the work; the process that records it asks NVML and /proc how the machine is, in
// between events. No thread, no context on the GPU, nothing is set.
//
// Invariants
//   1. Telemetry never fails a round: what cannot be had is NaN, a failed allocation costs a
//   sample,
//      a GPU that is lost is not asked again.
//   2. Sampling takes at most a twentieth of the recorder's time, however slow the driver answers:
//      the pause after a sample is at least twenty times what it took, which the sample says.
//   3. A round has at most BT_TELEMETRY_SAMPLES_MAX samples: beyond that every second one is
//      dropped (what it had against the round goes to its neighbour) and the period doubles.
//
// A process on the GPU is the round's own when it is in the worker's process group or descends from
// the worker, as ranks do. In a container
// NVML counts processes by numbers of the host, which say nothing here: then only those count as
// foreign that were there before the worker started. Either way it must be seen twice in a row.
#ifndef BT_HARNESS_RUN_TELEMETRY_H
#define BT_HARNESS_RUN_TELEMETRY_H

#include <sys/types.h>

#include "framework/base/status.h"
#include "harness/record/telemetry.h"

#define BT_TELEMETRY_PERIOD_MS     100  // with a GPU
#define BT_TELEMETRY_CPU_PERIOD_MS 1000 // of the CPU's columns
#define BT_TELEMETRY_SAMPLES_MAX   20000
#define BT_TELEMETRY_GPUS_MAX      64

typedef struct bt_telemetry bt_telemetry;

// For the rounds of one run. gpu_uuid: of CUDA's device 0, NULL: no GPU is watched. A device or a
// library that cannot be had is not watched. Owns    the caller, until bt_telemetry_close Errors
// OUT_OF_MEMORY
BT_CHECKED bt_status bt_telemetry_open(const char *gpu_uuid, bt_telemetry **out);
// NULL is fine.
void bt_telemetry_close(bt_telemetry *telemetry);

// A round begins; earlier samples are forgotten. worker: leader of its process group. gpus: that it
// uses, CUDA's devices from the opened one, 0, on; a sample is of all of them.
void bt_telemetry_begin(bt_telemetry *telemetry, pid_t worker, int gpus);
// Takes a sample if it is time.
void bt_telemetry_tick(bt_telemetry *telemetry);
// Milliseconds until it is time, at most `most`.
int bt_telemetry_wait_ms(const bt_telemetry *telemetry, int most);
// The round ends: the last sample, of the CPU, before the worker is buried.
void bt_telemetry_end(bt_telemetry *telemetry);
// Samples of the round; borrowed until the next begin.
const bt_store_telemetry *bt_telemetry_samples(const bt_telemetry *telemetry, int64_t *count);

#endif
