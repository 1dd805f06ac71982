// Parts of groups by every backend against the oracle, and the grid that training makes of them.
#include <stdio.h>
#include <string.h>

#include "framework/dist/mesh.h"
#include "framework/dist/threads.h"
#include "tests/dist/ranks.h"
#include "tests/dist/sweep.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 20000000000;

static void expect_ok(const char *what, int ranks, const rank_result *results)
{
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%s, rank %d of %d: %s", what, rank, ranks,
                     results[rank].ended ? "ended" : results[rank].message);
        }
    }
}

static bt_status expect(bool is_so, const char *what)
{
    return is_so ? BT_OK : bt_error(BT_STATUS_INTERNAL, "wrong: %s", what);
}

// ---- parts of groups ----------------------------------------------------------------------------

// The part's rank r was rank order[r] of the whole.
static bt_status expect_members(bt_group *part, int whole_rank, const int *order)
{
    int32_t own = whole_rank, all[RANKS_MAX];
    BT_TRY(bt_all_gather(part, &own, all, sizeof own, NULL));
    for (int r = 0; r < part->size; ++r) {
        BT_TRY(expect(all[r] == order[r], "a member"));
    }
    return BT_OK;
}

// Even and odd ranks in reverse order, then the first two of each as a part of the part; calls of
// parts and of the whole take turns.
static bt_status split_twice(bt_group *group, void *argument, rank_result *result)
{
    int order[RANKS_MAX], count = 0;
    bt_group *part = NULL, *smaller = NULL;
    for (int rank = group->size - 1; rank >= 0; --rank) {
        order[count] = rank;
        count += rank % 2 == group->rank % 2;
    }
    BT_TRY(bt_group_split(group, group->rank % 2, -group->rank, &part));
    BT_TRY(expect(part->size == count && order[part->rank] == group->rank, "a place"));
    BT_TRY(expect_members(part, group->rank, order));
    bt_status status = bt_group_split(part, part->rank < 2 ? 7 : -1, 0, &smaller);
    status = status ? status : expect((smaller != NULL) == (part->rank < 2), "who is in no part");
    status = status ? status : sweep_short(part, argument, result);
    if (smaller != NULL && status == BT_OK) {
        status = expect_members(smaller, group->rank, order);
        status = status ? status : sweep_short(smaller, argument, result);
    }
    status = status ? status : sweep_short(group, argument, result);
    status = status ? status : bt_barrier(part, NULL);
    bt_group_destroy(smaller);
    bt_group_destroy(part);
    return status;
}

static void parts_agree_with_the_oracle(void **state)
{
    (void)state;
    static const struct {
        ranks_kind kind;
        int ranks[4];
    } rows[] = {{RANKS_THREADS, {1, 2, 5, 8}},
                {RANKS_MEMORY, {2, 4, 5}},
                {RANKS_TCP, {3, 4}},
                {RANKS_MIXED, {4, 5}}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; ++row) {
        for (const int *ranks = rows[row].ranks; *ranks != 0 && ranks < rows[row].ranks + 4;
             ++ranks) {
            rank_result results[RANKS_MAX];
            sweep how = {.delay_seed = 3};
            run_ranks(rows[row].kind, *ranks, timeout_ns, split_twice, &how, results);
            expect_ok(ranks_kind_name(rows[row].kind), *ranks, results);
        }
    }
}

// Rank 0 calls in the part of colour 0, rank 2 in the whole group.
static bt_status call_in_other_parts(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    float sum[8] = {0};
    bt_group *part = NULL;
    BT_TRY(bt_group_split(group, group->rank % 2, 0, &part));
    bt_status status =
        bt_all_reduce(group->rank == 0 ? part : group, sum, 8, BT_F32, BT_REDUCE_SUM, NULL);
    bt_group_destroy(part);
    return status;
}

static void calls_of_different_parts_are_told_apart(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    bool named = false;
    run_ranks(RANKS_THREADS, 4, timeout_ns, call_in_other_parts, NULL, results);
    for (int rank = 0; rank < 4; ++rank) {
        assert_int_not_equal(results[rank].status, BT_OK);
        named = named || (strstr(results[rank].message, "ranks diverge") != NULL &&
                          strstr(results[rank].message, "in the group of colour 0") != NULL);
    }
    assert_true(named);
}

static bt_status abort_a_part(bt_group *group, void *argument, rank_result *result)
{
    (void)argument, (void)result;
    bt_group *part = NULL;
    BT_TRY(bt_group_split(group, group->rank % 2, 0, &part));
    if (group->rank == 0) {
        bt_group_abort(part, "the loss is NaN");
    }
    bt_status status = bt_barrier(group, NULL);
    bt_group_destroy(part);
    return status;
}

static void a_failed_part_fails_the_whole(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_MEMORY, 4, timeout_ns, abort_a_part, NULL, results);
    for (int rank = 0; rank < 4; ++rank) {
        assert_int_not_equal(results[rank].status, BT_OK);
        assert_non_null(strstr(results[rank].message, "the loss is NaN"));
    }
}

