// harness/run/event.h - events of the worker protocol: one JSON object per line (PROTOCOL.md)
//
// Reading is strict: a worker's output is untrusted, since a worker may be any program and may die
// in the middle of a line.
//
// Invariants
//   1. start comes first and once; steps ascend from its first_step without a gap; result comes at
//      most once and only errors may follow; nothing follows an error. Evaluations ascend too;
//      measured comes once, after the samples.
//   2. Limits, where set, bound the number of events: a worker that exceeds them is ended.
//   3. Every integer is whole, >= 0 and below 2^53. Every real is finite, except for losses and
//      norms, where null means NaN or infinity. A loss's bits take precedence over its decimals.
#ifndef BT_HARNESS_RUN_EVENT_H
#define BT_HARNESS_RUN_EVENT_H

#include "harness/record/fields.h"
#include "harness/suite/json.h"
#include "harness/text/format.h"

#define BT_RUN_EVENT_PROTOCOL       1
#define BT_RUN_EVENT_LINE_BYTES_MAX 65536

// X(enumerator, word, cases that have it: training, calls that are timed, or any)
#define BT_RUN_EVENT_LIST(X)                                                                       \
    X(START, "start", ANY)                                                                         \
    X(STEP, "step", TRAIN)                                                                         \
    X(EVAL, "eval", TRAIN)                                                                         \
    X(RANGE, "range", ANY)                                                                         \
    X(KERNEL, "kernel", ANY)                                                                       \
    X(SAMPLES, "samples", CALLS)                                                                   \
    X(MEASURED, "measured", CALLS)                                                                 \
    X(FAULT, "fault", ANY)                                                                         \
    X(SCORE, "hellaswag", TRAIN)                                                                   \
    X(STATE, "state", TRAIN)                                                                       \
    X(LAUNCH, "launch", TRAIN)                                                                     \
    X(GROUP, "group", TRAIN)                                                                       \
    X(GROUP_CALLS, "group_calls", TRAIN)                                                           \
    X(TIMELINE, "timeline", TRAIN)                                                                 \
    X(MEMORY, "memory", ANY)                                                                       \
    X(RESULT, "result", ANY)                                                                       \
    X(ERROR, "error", ANY)                                                                         \
    X(VERSIONS, "versions", ANY)                                                                   \
    X(OUTPUTS, "outputs", CALLS)                                                                   \
    X(SAVE, "save", TRAIN)                                                                         \
    X(RECOVERY, "recovery", TRAIN)                                                                 \
    X(CAUGHT_UP, "caught_up", TRAIN)

typedef enum bt_run_event_type {
#define BT_RUN_EVENT_ENUM(name, text, cases) BT_RUN_EVENT_##name,
    BT_RUN_EVENT_LIST(BT_RUN_EVENT_ENUM)
#undef BT_RUN_EVENT_ENUM
        BT_RUN_EVENT_COUNT
} bt_run_event_type;

const char *bt_run_event_name(bt_run_event_type type);

typedef struct bt_run_event_start {
    int64_t protocol;
    const char *system; // "blutrain"
    const char *device; // its name
    int64_t parameters, tensors, accumulation, train_tokens, val_tokens;
    int64_t first_step; // the run continues after this many steps
    int64_t compile_ns; // until the steps' code was ready; 0: not compiled
} bt_run_event_start;

// Times of one call, ns; further events may follow.
typedef struct bt_run_event_samples {
    const double *times_ns; // [count], each finite and > 0
    int64_t count;
} bt_run_event_samples;

// Sent once by a kernel or command case that was correct, after its samples.
typedef struct bt_run_event_measured {
    int64_t calls_per_sample;
    double error_share;    // largest error as a fraction of its tolerance; NaN: not reported
    const char *stop;      // why sampling ended
    double cpu_time_ns;    // of one call, mean; 0: not reported
    double launch_time_ns; // of one call: until it was launched; 0: not reported
    double compile_time_ns, load_time_ns; // of a chain: without a cache, and from it; 0: not
                                          // reported
} bt_run_event_measured;

typedef struct bt_run_event_result {
    int64_t steps_done;
    bool stopped;              // it was asked to stop
    const char *params_digest; // "" if there is none
    double val_loss;           // NaN if there was no evaluation
    int64_t behind_ns;         // work after the end of a timed region; 0: none
} bt_run_event_result;

// Package versions of the worker, sent once after start by a peer if requested.
typedef struct bt_run_event_versions {
    const char *packages; // "torch==2.11.0\n..."
} bt_run_event_versions;

