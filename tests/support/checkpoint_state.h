// tests/support/checkpoint_state.h - a small training state whose every bit is known for each step
#ifndef BT_TESTS_SUPPORT_CHECKPOINT_STATE_H
#define BT_TESTS_SUPPORT_CHECKPOINT_STATE_H

#include "framework/checkpoint/state.h"
#include "tests/support/fixture.h"

enum { TEST_STATE_TENSORS = 9 };

typedef struct test_state {
    bt_context *context; // borrowed
    bt_tensor *tensors[TEST_STATE_TENSORS];
    bt_state state;
} test_state;

// Every type; a scalar, an empty tensor, odd sizes. `scale` multiplies the size of one of them.
void test_state_open(test_state *s, bt_context *context, int64_t scale);
void test_state_close(test_state *s);
// Sets tensors and values to those of a step.
void test_state_fill(test_state *s, int64_t step);
// Fails the test unless tensors and values are those of the step, bit by bit.
void test_state_check(const test_state *s, int64_t step);
// The same as an answer.
bool test_state_is(const test_state *s, int64_t step);

#endif
