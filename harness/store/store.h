// harness/store/store.h - the record of every run, in SQLite: written while it goes on, read back
//
// A run is a row of `session`; it has rounds (one worker process, one case), and a round has steps,
// evaluations, ranges, kernels, memory and measurements. Suites, builds and environments are kept
// once each, under their digest. Nobody else writes SQL.
//
// Invariants
//   1. A row is either wholly in the database or not at all; what was flushed survives a kill.
//   2. The write lock is held only while a flush runs (milliseconds), so several runs record into
//      one database at once.
//   3. Rows of one round reach the database in the order in which they were given.
//   4. A run whose process is gone without an end reads as 'interrupted', and so do its rounds.
//   5. Losses come back with the bits that they were recorded with, NaN included.
//
// Text given is UTF-8, borrowed for the call and copied; NULL counts as "". A handle belongs to
// one thread. Every fallible call's message names the database file.
// Errors common to all calls that touch the file: IO (missing, unwritable, disk full),
// UNAVAILABLE (locked for longer than the timeout, or damaged: exit code 4), OUT_OF_MEMORY.
#ifndef BT_HARNESS_STORE_STORE_H
#define BT_HARNESS_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/mem.h"
#include "framework/base/status.h"
#include "framework/base/str.h"
#include "harness/store/metrics.h"
#include "harness/store/telemetry.h"

typedef struct bt_store bt_store;

// ---- words -------------------------------------------------------------------------------------

// X(enumerator, word): state of a run or a round
#define BT_RUN_STATUS_LIST(X)                                                                      \
    X(RUNNING, "running")                                                                          \
    X(PASSED, "passed")                                                                            \
    X(FAILED, "failed")                                                                            \
    X(INTERRUPTED, "interrupted")                                                                  \
    X(UNAVAILABLE, "unavailable") /* a round of a peer that cannot run it here */                  \
    X(INVALID, "invalid")         /* a round that the machine disturbed: no measurement */

typedef enum bt_run_status {
#define BT_RUN_STATUS_ENUM(name, word) BT_RUN_##name,
    BT_RUN_STATUS_LIST(BT_RUN_STATUS_ENUM)
#undef BT_RUN_STATUS_ENUM
        BT_RUN_STATUS_COUNT
} bt_run_status;

const char *bt_run_status_name(bt_run_status status);

// X(enumerator, word): how much a fact of the environment matters to a comparison. Two runs whose
// hard facts differ are not comparable; soft ones may explain a difference; info is for reading.
#define BT_FACT_LEVEL_LIST(X) X(HARD, "hard") X(SOFT, "soft") X(INFO, "info")

typedef enum bt_fact_level {
#define BT_FACT_LEVEL_ENUM(name, word) BT_FACT_##name,
    BT_FACT_LEVEL_LIST(BT_FACT_LEVEL_ENUM)
#undef BT_FACT_LEVEL_ENUM
        BT_FACT_LEVEL_COUNT
} bt_fact_level;

const char *bt_fact_level_name(bt_fact_level level);

// ---- what is recorded; the same structs are given and read back --------------------------------

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
    const char *git_commit; // "" when unknown
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
    const char *out_dir; // where its files go
    uint64_t seed;
} bt_store_run_info;

// What a round runs. A bench is the body, a case one point of its axes, a system what runs it.
typedef struct bt_store_case {
    const char *bench;     // "gpt2_124m"
    const char *kind;      // "training"
    const char *name;      // "bf16", unique in its bench together with axes_json
    const char *axes_json; // the case's own settings, a JSON object
    const char *system;    // "blutrain"
} bt_store_case;

// Known once the worker has set up; all may be left zero.
typedef struct bt_store_shape {
    const char *device;    // device name
    const char *precision; // "bf16"
    const char *dataset;   // for reading: "books"
    int64_t parameters, tensors;
    int64_t accumulation; // micro-batches per step
    int64_t steps;        // planned
    int64_t train_tokens, val_tokens;
} bt_store_shape;

typedef struct bt_store_step {
    int64_t step; // 0-based, once per round
    float loss;   // its bits are kept
    float grad_norm;
    double lr;
    int64_t tokens;
    int64_t host_ns, device_ns;                                    // device_ns 0: not measured
    int64_t allocated_bytes, peak_allocated_bytes, reserved_bytes; // device pool
    int64_t resident_bytes;                                        // host RSS
    bool warmup, profiled; // either: the times are not measurements
} bt_store_step;

