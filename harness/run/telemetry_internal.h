// harness/run/telemetry_internal.h - the samplers of GPU and CPU
#ifndef BT_HARNESS_RUN_TELEMETRY_INTERNAL_H
#define BT_HARNESS_RUN_TELEMETRY_INTERNAL_H

#include <sched.h>

#include "harness/env/nvml.h"
#include "harness/run/telemetry.h"

enum { GPU_PROCESSES_MAX = 64 };

typedef struct gpu_watch {
    bt_nvml nvml;
    bool open, lost;
    bool same_numbers; // NVML's process ids are those of this process's namespace
    bt_nvml_device device;
    pid_t worker;
    unsigned before[GPU_PROCESSES_MAX]; // processes that existed before the worker
    unsigned before_count;
    int64_t slow_at_ns;  // time of the last sample of slowly changing values
    double foreign;      // in the last sample; NaN: unknown
    double foreign_last; // in the sample before
    double memory_clock_mhz, temperature_c;
    double energy_began_j; // by the counter, when the round began; NaN: not known
} gpu_watch;

// The device with this UUID, or, where that is NULL, the one that CUDA calls `ordinal`.
void bt_gpu_watch_open(gpu_watch *gpu, const char *uuid, int ordinal);
void bt_gpu_watch_close(gpu_watch *gpu);
void bt_gpu_watch_begin(gpu_watch *gpu, pid_t worker);
// Fills the columns of the GPU.
void bt_gpu_watch_sample(gpu_watch *gpu, int64_t now_ns, bt_store_telemetry *out);

// Joules since the round began; NaN: unknown.
double bt_gpu_watch_energy(gpu_watch *gpu);
// Merges another GPU's values into a sample: lowest clocks, sum of powers, highest temperature, all
// throttle reasons, maximum of foreign processes. Idle if all are idle.
void bt_gpu_watch_merge(const bt_store_telemetry *other, bt_store_telemetry *sample);

// Sums since boot over the cores that this process may use; NaN: unknown.
typedef struct cpu_sums {
    int64_t at_ns;
    double busy_s, idle_s, steal_s; // core seconds
    double own_s;                   // of worker, its descendants and this process
    double held_s, switches;
} cpu_sums;

typedef struct cpu_watch {
    cpu_set_t allowed;
    int allowed_count;
    pid_t worker;
    char cgroup_stat[640]; // path
    cpu_sums last;
} cpu_watch;

void bt_cpu_watch_begin(cpu_watch *cpu, pid_t worker);
// Fills the CPU columns with the differences since the last sample.
void bt_cpu_watch_sample(cpu_watch *cpu, bt_store_telemetry *out);

// Drops every second sample, in place; disturbances of a dropped sample (throttle bits, other
// processes) are merged into the one before it. Returns the new count.
int64_t bt_telemetry_thin(bt_store_telemetry *samples, int64_t count);

#endif
