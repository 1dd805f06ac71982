// tests/dist/test_train.c - training by several ranks: one set of bits, whatever the ranks
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/data/shard.h"
#include "framework/device/device.h"
#include "tests/dist/ranks.h"
#include "tests/dist/ring_order.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 3, BATCHES = 8 };
static const int64_t timeout_ns = 60000000000;

// 8 micro-batches of 2 x 16 tokens a step; two blocks of 32.
static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.micro_batch = 2;
    plan.tokens_per_step = BATCHES * 2 * 16;
    plan.steps = STEPS;
    plan.profile_steps = 0;
    plan.eval_every = 2;
    plan.eval_batches = 3; // no multiple of the ranks
    plan.parallel.invariant = BATCHES;
    plan.parallel.bucket_mb = 0.25; // several buckets
    return plan;
}

// FNV-1a of all bytes so far.
static void mix(uint64_t *digest, const void *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; ++i) {
        *digest = (*digest ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
    }
}

typedef struct run {
    bt_train_plan plan;
    bool ring;          // sums in the order of a ring
    bool state_alone;   // the digest is that of the state
    int64_t stop_after; // steps; 0: never
    int64_t notes;      // that tell of bits which depend on the ranks
} run;

typedef struct watch {
    uint64_t digest;
    int64_t steps, stop_after, notes;
} watch;

static bt_status mix_step(void *self, const bt_train_step *event)
{
    watch *w = self;
    const float values[] = {event->loss, event->grad_norm};
    mix(&w->digest, values, sizeof values);
    ++w->steps;
    return BT_OK;
}

static bt_status mix_eval(void *self, const bt_train_eval *event)
{
    mix(&((watch *)self)->digest, &event->loss, sizeof event->loss);
    return BT_OK;
}

static bool should_stop(void *self)
{
    const watch *w = self;
    return w->stop_after > 0 && w->steps >= w->stop_after;
}

static bt_status count_note(void *self, const char *text)
{
    ((watch *)self)->notes += strstr(text, "have other bits") != NULL;
    return BT_OK;
}

// Trains as one rank; the digest is that of losses, norms, evaluations and the state's digest.
static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    bt_group ring;
    bt_train_result trained;
    watch seen = {.digest = 0xcbf29ce484222325, .stop_after = r.stop_after};
    const bt_train_observer observer = {.self = &seen,
                                        .step = mix_step,
                                        .eval = mix_eval,
                                        .should_stop = should_stop,
                                        .note = count_note};
    omp_set_num_threads(1);
    r.plan.parallel.group = group;
    if (r.ring) {
        ring_order_group(group, &ring);
        r.plan.parallel.group = &ring;
    }
    bt_status status = bt_train_run(&r.plan, &observer, &trained);
    const int64_t notes = !group || group->rank == 0 ? r.notes : 0; // the first rank says it
    if (status == BT_OK && seen.notes != notes) {
        status = bt_error(BT_STATUS_INTERNAL, "%lld notes", (long long)seen.notes);
    }
    result->digest = r.state_alone ? 0xcbf29ce484222325 : seen.digest;
    mix(&result->digest, trained.state_digest, strlen(trained.state_digest));
    return status;
}

// The digest of a run by so many ranks, which all have it.
static uint64_t digest_of(ranks_kind kind, int ranks, const run *r)
{
    rank_result results[RANKS_MAX];
    run_ranks(kind, ranks, timeout_ns, train, (void *)(uintptr_t)r, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
        }
        assert_true(results[rank].digest == results[0].digest);
    }
    return results[0].digest;
}

static uint64_t digest_alone(const run *r)
{
    rank_result result = {0};
    ASSERT_OK(train(NULL, (void *)(uintptr_t)r, &result));
    return result.digest;
}

