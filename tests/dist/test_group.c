// Every collective, type, odd size and number of ranks, by each backend, against an ordered oracle.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/dist/reduce.h"
#include "framework/dist/threads.h"
#include "tests/dist/ranks.h"
#include "tests/dist/slow.h"
#include "tests/support/test.h"

enum { GUARD = 64 }; // bytes behind each output that no call may touch
static const int64_t timeout_ns = 20000000000;
static const int64_t sizes[] = {0, 1, 7, 255, 256, 257, 4099};
static const bt_dtype dtypes[] = {BT_F64, BT_F32, BT_BF16, BT_I64, BT_I32};
enum { SIZES = sizeof sizes / sizeof *sizes, DTYPES = sizeof dtypes / sizeof *dtypes };

// Element i of rank's data, of widely different magnitudes so that another order of sums shows.
static double element(int rank, int64_t i)
{
    uint64_t word = ((uint64_t)rank * 1000003 + (uint64_t)i) * 0x9e3779b97f4a7c15;
    double fraction = (double)(word >> 40) / 16777216.0 - 0.5;
    return ldexp(fraction, (int)(word >> 32 & 15));
}

static void store(bt_dtype dtype, void *data, int64_t i, double value)
{
    switch ((int)dtype) {
    case BT_F64:
        ((double *)data)[i] = value;
        break;
    case BT_F32:
        ((float *)data)[i] = (float)value;
        break;
    case BT_BF16:
        ((uint16_t *)data)[i] = bt_f32_to_bf16((float)value);
        break;
    case BT_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    default:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    }
}

// The oracle: what rank holds, as the type holds it, combined in the tree's order in the type in
// which sums are formed.
static double held(bt_dtype dtype, int rank, int64_t i)
{
    double value = element(rank, i);
    switch ((int)dtype) {
    case BT_F64:
        return value;
    case BT_F32:
        return (double)(float)value;
    case BT_BF16:
        return (double)bt_bf16_to_f32(bt_f32_to_bf16((float)value));
    default:
        return trunc(value);
    }
}

static double tree(bt_dtype dtype, bt_reduction reduction, int lowest, int count, int64_t i)
{
    if (count == 1) {
        return held(dtype, lowest, i);
    }
    int left = (count + 1) / 2;
    double a = tree(dtype, reduction, lowest, left, i);
    double b = tree(dtype, reduction, lowest + left, count - left, i);
    if (reduction == BT_REDUCE_MAX) {
        return a > b ? a : b;
    }
    return dtype == BT_F32 || dtype == BT_BF16 ? (double)((float)a + (float)b) : a + b;
}

typedef struct sweep {
    unsigned delay_seed; // of the ranks, between calls; 0: none
    unsigned slow_seed;  // of the transport; 0: as it is
} sweep;

static bt_status wrong(const char *what, bt_dtype dtype, int64_t count, int64_t i)
{
    return bt_error(BT_STATUS_INTERNAL, "%s of %lld %s is wrong at %lld", what, (long long)count,
                    bt_dtype_name(dtype), (long long)i);
}

static unsigned char *make(bt_dtype dtype, int64_t count)
{
    size_t bytes = (size_t)count * bt_dtype_size(dtype);
    unsigned char *data = malloc(bytes + GUARD);
    memset(data, 0xa5, bytes + GUARD);
    return data;
}

static bool guard_holds(const unsigned char *data, bt_dtype dtype, int64_t count)
{
    for (int i = 0; i < GUARD; ++i) {
        if (data[(size_t)count * bt_dtype_size(dtype) + (size_t)i] != 0xa5) {
            return false;
        }
    }
    return true;
}

static bt_status check_reduced(const char *what, bt_dtype dtype, bt_reduction reduction, int ranks,
                               const unsigned char *data, int64_t first, int64_t count)
{
    unsigned char expected[8];
    size_t width = bt_dtype_size(dtype);
    for (int64_t i = 0; i < count; ++i) {
        store(dtype, expected, 0, tree(dtype, reduction, 0, ranks, first + i));
        if (memcmp(data + (size_t)i * width, expected, width) != 0) {
            return wrong(what, dtype, count, i);
        }
    }
    return guard_holds(data, dtype, count) ? BT_OK : wrong(what, dtype, count, count);
}

static void fill(bt_dtype dtype, void *data, int rank, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        store(dtype, data, i, element(rank, i));
    }
}

static bt_status check_reductions(bt_group *group, bt_dtype dtype, bt_reduction reduction,
                                  int64_t count)
{
    unsigned char *data = make(dtype, count);
    fill(dtype, data, group->rank, count);
    bt_status status = bt_all_reduce(group, data, count, dtype, reduction, NULL);
    if (status == BT_OK) {
        status = check_reduced("all_reduce", dtype, reduction, group->size, data, 0, count);
    }
    free(data);
    BT_TRY(status);
    unsigned char *in = make(dtype, count * group->size);
    unsigned char *out = make(dtype, count);
    fill(dtype, in, group->rank, count * group->size);
    status = bt_reduce_scatter(group, in, out, count, dtype, reduction, NULL);
    if (status == BT_OK) {
        status = check_reduced("reduce_scatter", dtype, reduction, group->size, out,
                               count * group->rank, count);
    }
    free(in);
    free(out);
    return status;
}