// Sent once after measured by a peer that has returned the outputs that its task requests.
typedef struct bt_run_event_outputs {
    const char *precision; // its precision, if it is not the case's; ""
} bt_run_event_outputs;

// An event of a checkpoint (bt_train_save).
typedef struct bt_run_event_save {
    const char *kind; // "loaded", "skipped", "none", "saved", "failed"
    int64_t step, seen_step, host_ns, blocked_ns, size_bytes;
    const char *message;
} bt_run_event_save;

// Lost ranks have been replaced. Times since the fault was injected, or detected.
typedef struct bt_run_event_recovery {
    int64_t step;       // steps completed before the fault
    int64_t from_step;  // steps of the state that was loaded; those up to `step` are repeated
    int64_t generation; // that goes on
    int64_t ranks;      // that go on
    const char *kind;   // kind of the fault
    int64_t detect_ns;  // until it was detected; 0: unknown
    int64_t group_ns;   // until all ranks were in a group again
    int64_t resume_ns;  // until training continued from the state
    int64_t step_ns;    // until the first step was done
} bt_run_event_recovery;

// The steps that a recovery repeats are done.
typedef struct bt_run_event_caught_up {
    int64_t step;    // of the recovery
    int64_t time_ns; // since the fault was injected, or detected
} bt_run_event_caught_up;

typedef struct bt_run_event_error {
    const char *status; // a status text, such as "out of memory"
    const char *message;
} bt_run_event_error;

typedef struct bt_run_event {
    bt_run_event_type type;
    union {
        bt_run_event_start start;
#define BT_RUN_EVENT_RECORD(name, KIND) bt_store_##name name;
        BT_STORE_SERIES_LIST(BT_RUN_EVENT_RECORD)
#undef BT_RUN_EVENT_RECORD
        bt_run_event_samples samples;
        bt_run_event_measured measured;
        bt_run_event_result result;
        bt_run_event_error error;
        bt_run_event_versions versions;
        bt_run_event_outputs outputs;
        bt_run_event_save save;
        bt_run_event_recovery recovery;
        bt_run_event_caught_up caught_up;
    } as;
    bt_json_doc json; // owned; texts of the union are in it
    double *numbers;  // owned: samples of the event read
} bt_run_event;

// Limits on the events of a round; zeros: no limit.
typedef struct bt_run_event_limits {
    const char *kind;   // "kernel", "command": no steps, no evaluations; "train": no samples
    int64_t steps;      // of the plan
    int64_t first_step; // the maximum that start may give
    int64_t lines, samples;
} bt_run_event_limits;

#define BT_RUN_EVENT_SAMPLES_MAX 2000000

// Upper bound on the lines of a correct worker with this many steps: 2,000 per step (a profiled
// step reports each of its ranges) plus 20,000.
int64_t bt_run_event_lines_max(int64_t steps);

// State of the protocol of one worker.
typedef struct bt_run_event_state {
    bt_run_event_limits limits;
    int64_t line;      // lines read
    int64_t next_step; // the step that must come next
    // By type, of evaluations, scores and digests of the state: the earliest step that may have one
    int64_t next[BT_RUN_EVENT_COUNT];
    int64_t samples; // samples accepted
    bool started, measured, done, failed;
} bt_run_event_state;

// Reads one line (without its newline) and advances the state.
// Owns    *event: the caller, bt_run_event_release; also released on failure
// Errors  CORRUPT_DATA "worker, line 7: ...", OUT_OF_MEMORY
BT_CHECKED bt_status bt_run_event_parse(bt_run_event_state *state, const char *line,
                                        size_t size_bytes, bt_run_event *event);
// Makes *out a copy of an event, with texts of its own; the copy may be moved.
// Owns    *out: the caller, bt_run_event_release. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_run_event_copy(const bt_run_event *event, bt_run_event *out);
void bt_run_event_release(bt_run_event *event);
// The status for an error event's text; INTERNAL for unknown words.
bt_status bt_run_event_status(const char *text);

// Steps that the recovery repeats.
int64_t bt_run_event_repeated(const bt_run_event_recovery *recovery);
// "from step 0, 29 steps repeated"
bt_text bt_run_event_restart(const bt_run_event_recovery *recovery);

// Whether the event is a record of the round, and of which kind: its members are at `as`.
bool bt_run_event_is_record(bt_run_event_type type, bt_fields_of *kind);

// ---- the worker's side: appends one line --------------------------------------------------------

void bt_run_event_write(const bt_run_event *event, bt_str *out);

#endif
