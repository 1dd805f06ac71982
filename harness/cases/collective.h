// harness/cases/collective.h - what the files of a collective case share; nobody else includes it
#ifndef BT_HARNESS_CASES_COLLECTIVE_H
#define BT_HARNESS_CASES_COLLECTIVE_H

#include "framework/dist/group.h"
#include "harness/cases/cases.h"
#include "harness/cases/kernel.h"

typedef struct collective_rank collective_rank;

// One call on the rank's operands.
typedef bt_status (*collective_call)(collective_rank *rank);

// A rank of a case: the worker's own process is rank 0, the others are its children.
struct collective_rank {
    const cJSON *kernel; // of the case
    bt_group *group;     // what is measured, owned
    bt_group *meeting;   // of the same ranks, on the host, owned: agrees on what comes next
    bt_device device;
    bt_stream stream;
    collective_call call;
    bt_dtype dtype;
    int64_t count;  // elements of the largest operand
    int64_t part;   // of them that are each rank's
    char *in, *out; // of the device; memory of the group where it has some, else owned
    bool owns_memory;
    double inject_slowdown;
    double max_time_s;
};

// ---- collective_check.c ------------------------------------------------------------------------

// The call of an operation's name; NULL: there is none.
collective_call bt_collective_call(const char *op);
// Fills the operands, calls once and compares every element. `salt`: other values. Sums are of
// small whole numbers, so every order of summation must give them exactly.
// Errors  INTERNAL, naming the first wrong element and the rank
BT_CHECKED bt_status bt_collective_check(collective_rank *rank, int salt);

// ---- collective_time.c -------------------------------------------------------------------------

// Samples of all ranks together: each begins when all have met and is the slowest rank's time. Ends
// by the rule of kernel cases. `listener`: of rank 0, NULL on the others.
BT_CHECKED bt_status bt_collective_time(collective_rank *rank, const bt_case_listener *listener,
                                        kernel_times *out);

#endif
