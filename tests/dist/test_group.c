// Every collective, type, odd size and number of ranks, by each backend, against an ordered oracle.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/dist/reduce.h"
#include "framework/dist/threads.h"
#include "tests/dist/ranks.h"
#include "tests/dist/sweep.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 20000000000;

static void expect_ok(ranks_kind kind, int ranks, const rank_result *results)
{
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%s, rank %d of %d: %s", ranks_kind_name(kind), rank, ranks,
                     results[rank].ended ? "ended" : results[rank].message);
        }
    }
}

static void check_sweep(ranks_kind kind, int ranks, sweep how)
{
    rank_result results[RANKS_MAX];
    run_ranks(kind, ranks, timeout_ns, sweep_all, &how, results);
    expect_ok(kind, ranks, results);
}

// The backends, and the numbers of ranks that each is tested with; 0 ends.
static const struct {
    ranks_kind kind;
    int ranks[8];
} backends[] = {
    {RANKS_THREADS, {1, 2, 3, 4, 5, 8, 16}},
    {RANKS_MEMORY, {1, 2, 3, 4, 5}},
    {RANKS_TCP, {1, 2, 3, 4}},
    {RANKS_MIXED, {2, 3, 4, 5}},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

static void backends_agree_with_the_oracle(void **state)
{
    (void)state;
    for (int row = 0; row < BACKENDS; ++row) {
        for (const int *ranks = backends[row].ranks; *ranks != 0; ++ranks) {
            check_sweep(backends[row].kind, *ranks, (sweep){0});
        }
    }
}

static void late_ranks_change_nothing(void **state)
{
    (void)state;
    for (int row = 0; row < BACKENDS; ++row) {
        check_sweep(backends[row].kind, 3, (sweep){.delay_seed = 7 + 4 * (unsigned)row});
    }
}

static void a_slow_transport_changes_nothing(void **state)
{
    (void)state;
    for (int row = 0; row < BACKENDS; ++row) {
        check_sweep(backends[row].kind, 3, (sweep){.slow_seed = 5 + 4 * (unsigned)row});
    }
}

static void large_data_go_in_chunks(void **state)
{
    (void)state;
    for (int kind = 0; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[3];
        sweep how = {0};
        run_ranks((ranks_kind)kind, 3, timeout_ns, sweep_large, &how, results);
        expect_ok((ranks_kind)kind, 3, results);
    }
}

// Eight shards of a sum dealt out to the ranks: each rank sums its own in the tree's order.
static bt_status shard_sum(bt_group *group, void *argument, rank_result *result)
{
    enum { SHARDS = 8, COUNT = 1001 };
    bool in_plain_order = *(const bool *)argument;
    float sums[COUNT];
    float shards[SHARDS][COUNT];
    const void *parts[SHARDS];
    int own = SHARDS / group->size;
    for (int shard = 0; shard < own; ++shard) {
        sweep_fill(BT_F32, shards[shard], group->rank * own + shard, COUNT);
        parts[shard] = shards[shard];
    }
    if (in_plain_order) {
        memcpy(sums, shards[0], sizeof sums);
        for (int i = 0; i < COUNT * (own - 1); ++i) {
            sums[i % COUNT] += shards[1 + i / COUNT][i % COUNT];
        }
    } else {
        bt_reduce_tree(parts, own, sums, COUNT, BT_F32, BT_REDUCE_SUM);
    }
    BT_TRY(bt_all_reduce(group, sums, COUNT, BT_F32, BT_REDUCE_SUM, NULL));
    for (int i = 0; i < COUNT; ++i) {
        uint32_t bits;
        memcpy(&bits, &sums[i], sizeof bits);
        result->digest = (result->digest ^ bits) * 1099511628211U;
    }
    return BT_OK;
}

static uint64_t digest_of_shards(int ranks, bool in_plain_order)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, timeout_ns, shard_sum, &in_plain_order, results);
    expect_ok(RANKS_THREADS, ranks, results);
    for (int rank = 1; rank < ranks; ++rank) {
        assert_int_equal(results[rank].digest, results[0].digest);
    }
    return results[0].digest;
}

