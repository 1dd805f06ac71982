// tests/dist/test_lookup.c - the gradient of a tied table in two parts: same bits on any number of
// ranks, the head's part early, of the lookups' part the rows that were used
#include <math.h>
#include <string.h>

#include "framework/dist/data_parallel_impl.h"
#include "framework/nn/gpt2.h"
#include "tests/dist/ranks.h"
#include "tests/dist/train_rank.h"
#include "tests/support/fixture.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

// ---- training -----------------------------------------------------------------------------------

enum { BATCHES = 8, VOCAB = 1000 }; // 256 ids a step

// Rows of 24 elements: parts of ranks, of 16,384 elements, end inside of rows.
static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.model.vocab = VOCAB;
    plan.model.width = 24;
    plan.micro_batch = 2;
    plan.tokens_per_step = BATCHES * 2 * 16;
    plan.steps = 3;
    plan.profile_steps = 0;
    plan.eval_every = 0;
    plan.parallel.invariant = BATCHES;
    plan.parallel.bucket_mb = 0.25;
    return plan;
}

static uint64_t digest_of(int ranks, const bt_train_plan *plan)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, timeout_ns, train_rank, (void *)(uintptr_t)plan, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
        }
        assert_true(results[rank].digest == results[0].digest);
    }
    return results[0].digest;
}

static void bits_do_not_depend_on_ranks(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};
    for (int p = 0; p < 4; ++p) {
        bt_train_plan plan = base_plan();
        plan.precision = p % 2 ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        plan.parallel.invariant = p / 2 ? 4 : BATCHES; // shards of two micro-batches
        rank_result alone = {.status = BT_OK};
        ASSERT_OK(train_rank(NULL, &plan, &alone));
        for (int ranks = 2; ranks <= plan.parallel.invariant; ranks *= 2) {
            for (int m = 0; m < 6; ++m) {
                if (!in_sweep(ranks, m)) {
                    continue;
                }
                plan.parallel.sharding = modes[m / 2];
                plan.parallel.no_overlap = m % 2;
                if (digest_of(ranks, &plan) != alone.digest) {
                    fail_msg("%s, %d ranks, %s, overlap %d: other bits",
                             bt_precision_name(plan.precision), ranks,
                             bt_sharding_name(modes[m / 2]), !(m % 2));
                }
            }
        }
        if (plan.parallel.invariant == BATCHES) { // a micro-batch each
            plan.parallel.sharding = BT_SHARDING_ZERO2;
            assert_true(digest_of(BATCHES, &plan) == alone.digest);
            (void)digest_of(2, &plan);
        }
    }
}

// ---- one rank -----------------------------------------------------------------------------------

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
    bt_tensor *ids, *targets;
    bt_data_parallel *parallel;
    bt_adamw optimizer;
} gpt;

enum { IDS = 32 };

static void open_gpt(gpt *g, bt_group *group, int64_t micro_batches, int64_t lookups)
{
    const bt_gpt2_config config = {
        .layers = 2, .heads = 2, .width = 24, .vocab = VOCAB, .context = 16};
    const bt_adamw_config adamw = {0.9, 0.99, 1e-8, 0.1, 1};
    fixture_open(&g->f, 0);
    bt_params_init(&g->params, &g->f.context, BT_F32, BT_F32, 1337);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
    g->ids = fixture_random(&g->f, BT_I32, BT_SHAPE(2, IDS / 2), 0, VOCAB, 1);
    g->targets = fixture_random(&g->f, BT_I32, BT_SHAPE(IDS), 0, VOCAB, 2);
    const bt_data_parallel_options options = {.group = group,
                                              .sharding = BT_SHARDING_ZERO1,
                                              .bucket_mb = 0.1,
                                              .micro_batches = micro_batches,
                                              .tied = lookups > 0 ? g->model.wte : NULL,
                                              .lookups = lookups};
    ASSERT_OK(bt_data_parallel_create(&g->params, &options, &g->parallel));
    ASSERT_OK(bt_data_parallel_optimizer(g->parallel, &adamw, &g->optimizer));
    assert_true((g->parallel->lookup != NULL) == (lookups > 0));
}

static void close_gpt(gpt *g)
{
    bt_adamw_release(&g->optimizer);
    bt_data_parallel_destroy(g->parallel);
    bt_tensor_release(g->ids);
    bt_tensor_release(g->targets);
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    fixture_close(&g->f);
}

static bt_status micro_step(gpt *g, int64_t index)
{
    bt_tensor *loss = NULL;
    g->f.context.tape = g->f.tape;
    ASSERT_OK(bt_gpt2_loss(&g->f.context, &g->model, g->ids, g->targets, &loss));
    bt_data_parallel_ids(g->parallel, index, bt_tensor_data(g->ids), IDS);
    bt_status status = bt_data_parallel_begin(g->parallel, index);
    status = status == BT_OK ? bt_backward(&g->f.context, loss, NULL) : status;
    g->f.context.tape = NULL;
    bt_tensor_release(loss);
    return status == BT_OK ? bt_data_parallel_end(g->parallel) : status;
}

