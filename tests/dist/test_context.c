// tests/dist/test_context.c - attention over ranks: equal to one rank's, the same bits by every
// rotation and whatever is late, gradients by differences
#include <stdlib.h>

#include "framework/autograd/session.h"
#include "framework/dist/device_group.h"
#include "framework/ops/ops.h"
#include "tests/dist/context_body.h"
#include "tests/dist/fake_gpu.h"
#include "tests/dist/gpu_body.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

static bt_status compare_body(bt_group *group, void *argument, rank_result *result)
{
    return context_compare(group, argument, result);
}

static bt_status differences_body(bt_group *group, void *argument, rank_result *result)
{
    return context_differences(group, argument, result);
}

static void run(ranks_kind kind, int ranks, rank_body body, context_case c, rank_result *results)
{
    run_ranks(kind, ranks, timeout_ns, body, &c, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%lld tokens, %s, %s, window %lld, %d ranks, rank %d: %s", (long long)c.tokens,
                     bt_dtype_name(c.dtype), bt_rotation_name(c.rotation), (long long)c.window,
                     ranks, rank, results[rank].ended ? "ended" : results[rank].message);
        }
    }
}

static const int sizes[] = {1, 2, 4, 8};
static const bt_dtype types[] = {BT_F64, BT_F32, BT_BF16};

enum { SIZES = sizeof sizes / sizeof sizes[0], TYPES = sizeof types / sizeof types[0] };

// Odd lengths, fewer tokens than chunks, grouped heads, windows within and over chunks.
static const context_case shapes[] = {
    {.batch = 2, .tokens = 64, .heads = 2, .kv_heads = 2, .dim = 8, .causal = true},
    {.batch = 1, .tokens = 37, .heads = 4, .kv_heads = 2, .dim = 5, .causal = true},
    {.batch = 2, .tokens = 37, .heads = 2, .kv_heads = 1, .dim = 4, .causal = false},
    {.batch = 1, .tokens = 50, .heads = 2, .kv_heads = 2, .dim = 4, .window = 7, .causal = true},
    {.batch = 1, .tokens = 41, .heads = 2, .kv_heads = 1, .dim = 4, .window = 30, .causal = true},
    {.batch = 2, .tokens = 33, .heads = 2, .kv_heads = 2, .dim = 4, .window = 5, .causal = false},
    {.batch = 3, .tokens = 50, .heads = 4, .kv_heads = 2, .dim = 4, .window = 13, .causal = true},
    // Calls too small to be made for one side.
    {.batch = 1, .tokens = 3, .heads = 1, .kv_heads = 1, .dim = 4, .causal = true},
    {.batch = 1, .tokens = 0, .heads = 1, .kv_heads = 1, .dim = 4, .causal = true},
    {.batch = 0, .tokens = 64, .heads = 2, .kv_heads = 2, .dim = 8, .causal = true},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0], BY_SIDES = SHAPES - 3 };

static void equals_one_rank(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    for (int s = 0; s < SHAPES; ++s) {
        for (int n = 0; n < SIZES; ++n) {
            for (int t = 0; t < TYPES; ++t) {
                if (!in_sweep(sizes[n], s * TYPES + t)) {
                    continue;
                }
                context_case c = shapes[s];
                c.dtype = types[t];
                run(RANKS_THREADS, sizes[n], compare_body, c, results);
            }
        }
    }
}

// Every rotation, over threads and over processes, with a slow transport and late ranks.
static void one_set_of_bits(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4; ++s) {
        for (int n = 1; n < SIZES && in_sweep(sizes[n], 0); ++n) {
            rank_result first[RANKS_MAX], other[RANKS_MAX];
            context_case c = shapes[s];
            c.dtype = types[1 + s % 2];
            c.repeats = 1;
            run(RANKS_THREADS, sizes[n], compare_body, c, first);
            for (int rotation = 0; rotation < BT_ROTATION_COUNT; ++rotation) {
                for (int late = 0; late < 2; ++late) {
                    if (!in_sweep(sizes[n], 2 * rotation + late)) {
                        continue;
                    }
                    c.rotation = (bt_rotation)rotation;
                    c.delay_seed = late ? 5 + (unsigned)(n * 10 + rotation) : 0;
                    run(late ? RANKS_MEMORY : RANKS_THREADS, sizes[n], compare_body, c, other);
                    for (int rank = 0; rank < sizes[n]; ++rank) {
                        assert_int_equal(other[rank].digest, first[rank].digest);
                    }
                }
            }
        }
    }
}

static context_case over_links; // of the ranks that are forked next

static bt_status links_body(bt_group *group, void *argument, rank_result *result)
{
    (void)argument; // a sweep
    return context_compare(group, &over_links, result);
}

