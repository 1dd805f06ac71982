// harness/compare/compare.h - compares two runs
//
// Reads two runs and lists what is equal and what is not: metrics with intervals and ratios, loss
// curves bit by bit, digests of the parameters, plan, build and environment. It does not decide:
// one round per side cannot (METHOD); that is the task of the gate.
#ifndef BT_HARNESS_COMPARE_COMPARE_H
#define BT_HARNESS_COMPARE_COMPARE_H

#include <stdbool.h>

#include "framework/base/str.h"
#include "harness/stats/summary.h"
#include "harness/store/store.h"

// Two loss curves over the steps that both have.
typedef struct bt_curve_difference {
    int64_t shared;        // steps that both have
    bool bitwise_equal;    // the bits of every shared loss are equal (and there is one)
    int64_t first_step;    // first step whose bits differ, -1: none
    double max_difference; // largest |a - b|, NaN if a loss is NaN on one side only
    int64_t max_step;      // its step, -1: none
} bt_curve_difference;

void bt_curve_compare(const bt_store_round *left, const bt_store_round *right,
                      bt_curve_difference *out);

// The rounds of a case on a system: those that passed, or one that did not.
typedef struct bt_compare_side {
    const bt_store_round **rounds; // [count], in the arena
    int64_t count, noisy;          // number of rounds with a noise label
} bt_compare_side;

typedef struct bt_compare_pair {
    const bt_store_round *left, *right; // borrowed from the runs; the first of several rounds
    bt_compare_side left_side, right_side;
    bt_summary left_summary, right_summary; // for several rounds: their medians
    bt_curve_difference loss;
    bool digests_known,
        digests_equal;      // of the training state; known: on both sides, of the same kind
    bool clocks_comparable; // of the GPU, if known
    char clocks[160];       // the reason; "" if comparable
} bt_compare_pair;

// One difference: a key of plan, build or environment, with both values ("" if absent).
typedef struct bt_compare_item {
    const char *group; // "plan", "build", "environment"
    const char *key, *left, *right;
    bt_fact_level level; // of a fact; INFO otherwise
} bt_compare_item;

typedef struct bt_comparison {
    bt_store_run left, right;
    const bt_compare_pair *pairs; // cases that both have, in the order of the left run; disturbed
                                  // rounds are excluded
    int64_t pair_count;
    const bt_store_round *const *alone; // the first round of each case without a counterpart: of
                                        // the left run, then of the right run
    int64_t alone_count, alone_left_count;
    const bt_compare_item *items; // only differences
    int64_t item_count;
    bool hard_differs; // hard facts of the environment differ: speeds are not comparable
    bt_arena arena;    // arena of pairs, alone, items
} bt_comparison;

// Owns    the caller, until bt_comparison_release; independent of the store
// Errors  as bt_store_run_read
BT_CHECKED bt_status bt_compare_runs(bt_store *store, int64_t left, int64_t right,
                                     bt_comparison *out);
void bt_comparison_release(bt_comparison *comparison);

// The differences between two runs that have been read: plan, build, environment.
// Owns    *items is in the arena
BT_CHECKED bt_status bt_compare_facts(const bt_store_run *left, const bt_store_run *right,
                                      bt_arena *arena, const bt_compare_item **items,
                                      int64_t *count, bool *hard_differs);

// The differences between two environments, hard facts first, then soft, then info. Facts of the
// build are omitted (compare_builds has them); with `here`, so are those of a run's data, which a
// machine does not have.
// Owns    *items is in the arena
BT_CHECKED bt_status bt_compare_environments(const bt_store_env *left, const bt_store_env *right,
                                             bool here, bt_arena *arena,
                                             const bt_compare_item **items, int64_t *count,
                                             bool *hard_differs);
// The same as text, fitted to `columns` of a terminal (0: any number), or as one JSON object; the
// names identify the sides ("run 3", "here").
BT_CHECKED bt_status bt_compare_environments_text(const bt_compare_item *items, int64_t count,
                                                  bool hard_differs, const char *left,
                                                  const char *right, int columns, bt_str *out);
BT_CHECKED bt_status bt_compare_environments_json(const bt_compare_item *items, int64_t count,
                                                  bool hard_differs, const char *left,
                                                  const char *right, bt_str *out);

// Appends the text, or one JSON object, of two runs' comparison. Tables of metrics are fitted to
// `columns` of a terminal, 0: any number. *comparable: no hard fact differs, and the runs have a
// case in common; may be NULL.
BT_CHECKED bt_status bt_compare_text(bt_store *store, int64_t left, int64_t right, int columns,
                                     bt_str *out, bool *comparable);
BT_CHECKED bt_status bt_compare_json(bt_store *store, int64_t left, int64_t right, bt_str *out,
                                     bool *comparable);

#endif
