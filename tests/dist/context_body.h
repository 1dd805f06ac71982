// tests/dist/context_body.h - attention over the ranks of a group against that of one rank
#ifndef BT_TESTS_DIST_CONTEXT_BODY_H
#define BT_TESTS_DIST_CONTEXT_BODY_H

#include "framework/dist/context_ring.h"
#include "framework/tensor/tensor.h"
#include "tests/dist/ranks.h"

typedef struct context_case {
    int64_t batch, tokens, heads, kv_heads, dim;
    int64_t window;
    bool causal;
    bt_dtype dtype;
    bt_compute compute;
    bt_rotation rotation;
    unsigned delay_seed; // of a slow transport and of late ranks; 0: none
    int repeats;         // more runs of the op, in which larger blocks follow smaller ones
    // Over the links of GPUs the backward has calls for one side alone, on a GPU from sm_90 on, and
    // two ranks take each other's gradients if they can.
    bool by_sides;
} context_case;

// Runs the op forward and backward as this rank, on the group's device, twice; compares its output
// and gradient with those of one rank in double, computed here. result->digest: of all bits.
// Errors  INTERNAL naming the element, expected and found
bt_status context_compare(bt_group *group, const context_case *what, rank_result *result);
// Central differences of a random sum of the outputs of all ranks, in double, against the gradient.
bt_status context_differences(bt_group *group, const context_case *what, rank_result *result);

#endif