static void bits_do_not_depend_on_ranks(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};
    static const bt_precision precisions[] = {BT_PRECISION_FP32, BT_PRECISION_BF16};
    for (int p = 0; p < 2; ++p) {
        run r = {.plan = base_plan()};
        r.plan.precision = precisions[p];
        const uint64_t expected = digest_alone(&r);
        for (int ranks = 1; ranks <= 8; ranks *= 2) {
            for (int m = 0; m < 6; ++m) {
                if (!in_sweep(ranks, m)) {
                    continue;
                }
                r.plan.parallel.sharding = modes[m / 2];
                r.plan.parallel.no_overlap = m % 2;
                const uint64_t digest = digest_of(RANKS_THREADS, ranks, &r);
                if (digest != expected) {
                    fail_msg("%s, %d ranks, %s, overlap %d: other bits",
                             bt_precision_name(precisions[p]), ranks,
                             bt_sharding_name(modes[m / 2]), !(m % 2));
                }
            }
        }
    }
}

static void bits_do_not_depend_on_buckets(void **state)
{
    (void)state;
    static const double sizes_mb[] = {0.0625, 0.5, 0};
    run r = {.plan = base_plan()};
    const uint64_t expected = digest_alone(&r);
    for (int i = 0; i < 3; ++i) {
        r.plan.parallel.bucket_mb = sizes_mb[i];
        r.plan.parallel.sharding = i % 2 ? BT_SHARDING_ZERO3 : BT_SHARDING_ZERO1;
        assert_true(digest_of(RANKS_THREADS, 4, &r) == expected);
    }
}

static bt_backend counting; // the CPU's, but for what it counts; replaces it once added
static atomic_int resets, joins;

static bt_status count_reset(bt_device *device)
{
    ++resets;
    return bt_cpu_backend.cache_reset(device);
}

// The CPU has one stream only. With another one, states are collected on it.
static bt_status make_stream(bt_device *device, bool high_priority, bt_stream *out)
{
    (void)device, (void)high_priority;
    *out = (bt_stream)&counting;
    return BT_OK;
}

static bt_status count_join(bt_device *device, int64_t *waited_ns)
{
    ++joins;
    return bt_cpu_backend.join(device, waited_ns);
}

// On a GPU each makes all streams wait for each other, so the gather of the weights would not
// overlap the next forward. The first step and the last contain their own gather.
static void steps_that_overlap_are_not_separated(void **state)
{
    (void)state;
    enum { RANKS = 2 };
    run r = {.plan = base_plan()};
    counting = bt_cpu_backend;
    counting.cache_reset = count_reset;
    counting.join = count_join;
    counting.stream_create = make_stream;
    ASSERT_OK(bt_device_add(&counting));
    r.plan.parallel.sharding = BT_SHARDING_ZERO1;
    (void)digest_of(RANKS_THREADS, RANKS, &r);
    assert_int_equal(resets, RANKS * 2);
    assert_int_equal(joins, RANKS * 2);
    resets = joins = 0;
    r.plan.parallel.no_overlap = true;
    (void)digest_of(RANKS_THREADS, RANKS, &r);
    assert_int_equal(resets, RANKS * STEPS);
    assert_int_equal(joins, RANKS * STEPS);
    // Nor from a checkpoint that is collected beside the next step, here surely the second.
    resets = 0;
    r.plan.checkpoints = (bt_train_checkpoints){
        .folder = test_scratch_make(), .every_steps = 1, .asynchronous = true};
    (void)digest_of(RANKS_THREADS, RANKS, &r);
    test_scratch_remove();
    assert_true(resets < RANKS * STEPS);
}

// With a bucket a parameter ZeRO-3 has few of them at a time; blocks that run again in the backward
// read weights that went away meanwhile.
static void recomputed_blocks_fetch_their_weights(void **state)
{
    (void)state;
    run r = {.plan = base_plan()};
    r.plan.parallel.bucket_mb = 0.0625;
    for (int mode = BT_RECOMPUTE_NONE; mode < BT_RECOMPUTE_COUNT; ++mode) {
        r.plan.recompute = (bt_recompute_mode)mode;
        r.plan.precision = mode % 2 ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        r.plan.parallel.sharding = BT_SHARDING_ZERO3;
        const uint64_t sharded = digest_of(RANKS_THREADS, 2, &r);
        assert_true(digest_alone(&r) == sharded);
    }
}

