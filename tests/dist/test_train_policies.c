// tests/dist/test_train_policies.c - what one rank computes wrongly: all ranks do the same about it
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "tests/dist/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 6, BAD_STEP = 3, BATCHES = 4, LARGE = 1000 };
static const int64_t timeout_ns = 60000000000;

// ---- a group whose last rank sends a NaN in one step --------------------------------------------

typedef struct poison {
    bt_group *inner; // borrowed
    int64_t steps;   // done
    int64_t given, times;
    float value;  // NaN: in place of a gradient; else added to it
    bool weights; // it is put into weights that this rank has gathered instead
} poison;

static bool is_due(const bt_group *group, int64_t count)
{
    const poison *self = group->impl;
    return group->rank == group->size - 1 && self->steps == BAD_STEP && count >= LARGE &&
           self->given < self->times;
}

static void spoil(bt_group *group, const void *data, int64_t count, bt_dtype dtype)
{
    poison *self = group->impl;
    if (is_due(group, count) && dtype == BT_F32 && !self->weights) {
        ((float *)(uintptr_t)data)[0] += self->value; // the first element is this rank's
        ++self->given;
    }
}

static bt_status all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream)
{
    spoil(group, data, count, dtype);
    return bt_all_reduce(((poison *)group->impl)->inner, data, count, dtype, reduction, stream);
}

static bt_status reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream)
{
    spoil(group, in, count, dtype);
    return bt_reduce_scatter(((poison *)group->impl)->inner, in, out, count, dtype, reduction,
                             stream);
}

static bt_status all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream)
{
    poison *self = group->impl;
    BT_TRY(bt_all_gather(self->inner, in, out, size_bytes, stream));
    if (self->weights && is_due(group, size_bytes)) {
        for (int64_t i = 0; i < size_bytes * group->size / 4; ++i) {
            ((float *)out)[i] = self->value;
        }
        ++self->given;
    }
    return BT_OK;
}

static bt_status broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream)
{
    return bt_broadcast(((poison *)group->impl)->inner, data, size_bytes, root, stream);
}

static void abort_group(bt_group *group, const char *reason)
{
    bt_group_abort(((poison *)group->impl)->inner, reason);
}

static const bt_group_backend backend = {.name = "poison",
                                         .all_reduce = all_reduce,
                                         .reduce_scatter = reduce_scatter,
                                         .all_gather = all_gather,
                                         .broadcast = broadcast,
                                         .abort = abort_group};

// ---- a run --------------------------------------------------------------------------------------

typedef struct seen {
    poison *given;
    uint64_t digest; // FNV-1a of losses, norms and faults
    int64_t faults;
    char action[16], message[320];
} seen;

static void mix(seen *s, const void *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; ++i) {
        s->digest = (s->digest ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
    }
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    seen *s = self;
    const bool finite = isfinite(event->grad_norm); // a NaN has many bits
    mix(s, &event->loss, sizeof event->loss);
    mix(s, finite ? (const void *)&event->grad_norm : "nan", 4);
    ++s->given->steps;
    return finite == (event->step != BAD_STEP)
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "step %lld: norm %g", (long long)event->step,
                          (double)event->grad_norm);
}

static bt_status on_fault(void *self, const bt_train_fault *event)
{
    seen *s = self;
    ++s->faults;
    (void)snprintf(s->action, sizeof s->action, "%s", event->action);
    (void)snprintf(s->message, sizeof s->message, "%.300s", event->message);
    mix(s, event->action, strlen(event->action));
    return event->step == BAD_STEP && event->kind == BT_TRAIN_FAULT_NONFINITE
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "a fault in step %lld: %s", (long long)event->step,
                          event->message);
}

static bt_status train(bt_group *group, void *argument, rank_result *result)
{
    bt_train_plan plan = *(const bt_train_plan *)argument;
    poison given = {.inner = group, .times = 1, .value = NAN};
    bt_group spoiled = {
        .backend = &backend, .rank = group->rank, .size = group->size, .impl = &given};
    seen s = {.given = &given, .digest = 0xcbf29ce484222325};
    const bt_train_observer observer = {.self = &s, .step = on_step, .fault = on_fault};
    bt_train_result trained;
    omp_set_num_threads(1);
    plan.parallel.group = &spoiled;
    bt_status status = bt_train_run(&plan, &observer, &trained);
    if (s.faults != 1 || strcmp(s.action, bt_train_policy_name(plan.on_nonfinite)) != 0 ||
        !strstr(s.message, "gradient norm")) {
        return bt_error(BT_STATUS_INTERNAL, "%lld faults, the last: %s, %s; the run: %s",
                        (long long)s.faults, s.action, s.message, bt_error_message());
    }
    mix(&s, trained.state_digest, strlen(trained.state_digest));
    result->digest = s.digest;
    return status;
}

