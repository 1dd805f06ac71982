// tests/dist/test_data_parallel.c - buckets, what is sent and when, and what each rank keeps
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/dist/bucket.h"
#include "framework/nn/gpt2.h"
#include "kernels/kernels.h"
#include "tests/dist/ranks.h"
#include "tests/support/fixture.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { BLOCK_PARAMETERS = 12 };
static const int64_t timeout_ns = 60000000000;

// ---- layout -------------------------------------------------------------------------------------

typedef struct gpt {
    fixture f;
    bt_params params;
    bt_gpt2 model;
} gpt;

static void open_gpt(gpt *g, bt_dtype compute)
{
    const bt_gpt2_config config = {
        .layers = 3, .heads = 2, .width = 64, .vocab = 700, .context = 16};
    fixture_open(&g->f, 0);
    bt_params_init(&g->params, &g->f.context, BT_F32, compute, 1337);
    ASSERT_OK(bt_gpt2_init(&g->params, &config, &g->model));
}

static void close_gpt(gpt *g)
{
    bt_gpt2_release(&g->model);
    bt_params_release(&g->params);
    fixture_close(&g->f);
}

// Every parameter once, no overlap, types apart, parts that tile the bucket in whole blocks, and
// the same members for any number of ranks.
static void check_layout(const bt_params *params, const bt_buckets *buckets, const bt_buckets *one)
{
    assert_int_equal(buckets->slot_count, params->count);
    assert_int_equal(buckets->count, one->count);
    int64_t slots = 0;
    for (int64_t b = 0; b < buckets->count; ++b) {
        const bt_bucket *bucket = &buckets->items[b];
        int64_t end = 0;
        assert_int_equal(bucket->count, bucket->part * buckets->ranks);
        assert_int_equal(bucket->part % BT_SQUARES_BLOCK, 0);
        assert_int_equal(bucket->first, slots);
        for (int64_t s = bucket->first; s < bucket->first + bucket->slot_count; ++s) {
            const bt_bucket_slot *slot = &buckets->slots[s];
            const bt_tensor *value = params->items[slot->param].value;
            int64_t whole = 0, at = 0, from = 0;
            assert_memory_equal(slot, &one->slots[s], sizeof *slot);
            assert_int_equal(slot->bucket, b);
            assert_int_equal(slot->offset % BT_SQUARES_BLOCK, 0);
            assert_int_equal(slot->count, bt_tensor_count(value));
            assert_int_equal(value->dtype, bucket->dtype);
            assert_int_equal(params->items[slot->param].partial, bucket->partial);
            assert_true(slot->offset >= end);
            end = slot->offset + slot->count;
            for (int rank = 0; rank < buckets->ranks; ++rank) {
                int64_t offset = 0;
                const int64_t count = bt_bucket_slot_part(buckets, slot, rank, &offset, &at);
                if (count > 0) {
                    assert_int_equal(offset, from);
                    assert_int_equal(rank * bucket->part + at, slot->offset + offset);
                    from += count;
                }
                whole += count;
            }
            assert_int_equal(whole, slot->count);
        }
        assert_true(end <= bucket->count);
        slots += bucket->slot_count;
    }
    assert_int_equal(slots, params->count);
}

static void buckets_tile_the_parameters(void **state)
{
    (void)state;
    static const bt_dtype computes[] = {BT_F32, BT_BF16};
    static const int64_t sizes[] = {1, 200000, 1000000, 1 << 30};
    static const int ranks[] = {1, 2, 3, 8};
    for (int c = 0; c < 2; ++c) {
        gpt g;
        open_gpt(&g, computes[c]);
        for (int s = 0; s < 4; ++s) {
            bt_buckets one;
            ASSERT_OK(bt_buckets_make(&g.params, 1, -1, sizes[s], &one));
            assert_true(s > 0 || one.count == g.params.count); // each alone
            assert_true(s < 3 || one.count == 1 + c);          // all, of each type
            for (int r = 0; r < 4; ++r) {
                bt_buckets buckets;
                ASSERT_OK(bt_buckets_make(&g.params, ranks[r], -1, sizes[s], &buckets));
                check_layout(&g.params, &buckets, &one);
                bt_buckets_release(&buckets);
            }
            bt_buckets_release(&one);
        }
        close_gpt(&g);
    }
}