typedef struct bt_store_eval {
    int64_t step; // parameters after so many steps, once per round
    double loss;
    int64_t tokens;
    int64_t host_ns;
} bt_store_eval;

// One NVTX range: over one profiled step, or over all of them with step BT_STORE_ALL_STEPS.
typedef struct bt_store_range {
    int64_t step;
    const char *path; // "step/forward/block/attention"
    int64_t count;
    int64_t device_ns, host_ns; // totals; device_ns 0: not measured
} bt_store_range;

#define BT_STORE_ALL_STEPS (-1)

typedef struct bt_store_kernel {
    const char *op, *kernel; // once per round
} bt_store_kernel;

// A score on HellaSwag during training (framework/eval/hellaswag.h).
typedef struct bt_store_score {
    int64_t step; // parameters after so many steps, once per round
    int64_t questions, correct, normalised_correct;
    int64_t host_ns;
} bt_store_score;

// Something that went wrong in training and was noticed (framework/train/train.h has the kinds).
typedef struct bt_store_fault {
    int64_t step;
    const char *kind, *action; // "nonfinite_loss", "skip"
    const char *message;
} bt_store_fault;

typedef struct bt_store_memory {
    const char *phase;                                 // "train", "eval"; once per round
    int64_t peak_allocated_bytes, peak_reserved_bytes; // our allocator
    int64_t device_used_bytes;                         // as the device reports it, 0: not known
    int64_t peak_resident_bytes;                       // host
} bt_store_memory;

typedef struct bt_store_measurement {
    bt_metric metric;
    double value;          // of a time: the mean of its samples (before: the median)
    double low, high;      // 95 % interval; NaN: none
    const double *samples; // [sample_count], in the metric's unit; NULL: none were kept
    int64_t sample_count;
} bt_store_measurement;

typedef struct bt_store_artifact {
    const char *kind; // "report", "log"
    const char *path; // relative to where bt-bench was started, or absolute
    int64_t size_bytes;
    const char *digest; // "" when not computed
} bt_store_artifact;

// What was decided about a case or a claim. The rule holds everything that the judgement needed
// besides the rounds of the run, so that it can be made again from them.
typedef struct bt_store_verdict {
    const char *kind;        // "ab", "gate", "replicate": who judged
    const char *subject;     // case, or claim's id; once per kind and metric
    const char *metric;      // tag of the metric, "" where it is about the whole case
    const char *verdict;     // "SAME", "NOT REPLICATED"
    double ratio, low, high; // what was seen and its interval; NaN: none
    int64_t rounds;          // pairs of rounds behind it
    const char *reason;      // "" where the numbers say it
    const char *rule_json;   // tolerance, alpha, baseline, claim ...: a JSON object
} bt_store_verdict;

// A system of a session that has some besides the plan's: which build it was.
typedef struct bt_store_system {
    const char *name;       // "base", as in bt_store_case
    const char *program;    // "" for the program that recorded
    double inject_slowdown; // share by which it was made slower on purpose; 0: not
    bt_store_build build;
} bt_store_system;

// How a session's rounds were ordered and how many there had to be (harness/run/schedule.h).
typedef struct bt_store_schedule {
    uint64_t seed;                  // 0: in the plan's order
    const char *kind;               // "ab", "calibrate": whose rule it is; "": a fixed number
    const char *rule_json;          // what that needs to say how many, "" without
    const bt_store_system *systems; // [system_count]; none: those of the plan
    int64_t system_count;
} bt_store_schedule;

// A stretch of time in which a run stood still: it stopped as `status` says, and was resumed.
typedef struct bt_store_gap {
    int64_t stopped_ns,
        resumed_ns; // wall clock; stopped: its last sign of life where it was killed
    bt_run_status status;
} bt_store_gap;

// What calibrate found out about a case in an environment: how a rule fares there with pairs.
typedef struct bt_store_calibration {
    int64_t run;              // the newest session of those that it was made from
    const char *environment;  // digest of the hard facts that concern the case
    const char *card;         // digest of the GPU's UUID; "": none, or not known
    const char *bench, *name; // of the case
    const char *metric;       // tag of the metric
    const char *rule_json;    // the rule, but for its family
    int64_t pairs, needed;    // pairs of rounds behind it; with fewer than needed no rate is known
    int64_t sessions;         // that they are of
    int64_t made_ns;          // wall clock
    // Share of decisions on equal builds that found a difference, and the smallest slowdown (a
    // share) that is found nine times in ten; each with its upper 95 % bound. NaN: not known.
    double false_alarm_rate, false_alarm_high;
    double smallest, smallest_high;
} bt_store_calibration;

