// harness/ab/bisect.h - the first commit between GOOD and BAD that is slower than GOOD
//
// The commits are those of `git rev-list --first-parent GOOD..BAD`. GOOD is the base of every
// comparison, so small slowdowns of several commits add up as they do for users.
//
// Invariants
//   1. A commit that cannot be judged (it does not build, or stays inconclusive) is skipped; its
//      neighbors are tested instead. If only such commits remain, the result is a range.
//   2. low < high: commit `low` is known not to be slower (-1: GOOD itself), `high` is known to be.
#ifndef BT_HARNESS_AB_BISECT_H
#define BT_HARNESS_AB_BISECT_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"

typedef enum bt_bisect_verdict {
    BT_BISECT_OPEN, // not tested yet
    BT_BISECT_SAME, // not slower than GOOD
    BT_BISECT_SLOWER,
    BT_BISECT_UNKNOWN // it cannot be judged
} bt_bisect_verdict;

typedef struct bt_bisect_commit {
    char hash[41];
    const char *subject;
    bt_bisect_verdict verdict;
} bt_bisect_commit;

typedef struct bt_bisect {
    bt_bisect_commit *commits; // after GOOD, oldest first; the last is BAD
    int64_t count;
    int64_t low, high; // indices of commits
    bt_arena arena;    // holds them
} bt_bisect;

// Lists the commits, none of them tested.
// Owns    *out: the caller, bt_bisect_release
// Errors  INVALID_ARGUMENT (no such revision; GOOD is not an ancestor of BAD), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_bisect_open(const char *good, const char *bad, bt_bisect *out);
void bt_bisect_release(bt_bisect *bisect);

// The index of the next commit to test: first BAD, then the one nearest to the middle of the open
// ones between low and high; -1: none.
int64_t bt_bisect_next(const bt_bisect *bisect);
// Adds a result. BAD itself must be SLOWER for the search to continue.
void bt_bisect_take(bt_bisect *bisect, int64_t index, bt_bisect_verdict verdict);

#endif
