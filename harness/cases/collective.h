// harness/cases/collective.h - declarations shared by the files of a collective case; private
#ifndef BT_HARNESS_CASES_COLLECTIVE_H
#define BT_HARNESS_CASES_COLLECTIVE_H

#include "framework/dist/group.h"
#include "harness/cases/cases.h"
#include "harness/cases/kernel.h"

typedef struct collective_rank collective_rank;

// A call on the rank's operands.
typedef bt_status (*collective_call)(collective_rank *rank);

// A rank of a case: the worker's own process is rank 0, the others are its children.
struct collective_rank {
    const cJSON *kernel; // of the case
    bt_group *group;     // the measured group, owned
    bt_group *meeting;   // the same ranks, on the host, owned: decides what comes next
    bt_device device;
    bt_stream stream;
    collective_call call;
    bt_dtype dtype;
    int64_t count;  // elements of the largest operand
    int64_t part;   // elements per rank
    char *in, *out; // device memory; memory of the group if it has some, else owned
    bool owns_memory;
    double inject_slowdown;
    double max_time_s;
};

// ---- collective_check.c ------------------------------------------------------------------------

// The call for an operation's name; NULL: none.
collective_call bt_collective_call(const char *op);
// Fills the operands, calls once and compares every element. `salt` selects the values. Sums are of
// small integers, so they are exact in every order of summation.
// Errors  INTERNAL, naming the first wrong element and the rank
BT_CHECKED bt_status bt_collective_check(collective_rank *rank, int salt);

// ---- collective_time.c -------------------------------------------------------------------------

// Samples of all ranks together: a sample begins after all ranks have met and is the slowest rank's
// time. Ends by the rule of kernel cases. `listener`: of rank 0, NULL on the others.
BT_CHECKED bt_status bt_collective_time(collective_rank *rank, const bt_case_listener *listener,
                                        kernel_times *out);

#endif