// A file that a run was made from, as it was then.
typedef struct bt_store_file {
    const char *kind;  // "suite", "claims": small letters; once per run
    const char *name;  // path, as messages call it
    const char *bytes; // a text; read back with a zero byte behind it
    int64_t size_bytes;
} bt_store_file;

// ---- open and close ----------------------------------------------------------------------------

typedef enum bt_store_mode {
    BT_STORE_READ,  // the file must exist and stays as it is, also when it is of an older version
    BT_STORE_AMEND, // the file must exist; verdicts and the like are added to what is there
    BT_STORE_WRITE  // made if missing, with its folder
} bt_store_mode;

// Owns    the caller, until bt_store_close
// Errors  UNSUPPORTED: "database is of version N, this program knows up to M";
//         UNAVAILABLE: damaged, or not a database of bt-bench
BT_CHECKED bt_status bt_store_open(const char *path, bt_store_mode mode, bt_store **out);
// Flushes and closes; the handle is gone whatever the status. NULL is fine.
BT_CHECKED bt_status bt_store_close(bt_store *store);
// How long a call waits for another writer before it gives up; 10 s at the start.
void bt_store_set_timeout(bt_store *store, int timeout_ms);
// The path it was opened with; borrowed, lives as long as the store.
const char *bt_store_path(const bt_store *store);

// ---- recording ---------------------------------------------------------------------------------
// begin, end, describe, measure and artifact are in the database when they return. step, eval,
// range, kernel and memory (of which the first of its kind counts) are queued and written together:
// when the last flush is half a second old, when 512 rows wait, and before any of the former. A
// failed flush keeps its rows; the next one tries again, and a call that finds the queue full and
// unwritable fails.

// Starts a run, owned by the calling process.
BT_CHECKED bt_status bt_store_run_begin(bt_store *store, const bt_store_run_info *info,
                                        int64_t *run);
// Sets where its files go, once the run's number is known.
BT_CHECKED bt_status bt_store_run_set_out_dir(bt_store *store, int64_t run, const char *out_dir);
// status must not be RUNNING. message: why it failed, "" otherwise.
BT_CHECKED bt_status bt_store_run_end(bt_store *store, int64_t run, bt_run_status status,
                                      const char *message);
// Takes up a run that was interrupted, lost its process or failed: it is running again, owned by
// the calling process; rounds that had begun and not ended become interrupted; the gap is noted.
// Errors  INVALID_ARGUMENT (no such run, going on, passed)
BT_CHECKED bt_status bt_store_run_resume(bt_store *store, int64_t run);
// `ordinal` counts the rounds of one case and system from 0. One that ended without having passed
// may be run again under its ordinal; it passes once.
BT_CHECKED bt_status bt_store_round_begin(bt_store *store, int64_t run, const bt_store_case *what,
                                          int64_t ordinal, int64_t *round);
BT_CHECKED bt_status bt_store_round_describe(bt_store *store, int64_t round,
                                             const bt_store_shape *shape);
// params_digest "" when there is none.
BT_CHECKED bt_status bt_store_round_end(bt_store *store, int64_t round, bt_run_status status,
                                        const char *message, const char *params_digest);
BT_CHECKED bt_status bt_store_step_add(bt_store *store, int64_t round, const bt_store_step *step);
BT_CHECKED bt_status bt_store_eval_add(bt_store *store, int64_t round, const bt_store_eval *eval);
BT_CHECKED bt_status bt_store_range_add(bt_store *store, int64_t round,
                                        const bt_store_range *range);
BT_CHECKED bt_status bt_store_kernel_add(bt_store *store, int64_t round,
                                         const bt_store_kernel *kernel);
BT_CHECKED bt_status bt_store_score_add(bt_store *store, int64_t round,
                                        const bt_store_score *score);
BT_CHECKED bt_status bt_store_fault_add(bt_store *store, int64_t round,
                                        const bt_store_fault *fault);
BT_CHECKED bt_status bt_store_memory_add(bt_store *store, int64_t round,
                                         const bt_store_memory *memory);
// Replaces an earlier measurement of the same metric of the round.
BT_CHECKED bt_status bt_store_measure(bt_store *store, int64_t round,
                                      const bt_store_measurement *measurement);