// Fewer shards than micro-batches: other sums, the same on every number of ranks.
static void shards_of_several_micro_batches(void **state)
{
    (void)state;
    run r = {.plan = base_plan()};
    const uint64_t of_eight = digest_alone(&r);
    r.plan.parallel.invariant = 4;
    const uint64_t expected = digest_alone(&r);
    assert_true(expected != of_eight);
    r.plan.parallel.sharding = BT_SHARDING_ZERO1;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        assert_true(digest_of(RANKS_THREADS, ranks, &r) == expected);
    }
    r.plan.parallel.invariant = 1; // as without shards
    const uint64_t in_order = digest_alone(&r);
    r.plan.parallel.invariant = 0;
    assert_true(digest_alone(&r) == in_order);
}

// The negative control: with sums around a ring the same comparison fails, on any two numbers of
// ranks, though each repeats its own bits.
static void a_ring_is_noticed(void **state)
{
    (void)state;
    if (TEST_SANITIZED) { // it checks this test, not the framework
        skip();
    }
    uint64_t seen[3];
    for (int i = 0; i < 3; ++i) {
        run r = {.plan = base_plan(), .ring = true};
        r.plan.parallel.sharding = i % 2 ? BT_SHARDING_ZERO1 : BT_SHARDING_DDP;
        seen[i] = digest_of(RANKS_THREADS, 2 << i, &r);
        assert_true(digest_of(RANKS_THREADS, 2 << i, &r) == seen[i]);
    }
    run r = {.plan = base_plan()};
    const uint64_t expected = digest_alone(&r);
    assert_true(seen[1] != expected && seen[2] != expected && seen[1] != seen[2]);
    assert_true(seen[0] == expected); // two numbers have one sum
}

// Without virtual shards, and under ZeRO-2 with several micro-batches a rank, the bits repeat at
// one number of ranks.
static void modes_that_repeat_at_fixed_ranks(void **state)
{
    (void)state;
    run r = {.plan = base_plan()};
    const uint64_t expected = digest_alone(&r);
    r.plan.parallel.sharding = BT_SHARDING_ZERO2;
    assert_true(digest_of(RANKS_THREADS, 8, &r) == expected); // a micro-batch each
    r.notes = 1;                                              // printed at the start
    const uint64_t four = digest_of(RANKS_THREADS, 4, &r);
    assert_true(four != expected && digest_of(RANKS_THREADS, 4, &r) == four);
    r.plan.parallel.invariant = 0;
    r.plan.parallel.sharding = BT_SHARDING_ZERO1;
    const uint64_t three = digest_of(RANKS_THREADS, 2, &r);
    assert_true(three != expected && digest_of(RANKS_THREADS, 2, &r) == three);
}

static void processes_have_the_same_bits(void **state)
{
    (void)state;
    run r = {.plan = base_plan()};
    const uint64_t expected = digest_alone(&r);
    for (int kind = RANKS_MEMORY; kind < RANKS_KIND_COUNT; ++kind) {
        r.plan.parallel.sharding = kind == RANKS_MEMORY ? BT_SHARDING_ZERO1 : BT_SHARDING_ZERO3;
        assert_true(digest_of((ranks_kind)kind, 2, &r) == expected);
    }
}

// ---- memory -------------------------------------------------------------------------------------

static bt_status measure_peak(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    bt_train_result trained;
    omp_set_num_threads(1);
    r.plan.parallel.group = group;
    BT_TRY(bt_train_run(&r.plan, &(bt_train_observer){0}, &trained));
    result->digest = trained.peak_allocated_bytes;
    return BT_OK;
}

