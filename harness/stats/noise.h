// harness/stats/noise.h - what samples of the machine say about a round, and about two sides
//
// Label, don't discard: a word for each round. Only what makes its time no measurement of the code
// invalidates it. Samples in which the GPU idles (the worker starts, or ends) say nothing about the
// clocks that it was measured at, and are left out of them.
#ifndef BT_HARNESS_STATS_NOISE_H
#define BT_HARNESS_STATS_NOISE_H

#include "harness/record/record.h"

typedef struct bt_noise_verdict {
    bt_noise noise;
    char reason[160]; // "hardware slowdown in 3 of 120 samples"; "" when quiet
} bt_noise_verdict;

// The gravest that holds of
//   throttled        hardware, thermal or power-brake slowdown in any sample
//   foreign process  another process computes on the GPU
//   loaded machine   on the mean the hypervisor took, or the cgroup's limit withheld, 1 % of the
//                    CPU time; or others kept a quarter of a core busy and less than one was idle
// The driver's power limit (software power cap) is none of them: data-centre GPUs run at it under
// full load. bt_telemetry_summary says how often it held clocks down.
void bt_noise_judge(const bt_store_telemetry *samples, int64_t count, bt_noise_verdict *out);

// The round in numbers; NaN: not known.
#define BT_ENERGY_WINDOW_S 0.2

typedef struct bt_telemetry_summary {
    double sm_clock_mhz, memory_clock_mhz, power_w; // medians of the busy samples
    double temperature_c;                           // highest
    double other_cores;                             // mean
    double energy_j;                                // by the GPU's counter, until the last sample
    double work_power_w; // by that counter, between the first and the last busy sample, where they
                         // lie BT_ENERGY_WINDOW_S apart: the counter moves in steps
    double power_cap_share; // of the busy samples, those in which the power cap held clocks down
    double cost_share;      // of the time until the last sample, what all of them took
    uint64_t throttle;      // all bits that were seen
    int64_t busy;           // samples in which the GPU did not idle
} bt_telemetry_summary;

// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_telemetry_summary_of(const bt_store_telemetry *samples, int64_t count,
                                             bt_telemetry_summary *out);

#define BT_CLOCK_TOLERANCE 0.01

// Whether the medians over the rounds of the clocks of two sides lie within 1 % of each other; if
// not, `reason` says how far apart they are. Rounds that have no clocks are left out; a side
// without any is comparable, since nothing is known against it.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_telemetry_clocks_comparable(const bt_store_round *const *left,
                                                    int64_t left_count,
                                                    const bt_store_round *const *right,
                                                    int64_t right_count, bool *comparable,
                                                    char reason[160]);

// The words of all bits, as "power cap, idle"; "" for none.
void bt_throttle_words(uint64_t bits, char *text, size_t size_bytes);

#endif
