// tests/dist/test_parallel_faults.c - an allocation that fails on one rank ends training on all of
// them: no rank hangs, nothing is leaked, and the ranks say why
#include <omp.h>
#include <string.h>

#include "framework/base/mem.h"
#include "tests/dist/ranks.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 20000000000;

typedef struct run {
    bt_train_plan plan;
    int64_t fails_at;
} run;

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    const run *r = argument;
    bt_train_plan plan = r->plan;
    bt_train_result trained;
    const bt_train_observer observer = {.self = NULL};
    (void)result;
    omp_set_num_threads(1);
    plan.parallel.group = group;
    BT_TRY(bt_barrier(group, NULL));
    if (group->rank == 0) {
        bt_mem_fail_at(r->fails_at);
    }
    return bt_train_run(&plan, &observer, &trained);
}

// Returns whether so many allocations were made. *failures: of the rounds in which a rank failed.
static bool fail_once(const char *name, run *r, int ranks, int *failures)
{
    rank_result results[RANKS_MAX];
    const int64_t live = bt_mem_live_count();
    bool failed = false, named = false;
    run_ranks(RANKS_THREADS, ranks, timeout_ns, train, r, results);
    const bool reached = !bt_mem_fail_pending();
    bt_mem_fail_at(0);
    if (bt_mem_live_count() != live) {
        fail_msg("%s, allocation %lld: %lld blocks were leaked", name, (long long)r->fails_at,
                 (long long)(bt_mem_live_count() - live));
    }
    for (int rank = 0; rank < ranks; ++rank) {
        assert_true(results[rank].time_ns < timeout_ns / 2); // it did not wait for the failed one
        failed = failed || results[rank].status != BT_OK;
        named = named || results[rank].status == BT_STATUS_OUT_OF_MEMORY;
        if ((results[rank].status == BT_OK) != (results[rank].message[0] == '\0')) {
            fail_msg("%s, allocation %lld, rank %d: status %d, '%s'", name, (long long)r->fails_at,
                     rank, (int)results[rank].status, results[rank].message);
        }
    }
    assert_true(named == failed);
    assert_true(reached || !failed);
    *failures += failed;
    return reached;
}

// Some allocations may fail without harm, such as those of a message.
static void a_failed_allocation_ends_all_ranks(void **state)
{
    (void)state;
    enum { STRIDE = TEST_SANITIZED ? 41 : 7 };
    static const struct {
        const char *name;
        bt_mesh_degrees mesh;
        bt_train_parallel with;
    } rows[] = {
        {"ring", {.context = 2}, {.rotation = BT_ROTATION_POINT_TO_POINT}},
        {"ring and heads", {.context = 4}, {.shared_heads = 2}},
        {"chunks", {.tensor = 2}, {.sequence_parallel = true, .row_chunks = true}},
        {"halves", {.tensor = 2}, {.half_batches = true}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const int tensor = rows[i].mesh.tensor ? rows[i].mesh.tensor : 1;
        const int context = rows[i].mesh.context ? rows[i].mesh.context : 1;
        int rounds = 0, failures = 0;
        run r = {.plan = small_train_plan(), .fails_at = 1};
        r.plan.micro_batch = 2;
        r.plan.tokens_per_step = 2 * 16;
        r.plan.steps = 1;
        r.plan.warmup_timing_steps = r.plan.profile_steps = r.plan.eval_every = 0;
        r.plan.parallel = rows[i].with;
        r.plan.parallel.mesh = rows[i].mesh;
        for (; fail_once(rows[i].name, &r, tensor * context, &failures); r.fails_at += STRIDE) {
            ++rounds;
        }
        assert_true(rounds > 1000 / STRIDE && failures > rounds * 9 / 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_allocation_ends_all_ranks),
    };
    return cmocka_run_group_tests_name("dist.parallel_faults", tests, small_corpus_write,
                                       small_corpus_remove);
}