// Normalizations, to which several ranks contribute terms, come after all others.
static void partial_parameters_are_in_the_last_buckets(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 200000, 1 << 30};
    gpt g;
    open_gpt(&g, BT_F32);
    for (int64_t i = 0; i < g.params.count; ++i) {
        g.params.items[i].partial = strstr(g.params.items[i].name, "ln_") != NULL;
    }
    for (int s = 0; s < 3; ++s) {
        bt_buckets one, two;
        ASSERT_OK(bt_buckets_make(&g.params, 1, -1, sizes[s], &one));
        ASSERT_OK(bt_buckets_make(&g.params, 2, -1, sizes[s], &two));
        check_layout(&g.params, &two, &one);
        for (int64_t b = 1; b < one.count; ++b) {
            assert_true(one.items[b].partial >= one.items[b - 1].partial);
        }
        assert_true(one.items[one.count - 1].partial && !one.items[0].partial);
        assert_true(s < 2 || one.count == 2);
        bt_buckets_release(&one);
        bt_buckets_release(&two);
    }
    close_gpt(&g);
}

typedef struct emission {
    int64_t param, *next, *place;
} emission;

static bt_status note(void *self, bt_context *context, bt_tensor *grad)
{
    emission *e = self;
    (void)context, (void)grad;
    assert_int_equal(e->place[e->param], -1); // once
    e->place[e->param] = (*e->next)++;
    return BT_OK;
}

// Buckets become complete in the order in which they are numbered, but for those of one block,
// whose weight gradients are one launch: so none waits for another block's. The tied table, whose
// gradient has two parts, is complete after the last op.
static void buckets_are_in_the_order_of_the_backward(void **state)
{
    (void)state;
    static const bt_dtype computes[] = {BT_F32, BT_BF16};
    for (int c = 0; c < 2; ++c) {
        gpt g;
        emission leaves[64];
        int64_t place[64] = {0}, next = 0, last = -1;
        bt_buckets buckets;
        bt_tensor *loss = NULL;
        open_gpt(&g, computes[c]);
        bt_tensor *ids = fixture_random(&g.f, BT_I32, BT_SHAPE(2, 16), 0, 700, 1);
        bt_tensor *targets = fixture_random(&g.f, BT_I32, BT_SHAPE(32), 0, 700, 2);
        assert_true(g.params.count <= 64);
        for (int64_t i = 0; i < g.params.count; ++i) {
            place[i] = -1;
            leaves[i] = (emission){i, &next, place};
            ASSERT_OK(bt_tensor_set_grad_hook(&g.f.context, g.params.items[i].value,
                                              (bt_grad_hook){&leaves[i], note, NULL}));
        }
        ASSERT_OK(bt_gpt2_loss(&g.f.context, &g.model, ids, targets, &loss));
        ASSERT_OK(bt_backward(&g.f.context, loss, NULL));
        assert_int_equal(next, g.params.count);
        ASSERT_OK(bt_buckets_make(&g.params, 2, -1, 100000, &buckets));
        assert_true(buckets.count > 4);
        for (int64_t b = 0; b < buckets.count; ++b) {
            int64_t complete = -1;
            for (int64_t s = 0; s < buckets.items[b].slot_count; ++s) {
                const int64_t at = place[buckets.slots[buckets.items[b].first + s].param];
                complete = at > complete ? at : complete;
            }
            assert_true(complete > last - BLOCK_PARAMETERS);
            last = complete > last ? complete : last;
        }
        assert_ptr_equal(g.params.items[0].value, g.model.wte);
        assert_true(place[0] >= g.params.count - 2);
        bt_buckets_release(&buckets);
        bt_tensor_release(loss);
        bt_tensor_release(ids);
        bt_tensor_release(targets);
        close_gpt(&g);
    }
}

// ---- what is sent -------------------------------------------------------------------------------

static const bt_group_backend *real;
static atomic_int scatters, gathers;

static bt_status count_scatter(bt_group *group, const void *in, void *out, int64_t count,
                               bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    (void)atomic_fetch_add(&scatters, 1);
    return real->reduce_scatter(group, in, out, count, dtype, reduction, stream);
}

static bt_status count_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                              bt_stream stream)
{
    if (size_bytes >= BT_SQUARES_BLOCK) { // not losses
        (void)atomic_fetch_add(&gathers, 1);
    }
    return real->all_gather(group, in, out, size_bytes, stream);
}

typedef struct traffic {
    bt_train_plan plan;
    int64_t peak[RANKS_MAX]; // bytes of the pool, while training
} traffic;

