// tests/fault/test_train_memory.c - training when the n-th allocation fails, for every n
//
// Three kinds of allocation: of the host (our own structures), of the device (segments, pinned
// memory, streams, events) and of the pool (tensors, workspaces).
#include <stdio.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/base/mem.h"
#include "framework/nn/gpt2.h"
#include "framework/optim/adamw.h"
#include "tests/support/faulty_device.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { N_MAX = 20000, HEADS = 2, TOKENS = 8, BATCH = 2, STEPS = 3 };

static bt_train_plan tiny_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.device = "faulty";
    plan.model.layers = 1;
    plan.model.width = 16;
    plan.micro_batch = 2;
    plan.sequence = TOKENS;
    plan.tokens_per_step = (int64_t)2 * 2 * TOKENS;
    plan.steps = 2;
    plan.eval_every = 1;
    plan.eval_batches = 1;
    plan.warmup_timing_steps = 0;
    plan.profile_steps = 1;
    return plan;
}

// Everything back, and the message is still that of the first failure.
static void check_failed(bt_status status, int64_t n, const char *words, int64_t live_before)
{
    if (status != BT_STATUS_OUT_OF_MEMORY || !strstr(bt_error_message(), words)) {
        fail_msg("allocation %lld: %s: %s", (long long)n, bt_status_text(status),
                 bt_error_message());
    }
    assert_int_equal(bt_mem_live_count(), live_before);
    assert_int_equal(faulty_device_live(), 0);
}

static void every_host_allocation_of_a_run_may_fail(void **state)
{
    (void)state;
    const bt_train_plan plan = tiny_plan();
    const bt_train_observer quiet = {0};
    const int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    bt_train_result result;
    int64_t n = 0, failed = 0;
    // An allocation that training can do without may fail unseen, so the end is a run in which
    // nothing was left to fail.
    bool reached = true;
    while (reached) {
        bt_error_clear();
        bt_mem_fail_at(++n);
        status = bt_train_run(&plan, &quiet, &result);
        reached = !bt_mem_fail_pending();
        bt_mem_fail_at(0);
        if (status != BT_OK) {
            ++failed;
            check_failed(status, n, "host memory", live);
        }
        assert_int_equal(bt_mem_live_count(), live);
        assert_true(n < N_MAX);
    }
    assert_int_equal(status, BT_OK);
    assert_true(failed > 300);
}

static void every_device_allocation_of_a_run_may_fail(void **state)
{
    (void)state;
    const bt_train_plan plan = tiny_plan();
    const bt_train_observer quiet = {0};
    const int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    bt_train_result result;
    int64_t n = 0, failed = 0;
    bool reached = true;
    while (reached) {
        bt_error_clear();
        faulty_device_fail_at(++n);
        status = bt_train_run(&plan, &quiet, &result);
        reached = !faulty_device_fail_pending();
        faulty_device_fail_at(0);
        if (status != BT_OK) {
            ++failed;
            check_failed(status, n, "injected failure", live);
        }
        assert_true(n < N_MAX);
    }
    assert_int_equal(status, BT_OK);
    assert_true(failed > 10);
}

// ---- the pool ----------------------------------------------------------------------------------

typedef struct setting {
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_adamw optimizer;
    bt_tensor *ids, *targets;
} setting;

