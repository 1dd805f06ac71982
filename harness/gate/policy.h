// harness/gate/policy.h - what a gate allows: a JSON file, checked, and its rules for each case
//
// The keys are rows of harness/suite/policy_keys.inl. Defaults are filled in, so that every key has
// a value; overrides are looked up per case and metric, the last one that sets a key wins.
#ifndef BT_HARNESS_GATE_POLICY_H
#define BT_HARNESS_GATE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/record/metrics.h"
#include "harness/suite/json.h"

// How a metric is judged. Of time and rate only one decides, because they are one measurement: the
// rate is shown beside the time.
typedef enum bt_gate_way {
    BT_GATE_WAY_TOTAL,    // the total time of a round (stats/summary.h)
    BT_GATE_WAY_P95,      // its 95th percentile, if both sides have one
    BT_GATE_WAY_SHOWN,    // not judged (except by rules of version 1)
    BT_GATE_WAY_RECOVERY, // the mean of the round's recoveries, with a separate tolerance
    BT_GATE_WAY_MEMORY,
    BT_GATE_WAY_LOSS // by its curve
} bt_gate_way;

// X(enumerator, tag in policy, verdict and JSON, metric that is judged, method, name in text).
#define BT_GATE_METRIC_LIST(X)                                                                     \
    X(TIME, "time_ns", BT_METRIC_TIME, TOTAL, "time")                                              \
    X(TIME_P95, "time_p95_ns", BT_METRIC_TIME_P95, P95, "95th percentile")                         \
    X(STEP_TIME, "step_time_ns", BT_METRIC_STEP_TIME, TOTAL, "step time")                          \
    X(STEP_TIME_P95, "step_time_p95_ns", BT_METRIC_STEP_TIME_P95, P95,                             \
      "95th percentile of the step time")                                                          \
    X(RECOVERY, "recovery_ns", BT_METRIC_RECOVERY, RECOVERY, "recovery")                           \
    X(RECOVERY_DETECT, "recovery_detect_ns", BT_METRIC_RECOVERY_DETECT, RECOVERY,                  \
      "detection of a lost rank")                                                                  \
    X(TOKENS_PER_S, "tokens_per_s", BT_METRIC_TOKENS_PER_S, SHOWN, "tokens/s")                     \
    X(MEMORY, "peak_allocated_bytes", BT_METRIC_PEAK_ALLOCATED, MEMORY, "peak memory")             \
    X(LOSS, "loss", BT_METRIC_COUNT, LOSS, "loss")

typedef enum bt_gate_metric {
#define BT_GATE_METRIC_ENUM(name, tag, metric, way, words) BT_GATE_##name,
    BT_GATE_METRIC_LIST(BT_GATE_METRIC_ENUM)
#undef BT_GATE_METRIC_ENUM
        BT_GATE_METRIC_COUNT
} bt_gate_metric;

typedef struct bt_gate_metric_row {
    const char *tag;
    bt_metric metric; // BT_METRIC_COUNT: none
    bt_gate_way way;
    const char *words;
} bt_gate_metric_row;

const bt_gate_metric_row *bt_gate_metric_info(bt_gate_metric metric);
bool bt_gate_metric_parse(const char *tag, bt_gate_metric *metric);

// X(enumerator, word in a policy): reasons that may excuse an undecided verdict
#define BT_GATE_ALLOW_LIST(X)                                                                      \
    X(INCONCLUSIVE, "inconclusive")                                                                \
    X(NEW, "new")                                                                                  \
    X(MISSING, "missing")                                                                          \
    X(INCOMPARABLE, "incomparable")

typedef enum bt_gate_allow {
#define BT_GATE_ALLOW_ENUM(name, word) BT_GATE_ALLOW_##name,
    BT_GATE_ALLOW_LIST(BT_GATE_ALLOW_ENUM)
#undef BT_GATE_ALLOW_ENUM
        BT_GATE_ALLOW_COUNT
} bt_gate_allow;

typedef struct bt_policy {
    cJSON *root;      // owned; the file with all defaults
    const char *name; // inside root
    char digest[33];  // of its canonical text with all defaults
    int64_t rounds;   // maximum per case and side
    double false_alarm_rate, miss_rate, clock_tolerance;
    double inconclusive_limit; // fraction
    bool calibration_required;
    double calibration_false_alarm_rate, calibration_smallest_tolerances;
    int64_t calibration_days;
} bt_policy;

// Reads a policy: a file, or the name of one under suites/policies/ of the working directory or
// else the installation; NULL is "default".
// Owns    *out: the caller, bt_policy_release; nothing on failure
// Errors  INVALID_ARGUMENT (no such file; file:line:column of a mistake), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_policy_load(const char *given, bt_policy *out);
// The same from text in memory; `path` is used in messages.
BT_CHECKED bt_status bt_policy_parse(const char *path, const char *text, size_t size_bytes,
                                     bt_policy *out);
// A zeroed policy is allowed.
void bt_policy_release(bt_policy *policy);

// The values for one case and metric.
typedef struct bt_gate_rule {
    double tolerance;          // fraction, of times
    double inconclusive_limit; // an INCONCLUSIVE time passes if its interval ends below 1 + this
    double memory_tolerance_bytes; // of the peak
    const char *loss;              // tier; borrowed from the policy
    bool gated;                    // false: shown, never fails
    bool allow[BT_GATE_ALLOW_COUNT];
    const char *reason; // of the last matching override, "" if none; borrowed
} bt_gate_rule;

// `metric` BT_GATE_METRIC_COUNT: for the case as a whole. `training`: of a training case;
// `base_ns`: its median time on the base side, NaN when not known. A 95th percentile may stay
// INCONCLUSIVE up to the limit, because the total decides.
bt_gate_rule bt_policy_rule(const bt_policy *policy, const char *name, bt_gate_metric metric,
                            bool training, double base_ns);

#endif
