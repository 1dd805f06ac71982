// tests/unit/test_recompute_modes.c - context->recompute: the same bits, less kept, no leaks
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { X, W, GAMMA, BETA, UP, DOWN, LEAVES, ROWS = 6, COLS = 8, HIDDEN = 32 };

typedef struct setting {
    fixture f;
    bt_tensor *leaves[LEAVES];
} setting;

static void open_setting(setting *s, bt_recompute_mode mode)
{
    static const bt_shape shapes[LEAVES] = {{2, {ROWS, COLS}},   {2, {COLS, COLS}},
                                            {1, {COLS}},         {1, {COLS}},
                                            {2, {HIDDEN, COLS}}, {2, {COLS, HIDDEN}}};
    fixture_open(&s->f, 0);
    for (int i = 0; i < LEAVES; ++i) {
        s->leaves[i] = fixture_random(&s->f, BT_F32, shapes[i], -1, 1, (uint64_t)i);
        s->leaves[i]->requires_grad = true;
        s->leaves[i]->name = "leaf";
    }
    s->leaves[X]->name = "x";
    s->f.context.recompute = mode;
}

static void close_setting(setting *s)
{
    for (int i = 0; i < LEAVES; ++i) {
        assert_int_equal(s->leaves[i]->grad_pending, 0);
        bt_tensor_release(s->leaves[i]);
    }
    fixture_close(&s->f);
}

// y = z + mlp(z), where z = layernorm(x) w + x; *normed is retained.
static bt_status block(setting *s, bt_tensor *x, bt_tensor **normed, bt_tensor **y)
{
    bt_context *c = &s->f.context;
    bt_tensor *product = NULL, *z = NULL;
    bt_status status = BT_OK;
    *normed = *y = NULL;
    BT_TRY_GOTO(bt_layernorm(c, x, s->leaves[GAMMA], s->leaves[BETA], 1e-5, normed), done);
    BT_TRY_GOTO(
        bt_linear(c, *normed, s->leaves[W], s->leaves[BETA], NULL, BT_ACTIVATION_NONE, &product),
        done);
    BT_TRY_GOTO(bt_linear(c, product, s->leaves[W], NULL, x, BT_ACTIVATION_NONE, &z), done);
    BT_TRY_GOTO(bt_feed_forward(c, z, s->leaves[UP], NULL, s->leaves[DOWN], NULL, z, y), done);
done:
    bt_tensor_release(product);
    bt_tensor_release(z);
    return status;
}

// Three blocks and their loss, backward. A write, if requested, changes x after the forward.
static bt_status run(setting *s, bool writes)
{
    bt_tensor *x = bt_tensor_retain(s->leaves[X]), *normed = NULL, *y = NULL, *loss = NULL;
    bt_status status = BT_OK;
    for (int i = 0; i < 3 && status == BT_OK; ++i) {
        status = block(s, x, &normed, &y);
        BT_TENSOR_RELEASE(normed);
        bt_tensor_release(x);
        x = y;
    }
    if (status == BT_OK) {
        status = bt_sum_all(&s->f.context, x, &loss);
    }
    if (status == BT_OK && writes) {
        status = bt_tensor_fill(&s->f.context, s->leaves[X], 1);
    }
    if (status == BT_OK) {
        status = bt_backward(&s->f.context, loss, NULL);
    }
    bt_tensor_release(loss);
    bt_tensor_release(x);
    return status;
}

static void gradients_have_the_same_bits(void **state)
{
    (void)state;
    static float first[LEAVES][HIDDEN * COLS];
    for (int mode = 0; mode < BT_RECOMPUTE_COUNT; ++mode) {
        for (int again = 0; again < 2; ++again) { // twice on one tape: places are used again
            setting s;
            open_setting(&s, (bt_recompute_mode)mode);
            for (int pass = 0; pass <= again; ++pass) {
                for (int i = 0; i < LEAVES; ++i) {
                    BT_TENSOR_RELEASE(s.leaves[i]->grad);
                }
                ASSERT_OK(run(&s, false));
            }
            for (int i = 0; i < LEAVES; ++i) {
                const size_t size_bytes = bt_tensor_bytes(s.leaves[i]);
                if (mode == 0 && !again) {
                    memcpy(first[i], bt_tensor_data(s.leaves[i]->grad), size_bytes);
                }
                assert_memory_equal(bt_tensor_data(s.leaves[i]->grad), first[i], size_bytes);
            }
            close_setting(&s);
        }
    }
}

static void what_is_kept_is_checked(void **state)
{
    (void)state;
    for (int mode = 0; mode < BT_RECOMPUTE_COUNT; ++mode) {
        setting s;
        open_setting(&s, (bt_recompute_mode)mode);
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"x\", saved for backward, was written in place",
                     run(&s, true));
        close_setting(&s);
    }
}