static bt_train_plan base_plan(bt_train_policy policy)
{
    bt_train_plan plan = small_train_plan();
    plan.micro_batch = 2;
    plan.tokens_per_step = BATCHES * 2 * 16;
    plan.steps = STEPS;
    plan.profile_steps = 0;
    plan.eval_every = 0;
    plan.parallel.invariant = BATCHES;
    plan.parallel.bucket_mb = 0.25;
    plan.on_nonfinite = policy;
    return plan;
}

static const bt_sharding modes[] = {BT_SHARDING_DDP, BT_SHARDING_ZERO1, BT_SHARDING_ZERO3};

static void run(const bt_train_plan *plan, ranks_kind kind, int ranks, rank_result *results)
{
    run_ranks(kind, ranks, timeout_ns, train, (void *)(uintptr_t)plan, results);
}

// Every rank detects the same fault and reacts in the same way, and so do two ranks and four,
// whatever is sharded.
static void check_goes_on(bt_train_plan *plan, int64_t *runs)
{
    uint64_t expected = 0;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        for (int m = 0; m < 3; ++m) {
            if (!in_sweep(ranks, m)) {
                continue;
            }
            rank_result results[RANKS_MAX];
            const bool files = plan->on_nonfinite == BT_TRAIN_POLICY_ROLLBACK;
            char folder[128];
            (void)snprintf(folder, sizeof folder, "%d_%d", ranks, m);
            plan->checkpoints =
                (bt_train_checkpoints){.folder = files ? test_scratch_path(folder) : NULL,
                                       .every_steps = files ? 2 : 0,
                                       .asynchronous = m == 1};
            plan->parallel.sharding = modes[m];
            run(plan, m == 0 ? RANKS_MEMORY : RANKS_THREADS, ranks, results);
            for (int rank = 0; rank < ranks; ++rank) {
                if (results[rank].status != BT_OK) {
                    fail_msg("rank %d of %d: %s", rank, ranks, results[rank].message);
                }
                expected = *runs == 0 && rank == 0 ? results[0].digest : expected;
                assert_true(results[rank].digest == expected);
            }
            ++*runs;
        }
    }
}

static void ranks_go_on_alike(void **state)
{
    (void)state;
    static const bt_train_policy policies[] = {BT_TRAIN_POLICY_CONTINUE, BT_TRAIN_POLICY_SKIP,
                                               BT_TRAIN_POLICY_ROLLBACK};
    assert_non_null(test_scratch_make());
    for (int i = 0; i < 3; ++i) {
        bt_train_plan plan = base_plan(policies[i]);
        int64_t runs = 0;
        check_goes_on(&plan, &runs);
        assert_int_equal(runs, TEST_SANITIZED ? 4 : 6);
    }
    test_scratch_remove();
}

static void all_ranks_stop(void **state)
{
    (void)state;
    bt_train_plan plan = base_plan(BT_TRAIN_POLICY_STOP);
    for (int m = 0; m < 3; ++m) {
        rank_result results[RANKS_MAX];
        plan.parallel.sharding = modes[m];
        run(&plan, RANKS_THREADS, 4, results);
        for (int rank = 0; rank < 4; ++rank) {
            const bool same = results[rank].status == BT_STATUS_CORRUPT_DATA &&
                              strcmp(results[rank].message, results[0].message) == 0;
            if (!same || !strstr(results[rank].message, "step 3: loss")) {
                fail_msg("rank %d: %s", rank, results[rank].message);
            }
        }
    }
}

