// tests/dist/test_parallel_memory.c - the n-th allocation of data parallel training fails
#include "framework/base/mem.h"
#include "framework/dist/data_parallel.h"
#include "framework/nn/gpt2.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { VOCAB = 11, SHARDS = TEST_SANITIZED ? 2 : 4 };

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *ids, *targets;
} gpt;

static void open_gpt(gpt *g)
{
    const bt_gpt2_config config = {
        .layers = 1, .heads = 2, .width = 8, .vocab = VOCAB, .context = 6};
    fixture_open(&g->f, 0);
    bt_params_init(&g->params, &g->f.context, BT_F32, BT_BF16, 1337);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
    g->ids = fixture_random(&g->f, BT_I32, BT_SHAPE(2, 6), 0, VOCAB, 1);
    g->targets = fixture_random(&g->f, BT_I32, BT_SHAPE(12), 0, VOCAB, 2);
}

static void close_gpt(gpt *g)
{
    bt_tensor_release(g->ids);
    bt_tensor_release(g->targets);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    fixture_close(&g->f); // checks that nothing is left
}

static bt_status micro_step(gpt *g, bt_data_parallel *parallel, int64_t index)
{
    bt_tensor *loss = NULL;
    g->f.context.tape = g->f.tape;
    bt_status status = bt_gpt2_loss(&g->f.context, &g->model, g->ids, g->targets, &loss);
    if (status == BT_OK) {
        status = bt_data_parallel_begin(parallel, index);
    }
    if (status == BT_OK) {
        status = bt_backward(&g->f.context, loss, NULL);
    }
    g->f.context.tape = NULL;
    bt_tensor_release(loss);
    return status == BT_OK ? bt_data_parallel_end(parallel) : status;
}

// Opens all, and on one rank takes a step of one micro-batch a shard.
static bt_status run(gpt *g, bt_group *group, bt_sharding sharding)
{
    const int64_t batches = group ? SHARDS / group->size : SHARDS;
    const bt_data_parallel_options options = {.group = group,
                                              .sharding = sharding,
                                              .bucket_mb = 0.1,
                                              .shards = SHARDS,
                                              .micro_batches = batches};
    const bt_adamw_config config = {0.9, 0.99, 1e-8, 0.1, 1};
    bt_data_parallel *parallel = NULL;
    bt_adamw optimizer = {0};
    bt_status status = bt_data_parallel_create(&g->params, &options, &parallel);
    if (status == BT_OK) {
        status = bt_data_parallel_optimizer(parallel, &config, &optimizer);
    }
    if (status == BT_OK) {
        status = bt_data_parallel_open_state(parallel);
    }
    for (int64_t i = 0; i < batches && !group && status == BT_OK; ++i) {
        status = micro_step(g, parallel, i);
    }
    if (status == BT_OK && !group) {
        status = bt_data_parallel_measure(parallel, &optimizer, 1.0 / SHARDS);
    }
    if (status == BT_OK && !group) {
        status = bt_data_parallel_update(parallel, &optimizer, 0.1);
    }
    bt_adamw_release(&optimizer);
    bt_data_parallel_destroy(parallel);
    bt_tape_reset(g->f.tape);
    return status;
}

static void every_failure_leaves_nothing(bt_group *group, bt_sharding sharding)
{
    for (int where = 0; where < 2; ++where) {
        int64_t failures = 0;
        bt_status status = BT_STATUS_OUT_OF_MEMORY;
        for (int64_t n = 1; n < 4000 && status != BT_OK; ++n) {
            gpt g;
            open_gpt(&g);
            if (where == 0) {
                bt_mem_fail_at(n);
            } else {
                bt_pool_fail_at(g.f.pool, n);
            }
            status = run(&g, group, sharding);
            bt_mem_fail_at(0);
            bt_pool_fail_at(g.f.pool, 0);
            close_gpt(&g);
            assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
            failures += status != BT_OK;
        }
        assert_int_equal(status, BT_OK);
        assert_true(failures > 20);
    }
}

static void one_rank_with_shards(void **state)
{
    (void)state;
    every_failure_leaves_nothing(NULL, BT_SHARDING_DDP);
}

static void a_rank_of_two(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_ZERO1, BT_SHARDING_ZERO2, BT_SHARDING_ZERO3};
    for (int rank = 0; rank < 2; ++rank) {
        const bt_group_backend silent = {.name = "silent"}; // nothing is sent before a step
        bt_group group = {.backend = &silent, .rank = rank, .size = 2};
        for (int m = 0; m < 3; ++m) {
            if (TEST_SANITIZED && m % 2 != rank) { // each mode on one of the ranks
                continue;
            }
            every_failure_leaves_nothing(&group, modes[m]);
        }
    }
}

static void a_parameter_that_is_not_used_is_named(void **state)
{
    (void)state;
    gpt g;
    bt_tensor *value = NULL;
    open_gpt(&g);
    ASSERT_OK(bt_params_add(&g.params, "spare", BT_PARAM_COMPUTE, BT_SHAPE(3), 0, 1, &value));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "parameter spare got no gradient",
                 run(&g, NULL, BT_SHARDING_DDP));
    close_gpt(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_with_shards),
        cmocka_unit_test(a_rank_of_two),
        cmocka_unit_test(a_parameter_that_is_not_used_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
