// tests/dist/test_exposed.c - what a rank sends in a step is in the range `communication`, whose
// time is reported as exposed communication. On the CPU the sender waits until it is sent.
#include <omp.h>
#include <stdlib.h>

#include "tests/dist/ranks.h"
#include "tests/dist/watched.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static const int64_t timeout_ns = 60000000000;

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    bt_train_plan plan = *(const bt_train_plan *)argument;
    bt_train_result trained;
    watched *rank = calloc(1, sizeof *rank);
    const bt_train_observer observer = {.ranges = &rank->ranges};
    (void)result;
    omp_set_num_threads(1);
    rank->outer = "step";
    rank->inner = "communication";
    plan.parallel.group = group;
    watch_transport(group, rank);
    bt_status status = bt_train_run(&plan, &observer, &trained);
    if (status == BT_OK && (rank->outside > 0 || rank->inside == 0)) {
        status = bt_error(BT_STATUS_INTERNAL, "%lld writes in communication, %lld outside: in %s",
                          (long long)rank->inside, (long long)rank->outside, rank->where);
    }
    watch_transport(group, NULL);
    free(rank);
    return status;
}

static void expect_inside(bt_train_parallel parallel, int64_t vocab)
{
    rank_result results[RANKS_MAX];
    bt_train_plan plan = small_train_plan();
    const bt_mesh_degrees *mesh = &parallel.mesh;
    const int ranks = mesh->data * mesh->tensor * mesh->context;
    plan.parallel = parallel;
    plan.model.heads = 4;
    plan.model.vocab = vocab;
    plan.micro_batch = 2;
    plan.tokens_per_step = 4 * 2 * 16;
    plan.steps = 2;
    plan.profile_steps = 0;
    plan.warmup_timing_steps = 0;
    plan.eval_every = 0;
    run_ranks(RANKS_THREADS, ranks, timeout_ns, train, &plan, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("data %d x tensor %d x context %d, %s, vocabulary %lld, rank %d: %s",
                     mesh->data, mesh->tensor, mesh->context, bt_rotation_name(parallel.rotation),
                     (long long)vocab, rank, results[rank].message);
        }
    }
}

// With the larger vocabulary ranks exchange the rows of the embedding that they looked up.
static void every_exchange_of_a_step_is_exposed(void **state)
{
    (void)state;
    static const bt_train_parallel rows[] = {
        {.mesh = {2, 1, 1}, .sharding = BT_SHARDING_DDP},
        {.mesh = {2, 1, 1}, .sharding = BT_SHARDING_ZERO1},
        {.mesh = {2, 1, 1}, .sharding = BT_SHARDING_ZERO2},
        {.mesh = {2, 1, 1}, .sharding = BT_SHARDING_ZERO3},
        {.mesh = {1, 2, 1}},
        {.mesh = {1, 2, 1}, .sequence_parallel = true},
        {.mesh = {1, 2, 1}, .sequence_parallel = true, .row_chunks = true},
        {.mesh = {1, 2, 1}, .half_batches = true},
        {.mesh = {1, 1, 2}, .rotation = BT_ROTATION_ALL_GATHER},
        {.mesh = {1, 1, 2}, .rotation = BT_ROTATION_POINT_TO_POINT},
        {.mesh = {1, 1, 2}, .rotation = BT_ROTATION_ALL_TO_ALL},
        {.mesh = {1, 1, 2}, .shared_heads = 2},
        {.mesh = {2, 2, 2}, .sharding = BT_SHARDING_ZERO1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const int ranks = rows[i].mesh.data * rows[i].mesh.tensor * rows[i].mesh.context;
        for (int large = 0; large < 2; ++large) {
            if (in_sweep(ranks, (int)i)) {
                expect_inside(rows[i], large ? 512 : SMALL_VOCAB);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exchange_of_a_step_is_exposed),
    };
    return cmocka_run_group_tests_name("dist.exposed", tests, small_corpus_write,
                                       small_corpus_remove);
}
