// tests/dist/test_random.c - random collectives on random groups against an oracle, and random
// models trained by random meshes against one rank
//
// dist_random_test FIRST COUNT tries other seeds than the few of the suite.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/dist/ranks.h"
#include "tests/dist/slow.h"
#include "tests/dist/train_rank.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;
static unsigned long first_seed = 1, seed_count = 6;

// Draws are the same on all ranks: each has its own state, from the same seed.
static unsigned draw(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(*state >> 33) % below;
}

// ---- collectives --------------------------------------------------------------------------------

enum { CALLS = 12, ELEMENTS_MAX = 60000, GROUP_MAX = 8, GUARD = 16 };

// Small whole numbers: every sum of eight is exact in every type.
static int element(int rank, int64_t i, int call)
{
    return (int)((rank * 31 + i * 7 + call * 13) % 64) - 32;
}

static void store(bt_dtype dtype, void *data, int64_t i, int value)
{
    if (dtype == BT_F32) {
        ((float *)data)[i] = (float)value;
    } else if (dtype == BT_F64) {
        ((double *)data)[i] = value;
    } else if (dtype == BT_BF16) {
        ((uint16_t *)data)[i] = bt_f32_to_bf16((float)value);
    } else {
        ((int32_t *)data)[i] = value;
    }
}

static bool holds(bt_dtype dtype, const void *data, int64_t i, int value)
{
    unsigned char one[8];
    const size_t width = bt_dtype_size(dtype);
    store(dtype, one, 0, value);
    return memcmp((const char *)data + (size_t)i * width, one, width) == 0;
}

static int reduced(bt_reduction reduction, int ranks, int64_t i, int call)
{
    int value = element(0, i, call);
    for (int rank = 1; rank < ranks; ++rank) {
        const int next = element(rank, i, call);
        value = reduction == BT_REDUCE_SUM ? value + next : next > value ? next : value;
    }
    return value;
}

typedef struct operation {
    int which, number, root, shift;
    bt_dtype dtype;
    bt_reduction reduction;
    int64_t count; // elements of each rank
} operation;

enum { REDUCE, SCATTER, GATHER, TO_ALL, BROADCAST, SHIFT, BARRIER, OPERATIONS };

static operation draw_operation(uint64_t *state, int number, int ranks)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_BF16, BT_I32};
    const unsigned large = draw(state, 4);
    const int64_t most = large == 0 ? 3 : large == 1 ? 300 : ELEMENTS_MAX;
    return (operation){.which = (int)draw(state, OPERATIONS),
                       .number = number,
                       .root = (int)draw(state, (unsigned)ranks),
                       .shift = (int)draw(state, (unsigned)ranks),
                       .dtype = dtypes[draw(state, 4)],
                       .reduction = draw(state, 2) ? BT_REDUCE_SUM : BT_REDUCE_MAX,
                       .count = (int64_t)draw(state, (unsigned)most + 1)};
}

// What element i of the result must be; a value that none is where nothing is written.
static int expected(const operation *o, int rank, int ranks, int64_t i)
{
    switch (o->which) {
    case REDUCE:
        return i < o->count ? reduced(o->reduction, ranks, i, o->number) : 99;
    case SCATTER:
        return i < o->count ? reduced(o->reduction, ranks, rank * o->count + i, o->number) : 99;
    case GATHER:
        return i < o->count * ranks ? element((int)(i / o->count), i % o->count, o->number) : 99;
    case TO_ALL:
        return i < o->count * ranks
                   ? element((int)(i / o->count), rank * o->count + i % o->count, o->number)
                   : 99;
    case BROADCAST:
        return i < o->count ? element(o->root, i, o->number) : 99;
    case SHIFT:
        return i < o->count ? element((rank + ranks - o->shift) % ranks, i, o->number) : 99;
    default:
        return 99;
    }
}

static bt_status call(bt_group *group, const operation *o, void *in, void *out)
{
    const int64_t bytes = o->count * (int64_t)bt_dtype_size(o->dtype);
    const int to = (group->rank + o->shift) % group->size;
    const int from = (group->rank + group->size - o->shift) % group->size;
    switch (o->which) {
    case REDUCE:
        memcpy(out, in, (size_t)bytes);
        return bt_all_reduce(group, out, o->count, o->dtype, o->reduction, NULL);
    case SCATTER:
        return bt_reduce_scatter(group, in, out, o->count, o->dtype, o->reduction, NULL);
    case GATHER:
        return bt_all_gather(group, in, out, bytes, NULL);
    case TO_ALL:
        return bt_all_to_all(group, in, out, bytes, NULL);
    case BROADCAST:
        memcpy(out, in, (size_t)bytes);
        return bt_broadcast(group, out, bytes, o->root, NULL);
    case SHIFT:
        return bt_send_recv(group, in, to, out, from, bytes, NULL);
    default:
        return bt_barrier(group, NULL);
    }
}

static bt_status run_operation(bt_group *group, const operation *o, void *in, void *out)
{
    const int64_t room = o->count * group->size + GUARD;
    for (int64_t i = 0; i < room; ++i) {
        store(o->dtype, in, i, element(group->rank, i, o->number));
        store(o->dtype, out, i, 99);
    }
    BT_TRY(call(group, o, in, out));
    for (int64_t i = 0; i < room; ++i) {
        if (!holds(o->dtype, out, i, expected(o, group->rank, group->size, i))) {
            return bt_error(BT_STATUS_INTERNAL,
                            "call %d (%d) of %lld %s: element %lld of rank %d is wrong", o->number,
                            o->which, (long long)o->count, bt_dtype_name(o->dtype), (long long)i,
                            group->rank);
        }
    }
    return BT_OK;
}

