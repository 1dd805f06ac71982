// harness/diff/missing.h - values of a step that only one side has, which are not compared
//
// Both sides are searched, so the same values are missing whichever side is A.
#ifndef BT_HARNESS_DIFF_MISSING_H
#define BT_HARNESS_DIFF_MISSING_H

#include "harness/diff/lockstep.h"

typedef struct bt_diff_missing {
    const char *name; // of the result's arena
    int side;         // that has it: 0 A, 1 B
    const char *why;  // static; the side that lacks it determines it
} bt_diff_missing;

// Why `lacking` has no value that the other side has as `value`. Returns a static text.
const char *bt_diff_missing_why(const bt_diff_value *value, const bt_lockstep_side *lacking);

#endif
