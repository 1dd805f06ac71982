// tests/dist/test_train_links.c - training by ranks that map memory of each other (fake_gpu.h):
// the bits of one rank, through slots
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/dist/device_group.h"
#include "framework/dist/flight.h"
#include "framework/dist/p2p.h"
#include "tests/dist/fake_gpu.h"
#include "tests/dist/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { BATCHES = 8 };
static const int64_t timeout_ns = 60000000000;

static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.micro_batch = 2;
    plan.tokens_per_step = BATCHES * 2 * 16;
    plan.steps = 3;
    plan.profile_steps = 0;
    plan.eval_every = 2;
    plan.eval_batches = 3;
    plan.parallel.invariant = BATCHES;
    plan.parallel.bucket_mb = 0.25;
    return plan;
}

typedef struct run {
    bt_train_plan plan;
    int64_t stop_after; // steps; 0: never
    bool slots;         // gradients are expected to go through slots
    bool any_way;       // or not requested
} run;

typedef struct watch {
    int64_t steps, stop_after;
} watch;

static bt_status count_step(void *self, const bt_train_step *event)
{
    (void)event;
    ++((watch *)self)->steps;
    return BT_OK;
}

static bool should_stop(void *self)
{
    const watch *w = self;
    return w->stop_after > 0 && w->steps >= w->stop_after;
}

static bt_status train(const run *r, bt_group *group, rank_result *result)
{
    bt_train_plan plan = r->plan;
    bt_train_result trained;
    watch seen = {.stop_after = r->stop_after};
    const bt_train_observer observer = {
        .self = &seen, .step = count_step, .should_stop = should_stop};
    omp_set_num_threads(1);
    plan.parallel.group = group;
    BT_TRY(bt_train_run(&plan, &observer, &trained));
    result->time_ns = (int64_t)trained.peak_allocated_bytes; // in place of a time
    result->digest = strtoull(trained.state_digest + 16, NULL, 16);
    return BT_OK;
}

// Whether the flight recorder contains such a call.
static bool has_called(const bt_flight *flight, const char *op)
{
    for (uint64_t sequence = 1; sequence <= atomic_load(&flight->board->calls); ++sequence) {
        bt_flight_call call;
        if (bt_flight_read(flight, sequence, &call) && strcmp(call.op, op) == 0) {
            return true;
        }
    }
    return false;
}

static bt_status train_recorded(const run *r, bt_group *group, rank_result *result)
{
    bt_flight flight;
    int fd = -1;
    BT_TRY(bt_flight_create(group->rank, group->size, 1, &fd, &flight));
    group->flight = &flight;
    bt_status status = train(r, group, result);
    if (status == BT_OK && !r->any_way && has_called(&flight, "all_to_others") != r->slots) {
        status = bt_error(BT_STATUS_INTERNAL, "gradients went another way than expected");
    }
    group->flight = NULL;
    bt_flight_detach(&flight);
    (void)close(fd);
    return status;
}

static bt_status body(bt_group *control, void *argument, rank_result *result)
{
    bt_device device;
    bt_group *group;
    const bt_p2p_options options = {
        .timeout_ns = timeout_ns, .staging_bytes = 1 << 20, .engines = true};
    BT_TRY(bt_device_open("cpu", 0, &device));
    bt_status status = bt_group_p2p_create(control, &device, &options, &group);
    if (status == BT_OK) {
        result->took_group = true;
        status = train_recorded(argument, group, result);
        bt_error_quiet_begin();
        bt_group_destroy(group);
        bt_error_quiet_end();
    }
    bt_device_close(&device);
    return status;
}

// Memory that ranks map is not of the pool, but is counted too.
static bt_status compares_memory(bt_group *control, void *argument, rank_result *result)
{
    rank_result without = {0};
    BT_TRY(train(argument, control, &without));
    BT_TRY(body(control, argument, result));
    return result->time_ns > without.time_ns
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "%lld bytes with slots, %lld without",
                          (long long)result->time_ns, (long long)without.time_ns);
}