// ---- the mesh -----------------------------------------------------------------------------------

static bt_status sum_of(bt_group *group, double own, double *sum)
{
    *sum = own;
    return group != NULL ? bt_all_reduce(group, sum, 1, BT_F64, BT_REDUCE_SUM, NULL) : BT_OK;
}

// The ranks of each group are those that differ in its coordinates alone: their ranks add up.
static bt_status check_mesh(bt_group *world, void *argument, rank_result *result)
{
    (void)result;
    const bt_mesh_degrees *degrees = argument;
    const int D = degrees->data, T = degrees->tensor, C = degrees->context;
    bt_mesh mesh;
    double data, tensor, context, replicas;
    bt_status status = bt_mesh_create(world, degrees, &mesh);
    const int d = mesh.at.data, t = mesh.at.tensor, c = mesh.at.context;
    status = status ? status : sum_of(mesh.data, world->rank, &data);
    status = status ? status : sum_of(mesh.tensor, world->rank, &tensor);
    status = status ? status : sum_of(mesh.context, world->rank, &context);
    status = status ? status : sum_of(mesh.replicas, world->rank, &replicas);
    if (status == BT_OK) {
        double expected[4] = {0};
        for (int i = 0; i < D; ++i) {
            expected[0] += (i * C + c) * T + t;
        }
        for (int i = 0; i < T; ++i) {
            expected[1] += (d * C + c) * T + i;
        }
        for (int i = 0; i < C; ++i) {
            expected[2] += (d * C + i) * T + t;
        }
        for (int i = 0; i < D * C; ++i) {
            expected[3] += i * T + t;
        }
        status = expect((d * C + c) * T + t == world->rank, "coordinates");
        status = status ? status : expect(!(data < expected[0] || data > expected[0]), "data");
        status =
            status ? status : expect(!(tensor < expected[1] || tensor > expected[1]), "tensor");
        status =
            status ? status : expect(!(context < expected[2] || context > expected[2]), "context");
        status = status ? status
                        : expect(!(replicas < expected[3] || replicas > expected[3]), "replicas");
        status = status ? status : expect((mesh.tensor == NULL) == (T == 1), "a group of one");
        status = status ? status
                        : expect(mesh.tensor == NULL || mesh.tensor->rank == t, "tensor's rank");
    }
    bt_mesh_release(&mesh);
    return status;
}

static void a_mesh_has_its_groups(void **state)
{
    (void)state;
    bt_mesh_degrees rows[] = {{1, 1, 1}, {4, 1, 1}, {1, 4, 1}, {1, 1, 4}, {2, 2, 1},
                              {2, 1, 2}, {1, 2, 2}, {2, 2, 2}, {3, 2, 1}, {2, 2, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        rank_result results[RANKS_MAX];
        const int ranks = rows[i].data * rows[i].tensor * rows[i].context;
        run_ranks(RANKS_THREADS, ranks, timeout_ns, check_mesh, &rows[i], results);
        expect_ok("mesh", ranks, results);
    }
}

static void wrong_degrees_are_named(void **state)
{
    (void)state;
    bt_mesh_degrees degrees = {.tensor = 2};
    ASSERT_OK(bt_mesh_check(&degrees, 8));
    assert_int_equal(degrees.data, 4);
    assert_int_equal(degrees.context, 1);
    degrees = (bt_mesh_degrees){2, 3, 1};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "train.mesh is data 2 x tensor 3 x context 1, which does not match the 8 ranks",
                 bt_mesh_check(&degrees, 8));
    degrees = (bt_mesh_degrees){.tensor = 3};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tensor 3", bt_mesh_check(&degrees, 8));
    degrees = (bt_mesh_degrees){1, -2, 1};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "train.mesh.tensor is -2", bt_mesh_check(&degrees, 1));
}

static void parts_are_as_even_as_can_be(void **state)
{
    (void)state;
    for (int64_t total = 0; total < 30; ++total) {
        for (int parts = 1; parts < 9; ++parts) {
            int64_t next = 0, first, count;
            for (int at = 0; at < parts; ++at, next += count) {
                bt_mesh_part(total, parts, at, &first, &count);
                assert_int_equal(first, next);
                assert_true(count == total / parts || count == (total + parts - 1) / parts);
            }
            assert_int_equal(next, total);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_agree_with_the_oracle),
        cmocka_unit_test(calls_of_different_parts_are_told_apart),
        cmocka_unit_test(a_failed_part_fails_the_whole),
        cmocka_unit_test(a_mesh_has_its_groups),
        cmocka_unit_test(wrong_degrees_are_named),
        cmocka_unit_test(parts_are_as_even_as_can_be),
    };
    return cmocka_run_group_tests_name("dist.mesh", tests, NULL, NULL);
}