static bt_status run_calls(bt_group *group, void *argument, rank_result *result)
{
    uint64_t common = *(const uint64_t *)argument, own = common + 77 * (uint64_t)group->rank;
    const size_t bytes = (size_t)(ELEMENTS_MAX * GROUP_MAX + GUARD) * 8;
    void *in = malloc(bytes), *out = malloc(bytes);
    bt_status status = BT_OK;
    (void)result;
    if (draw(&common, 3) == 0) {
        slow_transport(group, draw(&common, 1000));
    }
    for (int i = 0; i < CALLS && status == BT_OK; ++i) {
        const operation o = draw_operation(&common, i, group->size);
        if (draw(&own, 3) == 0) {
            const struct timespec time = {.tv_nsec = (long)draw(&own, 3000000)};
            (void)nanosleep(&time, NULL);
        }
        status = run_operation(group, &o, in, out);
    }
    free(in);
    free(out);
    return status;
}

static void expect_ok(const char *what, int ranks, const rank_result *results)
{
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%s: rank %d of %d: %s", what, rank, ranks, results[rank].message);
        }
    }
}

static void random_calls_agree_with_the_oracle(void **state)
{
    (void)state;
    for (unsigned long seed = first_seed; seed < first_seed + 5 * seed_count; ++seed) {
        uint64_t random = seed * 0x9e3779b97f4a7c15;
        rank_result results[RANKS_MAX];
        char what[64];
        const int ranks = 1 + (int)draw(&random, GROUP_MAX);
        const ranks_kind kind = draw(&random, 4) ? RANKS_THREADS : RANKS_MEMORY;
        (void)snprintf(what, sizeof what, "seed %lu, %s", seed, ranks_kind_name(kind));
        run_ranks(kind, ranks, timeout_ns, run_calls, &random, results);
        expect_ok(what, ranks, results);
    }
}

// ---- training -----------------------------------------------------------------------------------

static bt_train_plan draw_plan(uint64_t *random)
{
    bt_train_plan plan = small_train_plan();
    plan.model.layers = 1 + draw(random, 3);
    plan.model.heads = 1 + draw(random, 3);
    plan.model.width = plan.model.heads * 8 * (1 + draw(random, 2));
    plan.model.vocab = SMALL_VOCAB + draw(random, 1200);
    plan.sequence = plan.model.context = 4 + draw(random, 13);
    plan.micro_batch = 1 + draw(random, 3);
    plan.parallel.invariant = 8;
    plan.tokens_per_step = 8 * (1 + draw(random, 2)) * plan.micro_batch * plan.sequence;
    plan.steps = 2 + draw(random, 2);
    plan.profile_steps = 0;
    plan.eval_every = draw(random, 2) ? 2 : 0;
    plan.eval_batches = 1 + draw(random, 9);
    plan.precision = draw(random, 2) ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
    plan.recompute = (bt_recompute_mode)draw(random, BT_RECOMPUTE_COUNT);
    plan.seed = draw(random, 1000);
    return plan;
}

static void draw_mesh(uint64_t *random, bt_train_plan *plan)
{
    static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};
    plan->parallel.sharding = modes[draw(random, 3)];
    plan->parallel.bucket_mb = 0.06 + 0.01 * draw(random, 60);
    plan->parallel.no_overlap = draw(random, 3) == 0;
}

static void random_models_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    for (unsigned long seed = first_seed; seed < first_seed + seed_count; ++seed) {
        uint64_t random = seed * 0x9e3779b97f4a7c15;
        bt_train_plan plan = draw_plan(&random);
        rank_result alone = {.status = BT_OK}, results[RANKS_MAX];
        char what[64];
        ASSERT_OK(train_rank(NULL, &plan, &alone));
        for (int ranks = 2; ranks <= 8 && in_sweep(ranks, 0); ranks *= 2) {
            draw_mesh(&random, &plan);
            (void)snprintf(what, sizeof what, "seed %lu, %s", seed,
                           bt_sharding_name(plan.parallel.sharding));
            run_ranks(RANKS_THREADS, ranks, timeout_ns, train_rank, &plan, results);
            expect_ok(what, ranks, results);
            for (int rank = 0; rank < ranks; ++rank) {
                if (results[rank].digest != alone.digest) {
                    fail_msg("%s, %d ranks, buckets of %g MiB: other bits than one rank", what,
                             ranks, plan.parallel.bucket_mb);
                }
            }
        }
    }
}

// Numbers of ranks that are no power of two have no virtual shards, and repeat their bits.
static void three_ranks_repeat_their_bits(void **state)
{
    (void)state;
    for (unsigned long seed = first_seed; seed < first_seed + seed_count / 2; ++seed) {
        uint64_t random = seed * 0x9e3779b97f4a7c15, digests[3];
        bt_train_plan plan = draw_plan(&random);
        const int ranks = draw(&random, 2) ? 3 : 5;
        rank_result results[RANKS_MAX];
        plan.parallel.invariant = 0;
        plan.tokens_per_step = 15 * plan.micro_batch * plan.sequence;
        for (int i = 0; i < 3; ++i) {
            draw_mesh(&random, &plan);
            run_ranks(RANKS_THREADS, ranks, timeout_ns, train_rank, &plan, results);
            expect_ok("three", ranks, results);
            digests[i] = results[0].digest;
            for (int rank = 0; rank < ranks; ++rank) {
                assert_true(results[rank].digest == digests[0]);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_agree_with_the_oracle),
        cmocka_unit_test(random_models_have_the_bits_of_one_rank),
        cmocka_unit_test(three_ranks_repeat_their_bits),
    };
    if (argc == 3) {
        first_seed = strtoul(argv[1], NULL, 10);
        seed_count = strtoul(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
