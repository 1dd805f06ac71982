// GPT-2 whose matrices ranks share, against one rank's: loss, gradients, initial values. With
// and sequence parallel: the same, the bits of the forward, and less memory.
#include <omp.h>
#include <string.h>

#include "tests/dist/gpt_ranks.h"
#include "tests/support/test.h"

static void every_degree_agrees_with_one_rank(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; ++i) {
        // 12 heads on 8 ranks: four ranks have two
        gpt_expect_one_rank((how){.heads = 12, .width = 24, .master = BT_F64, .compute = BT_F64},
                            degrees[i]);
        gpt_expect_one_rank((how){.heads = 12, .width = 48, .master = BT_F32, .compute = BT_F32},
                            degrees[i]);
    }
    gpt_expect_one_rank((how){.heads = 4, .width = 64, .master = BT_F32, .compute = BT_BF16}, 2);
}

static void recomputation_and_delays_change_nothing(void **state)
{
    (void)state;
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        gpt_expect_one_rank((how){.heads = 4,
                                  .width = 32,
                                  .master = BT_F64,
                                  .compute = BT_F64,
                                  .recompute = (bt_recompute_mode)mode,
                                  .slow_seed = 5},
                            2);
    }
}

static void sequence_parallel_agrees_with_one_rank(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 4, 8};
    how with = {.heads = 12, .width = 24, .tokens = GPT_CONTEXT, .sequence_parallel = true};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; ++i) {
        with.master = with.compute = BT_F64;
        gpt_expect_one_rank(with, degrees[i]); // 12 heads on 8 ranks
        with.master = with.compute = BT_F32;
        gpt_expect_one_rank(with, degrees[i]);
    }
    with = (how){.heads = 3, .width = 24, .tokens = 6, .sequence_parallel = true};
    with.master = with.compute = BT_F64;
    gpt_expect_one_rank(with, 3); // parts of four rows, of which one is from both sequences
    with = (how){.heads = 4, .width = 64, .tokens = GPT_CONTEXT, .sequence_parallel = true};
    with.master = BT_F32;
    with.compute = BT_BF16;
    gpt_expect_one_rank(with, 2);
    with.master = with.compute = BT_F64;
    with.slow_seed = 7;
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        with.recompute = (bt_recompute_mode)mode;
        gpt_expect_one_rank(with, 4);
    }
}

// Parameters, gradients, and the peak of the other memory in two passes.
static bt_status peak_of(gpt *g, uint64_t *peak_bytes)
{
    bt_pool_stats stats;
    BT_TRY(gpt_run(g));
    bt_pool_stats_read(g->session.pool, &stats);
    *peak_bytes = stats.peak_allocated_bytes;
    return BT_OK;
}

// The loss is that of tensor parallel alone, to the bit: sums have one order. Of each layer the
// two sums of the residual stream shrink to a part, and with GELU_LN the gathered rows go.
static bt_status keeps_less(bt_group *group, void *argument, rank_result *result)
{
    const how *with = argument;
    how sequence = *with;
    gpt whole = {.loss = NULL}, dealt = {.loss = NULL};
    uint64_t whole_bytes = 0, dealt_bytes = 0;
    float loss[2] = {0};
    (void)result;
    omp_set_num_threads(1);
    sequence.sequence_parallel = true;
    bt_status status = gpt_open(&whole, with, group);
    status = status ? status : gpt_open(&dealt, &sequence, group);
    status = status ? status : peak_of(&whole, &whole_bytes);
    status = status ? status : peak_of(&dealt, &dealt_bytes);
    status = status ? status : bt_tensor_read(&whole.session.context, whole.loss, &loss[0]);
    status = status ? status : bt_tensor_read(&dealt.session.context, dealt.loss, &loss[1]);
    const uint64_t stream = (uint64_t)(GPT_BATCH * with->tokens * with->width) * sizeof(float);
    const uint64_t less = 2 * GPT_LAYERS * (stream - stream / (uint64_t)group->size);
    if (status == BT_OK && !(loss[0] == loss[1])) {
        status = bt_error(BT_STATUS_INTERNAL, "loss %.9g, of tensor parallel alone %.9g",
                          (double)loss[1], (double)loss[0]);
    }
    if (status == BT_OK && !(dealt_bytes + less * 3 / 4 <= whole_bytes)) {
        status = bt_error(BT_STATUS_INTERNAL,
                          "%llu bytes, tensor parallel alone %llu; expected about %llu less",
                          (unsigned long long)dealt_bytes, (unsigned long long)whole_bytes,
                          (unsigned long long)less);
    }
    gpt_close(&whole);
    gpt_close(&dealt);
    return status;
}

static void sequence_parallel_has_the_same_loss_in_less_memory(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {
        .heads = 8, .width = 128, .tokens = GPT_CONTEXT, .master = BT_F32, .compute = BT_F32};
    for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
        with.recompute = (bt_recompute_mode)mode;
        run_ranks(RANKS_THREADS, 4, gpt_timeout_ns, keeps_less, &with, results);
        for (int rank = 0; rank < 4; ++rank) {
            if (results[rank].status != BT_OK) {
                fail_msg("mode %d, rank %d: %s", mode, rank, results[rank].message);
            }
        }
    }
}

static bt_status opens(bt_group *group, void *argument, rank_result *result)
{
    gpt part = {.loss = NULL};
    (void)result;
    bt_status status = gpt_open(&part, argument, group);
    gpt_close(&part);
    return status;
}

static void more_ranks_than_heads_are_refused(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    how with = {.heads = 2, .width = 16, .master = BT_F32, .compute = BT_F32};
    run_ranks(RANKS_THREADS, 4, gpt_timeout_ns, opens, &with, results);
    for (int rank = 0; rank < 4; ++rank) {
        assert_int_equal(results[rank].status, BT_STATUS_INVALID_ARGUMENT);
        assert_non_null(
            strstr(results[rank].message, "train.mesh.tensor is 4, but train.model.heads is 2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_degree_agrees_with_one_rank),
        cmocka_unit_test(recomputation_and_delays_change_nothing),
        cmocka_unit_test(sequence_parallel_agrees_with_one_rank),
        cmocka_unit_test(sequence_parallel_has_the_same_loss_in_less_memory),
        cmocka_unit_test(more_ranks_than_heads_are_refused),
    };
    return cmocka_run_group_tests_name("dist.tensor_parallel", tests, NULL, NULL);
}