// Rank 0 has the whole state in host memory: its device holds what every other device does.
static void no_device_holds_the_whole_state(void **state)
{
    (void)state;
    static const bt_sharding modes[] = {BT_SHARDING_ZERO1, BT_SHARDING_ZERO2, BT_SHARDING_ZERO3};
    enum { RANKS = 4 };
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; ++m) {
        rank_result results[RANKS_MAX];
        run r = {.plan = base_plan()};
        r.plan.parallel.sharding = modes[m];
        r.plan.checkpoints = (bt_train_checkpoints){
            .folder = test_scratch_make(), .every_steps = 1, .asynchronous = true};
        run_ranks(RANKS_THREADS, RANKS, timeout_ns, measure_peak, &r, results);
        test_scratch_remove();
        for (int rank = 0; rank < RANKS; ++rank) {
            ASSERT_OK(results[rank].status);
            if (results[rank].digest > results[RANKS - 1].digest * 102 / 100) {
                fail_msg("%s: the device of rank %d holds %llu bytes, of rank %d %llu",
                         bt_sharding_name(modes[m]), rank, (unsigned long long)results[rank].digest,
                         RANKS - 1, (unsigned long long)results[RANKS - 1].digest);
            }
        }
    }
}

// ---- checkpoints --------------------------------------------------------------------------------

typedef struct mesh {
    int ranks;
    bt_sharding sharding;
} mesh;

static const mesh meshes[] = {{1, BT_SHARDING_DDP}, {4, BT_SHARDING_ZERO1}, {2, BT_SHARDING_ZERO3},
                              {8, BT_SHARDING_DDP}, {8, BT_SHARDING_ZERO1}, {4, BT_SHARDING_ZERO3}};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

static uint64_t digest_on(const mesh *m, run *r)
{
    r->plan.parallel.sharding = m->sharding;
    return digest_of(RANKS_THREADS, m->ranks, r);
}

// Written by one mesh, gone on from by the next: the state in the end is that of a run that was
// never stopped, and so is the file, byte for byte the same tensors.
static void checkpoints_load_under_any_mesh(void **state)
{
    (void)state;
    static const bt_precision precisions[] = {BT_PRECISION_FP32, BT_PRECISION_BF16};
    for (int p = 0; p < 2; ++p) {
        run r = {.plan = base_plan(), .state_alone = true};
        const char *folder = test_scratch_make();
        r.plan.precision = precisions[p];
        r.plan.steps = MESHES;
        r.plan.eval_every = 0;
        const uint64_t expected = digest_alone(&r);
        r.plan.checkpoints =
            (bt_train_checkpoints){.folder = folder, .every_steps = 1, .max_to_keep = 2};
        for (int i = 0; i < MESHES; ++i) {
            r.stop_after = 1; // of this part
            r.plan.checkpoints.resume = i > 0;
            r.plan.checkpoints.asynchronous = i % 2;
            const uint64_t digest = digest_on(&meshes[i], &r);
            assert_true((digest == expected) == (i == MESHES - 1));
        }
        test_scratch_remove();
    }
}

// ---- bad input ----------------------------------------------------------------------------------

static bt_status train_another_plan(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    r.plan.optimizer.lr *= group->rank == 1 ? 2 : 1;
    return train(group, &r, result);
}

static bt_status train_verified_once(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    r.plan.verify_every = group->rank; // ranks replay together
    return train(group, &r, result);
}

static void a_rank_with_another_plan_is_named(void **state)
{
    (void)state;
    const run r = {.plan = base_plan()};
    static const rank_body bodies[] = {train_another_plan, train_verified_once};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; ++i) {
        rank_result results[RANKS_MAX];
        run_ranks(RANKS_THREADS, 2, timeout_ns, bodies[i], (void *)(uintptr_t)&r, results);
        for (int rank = 0; rank < 2; ++rank) {
            assert_int_not_equal(results[rank].status, BT_STATUS_OK); // its own, or an abort
            assert_non_null(strstr(results[rank].message, "rank 1 runs another plan than rank 0"));
        }
    }
}