static void slots_are_counted(void **state)
{
    (void)state;
    run r = {.plan = base_plan(), .slots = true};
    rank_result results[RANKS_MAX];
    bt_device_group_use(fake_gpu_table(BT_OK));
    run_ranks(RANKS_MEMORY, 2, timeout_ns, compares_memory, &r, results);
    for (int rank = 0; rank < 2; ++rank) {
        if (results[rank].status != BT_OK) {
            fail_msg("rank %d: %s", rank, results[rank].message);
        }
    }
}

static uint64_t digest_of(int ranks, run *r)
{
    rank_result results[RANKS_MAX];
    bt_device_group_use(fake_gpu_table(BT_OK));
    run_ranks(RANKS_MEMORY, ranks, timeout_ns, body, r, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("rank %d of %d: %s", rank, ranks,
                     results[rank].ended ? "ended" : results[rank].message);
        }
        assert_true(results[rank].digest == results[0].digest);
    }
    return results[0].digest;
}

static uint64_t digest_alone(const run *r)
{
    rank_result result = {0};
    ASSERT_OK(train(r, NULL, &result));
    return result.digest;
}

static void slots_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const bt_precision precisions[] = {BT_PRECISION_FP32, BT_PRECISION_BF16};
    for (int p = 0; p < 2; ++p) {
        run r = {.plan = base_plan()};
        r.plan.precision = precisions[p];
        const uint64_t expected = digest_alone(&r);
        for (int ranks = 2; ranks <= 8; ranks *= 2) {
            for (int mode = 0; mode < BT_SHARDING_COUNT; ++mode) {
                if (!in_sweep(ranks, mode)) {
                    continue;
                }
                r.plan.parallel.sharding = (bt_sharding)mode;
                r.plan.parallel.no_overlap = ranks == 4;
                r.slots = mode != BT_SHARDING_ZERO2;
                const uint64_t digest = digest_of(ranks, &r);
                if (digest != expected && (r.slots || ranks == BATCHES)) {
                    fail_msg("%s, %d ranks, %s: other bits", bt_precision_name(precisions[p]),
                             ranks, bt_sharding_name((bt_sharding)mode));
                }
            }
        }
    }
}

// A table of which a step looks up few rows: they are summed after the slots.
static void a_tied_table_in_two_parts(void **state)
{
    (void)state;
    run r = {.plan = base_plan(), .slots = true};
    r.plan.model.vocab = 1000;
    r.plan.model.width = 24;
    const uint64_t expected = digest_alone(&r);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};
        for (int m = 0; m < 3; ++m) {
            if (!in_sweep(ranks, m)) {
                continue;
            }
            r.plan.parallel.sharding = modes[m];
            assert_true(digest_of(ranks, &r) == expected);
        }
    }
}

static void state_goes_from_links_to_one_rank_and_back(void **state)
{
    (void)state;
    run r = {.plan = base_plan(), .any_way = true};
    const char *folder = test_scratch_make();
    r.plan.eval_every = 0;
    const uint64_t expected = digest_alone(&r);
    r.plan.parallel.sharding = BT_SHARDING_ZERO1;
    r.plan.checkpoints =
        (bt_train_checkpoints){.folder = folder, .every_steps = 1, .max_to_keep = 2};
    r.stop_after = 1; // of each part
    assert_true(digest_of(2, &r) != expected);
    r.plan.checkpoints.resume = true;
    assert_true(digest_alone(&r) != expected);
    assert_true(digest_of(4, &r) == expected);
    test_scratch_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_have_the_bits_of_one_rank),
        cmocka_unit_test(slots_are_counted),
        cmocka_unit_test(a_tied_table_in_two_parts),
        cmocka_unit_test(state_goes_from_links_to_one_rank_and_back),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