// Byte i of what `from` sends to `to` (-1: to all).
static unsigned char byte_of(int from, int to, int64_t i)
{
    return (unsigned char)((uint64_t)(from * 37 + to * 11 + 5) * (uint64_t)(i + 3) * 2654435761 >>
                           13);
}

static bt_status check_bytes(const char *what, const unsigned char *data, int64_t size, int from,
                             int to)
{
    for (int64_t i = 0; i < size; ++i) {
        if (data[i] != byte_of(from, to, i)) {
            return wrong(what, BT_U8, size, i);
        }
    }
    return BT_OK;
}

static bt_status check_moves(bt_group *group, int64_t size)
{
    int ranks = group->size;
    int rank = group->rank;
    unsigned char *in = make(BT_U8, size * ranks);
    unsigned char *out = make(BT_U8, size * ranks);
    for (int to = 0; to < ranks; ++to) {
        for (int64_t i = 0; i < size; ++i) {
            in[size * to + i] = byte_of(rank, to, i);
        }
    }
    bt_status status = bt_all_to_all(group, in, out, size, NULL);
    for (int from = 0; from < ranks && status == BT_OK; ++from) {
        status = check_bytes("all_to_all", out + size * from, size, from, rank);
    }
    for (int64_t i = 0; i < size; ++i) {
        in[i] = byte_of(rank, -1, i);
    }
    status = status ? status : bt_all_gather(group, in, out, size, NULL);
    for (int from = 0; from < ranks && status == BT_OK; ++from) {
        status = check_bytes("all_gather", out + size * from, size, from, -1);
    }
    for (int root = 0; root < ranks && status == BT_OK; ++root) {
        memcpy(out, in, (size_t)size);
        status = bt_broadcast(group, out, size, root, NULL);
        status = status ? status : check_bytes("broadcast", out, size, root, -1);
    }
    for (int shift = 0; shift < ranks && status == BT_OK; ++shift) {
        int to = (rank + shift) % ranks;
        int from = (rank + ranks - shift) % ranks;
        status = bt_send_recv(group, in, to, out, from, size, NULL);
        status = status ? status : check_bytes("send_recv", out, size, from, -1);
    }
    if (status == BT_OK && ranks > 1 && rank < 2) { // the others take no part
        status = rank == 0 ? bt_send(group, in, size, 1, NULL) : bt_recv(group, out, size, 0, NULL);
        status = status || rank == 0 ? status : check_bytes("recv", out, size, 0, -1);
    }
    status =
        status || guard_holds(out, BT_U8, size * ranks) ? status : wrong("move", BT_U8, size, size);
    free(in);
    free(out);
    return status;
}

static void delay(const sweep *how, int rank, unsigned *state)
{
    if (how->delay_seed != 0) {
        *state = *state * 1664525 + 1013904223 + (unsigned)rank + how->delay_seed;
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)(*state >> 8) % 300000}, NULL);
    }
}

static bt_status sweep_all(bt_group *group, void *argument, rank_result *result)
{
    (void)result;
    const sweep *how = argument;
    unsigned state = 1;
    if (how->slow_seed != 0) {
        slow_transport(group, how->slow_seed);
    }
    for (int s = 0; s < SIZES; ++s) {
        for (int d = 0; d < DTYPES; ++d) {
            for (int reduction = 0; reduction < BT_REDUCE_COUNT; ++reduction) {
                delay(how, group->rank, &state);
                BT_TRY(check_reductions(group, dtypes[d], (bt_reduction)reduction, sizes[s]));
            }
        }
        delay(how, group->rank, &state);
        BT_TRY(check_moves(group, sizes[s]));
        BT_TRY(bt_barrier(group, NULL));
    }
    return BT_OK;
}

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

// More than the rings and the sockets hold, and more than one chunk of all_reduce.
static bt_status large_sum(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    int64_t count = 2200001;
    unsigned char *data = make(BT_F32, count);
    fill(BT_F32, data, group->rank, count);
    bt_status status = bt_all_reduce(group, data, count, BT_F32, BT_REDUCE_SUM, NULL);
    status = status
                 ? status
                 : check_reduced("all_reduce", BT_F32, BT_REDUCE_SUM, group->size, data, 0, count);
    free(data);
    return status;
}

static void large_data_go_in_chunks(void **state)
{
    (void)state;
    for (int kind = 0; kind < RANKS_KIND_COUNT; ++kind) {
        rank_result results[3];
        run_ranks((ranks_kind)kind, 3, timeout_ns, large_sum, NULL, results);
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
        fill(BT_F32, shards[shard], group->rank * own + shard, COUNT);
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
