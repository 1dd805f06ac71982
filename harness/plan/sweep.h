// harness/plan/sweep.h - --set KEY=[A,B]: a case for each value, or combination of values
//
// The case NAME becomes NAME.KEY=A and NAME.KEY=B, with the last part of the key: lr=3e-4. A list
// is a sweep if the key takes one value; if it takes a list (train.micro_batch, a kernel's shape),
// the list keeps that meaning.
#ifndef BT_HARNESS_PLAN_SWEEP_H
#define BT_HARNESS_PLAN_SWEEP_H

#include <stdint.h>

#include "framework/base/str.h"

enum { BT_PLAN_SWEEP_MAX = 1000 }; // combinations

typedef struct bt_plan_sweep_axis {
    const char *given; // borrowed: "train.steps=[2,4]"
    int64_t key_bytes;
    bt_str sets; // owned: "train.steps=2", "train.steps=4", each ended by a zero byte
    int64_t count;
    int64_t position; // in sets of the sweep
} bt_plan_sweep_axis;

typedef struct bt_plan_sweep {
    bt_plan_sweep_axis *axes; // owned, [axis_count]
    int64_t axis_count;
    const char **sets; // owned, [set_count]: those of the combination requested last
    int64_t set_count;
    int64_t combinations; // 1 without a list
} bt_plan_sweep;

// Reads the lists that concern cases of a kind ("train", "kernel", "command"); those of other kinds
// are ignored. Borrows `sets`.
// Owns    *out: the caller, bt_plan_sweep_release, also after a failure
// Errors  INVALID_ARGUMENT (an empty value, too many combinations)
BT_CHECKED bt_status bt_plan_sweep_make(const char *const *sets, int64_t set_count,
                                        const char *kind, bt_plan_sweep *out);
// Sets `sets` to combination `index` and appends its suffix to the name of a case: ".lr=3e-4".
BT_CHECKED bt_status bt_plan_sweep_at(bt_plan_sweep *sweep, int64_t index, bt_str *suffix);
void bt_plan_sweep_release(bt_plan_sweep *sweep);

#endif
