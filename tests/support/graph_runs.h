// tests/support/graph_runs.h - a plan trained kernel by kernel, and with its steps captured
#ifndef BT_TESTS_SUPPORT_GRAPH_RUNS_H
#define BT_TESTS_SUPPORT_GRAPH_RUNS_H

#include "framework/train/train.h"

enum { GRAPH_STEPS_MAX = 24, GRAPH_TEXT_BYTES = 256 };

typedef struct graph_run {
    int64_t first, steps; // that were done
    float loss[GRAPH_STEPS_MAX], grad_norm[GRAPH_STEPS_MAX];
    bt_train_launch launch[GRAPH_STEPS_MAX];
    int64_t count[BT_TRAIN_LAUNCH_COUNT]; // steps by launch
    int64_t faults, modes;
    bt_train_mode mode[GRAPH_STEPS_MAX]; // without their messages
    char message[GRAPH_TEXT_BYTES];      // of the last one
    bt_train_result result;
} graph_run;

// Trains by the plan.
void graph_run_train(const bt_train_plan *plan, graph_run *out);
// Trains by the plan with graph off and on: the bits of all steps and of the state are the same,
// and of the steps with graph on at least `least` were replays. *on: the run with it on.
void graph_runs_expect_same(const bt_train_plan *plan, int64_t least, graph_run *on);
// The same bits on both sides, in steps that both have done, and after the last.
void graph_runs_expect_bits(const graph_run *a, const graph_run *b);
// Trains by the plan, which has no checkpoints: in one go with graph off, then with it on, stopped
// after step 5 and resumed. The bits are the same, and at least `least` steps after the resume
// were replays.
void graph_runs_expect_resumed(const bt_train_plan *plan, int64_t least);

#endif
