// harness/record/record.h - the record of a run as plain structs, which stages exchange
//
// A run has rounds (one worker process, one case); a round has steps, evaluations, ranges, kernels,
// memory and measurements. fields.h has the members of each struct as a table, from which the
// database, bundles and JSON are written and read.
//
// Text is UTF-8. Everything that a bt_store_run points to lies in its arena.
#ifndef BT_HARNESS_RECORD_RECORD_H
#define BT_HARNESS_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/mem.h"
#include "framework/base/status.h"
#include "framework/base/str.h"
#include "harness/record/metrics.h"
#include "harness/record/telemetry.h"

// ---- words -------------------------------------------------------------------------------------

// X(enumerator, word): state of a run or a round
#define BT_RUN_STATUS_LIST(X)                                                                      \
    X(RUNNING, "running")                                                                          \
    X(PASSED, "passed")                                                                            \
    X(FAILED, "failed")                                                                            \
    X(INTERRUPTED, "interrupted")                                                                  \
    X(UNAVAILABLE, "unavailable") /* a round of a peer that cannot run it here */                  \
    X(INVALID, "invalid")         /* a disturbed round: not a measurement */

typedef enum bt_run_status {
#define BT_RUN_STATUS_ENUM(name, word) BT_RUN_##name,
    BT_RUN_STATUS_LIST(BT_RUN_STATUS_ENUM)
#undef BT_RUN_STATUS_ENUM
        BT_RUN_STATUS_COUNT
} bt_run_status;

const char *bt_run_status_name(bt_run_status status);

// X(enumerator, word): how much a fact of the environment matters to a comparison. Two runs whose
// hard facts differ are not comparable; soft ones may explain a difference; info is only shown.
#define BT_FACT_LEVEL_LIST(X) X(HARD, "hard") X(SOFT, "soft") X(INFO, "info")

typedef enum bt_fact_level {
#define BT_FACT_LEVEL_ENUM(name, word) BT_FACT_##name,
    BT_FACT_LEVEL_LIST(BT_FACT_LEVEL_ENUM)
#undef BT_FACT_LEVEL_ENUM
        BT_FACT_LEVEL_COUNT
} bt_fact_level;

const char *bt_fact_level_name(bt_fact_level level);

// ---- the record ---------------------------------------------------------------------------------

typedef struct bt_store_suite {
    const char *plan_hash; // identifies the row: hash of the expanded plan
    const char *name;      // "gpt2_124m"
    const char *profile;   // "cpu"
    const char *path;      // suite file
    const char *plan_json; // the expanded plan
} bt_store_suite;

typedef struct bt_store_build {
    const char *digest;     // identifies the row
    const char *version;    // of bt-bench
    const char *git_commit; // "" if unknown
    const char *git_diff;   // digest of uncommitted changes, "" when clean
    const char *compiler;   // name and version
    const char *flags;
    const char *type; // "Release"
    const char *cuda; // toolkit version, "" without
} bt_store_build;

typedef struct bt_store_fact {
    const char *key; // "cpu.model"; facts are kept in the order of their keys
    const char *value;
    bt_fact_level level;
} bt_store_fact;

typedef struct bt_store_env {
    const char *digest; // of the hard facts; runs that share it may have other soft ones
    const bt_store_fact *facts;
    int64_t fact_count;
} bt_store_env;

typedef struct bt_store_run_info {
    bt_store_suite suite;
    bt_store_build build;
    bt_store_env env;
    const char *command; // as typed
    const char *out_dir; // folder of its files
    uint64_t seed;
} bt_store_run_info;

// What a round runs. A bench is the body, a case one point of its axes, a system the program that
// runs it.
typedef struct bt_store_case {
    const char *bench;     // "gpt2_124m"
    const char *kind;      // "training"
    const char *name;      // "bf16", unique in its bench together with axes_json
    const char *axes_json; // the case's settings, a JSON object
    const char *system;    // "blutrain"
} bt_store_case;

// Known after the worker's set-up; all may be zero.
typedef struct bt_store_shape {
    const char *device;    // device name
    const char *precision; // "bf16"
    const char *dataset;   // for display: "books"
    int64_t parameters, tensors;
    int64_t accumulation; // micro-batches per step
    int64_t steps;        // planned
    int64_t train_tokens, val_tokens;
} bt_store_shape;

typedef struct bt_store_step {
    int64_t step; // 0-based, once per round
    float loss;   // stored bit by bit
    float grad_norm;
    double lr;
    int64_t tokens;
    int64_t host_ns, device_ns;                                    // device_ns 0: not measured
    int64_t allocated_bytes, peak_allocated_bytes, reserved_bytes; // device pool
    int64_t resident_bytes;                                        // host RSS
    bool warmup, profiled; // either: the times are not measurements
    int64_t launch_ns;     // of host_ns, until its work was launched; 0: not reported. From events
                           // only: stored as the samples of BT_METRIC_LAUNCH_TIME
} bt_store_step;

