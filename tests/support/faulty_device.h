// tests/support/faulty_device.h - the CPU as a backend that fails when a test requests it
//
// The backend "faulty" wraps the CPU's kernels: product code is not
// changed. It counts what it gave out, so that a leak shows. It captures graphs (fake_graph.h).
#ifndef BT_TESTS_SUPPORT_FAULTY_DEVICE_H
#define BT_TESTS_SUPPORT_FAULTY_DEVICE_H

#include "kernels/kernels.h"

typedef enum faulty_kind {
    FAULTY_NONE,
    FAULTY_HANG,  // the kernel never returns
    FAULTY_STALL, // from this launch on the device does nothing: work is taken, waits never end
    FAULTY_NAN,   // element 0 of what it wrote becomes NaN
    FAULTY_FLIP,  // every 32nd element, from a given one on, has several bits flipped
    FAULTY_SCALE  // all elements become 1000 times as large
} faulty_kind;

// What happens to launches of one op; the first launch is number 1.
typedef struct faulty_plan {
    faulty_kind kind;
    bt_kernel_op op;    // GEMM, UNARY, CROSS_ENTROPY_MEAN, GRAD_NORM; HANG and STALL: any
    int64_t from, last; // launches of `op` that it happens to
} faulty_plan;

// Adds the backend to the program; a second call does nothing.
void faulty_device_add(void);
// The same under another name, "cpu" in place of the CPU: ranks train there. Not both.
void faulty_device_add_as(const char *name);
// Forgets launches and counts, and sets what happens from now on.
void faulty_device_plan(const faulty_plan *plan);
// From now on GEMM launches of so many columns alone are counted; 0: all.
void faulty_device_columns(int64_t columns);
// Launches of the plan's op so far.
int64_t faulty_device_launches(void);
// The n-th call from now on that allocates, or makes a stream or an event, fails; 0: none.
void faulty_device_fail_at(int64_t n);
// Whether that failure is still to come.
bool faulty_device_fail_pending(void);
// While true, a thread other than the caller's that waits for an event waits on.
void faulty_device_hold(bool held);
// Joins of all streams so far.
int64_t faulty_device_joins(void);
// Blocks, streams and events that were not given back.
int64_t faulty_device_live(void);

#endif