// What the machine did meanwhile, samples [count], and the word for it ("": nothing to note).
// Replaces what was set before. Errors  INVALID_ARGUMENT (no such round)
BT_CHECKED bt_status bt_store_telemetry_set(bt_store *store, int64_t round, const char *label,
                                            const bt_store_telemetry *samples, int64_t count);
BT_CHECKED bt_status bt_store_artifact_add(bt_store *store, int64_t run,
                                           const bt_store_artifact *artifact);
// Replaces all verdicts of one kind; each item's own `kind` is not looked at. In the database when
// it returns, all or none.
// Errors  INVALID_ARGUMENT (no such run)
BT_CHECKED bt_status bt_store_verdicts_set(bt_store *store, int64_t run, const char *kind,
                                           const bt_store_verdict *verdicts, int64_t count);
// Sets, or replaces, how the rounds of a run are ordered.
BT_CHECKED bt_status bt_store_schedule_set(bt_store *store, int64_t run,
                                           const bt_store_schedule *schedule);
// Replaces all calibrations that were made from a run; each item's `run` is not looked at.
BT_CHECKED bt_status bt_store_calibrations_set(bt_store *store, int64_t run,
                                               const bt_store_calibration *list, int64_t count);
// Keeps a copy of the file's bytes; replaces an earlier one of the same kind.
BT_CHECKED bt_status bt_store_file_set(bt_store *store, int64_t run, const bt_store_file *file);
// Flushes if rows have waited for half a second. Call it when the event loop is idle.
BT_CHECKED bt_status bt_store_tick(bt_store *store);
BT_CHECKED bt_status bt_store_flush(bt_store *store);

// ---- reading -----------------------------------------------------------------------------------

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
    const bt_store_fault *faults; // in the order recorded
    int64_t fault_count;
    const bt_store_memory *memory; // in the order recorded
    int64_t memory_count;
    const bt_store_measurement *measurements; // by metric
    int64_t measurement_count;
    bool superseded;   // a later round of the same case, system and ordinal exists
    const char *label; // a word of BT_NOISE_LIST; "": quiet, or not looked at
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
    const bt_store_round *rounds; // in the order begun
    int64_t round_count;
    const bt_store_artifact *artifacts; // in the order recorded
    int64_t artifact_count;
    const bt_store_file *files; // by kind
    int64_t file_count;
    const bt_store_verdict *verdicts; // by kind, in the order set
    int64_t verdict_count;
    bt_store_schedule schedule;
    const bt_store_gap *gaps; // in the order of time; none: it ran through
    int64_t gap_count;
    bt_arena arena; // holds everything that this struct points to
} bt_store_run;

// Everything of one run, as of one moment.
// Owns    the caller, until bt_store_run_release; independent of the store
// Errors  INVALID_ARGUMENT when there is no such run: says which there are
BT_CHECKED bt_status bt_store_run_read(bt_store *store, int64_t run, bt_store_run *out);
// Sets `superseded` of rounds in the order begun, for whoever reads them from elsewhere.
void bt_store_rounds_mark(bt_store_round *rounds, int64_t count);
// A zeroed run is fine.
void bt_store_run_release(bt_store_run *run);

// The newest calibration of a case in an environment on a card: by the rule of `of`, or by another
// where there is none by that; *found says whether there is one.
// Owns    its texts are in the arena
BT_CHECKED bt_status bt_store_calibration_find(bt_store *store, const bt_store_calibration *of,
                                               bt_arena *arena, bt_store_calibration *out,
                                               bool *found);
// All of them, by case and from the newest on.
// Owns    in the arena
BT_CHECKED bt_status bt_store_calibrations_list(bt_store *store, bt_arena *arena,
                                                const bt_store_calibration **list, int64_t *count);
// Removes those of the cases that a glob takes; *removed: how many.
BT_CHECKED bt_status bt_store_calibrations_remove(bt_store *store, const char *glob,
                                                  int64_t *removed);
// The newest runs of a kind of schedule that passed and began at since_ns or later, but for
// `except`: numbers [<= room] written, their number in *count.
BT_CHECKED bt_status bt_store_sessions_of(bt_store *store, const char *kind, int64_t since_ns,
                                          int64_t except, int64_t *numbers, int64_t room,
                                          int64_t *count);
// Records a run as it was read, from this or another database: all of it or nothing. Artifacts are
// left out, since they lie elsewhere. With `number` its number is kept (and must be free),
// otherwise it gets the next; *id is the one that it has. Errors  INVALID_ARGUMENT (it still goes
// on; the number is taken)
BT_CHECKED bt_status bt_store_run_import(bt_store *store, const bt_store_run *run, bool number,
                                         int64_t *id);

