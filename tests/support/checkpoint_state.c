// tests/support/checkpoint_state.c - bytes from the counter-based generator: (step, tensor, place)
#include "tests/support/checkpoint_state.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"

static const struct {
    const char *name;
    bt_dtype dtype;
    bt_shape shape;
} rows[TEST_STATE_TENSORS] = {
    {"h.0.weight", BT_F32, {2, {5, 7}}}, {"scalar", BT_F64, {0, {0}}},
    {"copy", BT_BF16, {1, {3}}},         {"empty", BT_F32, {2, {0, 4}}},
    {"half", BT_F16, {3, {2, 3, 1}}},    {"m.\"quoted\" \xc3\xa9", BT_F32, {1, {129}}},
    {"ids", BT_I32, {1, {17}}},          {"bytes", BT_U8, {1, {301}}},
    {"counts", BT_I64, {1, {1}}},
};

void test_state_open(test_state *s, bt_context *context, int64_t scale)
{
    *s = (test_state){.context = context};
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        bt_shape shape = rows[i].shape;
        shape.size[0] *= rows[i].dtype == BT_U8 ? scale : 1;
        ASSERT_OK(bt_tensor_create(context, rows[i].dtype, shape, rows[i].name, &s->tensors[i]));
        ASSERT_OK(bt_state_add(&s->state, rows[i].name, s->tensors[i]));
    }
}

void test_state_close(test_state *s)
{
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        bt_tensor_release(s->tensors[i]);
    }
    bt_state_release(&s->state);
}

static unsigned char *bytes_of(int64_t step, int tensor, size_t size_bytes)
{
    unsigned char *bytes = malloc(size_bytes + 16);
    for (size_t at = 0; at < size_bytes; at += 16) {
        uint32_t words[4];
        bt_rng_block((bt_rng){(uint64_t)step, (uint64_t)tensor}, at, words);
        memcpy(bytes + at, words, sizeof words);
    }
    return bytes;
}

static bt_state_values values_of(int64_t step)
{
    return (bt_state_values){.step = step,
                             .epoch = step / 3,
                             .position = step * 64 + 1,
                             .rng = {UINT64_MAX - (uint64_t)step, (uint64_t)1 << 63},
                             .rng_index = (uint64_t)step << 40 | 1,
                             .lr = 1.0 / (double)(step + 3),
                             .min_lr = 5e-324 * (double)step,
                             .warmup_steps = 700,
                             .decay_steps = -1,
                             .heads = step % 5};
}

void test_state_fill(test_state *s, int64_t step)
{
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        unsigned char *bytes = bytes_of(step, i, bt_tensor_bytes(s->tensors[i]));
        ASSERT_OK(bt_tensor_write(s->context, s->tensors[i], bytes));
        ASSERT_OK(bt_context_synchronize(s->context)); // the bytes go
        free(bytes);
    }
    s->state.values = values_of(step);
}

static bool same_values(const bt_state_values *a, const bt_state_values *b)
{
    return a->step == b->step && a->epoch == b->epoch && a->position == b->position &&
           a->rng.seed == b->rng.seed && a->rng.stream == b->rng.stream &&
           a->rng_index == b->rng_index && a->lr == b->lr && a->min_lr == b->min_lr &&
           a->warmup_steps == b->warmup_steps && a->decay_steps == b->decay_steps &&
           a->heads == b->heads;
}

bool test_state_is(const test_state *s, int64_t step)
{
    const bt_state_values values = values_of(step);
    bool same = same_values(&s->state.values, &values);
    for (int i = 0; i < TEST_STATE_TENSORS; ++i) {
        size_t size_bytes = bt_tensor_bytes(s->tensors[i]);
        unsigned char *bytes = bytes_of(step, i, size_bytes);
        unsigned char *got = malloc(size_bytes + 1);
        ASSERT_OK(bt_tensor_read(s->context, s->tensors[i], got));
        same = same && memcmp(bytes, got, size_bytes) == 0;
        free(got);
        free(bytes);
    }
    return same;
}

void test_state_check(const test_state *s, int64_t step)
{
    if (!test_state_is(s, step)) {
        fail_msg("the state is not that of step %lld", (long long)step);
    }
}
