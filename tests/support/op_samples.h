// tests/support/op_samples.h - test cases of every row of the op table
#ifndef BT_TESTS_SUPPORT_OP_SAMPLES_H
#define BT_TESTS_SUPPORT_OP_SAMPLES_H

#include <stdalign.h>
#include <stddef.h>

#include "framework/ops/op.h"

// Operands to draw at random, and attributes.
typedef struct op_sample {
    int in_count;
    bt_op_spec in[BT_OP_MAX_INPUTS]; // dtype F64 stands for "the type under test"
    bool present[BT_OP_MAX_INPUTS];
    double low[BT_OP_MAX_INPUTS], high[BT_OP_MAX_INPUTS]; // domain
    const int32_t *integers[BT_OP_MAX_INPUTS]; // of an i32 input: its values; NULL: drawn
    alignas(max_align_t) unsigned char attrs[BT_OP_ATTRS_BYTES];
} op_sample;

// The variant-th test case of an op; false past the last. Ops over ranks are given one rank:
// tests/dist has several.
bool op_sample_of(bt_op_id id, int variant, op_sample *out);

#endif