typedef struct bt_store_eval {
    int64_t step; // after this number of steps, once per round
    double loss;
    int64_t tokens;
    int64_t host_ns;
} bt_store_eval;

// One NVTX range: over one profiled step.
typedef struct bt_store_range {
    int64_t step;
    const char *path; // "step/forward/block/attention"
    int64_t count;
    int64_t device_ns, host_ns; // totals; device_ns 0: not measured
} bt_store_range;

typedef struct bt_store_kernel {
    const char *op, *kernel; // once per round
} bt_store_kernel;

// Why the step that was to be compiled runs eagerly, if that is what this entry says; else NULL.
const char *bt_store_eager_reason(const bt_store_kernel *kernel);

// A digest of parameters and moments during training (bt_train_state).
typedef struct bt_store_state {
    int64_t step;       // after this number of steps, once per round
    const char *digest; // 32 hex digits
    int64_t host_ns;
} bt_store_state;

// A score on HellaSwag during training (framework/eval/hellaswag.h).
typedef struct bt_store_score {
    int64_t step; // after this number of steps, once per round
    int64_t questions, correct, normalised_correct;
    int64_t host_ns;
} bt_store_score;

// From a step on, training steps were launched differently (bt_train_mode).
typedef struct bt_store_launch {
    int64_t step;
    const char *way, *message; // "graph"
} bt_store_launch;

// How a rank spent one profiled step (framework/base/timeline.h); once per round and rank.
typedef struct bt_store_timeline {
    int64_t step, rank;
    int64_t start_ns; // after the first rank's
    int64_t time_ns;
    int64_t products_ns, attention_ns, other_ns;
    int64_t communication_ns;  // exposed: nothing was computed in that time
    const char *work, *phases; // one letter of the lists per equal part of the step
} bt_store_timeline;

// A kernel of compiled steps with all groups that it runs in a micro-batch, or the ungrouped calls
// (bt_train_group); once per round, direction and kernel.
typedef struct bt_store_group {
    const char *direction, *kind, *kernel, *ops; // kind "": ungrouped calls
    int64_t count, calls, bytes_before, bytes_after, time_ns;
} bt_store_group;

// The time of a kernel's calls run one by one on the same batch, without groups; the kernels for
// which it was measured.
typedef struct bt_store_group_calls {
    const char *direction, *kernel;
    int64_t time_ns;
} bt_store_group_calls;

// A fault detected during training (framework/train/train.h has the kinds).
typedef struct bt_store_fault {
    int64_t step;
    const char *kind, *action; // "nonfinite_loss", "skip"
    const char *message;
} bt_store_fault;

typedef struct bt_store_memory {
    const char *phase;                                 // "train", "eval"; once per round
    int64_t peak_allocated_bytes, peak_reserved_bytes; // our allocator
    int64_t device_used_bytes;                         // as the device reports it, 0: unknown
    int64_t peak_resident_bytes;                       // host
} bt_store_memory;

typedef struct bt_store_measurement {
    bt_metric metric;
    double value;          // of a time: the mean of its samples (earlier versions: the median)
    double low, high;      // 95 % interval; NaN: none
    const double *samples; // [sample_count], in the metric's unit; NULL: none kept
    int64_t sample_count;
} bt_store_measurement;

typedef struct bt_store_artifact {
    const char *kind; // "report", "log"
    const char *path; // relative to bt-bench's working directory, or absolute
    int64_t size_bytes;
    const char *digest; // "" when not computed
} bt_store_artifact;

// A verdict on a case or a claim. The rule has everything that the judgement needed besides the
// rounds of the run, so that it can be repeated.
typedef struct bt_store_verdict {
    const char *kind;        // "ab", "gate", "replicate"
    const char *subject;     // case, or claim's id; once per kind and metric
    const char *metric;      // tag of the metric, "" for the whole case
    const char *verdict;     // "SAME", "NOT REPLICATED"
    double ratio, low, high; // measured value and its interval; NaN: none
    int64_t rounds;          // pairs of rounds that it was computed from
    const char *reason;      // "" if the numbers are sufficient
    const char *rule_json;   // tolerance, alpha, baseline, claim ...: a JSON object
} bt_store_verdict;

// A system of a session with its own systems: its build.
typedef struct bt_store_system {
    const char *name;       // "base", as in bt_store_case
    const char *program;    // "" for the program that recorded
    double inject_slowdown; // fraction by which it was made slower on purpose; 0: none
    bt_store_build build;
} bt_store_system;

// The order of a session's rounds and their number (harness/run/schedule.h).
typedef struct bt_store_schedule {
    uint64_t seed;                  // 0: in the plan's order
    const char *kind;               // "ab", "calibrate": the rule for the number of rounds; "":
                                    // fixed
    const char *rule_json;          // parameters of that rule, "" if none
    const bt_store_system *systems; // [system_count]; none: those of the plan
    int64_t system_count;
} bt_store_schedule;