// Without a checkpoint there is no state to restore, and every rank reports that.
static void a_rollback_to_nothing_ends_all(void **state)
{
    (void)state;
    bt_train_plan plan = base_plan(BT_TRAIN_POLICY_ROLLBACK);
    rank_result results[RANKS_MAX];
    assert_non_null(test_scratch_make());
    plan.checkpoints =
        (bt_train_checkpoints){.folder = test_scratch_path("late"), .every_steps = STEPS};
    run(&plan, RANKS_THREADS, 2, results);
    for (int rank = 0; rank < 2; ++rank) {
        assert_non_null(strstr(results[rank].message, "there is no checkpoint to roll back to"));
    }
    test_scratch_remove();
}

// ---- replays and anomalies ----------------------------------------------------------------------

typedef struct planted {
    bt_train_plan plan;
    float value;
    int64_t times;
    bool weights;
} planted;

typedef struct heard {
    poison *given;
    int64_t faults;
    bt_train_fault_kind kind;
    char action[16], message[600];
} heard;

static bt_status count_step(void *self, const bt_train_step *event)
{
    (void)event;
    ++((heard *)self)->given->steps;
    return BT_OK;
}

static bt_status hear_fault(void *self, const bt_train_fault *event)
{
    heard *h = self;
    ++h->faults;
    h->kind = event->kind;
    (void)snprintf(h->action, sizeof h->action, "%s", event->action);
    (void)snprintf(h->message, sizeof h->message, "%.590s", event->message);
    return BT_OK;
}

static heard all_heard[RANKS_MAX];

static bt_status train_with(bt_group *group, void *argument, rank_result *result)
{
    planted what = *(const planted *)argument;
    poison given = {
        .inner = group, .times = what.times, .value = what.value, .weights = what.weights};
    bt_group spoiled = {
        .backend = &backend, .rank = group->rank, .size = group->size, .impl = &given};
    heard *h = &all_heard[group->rank];
    *h = (heard){.given = &given};
    const bt_train_observer observer = {.self = h, .step = count_step, .fault = hear_fault};
    bt_train_result trained;
    omp_set_num_threads(1);
    what.plan.parallel.group = &spoiled;
    const bt_status status = bt_train_run(&what.plan, &observer, &trained);
    result->digest = 0xcbf29ce484222325;
    for (const char *at = trained.state_digest; *at; ++at) {
        result->digest = (result->digest ^ (unsigned char)*at) * 0x100000001b3;
    }
    return status;
}

// One rank sends another gradient, in the step but not in its replays: the step erred. All ranks
// report the same, and the state is that of an undisturbed run.
static void replays_of_ranks_find_what_does_not_repeat(void **state)
{
    (void)state;
    for (int m = 0; m < 3; ++m) {
        uint64_t calm = 0;
        for (int64_t times = 0; times < 2; ++times) {
            rank_result results[RANKS_MAX];
            planted what = {.plan = base_plan(BT_TRAIN_POLICY_CONTINUE), .times = times};
            what.plan.verify_every = BAD_STEP + 1;
            what.plan.precision = m == 1 ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
            what.plan.parallel.sharding = modes[m];
            what.value = 0.5F;
            run_ranks(RANKS_THREADS, 2, timeout_ns, train_with, &what, results);
            calm = times == 0 ? results[0].digest : calm;
            for (int rank = 0; rank < 2; ++rank) {
                const heard *h = &all_heard[rank];
                if (results[rank].status != BT_OK) {
                    fail_msg("rank %d: %s", rank, results[rank].message);
                }
                assert_int_equal(h->faults, times > 0);
                assert_true(results[rank].digest == calm);
                if (times > 0) {
                    assert_int_equal(h->kind, BT_TRAIN_FAULT_CORRUPTION);
                    assert_string_equal(h->action, "corrected");
                    assert_non_null(strstr(h->message, "the step was wrong, its replays agree"));
                    assert_string_equal(h->message, all_heard[0].message);
                }
            }
        }
    }
}

// Weights of the last rank alone are NaN: it names the op, the others name it.
static void the_rank_of_an_anomaly_is_named(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    planted what = {.plan = base_plan(BT_TRAIN_POLICY_CONTINUE),
                    .times = INT64_MAX,
                    .value = NAN,
                    .weights = true};
    what.plan.anomaly = true;
    what.plan.parallel.sharding = BT_SHARDING_ZERO1;
    run_ranks(RANKS_THREADS, 4, timeout_ns, train_with, &what, results);
    assert_int_equal(results[3].status, BT_STATUS_CORRUPT_DATA);
    for (int rank = 0; rank < 4; ++rank) {
        const heard *h = &all_heard[rank];
        assert_int_equal(h->faults, 1);
        if (h->kind != BT_TRAIN_FAULT_ANOMALY || strcmp(h->action, "stop") != 0 ||
            !strstr(h->message, "embedding produced the first non-finite value") ||
            (rank < 3 && !strstr(h->message, "rank 3 aborted"))) {
            fail_msg("rank %d: %s", rank, h->message);
        }
    }
}

