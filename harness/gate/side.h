// harness/gate/side.h - one side of a comparison: the rounds of a case on a system
//
// A side is made from a recorded run or from a baseline; a judgement compares two sides. Everything
// it points to is in an arena or in the run it was made from.
#ifndef BT_HARNESS_GATE_SIDE_H
#define BT_HARNESS_GATE_SIDE_H

#include "harness/gate/policy.h"
#include "harness/record/record.h"
#include "harness/stats/loss.h"

// Systems: our own build, and the names of the two in an 'ab' session.
#define BT_GATE_SYSTEM_OURS      "blutrain"
#define BT_GATE_SYSTEM_BASE      "base"
#define BT_GATE_SYSTEM_CANDIDATE "candidate"

typedef struct bt_gate_round {
    int64_t ordinal;
    int64_t session;                     // of a baseline, from 0; a run is one session: 0
    double values[BT_GATE_METRIC_COUNT]; // > 0; NaN: unknown, and always for LOSS
    double older[BT_GATE_METRIC_COUNT];  // the same for rules of version 1: medians of times, rates
} bt_gate_round;

typedef struct bt_gate_side {
    const char *bench, *kind, *name, *system;
    const char *axes_json;       // the case's settings, canonical, paths without their folders
    const char *precision;       // "bf16"
    char environment[33];        // digest of the hard facts that concern this case
    char settings[33];           // digest of axes_json
    const bt_gate_round *rounds; // usable rounds, [round_count], by ordinal
    int64_t round_count;
    const bt_loss_curve *curves; // different ones, [curve_count], in order of occurrence
    int64_t own_count;           // number of curves of the side's own rounds;
    int64_t data_count;          // up to here: same seed and data, permuted reductions;
    int64_t curve_count;         // the others: other seeds, one each (only in a baseline)
    const char *const *kernels;  // "op: kernel", different ones, [kernel_count], sorted
    int64_t kernel_count;
    double clock_mhz, power_w; // medians over the rounds; NaN: not known
    int64_t failed;            // number of rounds that crashed or had a wrong result
    int64_t invalid;           // number of rounds invalidated by noise
    int64_t unavailable;       // number of rounds of a system that cannot run it here
    const char *message;       // message of the first of these, "" if none
    int64_t labelled;          // usable rounds with disturbances
    const char *label;         // label of the first of them, "" if none
} bt_gate_side;

typedef struct bt_gate_sides {
    const bt_gate_side *items; // [count], in the order of the run
    int64_t count;
} bt_gate_sides;

// The sides of a run: one per case and system. Copies of 256 MiB, which measure the machine, are
// omitted.
// Owns    in the arena; borrows from the run
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_sides_of_run(const bt_store_run *run, bt_arena *arena,
                                          bt_gate_sides *out);
// The side of the same bench, case and system; NULL if there is none.
const bt_gate_side *bt_gate_side_find(const bt_gate_sides *sides, const char *bench,
                                      const char *name, const char *system);
// Values of a metric, [<= round_count] written; returns their number.
int64_t bt_gate_side_values(const bt_gate_side *side, bt_gate_metric metric, double *values);
// The values of a metric session by session: values, sessions [<= round_count] written, sessions[i]
// the number of values of the i-th session that has any. Returns the number of those sessions.
int64_t bt_gate_side_sessions(const bt_gate_side *side, bt_gate_metric metric, double *values,
                              int64_t *sessions);
// Their median, NaN without any. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_side_median(const bt_gate_side *side, bt_gate_metric metric,
                                         double *median);
// Whether two curves are equal, bit by bit, and so are their final parameters.
bool bt_gate_same_curve(const bt_loss_curve *left, const bt_loss_curve *right);
bool bt_gate_side_is_training(const bt_gate_side *side);

#endif
