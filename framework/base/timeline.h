// framework/base/timeline.h - what a rank did at each time of a step
//
// Made from the intervals of a step's ranges, which nest. A time belongs to the innermost interval
// that contains it.
//
// Invariants
//   1. work_ns are exact: their sum is time_ns.
//   2. work and phases have BT_TIMELINE_PARTS letters, each for an equal part of the step: the kind
//      that took most of that part. So the size does not depend on the number of ops.
#ifndef BT_BASE_TIMELINE_H
#define BT_BASE_TIMELINE_H

#include <stdint.h>

#include "framework/base/status.h"

enum { BT_TIMELINE_PARTS = 600 };

// X(enumerator, letter, name)
#define BT_TIMELINE_WORK_LIST(X)                                                                   \
    X(GAP, '.', "between ops")                                                                     \
    X(OTHER, 'o', "other ops")                                                                     \
    X(ATTENTION, 'a', "attention")                                                                 \
    X(PRODUCTS, 'p', "products")                                                                   \
    X(COMMUNICATION, 'c', "exposed communication") /* idle */

typedef enum bt_timeline_work {
#define BT_TIMELINE_WORK_ENUM(name, letter, text) BT_TIMELINE_##name,
    BT_TIMELINE_WORK_LIST(BT_TIMELINE_WORK_ENUM)
#undef BT_TIMELINE_WORK_ENUM
        BT_TIMELINE_WORK_COUNT
} bt_timeline_work;

// X(enumerator, letter, name of a range directly inside the step)
#define BT_TIMELINE_PHASE_LIST(X)                                                                  \
    X(NONE, '.', "")                                                                               \
    X(FORWARD, 'f', "forward")                                                                     \
    X(BACKWARD, 'b', "backward")                                                                   \
    X(REDUCE, 'r', "reduce gradients")                                                             \
    X(UPDATE, 'u', "optimizer")

typedef enum bt_timeline_phase {
#define BT_TIMELINE_PHASE_ENUM(name, letter, text) BT_TIMELINE_PHASE_##name,
    BT_TIMELINE_PHASE_LIST(BT_TIMELINE_PHASE_ENUM)
#undef BT_TIMELINE_PHASE_ENUM
        BT_TIMELINE_PHASE_COUNT
} bt_timeline_phase;

typedef struct bt_timeline_interval {
    int64_t start_ns, stop_ns; // of any clock
    int64_t parent;            // index of the enclosing interval, below its own; -1: the step
    bt_timeline_work work;     // kind of the time that belongs to it
    bt_timeline_phase phase;   // NONE: that of the enclosing interval
} bt_timeline_interval;

typedef struct bt_timeline {
    int64_t time_ns;
    int64_t work_ns[BT_TIMELINE_WORK_COUNT];
    char work[BT_TIMELINE_PARTS + 1], phases[BT_TIMELINE_PARTS + 1];
} bt_timeline;

// intervals[0] is the step; the others are in order of their begin. Parts outside of the enclosing
// interval, or overlapping the previous one, are cut off.
// Shapes  intervals [count], count >= 1
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_timeline_make(const bt_timeline_interval *intervals, int64_t count,
                                      bt_timeline *out);

#endif
