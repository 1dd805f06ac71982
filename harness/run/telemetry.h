// harness/run/telemetry.h - samples the machine's state during a round, in the recorder's event
// loop
//
// Between events the recorder reads NVML and /proc. There is no thread and no context on the GPU,
// and no setting is changed.
//
// Invariants
//   1. Telemetry never fails a round: unavailable values are NaN, a failed allocation costs a
//      sample, a GPU that is lost is not queried again.
//   2. Sampling takes at most a twentieth of the recorder's time, however slow the driver is: the
//      pause after a sample is at least twenty times its duration, which is recorded.
//   3. A round has at most BT_TELEMETRY_SAMPLES_MAX samples: beyond that every second one is
//      dropped (its disturbances are merged into its neighbour) and the period doubles.
//
// A process on the GPU belongs to the round if it is in the worker's process group or descends from
// the worker, as ranks do. In a container NVML reports process ids of the host, which cannot be
// matched: then only processes that existed before the worker started count as foreign. In either
// case a process must be seen in two consecutive samples.
#ifndef BT_HARNESS_RUN_TELEMETRY_H
#define BT_HARNESS_RUN_TELEMETRY_H

#include <stdbool.h>
#include <sys/types.h>

#include "framework/base/status.h"
#include "harness/record/telemetry.h"

#define BT_TELEMETRY_PERIOD_MS     100  // with a GPU
#define BT_TELEMETRY_CPU_PERIOD_MS 1000 // of the CPU's columns
#define BT_TELEMETRY_SAMPLES_MAX   20000
#define BT_TELEMETRY_GPUS_MAX      64

typedef struct bt_telemetry bt_telemetry;

// For the rounds of one run. gpu_uuid: of CUDA's device 0, NULL: no GPU is sampled. An unavailable
// device or library is not sampled.
// Owns    the caller, until bt_telemetry_close
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_telemetry_open(const char *gpu_uuid, bt_telemetry **out);
// NULL is allowed.
void bt_telemetry_close(bt_telemetry *telemetry);

// Starts a round and drops earlier samples. worker: leader of its process group. gpus: number of
// CUDA devices that it uses, starting with device 0; a sample covers all of them.
void bt_telemetry_begin(bt_telemetry *telemetry, pid_t worker, int gpus);
// Notes that the round now has this number of training steps, of which the last ended just now, or
// with !ended: was copied from an interrupted round. Later samples have both.
void bt_telemetry_steps(bt_telemetry *telemetry, int64_t steps, bool ended);
// Takes a sample if one is due.
void bt_telemetry_tick(bt_telemetry *telemetry);
// Milliseconds until the next sample, at most `most`.
int bt_telemetry_wait_ms(const bt_telemetry *telemetry, int most);
// Ends the round: takes the last CPU sample, before the worker is waited for.
void bt_telemetry_end(bt_telemetry *telemetry);
// Samples of the round; borrowed until the next begin.
const bt_store_telemetry *bt_telemetry_samples(const bt_telemetry *telemetry, int64_t *count);

#endif