// An output that was overwritten before it was used is kept, as nothing makes that again.
static void an_overwritten_output_is_kept(void **state)
{
    (void)state;
    float grads[2][COLS * COLS];
    for (int mode = 0; mode < 2; ++mode) {
        setting s;
        bt_tensor *normed = NULL, *y = NULL, *loss = NULL;
        open_setting(&s, mode ? BT_RECOMPUTE_GELU_LN : BT_RECOMPUTE_NONE);
        bt_context *c = &s.f.context;
        ASSERT_OK(bt_layernorm(c, s.leaves[X], s.leaves[GAMMA], s.leaves[BETA], 1e-5, &normed));
        ASSERT_OK(bt_tensor_fill(c, normed, 0.5));
        ASSERT_OK(bt_linear(c, normed, s.leaves[W], NULL, NULL, BT_ACTIVATION_NONE, &y));
        ASSERT_OK(bt_sum_all(c, y, &loss));
        ASSERT_OK(bt_backward(c, loss, NULL));
        memcpy(grads[mode], bt_tensor_data(s.leaves[W]->grad), sizeof grads[mode]);
        bt_tensor_release(normed);
        bt_tensor_release(y);
        bt_tensor_release(loss);
        close_setting(&s);
    }
    assert_memory_equal(grads[0], grads[1], sizeof grads[0]);
    assert_true(grads[0][0] == 0.5F * ROWS);
}

// Device memory in use after `layers` of a linear layer and attention, whose node saves its output.
static uint64_t used_by_attention(int64_t layers, uint64_t *output_bytes)
{
    setting s;
    bt_pool_stats stats;
    open_setting(&s, BT_RECOMPUTE_BLOCK_OFFLOAD);
    bt_context *c = &s.f.context;
    bt_tensor *w = fixture_random(&s.f, BT_F32, BT_SHAPE(3 * COLS, COLS), -1, 1, 1);
    bt_tensor *x = fixture_random(&s.f, BT_F32, BT_SHAPE(1, 64, COLS), -1, 1, 2);
    w->requires_grad = true;
    *output_bytes = bt_tensor_bytes(x);
    for (int64_t i = 0; i < layers; ++i) {
        bt_tensor *qkv = NULL, *y = NULL;
        ASSERT_OK(bt_linear(c, x, w, NULL, NULL, BT_ACTIVATION_NONE, &qkv));
        ASSERT_OK(bt_attention(c, qkv, 1, true, &y));
        bt_tensor_release(qkv);
        bt_tensor_release(x);
        x = y;
    }
    bt_pool_stats_read(s.f.pool, &stats);
    bt_tape_reset(s.f.tape);
    bt_tensor_release(w);
    bt_tensor_release(x);
    close_setting(&s);
    return stats.allocated_bytes;
}

static void an_output_that_is_saved_is_offloaded(void **state)
{
    (void)state;
    uint64_t output_bytes = 0;
    const uint64_t few = used_by_attention(6, &output_bytes);
    const uint64_t more = used_by_attention(12, &output_bytes);
    assert_true(more - few < 6 * output_bytes); // the log-sum-exps only
}

static void modes_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < BT_RECOMPUTE_COUNT; ++i) {
        bt_recompute_mode mode = BT_RECOMPUTE_COUNT;
        assert_true(bt_recompute_mode_parse(bt_recompute_mode_name((bt_recompute_mode)i), &mode));
        assert_int_equal(mode, i);
    }
    bt_recompute_mode mode = BT_RECOMPUTE_NONE;
    assert_false(bt_recompute_mode_parse("blocks", &mode));
}

// The n-th allocation fails, on the host and on the device: nothing leaks (close_setting checks).
static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    for (int how = 0; how < 2 * BT_RECOMPUTE_COUNT; ++how) {
        int64_t failures = 0;
        for (int64_t n = 1; n < 2000; ++n) {
            setting s;
            open_setting(&s, (bt_recompute_mode)(how / 2));
            if (how % 2) {
                bt_mem_fail_at(n);
            } else {
                bt_pool_fail_at(s.f.pool, n);
            }
            bt_status status = run(&s, false);
            bt_mem_fail_at(0);
            bt_pool_fail_at(s.f.pool, 0);
            bt_tape_reset(s.f.tape);
            close_setting(&s);
            if (status == BT_OK) {
                break;
            }
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
            ++failures;
        }
        assert_true(failures > 20 && failures < 1990);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_have_the_same_bits),
        cmocka_unit_test(what_is_kept_is_checked),
        cmocka_unit_test(an_overwritten_output_is_kept),
        cmocka_unit_test(an_output_that_is_saved_is_offloaded),
        cmocka_unit_test(modes_have_names),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests_name("recompute modes", tests, NULL, NULL);
}