static bt_status run_out_of_memory(void *self, const bt_train_step *event)
{
    const poison *given = ((heard *)self)->given;
    return event->step == 1 && given->inner->rank == 1
               ? bt_error(BT_STATUS_OUT_OF_MEMORY, "no memory for \"x\"")
               : BT_OK;
}

static bt_status train_with_little_memory(bt_group *group, void *argument, rank_result *result)
{
    bt_train_plan plan = *(const bt_train_plan *)argument;
    poison given = {.inner = group};
    heard *h = &all_heard[group->rank];
    *h = (heard){.given = &given};
    const bt_train_observer observer = {.self = h, .step = run_out_of_memory, .fault = hear_fault};
    bt_train_result trained;
    (void)result;
    omp_set_num_threads(1);
    plan.parallel.group = group;
    return bt_train_run(&plan, &observer, &trained);
}

// In anomaly mode too another rank's failure is not an anomaly unless that rank found one.
static void another_failure_is_no_anomaly(void **state)
{
    (void)state;
    rank_result results[RANKS_MAX];
    bt_train_plan plan = base_plan(BT_TRAIN_POLICY_CONTINUE);
    plan.anomaly = true;
    run_ranks(RANKS_THREADS, 2, timeout_ns, train_with_little_memory, &plan, results);
    assert_int_equal(results[1].status, BT_STATUS_OUT_OF_MEMORY);
    assert_int_equal(results[0].status, BT_STATUS_INTERRUPTED);
    assert_non_null(strstr(results[0].message, "rank 1 aborted: "));
    for (int rank = 0; rank < 2; ++rank) {
        if (all_heard[rank].faults > 0) {
            fail_msg("rank %d: %s", rank, all_heard[rank].message);
        }
    }
}

static bt_status on_value(void *self, bt_context *context, const bt_train_value *event)
{
    (void)self, (void)context, (void)event;
    return BT_OK;
}

// Chunks without rows to exchange are refused by the name of the key.
static void chunks_need_sequence_parallel(void **state)
{
    (void)state;
    const bt_group_backend host = {.name = "host"};
    bt_group group = {.backend = &host, .size = 2};
    bt_train_plan plan = base_plan(BT_TRAIN_POLICY_CONTINUE);
    plan.parallel.group = &group;
    plan.parallel.mesh = (bt_mesh_degrees){.tensor = 2};
    plan.parallel.row_chunks = true;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "needs train.mesh.sequence_parallel: set it to true",
                 bt_train_check(&plan));
    plan.parallel.sequence_parallel = true;
    ASSERT_OK(bt_train_check(&plan));
}

// Values of half-batches are refused before a device is touched, by the name of the key.
static void values_of_half_batches_are_refused(void **state)
{
    (void)state;
    const bt_group_backend host = {.name = "host"};
    bt_group group = {.backend = &host, .size = 2};
    bt_train_plan plan = base_plan(BT_TRAIN_POLICY_CONTINUE);
    bt_train_result result;
    bt_train_observer observer = {0};
    plan.parallel.group = &group;
    ASSERT_OK(bt_train_check(&plan));
    observer.value = on_value;
    plan.parallel.mesh = (bt_mesh_degrees){.tensor = 2};
    plan.parallel.half_batches = true;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "set train.mesh.half_batches to false",
                 bt_train_run(&plan, &observer, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_go_on_alike),
        cmocka_unit_test(all_ranks_stop),
        cmocka_unit_test(a_rollback_to_nothing_ends_all),
        cmocka_unit_test(replays_of_ranks_find_what_does_not_repeat),
        cmocka_unit_test(the_rank_of_an_anomaly_is_named),
        cmocka_unit_test(another_failure_is_no_anomaly),
        cmocka_unit_test(chunks_need_sequence_parallel),
        cmocka_unit_test(values_of_half_batches_are_refused),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