// The links of GPUs, without GPUs: blocks are in memory that the ranks map, and are sent by copies
// or through staging memory, beside which own and other gradients are computed apart.
static void links_give_the_same_bits(void **state)
{
    (void)state;
    enum { VARIANTS = 2 * BT_ROTATION_COUNT };
    bt_device_group_use(fake_gpu_table(BT_OK));
    for (int n = 0; n < SHAPES * VARIANTS; ++n) {
        const int shape = n / VARIANTS, variant = n % VARIANTS, ranks = shape % 2 ? 4 : 2;
        static uint64_t digests[RANKS_MAX];
        rank_result results[RANKS_MAX];
        gpu_case what = {.backend = GPU_P2P,
                         .device = "cpu",
                         .engines = variant < BT_ROTATION_COUNT,
                         .timeout_ns = timeout_ns,
                         .body = links_body};
        over_links = shapes[shape];
        over_links.dtype = types[shape % TYPES];
        over_links.repeats = 1;
        over_links.by_sides = shape < BY_SIDES;
        over_links.rotation = (bt_rotation)(variant % BT_ROTATION_COUNT);
        run_ranks(RANKS_MEMORY, ranks, timeout_ns, gpu_body, &what, results);
        for (int rank = 0; rank < ranks; ++rank) {
            if (results[rank].ended || results[rank].status != BT_OK) {
                fail_msg("shape %d, variant %d, rank %d: %s", shape, variant, rank,
                         results[rank].message);
            }
            digests[rank] = variant == 0 ? results[rank].digest : digests[rank];
            assert_int_equal(results[rank].digest, digests[rank]);
        }
    }
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    for (size_t s = 1; s < 6; ++s) {
        for (int n = 1; n < 3; ++n) {
            context_case c = shapes[s];
            c.rotation = (bt_rotation)(s % BT_ROTATION_COUNT);
            c.dtype = BT_F64;
            run(RANKS_THREADS, sizes[n], differences_body, c, results);
        }
    }
}

// Every pair of a query and a key that it sees is in one visit, and nothing else is.
static void visits_cover_each_pair_once(void **state)
{
    (void)state;
    enum { MOST = 40 };
    for (int variant = 0; variant < 16 * MOST; ++variant) {
        const int64_t tokens = variant / 16;
        const int size = 1 << (variant % 4);
        const bt_ring_mask mask = {.tokens = tokens,
                                   .causal = variant / 4 % 2,
                                   .window = variant / 8 % 2 ? 1 + tokens % 11 : 0,
                                   .square = variant % 3 == 0};
        int seen[MOST][MOST] = {{0}};
        for (int pair = 0; pair < size * size; ++pair) {
            bt_ring_visit visits[BT_RING_VISITS];
            const int q_rank = pair / size, k_rank = pair % size;
            const int count = bt_ring_visits(&mask, size, q_rank, k_rank, visits);
            for (int n = 0; n < count; ++n) {
                const bt_ring_visit *v = &visits[n];
                for (int64_t at = 0; at < v->q_count * v->k_count; ++at) {
                    const int64_t i = at / v->k_count, j = at % v->k_count;
                    const int64_t distance = v->q_first + i - j;
                    const bool sees = (!v->causal || distance >= 0) &&
                                      (v->window == 0 || llabs(distance) < v->window);
                    const int64_t low[2] = {bt_ring_low(tokens, size, q_rank),
                                            bt_ring_low(tokens, size, k_rank)};
                    const int64_t own[2] = {v->q_begin + i, v->k_begin + j};
                    int64_t place[2];
                    for (int side = 0; side < 2; ++side) {
                        const int rank = side ? k_rank : q_rank;
                        place[side] = own[side] < low[side]
                                          ? bt_ring_chunk(tokens, size, rank) + own[side]
                                          : bt_ring_chunk(tokens, size, 2 * size - 1 - rank) +
                                                own[side] - low[side];
                    }
                    seen[place[0]][place[1]] += sees;
                }
            }
        }
        for (int64_t at = 0; at < tokens * tokens; ++at) {
            const int64_t i = at / tokens, j = at % tokens;
            const bool sees =
                (!mask.causal || j <= i) && (mask.window == 0 || llabs(i - j) < mask.window);
            assert_int_equal(seen[i][j], sees);
        }
    }
}

static void refusals_say_why(void **state)
{
    (void)state;
    bt_session session = {0};
    bt_tensor *qkv = NULL, *y = NULL;
    const bt_ring alone = {.size = 1};
    ASSERT_OK(bt_session_open("cpu", 0, 0, &session));
    ASSERT_OK(bt_tensor_zeros(&session.context, BT_F32, BT_SHAPE(1, 4, 12), "qkv", &qkv));
    bt_attention_options options = {.heads = 1, .causal = true, .dropout = 0.1};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "attention over ranks does not support dropout",
                 bt_ring_attention(&session.context, qkv, &alone, 4, &options, &y));
    options.dropout = 0;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "rank 0 of 1 has 4 tokens of a sequence of 5, expected 5",
                 bt_ring_attention(&session.context, qkv, &alone, 5, &options, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "needs a ring",
                 bt_ring_attention(&session.context, qkv, NULL, 4, &options, &y));
    bt_tensor_release(qkv);
    bt_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visits_cover_each_pair_once),
        cmocka_unit_test(equals_one_rank),
        cmocka_unit_test(one_set_of_bits),
        cmocka_unit_test(links_give_the_same_bits),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(refusals_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