static void open_setting(setting *s)
{
    const bt_gpt2_config model = {
        .layers = 1, .heads = HEADS, .width = 16, .vocab = SMALL_VOCAB, .context = TOKENS};
    const bt_adamw_config optimizer = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .clip = 1};
    int32_t tokens[BATCH * TOKENS];
    for (int32_t i = 0; i < BATCH * TOKENS; ++i) {
        tokens[i] = i * 7 % SMALL_VOCAB;
    }
    memset(s, 0, sizeof *s);
    ASSERT_OK(bt_session_open("faulty", 0, 0, &s->session));
    bt_params_init(&s->params, &s->session.context, BT_F32, BT_BF16, 1);
    ASSERT_OK(bt_gpt2_init(&s->params, &model, &s->model));
    ASSERT_OK(bt_adamw_init(&s->params, &optimizer, &s->optimizer));
    ASSERT_OK(
        bt_tensor_create(&s->session.context, BT_I32, BT_SHAPE(BATCH, TOKENS), "ids", &s->ids));
    ASSERT_OK(bt_tensor_create(&s->session.context, BT_I32, BT_SHAPE(BATCH, TOKENS), "targets",
                               &s->targets));
    ASSERT_OK(bt_tensor_write(&s->session.context, s->ids, tokens));
    ASSERT_OK(bt_tensor_write(&s->session.context, s->targets, tokens));
}

static void close_setting(setting *s)
{
    bt_pool_stats stats;
    bt_tensor_release(s->ids);
    bt_tensor_release(s->targets);
    bt_adamw_release(&s->optimizer);
    bt_gpt2_release(&s->model);
    bt_params_release(&s->params);
    bt_tape_reset(s->session.tape);
    bt_pool_stats_read(s->session.pool, &stats);
    assert_int_equal(stats.live_blocks, stats.arena_bytes > 0); // the arena is one block
    bt_session_close(&s->session);
    assert_int_equal(faulty_device_live(), 0);
}

static bt_status step_of(setting *s)
{
    bt_context *context = &s->session.context;
    bt_tensor *loss = NULL;
    bt_pool_step_begin(s->session.pool, 0);
    bt_status status = bt_gpt2_loss(context, &s->model, s->ids, s->targets, &loss);
    status = status == BT_OK ? bt_backward(context, loss, NULL) : status;
    bt_tensor_release(loss);
    status = status == BT_OK ? bt_adamw_step(context, &s->optimizer, 1e-3, 1) : status;
    bt_pool_step_end(s->session.pool);
    return status;
}

// After a failure the step is done again from its start: nothing of the failed one may be left in
// gradients, tape or pool, so the bits are those of a run without failures.
static void start_over(setting *s)
{
    bt_tape_reset(s->session.tape);
    bt_params_clear_grads(&s->params);
}

static void every_pool_allocation_of_a_step_may_fail(void **state)
{
    (void)state;
    char expected[33], digest[33];
    setting s;
    open_setting(&s);
    for (int i = 0; i < STEPS; ++i) {
        ASSERT_OK(step_of(&s));
    }
    ASSERT_OK(bt_params_digest(&s.params, expected));
    close_setting(&s);
    for (int broken = 0; broken < STEPS; ++broken) { // the first is recorded, the others planned
        int64_t n = 0;
        bt_status status = BT_STATUS_OUT_OF_MEMORY;
        while (status != BT_OK) {
            open_setting(&s);
            for (int i = 0; i < broken; ++i) {
                ASSERT_OK(step_of(&s));
            }
            bt_pool_fail_at(s.session.pool, ++n);
            status = step_of(&s);
            bt_pool_fail_at(s.session.pool, 0);
            if (status != BT_OK) {
                assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
                start_over(&s);
                assert_non_null(strstr(bt_error_message(), "injected"));
                ASSERT_OK(bt_pool_check(s.session.pool));
            }
            for (int i = broken + (status == BT_OK); i < STEPS; ++i) {
                ASSERT_OK(step_of(&s));
            }
            ASSERT_OK(bt_params_digest(&s.params, digest));
            assert_string_equal(digest, expected);
            close_setting(&s);
            assert_true(n < N_MAX);
        }
        assert_true(n > 50);
    }
}

static int set_up(void **state)
{
    faulty_device_add();
    return small_corpus_write(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_allocation_of_a_run_may_fail),
        cmocka_unit_test(every_device_allocation_of_a_run_may_fail),
        cmocka_unit_test(every_pool_allocation_of_a_step_may_fail),
    };
    return cmocka_run_group_tests_name("training without memory", tests, set_up,
                                       small_corpus_remove);
}