// The table's gradient in two parts is that in one.
static void two_parts_have_the_sum_of_one(void **state)
{
    (void)state;
    for (int64_t micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
        gpt g[2] = {{.parallel = NULL}, {.parallel = NULL}};
        const float *grad[2];
        double worst = 0, largest = 0;
        for (int i = 0; i < 2; ++i) {
            open_gpt(&g[i], NULL, micro_batches, i * IDS * micro_batches);
            for (int64_t k = 0; k < micro_batches; ++k) {
                ASSERT_OK(micro_step(&g[i], k));
            }
            grad[i] = bt_tensor_data(g[i].model.wte->grad);
        }
        for (int64_t k = 0; k < VOCAB * 24; ++k) {
            worst = fmax(worst, fabs((double)grad[0][k] - (double)grad[1][k]));
            largest = fmax(largest, fabs((double)grad[0][k]));
        }
        // The sums of a row's lookups and of micro-batches have another order: a few roundings.
        assert_true(largest > 0 && worst > 0 && !(worst > 4 * 0x1p-24 * largest));
        close_gpt(&g[0]);
        close_gpt(&g[1]);
    }
}

// ---- a group of two, of which one is here -------------------------------------------------------

static int64_t launches, first_launches, first_count, packed_count;

static bt_status reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    (void)group, (void)in, (void)out, (void)dtype, (void)reduction, (void)stream;
    if (first_count == 0) {
        first_count = count;
        first_launches = launches;
    }
    return BT_OK;
}

static bt_status all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream)
{
    (void)group, (void)data, (void)dtype, (void)reduction, (void)stream;
    packed_count = count;
    return BT_OK;
}

// The other rank has looked up the last row.
static bt_status broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream)
{
    (void)stream;
    if (root != group->rank) {
        memset(data, 0, (size_t)size_bytes);
        ((unsigned char *)data)[size_bytes - 1] = 0x80;
    }
    return BT_OK;
}

static void count_launch(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                         const void *args)
{
    (void)self, (void)kernel, (void)plan, (void)args;
    ++launches;
}

static int64_t distinct(const int32_t *ids)
{
    int64_t count = 1; // the other rank's
    for (int i = 0; i < IDS; ++i) {
        bool seen = ids[i] == VOCAB - 1;
        for (int k = 0; k < i; ++k) {
            seen = seen || ids[k] == ids[i];
        }
        count += !seen;
    }
    return count;
}

static void the_head_is_reduced_first_and_rows_alone_behind_it(void **state)
{
    (void)state;
    const bt_group_backend backend = {.name = "half",
                                      .all_reduce = all_reduce,
                                      .reduce_scatter = reduce_scatter,
                                      .broadcast = broadcast};
    bt_group half = {.backend = &backend, .size = 2};
    gpt g = {.parallel = NULL};
    open_gpt(&g, &half, 1, 2 * IDS);
    g.f.context.kernel_hook = (bt_kernel_hook){NULL, count_launch};
    launches = first_count = 0;
    bt_tensor *loss = NULL;
    g.f.context.tape = g.f.tape;
    ASSERT_OK(bt_gpt2_loss(&g.f.context, &g.model, g.ids, g.targets, &loss));
    const int64_t forward = launches;
    bt_data_parallel_ids(g.parallel, 0, bt_tensor_data(g.ids), IDS);
    ASSERT_OK(bt_data_parallel_begin(g.parallel, 0));
    ASSERT_OK(bt_backward(&g.f.context, loss, NULL));
    const int64_t all = launches - forward;
    ASSERT_OK(bt_data_parallel_end(g.parallel));
    bt_tensor_release(loss);
    assert_int_equal(first_count, g.parallel->layout.items[0].part);
    assert_int_equal(g.parallel->layout.items[0].slot_count, 1);
    assert_true(first_launches - forward <= all / 4);
    assert_int_equal(packed_count, distinct(bt_tensor_data(g.ids)) * 24);
    close_gpt(&g);
}

static void wrong_plans_are_refused(void **state)
{
    (void)state;
    gpt g = {.parallel = NULL};
    open_gpt(&g, NULL, 1, 4);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "looked up more than the 4 rows that were planned",
                 micro_step(&g, 0));
    close_gpt(&g);
    open_gpt(&g, NULL, 1, VOCAB / 2);
    const bt_data_parallel_options large = {.tied = g.model.wte, .lookups = VOCAB / 2 + 1};
    assert_int_equal(bt_lookup_param(&g.params, &large), -1); // most rows would be sent twice
    // A leaf that is not read twice has no first part.
    bt_data_parallel_destroy(g.parallel);
    const bt_data_parallel_options once = {.micro_batches = 1, .tied = g.model.wpe, .lookups = 4};
    ASSERT_OK(bt_data_parallel_create(&g.params, &once, &g.parallel));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "wpe.weight is declared as tied, but only one op reads it", micro_step(&g, 0));
    bt_tape_reset(g.f.tape);
    close_gpt(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_ranks),
        cmocka_unit_test(two_parts_have_the_sum_of_one),
        cmocka_unit_test(the_head_is_reduced_first_and_rows_alone_behind_it),
        cmocka_unit_test(wrong_plans_are_refused),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