// The number of the run in this database that was recorded at the same moment, with the same plan,
// build and environment, which is what an earlier import of it left; 0: none.
BT_CHECKED bt_status bt_store_run_find(bt_store *store, const bt_store_run *run, int64_t *id);

// Appends what refers to a run from elsewhere: "baseline main of nvidia-h200, the verdicts of run
// 9"; nothing where nothing does. Errors  INVALID_ARGUMENT (no such run)
BT_CHECKED bt_status bt_store_run_references(bt_store *store, int64_t run, bt_str *out);
// Removes a run, all of it or nothing, with what only it used.
// Errors  INVALID_ARGUMENT (no such run; it still goes on)
BT_CHECKED bt_status bt_store_run_remove(bt_store *store, int64_t run);
// Gives unused space back to the file system. Errors  UNAVAILABLE (in use)
BT_CHECKED bt_status bt_store_compact(bt_store *store, int64_t *freed_bytes);

// A line of the list of runs.
typedef struct bt_store_run_row {
    int64_t id;
    const char *suite, *profile;
    bt_run_status status;
    int64_t started_ns, ended_ns;
    int64_t round_count, step_count;
} bt_store_run_row;

typedef struct bt_store_run_list {
    bt_store_run_row *rows; // newest first
    int64_t count;
    bt_arena arena; // holds the rows
} bt_store_run_list;

// Owns    the caller, until bt_store_run_list_release
BT_CHECKED bt_status bt_store_run_list_read(bt_store *store, bt_store_run_list *out);
void bt_store_run_list_release(bt_store_run_list *list);

// ---- history.c: one case over all runs ---------------------------------------------------------

// A passed round that has the metric asked for.
typedef struct bt_store_history_row {
    int64_t run, started_ns, ordinal; // wall clock of the run
    double value, low, high;          // of the metric; low, high NaN: no interval
    int64_t env;                      // index of envs
    const char *suite, *git_commit, *git_diff;
    const char *system, *axes_json;
    bool total; // a time or rate is the mean or total; false: a median, as recorded before
} bt_store_history_row;

typedef struct bt_store_history {
    const bt_store_history_row *rows; // by run, in the order begun
    int64_t count;
    const bt_store_env *envs; // each that a row names, once; digests are left ""
    int64_t env_count;
    bt_arena arena; // holds all of it
} bt_store_history;

// Every passed round of a case by its name, in every suite; system NULL: on all systems. No sample
// is read. No row is no error.
// Owns    the caller, until bt_store_history_release
BT_CHECKED bt_status bt_store_history_read(bt_store *store, const char *name, bt_metric metric,
                                           const char *system, bt_store_history *out);
void bt_store_history_release(bt_store_history *history);
// Appends the names of all recorded cases, separated by '|'.
BT_CHECKED bt_status bt_store_case_names(bt_store *store, bt_str *out);

// ---- baselines ---------------------------------------------------------------------------------
// What a gate holds runs against, by name. Setting one adds a row; the newest of a name and machine
// counts, the others are its history and stay.

typedef struct bt_store_baseline {
    int64_t id;
    const char *name;
    const char *machine; // type of the machine it is of: "nvidia-h200"
    const char *reason;
    int64_t run; // that it was made of; 0: it came from a file
    int64_t created_ns;
    const char *document; // harness/gate/baseline.h; NULL in a list
} bt_store_baseline;

typedef struct bt_store_baseline_list {
    const bt_store_baseline *rows; // by name, each from its newest on
    int64_t count;
    bt_arena arena; // holds the rows
} bt_store_baseline_list;

// Adds a row; `id` is not looked at.
BT_CHECKED bt_status bt_store_baseline_add(bt_store *store, const bt_store_baseline *baseline);
// The newest of a name and a machine, with its document, in the arena; *found says whether there is
// one. machine NULL: of any machine.
BT_CHECKED bt_status bt_store_baseline_read(bt_store *store, const char *name, const char *machine,
                                            bt_arena *arena, bt_store_baseline *out, bool *found);
// name NULL: all of them.
// Owns    the caller, until bt_store_baseline_list_release
BT_CHECKED bt_status bt_store_baseline_list_read(bt_store *store, const char *name,
                                                 bt_store_baseline_list *out);
void bt_store_baseline_list_release(bt_store_baseline_list *list);

#endif