static void sums_do_not_depend_on_the_number_of_ranks(void **state)
{
    (void)state;
    uint64_t expected = digest_of_shards(1, false);
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        assert_int_equal(digest_of_shards(ranks, false), expected);
    }
    assert_int_not_equal(digest_of_shards(2, true), digest_of_shards(4, true)); // the control
}

static void nan_of_any_rank_shows(void **state)
{
    (void)state;
    for (int position = 0; position < 5; ++position) {
        float values[5] = {1, 2, 3, 4, 5};
        const void *parts[5];
        for (int part = 0; part < 5; ++part) {
            parts[part] = &values[part];
        }
        values[position] = (float)NAN;
        float out[2];
        bt_reduce_tree(parts, 5, &out[0], 1, BT_F32, BT_REDUCE_MAX);
        bt_reduce_tree(parts, 5, &out[1], 1, BT_F32, BT_REDUCE_SUM);
        assert_true(isnan(out[0]) && isnan(out[1]));
    }
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    bt_group *group;
    char byte = 0;
    ASSERT_OK(bt_group_threads_create(1, timeout_ns, &group));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "size of 0 or more, got -1",
                 bt_all_gather(group, &byte, &byte, -1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "elements of type f16",
                 bt_all_reduce(group, &byte, 0, BT_F16, BT_REDUCE_SUM, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "too many",
                 bt_all_reduce(group, &byte, INT64_MAX / 4, BT_F64, BT_REDUCE_SUM, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the root is rank 1, the group has ranks 0 to 0",
                 bt_broadcast(group, &byte, 1, 1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the receiver is rank -1",
                 bt_send(group, &byte, 1, -1, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "send: rank 0 cannot send a message to itself",
                 bt_send(group, &byte, 1, 0, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "recv: rank 0 cannot send a message to itself",
                 bt_recv(group, &byte, 1, 0, NULL));
    ASSERT_OK(bt_send_recv(group, &byte, 0, &byte, 0, 1, NULL));
    static const bt_byte_rows wrong[] = {
        {.rows = 2, .row_bytes = 1, .pitch_bytes = 1},  // more than fits
        {.rows = 1, .row_bytes = 1},                    // rows that overlap
        {.rows = -1, .row_bytes = 1, .pitch_bytes = 1}, // no number of rows
        {.rows = 1, .row_bytes = -1},                   // no size of a row
        {.rows = INT64_MAX, .row_bytes = INT64_MAX, .pitch_bytes = INT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                     "all_gather_rows: ", bt_all_gather_rows(group, &wrong[i], &byte, 1, NULL));
        const bt_group_step step = {.distance = 1, .data = wrong[i]};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                     "exchange_step: ", bt_exchange_step(group, &step, &byte, 1, NULL));
    }
    const bt_group_read read = {.to = &byte, .rows = 1, .row_bytes = 1, .pitch_bytes = 1};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "read_rows: the ranks of a group over threads",
                 bt_read_rows(group, &read, 1, NULL));
    const bt_group_step alone = {.distance = 1, .data = bt_byte_block(&byte, 1)};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "distance 1 and 0 hops among 1 ranks",
                 bt_exchange_step(group, &alone, &byte, 1, NULL));
    bt_group_destroy(group);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "1 to 1024 ranks, got 0",
                 bt_group_threads_create(0, timeout_ns, &group));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_agree_with_the_oracle),
        cmocka_unit_test(late_ranks_change_nothing),
        cmocka_unit_test(a_slow_transport_changes_nothing),
        cmocka_unit_test(large_data_go_in_chunks),
        cmocka_unit_test(sums_do_not_depend_on_the_number_of_ranks),
        cmocka_unit_test(nan_of_any_rank_shows),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("dist.group", tests, NULL, NULL);
}
