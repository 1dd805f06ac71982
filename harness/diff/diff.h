// harness/diff/diff.h - bt-bench diff-run: two trainings in lockstep, compared value by value
//
// Each step's values (framework/train/trace.h) of side B are compared with those of A: activations,
// gradients, parameters, moments. Values above their bound (measure.h) are counted, and the first
// of them is reported.
#ifndef BT_HARNESS_DIFF_DIFF_H
#define BT_HARNESS_DIFF_DIFF_H

#include "harness/diff/lockstep.h"
#include "harness/diff/measure.h"
#include "harness/diff/missing.h"

enum { BT_DIFF_LABEL_BYTES = 256 };

typedef struct bt_diff_side {
    char label[BT_DIFF_LABEL_BYTES]; // as the user gave it
    bt_lockstep_side lockstep;
    bt_diff_arithmetic arithmetic;
    const char *dump; // folder for the values of each step; NULL: none
} bt_diff_side;

// A value of a step; or a copy of it on another rank of a side, beside the first rank's.
typedef struct bt_diff_row {
    const char *name, *layer, *op; // of the arena
    bt_train_value_kind kind;
    int64_t depth;
    bt_shape shape; // of A
    bt_dtype dtype[2];
    bt_difference difference;
    double bound; // of difference.l2_relative
    bool over;
    bool wide;   // the bound is 2 lr an update: it does not show another optimizer (measure.h)
    int rank[2]; // that has made the worst element; -1: one rank, or not known (gather.h)
} bt_diff_row;

typedef struct bt_diff_step {
    int64_t step;
    double loss[2]; // NaN if `trains` is false: values of a folder have none
    bool trains[2];
    double drift;                   // of the bound
    int64_t first, count;           // rows
    int64_t over;                   // of them
    int64_t missing_first, missing; // values that only one side has, which were not compared
} bt_diff_step;

typedef struct bt_diff_result {
    bt_diff_bound bound; // rounding and margin
    double longest;      // sum of the step
    bt_diff_step *steps; // owned [step_count]
    int64_t step_count, step_capacity;
    bt_diff_row *rows; // owned [row_count], by step, in the order made
    int64_t row_count, row_capacity;
    bt_diff_missing *missing; // owned [missing_count], by step
    int64_t missing_count, missing_capacity;
    int64_t wide;       // rows
    int64_t first_over; // row, -1: all that were compared are within their bounds
    bt_arena arena;
} bt_diff_result;

// Whether two trainings add over ranks in the same order, so that equal arithmetic gives the same
// bits.
bool bt_diff_same_order(const bt_train_plan *a, const bt_train_plan *b);
// Runs at most `steps` steps of both sides. At least one of them trains.
// Owns    *out: the caller, until bt_diff_result_release, also when this fails
// Errors  those of bt_lockstep_run; INVALID_ARGUMENT (shapes that differ, nothing in common)
BT_CHECKED bt_status bt_diff_run(const bt_diff_side sides[2], int64_t steps, bt_diff_result *out);
void bt_diff_result_release(bt_diff_result *result);

// ---- print.c, page.c ----------------------------------------------------------------------------

// Tables and lines are fitted to `columns` of a terminal, 0: any number.
BT_CHECKED bt_status bt_diff_text(const bt_diff_side sides[2], const bt_diff_result *result,
                                  int columns, bt_str *out);
BT_CHECKED bt_status bt_diff_json(const bt_diff_side sides[2], const bt_diff_result *result,
                                  bt_str *out);
// One sentence: how many values are within their bounds, how many were not compared, what the
// bounds do not show.
void bt_diff_summary(const bt_diff_result *result, bt_str *out);
// A self-contained page: error by depth and by step as plots, and all rows.
BT_CHECKED bt_status bt_diff_page(const bt_diff_side sides[2], const bt_diff_result *result,
                                  bt_str *out);

#endif
