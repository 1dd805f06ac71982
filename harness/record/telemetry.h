// harness/record/telemetry.h - the machine's state during a round: samples and a label
//
// Unavailable numbers are NaN. The table below is also the record's format: columns are stored by
// name, so that more can be added. For a round on several GPUs: the lowest clocks, the sums of
// power and energy, the highest temperature, all reasons of throttling.
#ifndef BT_HARNESS_RECORD_TELEMETRY_H
#define BT_HARNESS_RECORD_TELEMETRY_H

#include <stdbool.h>
#include <stdint.h>

// X(member, unit, description)
#define BT_TELEMETRY_FIRST_LIST(X)                                                                 \
    X(t_ns, "ns", "since the round began")                                                         \
    X(sm_clock_mhz, "MHz", "clock of the GPU's multiprocessors")                                   \
    X(memory_clock_mhz, "MHz", "clock of the GPU's memory")                                        \
    X(power_w, "W", "power draw of the GPU")                                                       \
    X(energy_j, "J", "energy that the GPU has drawn since the round began, by its own counter")    \
    X(temperature_c, "C", "temperature of the GPU")                                                \
    X(throttle, "", "reasons why the GPU's clocks are reduced: bits of bt_throttle")               \
    X(other_processes, "", "processes on the GPU other than the round's own")                      \
    X(cpu_clock_mhz, "MHz", "clock of a processor core that may be used")                          \
    X(load, "", "processes that run or wait for the CPU, mean of a minute")                        \
    X(other_cores, "", "processor cores that other processes keep busy")                           \
    X(idle_cores, "", "idle processor cores")                                                      \
    X(steal_share, "", "share of the CPU time that the hypervisor gave to others")                 \
    X(held_share, "", "share of the time in which the cgroup's CPU limit stopped threads")         \
    X(switches_per_s, "1/s", "context switches of the whole machine")                              \
    X(cost_ns, "ns", "time that taking this sample took")

// Columns of later versions: bundles omit their unknown values, as in those of earlier versions.
#define BT_TELEMETRY_LATER_LIST(X)                                                                 \
    X(steps, "", "training steps of the round that have ended")                                    \
    X(step_ended_ns, "ns", "when the last of them ended, since the round began")

#define BT_TELEMETRY_LIST(X)                                                                       \
    BT_TELEMETRY_FIRST_LIST(X)                                                                     \
    BT_TELEMETRY_LATER_LIST(X)

typedef struct bt_store_telemetry {
#define BT_TELEMETRY_MEMBER(member, unit, description) double member;
    BT_TELEMETRY_LIST(BT_TELEMETRY_MEMBER)
#undef BT_TELEMETRY_MEMBER
} bt_store_telemetry;

#define BT_TELEMETRY_ONE(member, unit, description) +1
enum { BT_TELEMETRY_COLUMNS = 0 BT_TELEMETRY_LIST(BT_TELEMETRY_ONE) };
#undef BT_TELEMETRY_ONE

typedef struct bt_telemetry_column {
    const char *name, *unit, *description;
} bt_telemetry_column;

// Column i, in the order of the struct's members.
const bt_telemetry_column *bt_telemetry_column_info(int index);
double bt_telemetry_value(const bt_store_telemetry *sample, int index);

// Reasons of clock throttling, as NVML defines them: X(enumerator, bit, word, invalidates a round).
// Source: NVML API Reference, nvmlClocksEventReasons
#define BT_THROTTLE_LIST(X)                                                                        \
    X(IDLE, 0x1, "idle", false)                                                                    \
    X(APPLICATION_CLOCKS, 0x2, "application clocks", false)                                        \
    X(POWER_CAP, 0x4, "power cap", false)                                                          \
    X(HARDWARE, 0x8, "hardware slowdown", true)                                                    \
    X(SYNC_BOOST, 0x10, "sync boost", false)                                                       \
    X(SOFTWARE_THERMAL, 0x20, "software thermal slowdown", true)                                   \
    X(HARDWARE_THERMAL, 0x40, "hardware thermal slowdown", true)                                   \
    X(POWER_BRAKE, 0x80, "power brake", true)                                                      \
    X(DISPLAY_CLOCKS, 0x100, "display clocks", false)

typedef enum bt_throttle {
#define BT_THROTTLE_ENUM(name, bit, word, invalidates) BT_THROTTLE_##name = (bit),
    BT_THROTTLE_LIST(BT_THROTTLE_ENUM)
#undef BT_THROTTLE_ENUM
} bt_throttle;

// A round's label, the most severe first. The software power cap is not noise: it is normal for
// data-centre GPUs under full load. X(enumerator, word, invalidates the round)
#define BT_NOISE_LIST(X)                                                                           \
    X(THROTTLED, "throttled", true)                                                                \
    X(FOREIGN_PROCESS, "foreign process", true)                                                    \
    X(LOADED, "loaded machine", false)                                                             \
    X(QUIET, "", false)

typedef enum bt_noise {
#define BT_NOISE_ENUM(name, word, invalidates) BT_NOISE_##name,
    BT_NOISE_LIST(BT_NOISE_ENUM)
#undef BT_NOISE_ENUM
        BT_NOISE_COUNT
} bt_noise;

const char *bt_noise_name(bt_noise noise);
// False for an unknown word.
bool bt_noise_parse(const char *word, bt_noise *noise);
bool bt_noise_invalidates(bt_noise noise);

#endif