// Both ranks refuse, with the same words.
static void expect_refused(const run *r, rank_body body, const char *words)
{
    rank_result results[RANKS_MAX];
    run_ranks(RANKS_THREADS, 2, timeout_ns, body, (void *)(uintptr_t)r, results);
    for (int rank = 0; rank < 2; ++rank) {
        if (results[rank].status == BT_OK || !strstr(results[rank].message, words)) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

static char other_files[3][128]; // a shard; weights of either rank

static bt_status train_on_other_data(bt_group *group, void *argument, rank_result *result)
{
    static const char *const shards[] = {other_files[0]};
    run r = *(const run *)argument;
    r.plan.train_shards = group->rank == 1 ? shards : r.plan.train_shards;
    return train(group, &r, result);
}

static bt_status train_other_weights(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    r.plan.init = other_files[1 + group->rank];
    return train(group, &r, result);
}

// What differs between hosts though the plan is the same.
static void a_rank_with_other_files_is_named(void **state)
{
    (void)state;
    static const uint16_t tokens[2000] = {1, 2, 3};
    static const char *const names[] = {"short.bin", "a", "b"};
    run r = {.plan = base_plan()};
    assert_non_null(test_scratch_make());
    for (int i = 0; i < 3; ++i) {
        (void)snprintf(other_files[i], sizeof other_files[i], "%s", test_scratch_path(names[i]));
    }
    ASSERT_OK(bt_shard_write(other_files[0], tokens, 2000));
    expect_refused(&r, train_on_other_data, "rank 1 runs another plan than rank 0");
    for (int i = 0; i < 2; ++i) {
        run saved = {.plan = base_plan()};
        saved.plan.seed += (uint64_t)i;
        saved.plan.checkpoints =
            (bt_train_checkpoints){.folder = other_files[1 + i], .at_end = true};
        (void)digest_alone(&saved);
    }
    expect_refused(&r, train_other_weights, "rank 1 starts with other weights than rank 0");
    test_scratch_remove();
}

static bt_status train_without_memory(bt_group *group, void *argument, rank_result *result)
{
    run r = *(const run *)argument;
    r.plan.memory_limit_bytes = group->rank == 1 ? 2 << 20 : 0;
    return train(group, &r, result);
}

// Nobody waits for a rank that has failed: the others have its reason at once.
static void a_rank_that_fails_ends_the_others(void **state)
{
    (void)state;
    run r = {.plan = base_plan()};
    rank_result results[RANKS_MAX];
    r.plan.parallel.bucket_mb = 0;
    run_ranks(RANKS_THREADS, 4, timeout_ns, train_without_memory, &r, results);
    assert_int_equal(results[1].status, BT_STATUS_OUT_OF_MEMORY);
    for (int rank = 0; rank < 4; ++rank) {
        assert_true(results[rank].time_ns < timeout_ns / 4);
        if (rank != 1) {
            assert_int_equal(results[rank].status, BT_STATUS_INTERRUPTED);
            assert_non_null(strstr(results[rank].message, "limit"));
        }
    }
}

static void steps_that_ranks_cannot_share_are_refused(void **state)
{
    (void)state;
    const bt_group_backend host = {.name = "host"};
    bt_group group = {.backend = &host, .size = 3};
    bt_train_plan plan = base_plan();
    plan.parallel.group = &group;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "number of micro-batches of a step, 8 ",
                 bt_train_check(&plan));
    group.size = 2;
    ASSERT_OK(bt_train_check(&plan));
    plan.parallel.invariant = 1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "invariant is 1", bt_train_check(&plan));
    plan.parallel.invariant = 6;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "invariant is 6", bt_train_check(&plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_ranks),
        cmocka_unit_test(bits_do_not_depend_on_buckets),
        cmocka_unit_test(recomputed_blocks_fetch_their_weights),
        cmocka_unit_test(shards_of_several_micro_batches),
        cmocka_unit_test(a_ring_is_noticed),
        cmocka_unit_test(modes_that_repeat_at_fixed_ranks),
        cmocka_unit_test(processes_have_the_same_bits),
        cmocka_unit_test(no_device_holds_the_whole_state),
        cmocka_unit_test(checkpoints_load_under_any_mesh),
        cmocka_unit_test(a_rank_with_another_plan_is_named),
        cmocka_unit_test(a_rank_with_other_files_is_named),
        cmocka_unit_test(a_rank_that_fails_ends_the_others),
        cmocka_unit_test(steps_that_ranks_cannot_share_are_refused),
        cmocka_unit_test(steps_that_overlap_are_not_separated),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