// A gap in a run: it stopped with `status`, and was resumed. If it was killed, it stopped when a
// round was last written to.
typedef struct bt_store_gap {
    int64_t stopped_ns, resumed_ns; // wall clock
    bt_run_status status;
} bt_store_gap;

// A calibration of a case in an environment: error rates of a rule with pairs.
typedef struct bt_store_calibration {
    int64_t run;              // the newest session that it was made from
    const char *environment;  // digest of the hard facts that concern the case
    const char *card;         // digest of the GPU's UUID; "": none, or unknown
    const char *bench, *name; // of the case
    const char *metric;       // tag of the metric
    const char *rule_json;    // the rule, without its family
    int64_t pairs, needed;    // pairs of rounds used; with fewer than needed no rate is known
    int64_t sessions;         // that they come from
    int64_t made_ns;          // wall clock
    // Fraction of decisions on equal builds that found a difference, and the smallest slowdown (a
    // fraction) that is detected nine times in ten; each with its upper 95 % bound. NaN: unknown.
    double false_alarm_rate, false_alarm_high;
    double smallest, smallest_high;
} bt_store_calibration;

// A copy of a file that a run was made from.
typedef struct bt_store_file {
    const char *kind;  // "suite", "claims": lower case; once per run
    const char *name;  // path used in messages
    const char *bytes; // a text; read back with a zero byte after it
    int64_t size_bytes;
} bt_store_file;

// A baseline.
typedef struct bt_store_baseline {
    int64_t id;
    const char *name;
    const char *machine; // machine type: "nvidia-h200"
    const char *reason;
    int64_t run; // that it was made from; 0: it came from a file
    int64_t created_ns;
    const char *document; // harness/gate/baseline.h; NULL in a list
} bt_store_baseline;

// ---- a run -------------------------------------------------------------------------------------

typedef struct bt_store_round {
    int64_t id, ordinal;
    bt_store_case what;
    bt_store_shape shape;
    bt_run_status status;
    const char *message, *params_digest;
    int64_t started_ns, ended_ns; // wall clock; ended_ns 0: not ended
    const bt_store_step *steps;   // ascending
    int64_t step_count;
    const bt_store_eval *evals; // ascending
    int64_t eval_count;
    const bt_store_range *ranges; // in the order recorded
    int64_t range_count;
    const bt_store_kernel *kernels; // by op, kernel
    int64_t kernel_count;
    const bt_store_score *scores; // ascending
    int64_t score_count;
    const bt_store_state *states; // ascending
    int64_t state_count;
    const bt_store_launch *launches; // in the order recorded
    int64_t launch_count;
    const bt_store_timeline *timelines; // by rank
    int64_t timeline_count;
    const bt_store_group *groups; // in the order recorded
    int64_t group_count;
    const bt_store_group_calls *group_calls;
    int64_t group_calls_count;
    const bt_store_fault *faults; // in the order recorded
    int64_t fault_count;
    const bt_store_memory *memory; // in the order recorded
    int64_t memory_count;
    const bt_store_measurement *measurements; // by metric
    int64_t measurement_count;
    bool superseded;   // a later round of the same case, system and ordinal exists
    const char *label; // a word of BT_NOISE_LIST; "": quiet, or not checked
    const bt_store_telemetry *telemetry; // in the order taken
    int64_t telemetry_count;
} bt_store_round;

typedef struct bt_store_run {
    int64_t id;
    bt_store_run_info info;
    bt_run_status status;
    const char *message;
    int64_t started_ns, ended_ns; // wall clock; ended_ns 0: not ended
    int64_t process_id;
    const char *name, *note;      // of the user, on this machine alone; "" or NULL: none
    const bt_store_round *rounds; // in the order begun
    int64_t round_count;
    const bt_store_artifact *artifacts; // in the order recorded
    int64_t artifact_count;
    const bt_store_file *files; // by kind
    int64_t file_count;
    const bt_store_verdict *verdicts; // by kind, in the order set
    int64_t verdict_count;
    bt_store_schedule schedule;
    const bt_store_gap *gaps; // in order of time; none: uninterrupted
    int64_t gap_count;
    bt_arena arena; // arena of everything that this struct points to
} bt_store_run;

// The value of a fact, NULL if there is none. Borrowed.
const char *bt_fact_of(const bt_store_env *env, const char *key);
// XXH3-128 of bytes as 32 hex digits: identifies plans, builds, environments and files.
void bt_record_digest(const void *bytes, size_t size_bytes, char hex[33]);
// The same for a text, which is released. If writing the text failed, returns that error and no
// digest.
BT_CHECKED bt_status bt_record_digest_str(bt_str *text, char hex[33]);
// Sets `superseded` of rounds in the order begun, for code that reads them from another source.
void bt_store_rounds_mark(bt_store_round *rounds, int64_t count);
// A zeroed run is allowed.
void bt_store_run_release(bt_store_run *run);

#endif