static bt_status no_step(void *self, const bt_train_step *event)
{
    *(int64_t *)self = (int64_t)event->peak_allocated_bytes;
    return BT_OK;
}

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    traffic *t = argument;
    bt_train_plan plan = t->plan;
    bt_train_result trained;
    const bt_train_observer observer = {.self = &t->peak[group->rank], .step = no_step};
    bt_group_backend counted = *group->backend;
    (void)result;
    omp_set_num_threads(1);
    counted.reduce_scatter = count_scatter;
    counted.all_gather = count_gather;
    group->backend = &counted;
    plan.parallel.group = group;
    bt_status status = bt_train_run(&plan, &observer, &trained);
    group->backend = real;
    return status;
}

static bt_status note_backend(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    if (group->rank == 0) {
        real = group->backend;
    }
    return bt_barrier(group, NULL);
}

static bt_train_plan plan_of(bt_sharding sharding, int64_t steps)
{
    bt_train_plan plan = small_train_plan();
    plan.micro_batch = 2;
    plan.tokens_per_step = 8 * 2 * 16;
    plan.steps = steps;
    plan.profile_steps = 0;
    plan.eval_every = 0;
    plan.parallel.invariant = 8;
    plan.parallel.sharding = sharding;
    plan.parallel.bucket_mb = 0.5;
    return plan;
}

static void run(traffic *t, int ranks)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, timeout_ns, note_backend, NULL, results);
    atomic_store(&scatters, 0);
    atomic_store(&gathers, 0);
    run_ranks(RANKS_THREADS, ranks, timeout_ns, train, t, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].status != BT_OK) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

// The reduce-scatters of one more step on two ranks, which has four micro-batches each.
static int scatters_of_a_step(bt_sharding sharding)
{
    int counts[2];
    for (int64_t steps = 1; steps <= 2; ++steps) {
        traffic t = {.plan = plan_of(sharding, steps)};
        run(&t, 2);
        counts[steps - 1] = atomic_load(&scatters);
    }
    return (counts[1] - counts[0]) / 2;
}

static void nothing_is_sent_before_the_last_micro_batch(void **state)
{
    (void)state;
    const int buckets = scatters_of_a_step(BT_SHARDING_ZERO1);
    assert_true(buckets > 2);
    assert_int_equal(scatters_of_a_step(BT_SHARDING_ZERO3), buckets);
    assert_int_equal(scatters_of_a_step(BT_SHARDING_ZERO2), 4 * buckets); // as in its row
    assert_int_equal(scatters_of_a_step(BT_SHARDING_DDP), 0);
}

// Weights are gathered once a step, or before each use.
static void weights_are_gathered_where_they_are_read(void **state)
{
    (void)state;
    traffic t = {.plan = plan_of(BT_SHARDING_ZERO1, 4)};
    run(&t, 2);
    const int once = atomic_load(&gathers);
    t.plan.parallel.sharding = BT_SHARDING_ZERO3;
    t.plan.parallel.bucket_mb = 0.0625; // a parameter each: more than are resident
    run(&t, 2);
    assert_true(atomic_load(&gathers) > 2 * once);
}

// A rank other than 0, which has the whole state, keeps less from mode to mode.
static void each_rank_keeps_a_part(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO2,
                                        BT_SHARDING_ZERO3};
    int64_t peak[4];
    for (int m = 0; m < 4; ++m) {
        traffic t = {.plan = plan_of(modes[m], 2)};
        t.plan.model = (bt_model_config){
            .layers = 6, .heads = 2, .width = 256, .vocab = SMALL_VOCAB, .context = 16};
        t.plan.tokens_per_step = 4 * 2 * 16; // a micro-batch a rank
        t.plan.parallel.invariant = 4;
        t.plan.parallel.bucket_mb = 1;
        run(&t, 4);
        peak[m] = t.peak[1];
        print_message("%s: %lld bytes\n", bt_sharding_name(modes[m]), (long long)peak[m]);
    }
    const int64_t parameters = 4 * 6 * 12 * 256 * 256; // bytes of the blocks' matrices
    // Of two moments three quarters are elsewhere; the padding of weights in buckets is extra.
    assert_true(peak[0] - peak[1] > parameters);
    assert_true(peak[1] - peak[2] > parameters / 4); // gradients
    assert_true(peak[1] - peak[3] > parameters / 4); // weights
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_tile_the_parameters),
        cmocka_unit_test(partial_parameters_are_in_the_last_buckets),
        cmocka_unit_test(buckets_are_in_the_order_of_the_backward),
        cmocka_unit_test(nothing_is_sent_before_the_last_micro_batch),
        cmocka_unit_test(weights_are_gathered_where_they_are_read),
        cmocka_unit_test(each_rank_keeps_a_part),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
