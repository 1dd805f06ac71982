// harness/ab/bisect.h - the first commit between two that is slower than the first of them
//
// The commits are those of `git rev-list --first-parent GOOD..BAD`. GOOD is the base of every
// comparison, so small slowdowns of several commits add up as they do for users.
//
// Invariants
//   1. A commit that cannot be judged (it does not build, or stays inconclusive) is left out; its
//      neighbours are asked instead. Where only such commits are left, the answer is a range.
//   2. low < high: commit `low` is known not to be slower (-1: GOOD itself), `high` is known to be.
#ifndef BT_HARNESS_AB_BISECT_H
#define BT_HARNESS_AB_BISECT_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"

typedef enum bt_bisect_verdict {
    BT_BISECT_OPEN, // not asked yet
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
    bt_bisect_commit *commits; // behind GOOD, the oldest first; the last is BAD
    int64_t count;
    int64_t low, high; // indices of commits
    bt_arena arena;    // holds them
} bt_bisect;

// Lists the commits. No one is asked yet.
// Owns    *out: the caller, bt_bisect_release
// Errors  INVALID_ARGUMENT (no such revision; GOOD is no ancestor of BAD), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_bisect_open(const char *good, const char *bad, bt_bisect *out);
void bt_bisect_release(bt_bisect *bisect);

// The index of the commit to ask about: first BAD, then the one nearest to the middle of those that
// are open between low and high; -1: there is nothing more to ask.
int64_t bt_bisect_next(const bt_bisect *bisect);
// Takes the answer. BAD itself must be SLOWER for the search to go on.
void bt_bisect_take(bt_bisect *bisect, int64_t index, bt_bisect_verdict verdict);

#endif
