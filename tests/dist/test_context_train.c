// tests/dist/test_context_train.c - training by ranks that share sequences: losses of one rank's
// run within a bound, on meshes of data and context, the same bits by every rotation
#include <math.h>
#include <omp.h>
#include <string.h>

#include "tests/dist/ranks.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 4 };
static const int64_t timeout_ns = 60000000000;

typedef struct losses {
    double step[STEPS], norm[STEPS], eval;
} losses;

typedef struct run {
    bt_train_plan plan;
    int context; // ranks that share a sequence
    losses all[RANKS_MAX];
} run;

// 4 micro-batches of 2 x 16 tokens a step.
static run base_run(void)
{
    run r = {.plan = small_train_plan(), .context = 1};
    r.plan.micro_batch = 2;
    r.plan.tokens_per_step = 4 * 2 * 16;
    r.plan.steps = STEPS;
    r.plan.warmup_timing_steps = 0;
    r.plan.profile_steps = 1;
    r.plan.eval_every = STEPS;
    r.plan.eval_batches = 3;
    r.plan.parallel.bucket_mb = 0.25;
    return r;
}

static bt_status keep_step(void *self, const bt_train_step *event)
{
    losses *l = self;
    l->step[event->step] = (double)event->loss;
    l->norm[event->step] = (double)event->grad_norm;
    return BT_OK;
}

static bt_status keep_eval(void *self, const bt_train_eval *event)
{
    ((losses *)self)->eval = event->loss;
    return BT_OK;
}

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    run *r = argument;
    bt_train_plan plan = r->plan;
    bt_train_result trained;
    const bt_train_observer observer = {
        .self = &r->all[group->rank], .step = keep_step, .eval = keep_eval};
    omp_set_num_threads(1);
    plan.parallel.group = group;
    plan.parallel.mesh.context = r->context;
    bt_status status = bt_train_run(&plan, &observer, &trained);
    result->digest = 0xcbf29ce484222325;
    for (const char *c = trained.state_digest; status == BT_OK && *c; ++c) {
        result->digest = (result->digest ^ (unsigned char)*c) * 0x100000001b3;
    }
    return status;
}

// Threads: the losses are in shared memory. Returns the digest, which all ranks have.
static uint64_t run_all(int ranks, run *r)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, ranks, timeout_ns, train, r, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d of %d, context %d: %s", rank, ranks, r->context,
                     results[rank].message);
        }
        assert_true(results[rank].digest == results[0].digest);
        assert_memory_equal(&r->all[rank], &r->all[0], sizeof r->all[0]);
    }
    return results[0].digest;
}

// Losses are means of as many terms in another order, of logits that come from partial results of
// attention: both err by few roundings, relative to the loss of about 4. AdamW's first steps move a
// parameter by up to lr whatever its gradient's size, so noise in a gradient moves some the other
// way; what those do to a loss is of second order, and grows by the step. 4 roundings a step have
// room for both; a norm adds the squares of all parameters' errors.
static void expect_close(const losses *a, const losses *b, double roundoff)
{
    for (int i = 0; i < STEPS; ++i) {
        const double allowed = (i + 1) * 4 * roundoff;
        if (!(fabs(a->step[i] - b->step[i]) <= allowed * a->step[i]) ||
            !(fabs(a->norm[i] - b->norm[i]) <= 4 * allowed * a->norm[i])) {
            fail_msg("step %d: loss %.9g and %.9g, norm %.9g and %.9g", i, a->step[i], b->step[i],
                     a->norm[i], b->norm[i]);
        }
    }
    assert_true(fabs(a->eval - b->eval) <= (STEPS + 1) * 4 * roundoff * a->eval);
}

static const struct {
    int ranks, context;
    bt_sharding sharding;
    int64_t shared_heads;
} meshes[] = {
    {2, 2, BT_SHARDING_DDP, 0},   {4, 4, BT_SHARDING_DDP, 0},   {4, 2, BT_SHARDING_DDP, 0},
    {4, 2, BT_SHARDING_ZERO1, 0}, {4, 2, BT_SHARDING_ZERO3, 0}, {8, 2, BT_SHARDING_DDP, 0},
    {8, 8, BT_SHARDING_ZERO1, 0}, {2, 2, BT_SHARDING_DDP, 2},   {4, 4, BT_SHARDING_ZERO1, 2},
    {8, 4, BT_SHARDING_DDP, 2},
};

static void losses_are_those_of_one_rank(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; ++bf16) {
        run alone = base_run();
        alone.plan.precision = bf16 ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        (void)run_all(1, &alone);
        for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; ++i) {
            if (TEST_SANITIZED && (int)i % 2 != bf16) { // each mesh in one type
                continue;
            }
            run shared = alone;
            shared.context = meshes[i].context;
            shared.plan.parallel.sharding = meshes[i].sharding;
            shared.plan.parallel.shared_heads = meshes[i].shared_heads;
            (void)run_all(meshes[i].ranks, &shared);
            expect_close(&alone.all[0], &shared.all[0], bf16 ? 0x1p-9 : 0x1p-24);
        }
    }
}

static void rotations_and_recomputation_have_one_set_of_bits(void **state)
{
    (void)state;
    run first = base_run();
    first.context = 4;
    const uint64_t digest = run_all(4, &first);
    for (int rotation = 0; rotation < BT_ROTATION_COUNT; ++rotation) {
        run other = base_run();
        other.context = 4;
        other.plan.parallel.rotation = (bt_rotation)rotation;
        other.plan.recompute = rotation == 1 ? BT_RECOMPUTE_BLOCK : BT_RECOMPUTE_NONE;
        assert_true(run_all(4, &other) == digest);
    }
}

static void expect_refusal(run r, const char *words)
{
    const int tensor = r.plan.parallel.mesh.tensor ? r.plan.parallel.mesh.tensor : 1;
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, r.context * tensor, timeout_ns, train, &r, results);
    if (results[0].status == BT_OK || !strstr(results[0].message, words)) {
        fail_msg("expected '%s', got '%s'", words, results[0].message);
    }
}

static void plans_that_cannot_be_shared(void **state)
{
    (void)state;
    run r = base_run();
    r.context = 2;
    r.plan.sequence = 15;
    r.plan.tokens_per_step = 2 * 2 * 15;
    expect_refusal(r, "sequence is 15; with train.mesh.context 2 it must be a multiple of 4");
    r = base_run();
    r.context = 2;
    r.plan.parallel.invariant = 4;
    expect_refusal(r, "set train.mesh.invariant to 0, or train.mesh.context to 1");
    r = base_run();
    r.context = 2;
    r.plan.parallel.shared_heads = 3;
    expect_refusal(r, "train.mesh.shared_heads is 3; allowed: divisors");
    r = base_run();
    r.context = 2;
    r.plan.parallel.mesh.tensor = 2; // a head each
    r.plan.parallel.shared_heads = 2;
    expect_refusal(r, "up to the heads of a rank, 1 (train.model.heads 2)");
    r = base_run();
    r.context = 2;
    r.plan.model.family = "llama";
    r.plan.model.hidden = 64;
    expect_refusal(r, "sequences of family llama cannot be split");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_one_rank),
        cmocka_unit_test(rotations_and_recomputation_have_one_set_of_bits),
        cmocka_unit_test(plans_that_cannot_be_shared),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
