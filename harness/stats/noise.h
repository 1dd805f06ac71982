// harness/stats/noise.h - classifies rounds by samples of the machine, and compares clocks of two
// sides
//
// Each round gets a label; rounds are not discarded. Only disturbances that make the time
// meaningless invalidate it. Samples in which the GPU is idle (the worker starts, or ends) are
// excluded from clocks and power. So are samples of a training round outside its timed steps: a GPU
// whose worker compiles, validates or saves is not marked idle.
#ifndef BT_HARNESS_STATS_NOISE_H
#define BT_HARNESS_STATS_NOISE_H

#include "harness/record/record.h"

typedef struct bt_noise_verdict {
    bt_noise noise;
    char reason[160]; // "hardware slowdown in 3 of 120 samples"; "" if quiet
} bt_noise_verdict;

// The most severe that applies:
//   throttled        hardware, thermal or power-brake slowdown in any sample
//   foreign process  another process computes on the GPU
//   loaded machine   on average the hypervisor took, or the cgroup's limit withheld, 1 % of the CPU
//                    time; or other processes kept a quarter of a core busy and less than one core
//                    was idle
// The driver's power limit (software power cap) is not noise: data-centre GPUs run at it under full
// load. bt_telemetry_summary reports how often it limited clocks.
void bt_noise_judge(const bt_store_telemetry *samples, int64_t count, bt_noise_verdict *out);

// Number of steps of a training round that were copied from an interrupted one: when they ended is
// not known.
int64_t bt_telemetry_copied_steps(const bt_store_round *round);
// Whether the sample has the end of the step before it; records of earlier versions do not.
bool bt_telemetry_has_end(const bt_store_round *round, const bt_store_telemetry *sample);
// Time of a step and of the evaluations between it and the step before, if that was not copied.
double bt_telemetry_step_time(const bt_store_round *round, int64_t copied, int64_t index);
// When a step ended, in ns since the round began, from the first sample that has the end of it or
// of a later one: *known. NaN: unknown.
double bt_telemetry_step_end(const bt_store_round *round, int64_t copied, int64_t index,
                             int64_t *known);

// The time of a training round from the begin of its first timed step to the end of its last one
// (if none is timed: of all steps), in ns since the round began. False if the samples do not
// have the times of steps: other cases, and records of earlier versions.
bool bt_telemetry_window(const bt_store_round *round, double *begin_ns, double *end_ns);

// The round in numbers; NaN: unknown. A sample counts as busy if the GPU is not idle and, where the
// round has a window, if it lies in that.
#define BT_ENERGY_WINDOW_S 0.2

typedef struct bt_telemetry_summary {
    double sm_clock_mhz, memory_clock_mhz, power_w; // medians of the busy samples
    double temperature_c;                           // highest
    double other_cores;                             // mean
    double energy_j;                                // by the GPU's counter, until the last sample
    double work_power_w; // by that counter, between the first and the last busy sample, if they are
                         // BT_ENERGY_WINDOW_S apart: the counter advances in steps
    double power_cap_share; // number of busy samples limited by the power cap
    double cost_share;      // fraction of the time until the last sample that sampling took
    uint64_t throttle;      // all bits that were seen
    int64_t busy;           // number of samples in which the GPU was busy
} bt_telemetry_summary;

// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_telemetry_summary_of(const bt_store_round *round,
                                             bt_telemetry_summary *out);

#define BT_CLOCK_TOLERANCE 0.01

// Whether the medians over the rounds of the clocks of two sides are within 1 % of each other; if
// not, `reason` gives the difference. Rounds without clocks are ignored; a side without any is
// comparable.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_telemetry_clocks_comparable(const bt_store_round *const *left,
                                                    int64_t left_count,
                                                    const bt_store_round *const *right,
                                                    int64_t right_count, bool *comparable,
                                                    char reason[160]);

// The words of all bits, as "power cap, idle"; "" for none.
void bt_throttle_words(uint64_t bits, char *text, size_t size_bytes);

#endif
