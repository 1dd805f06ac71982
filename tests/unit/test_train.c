// tests/unit/test_train.c - the training loop on a small GPT-2 and text that it can learn
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = SMALL_STEPS };

typedef struct record {
    bt_train_start start;
    float loss[STEPS];
    int64_t steps, warmup_steps, profiled_steps, evals, ranges, kernels;
    double eval_loss[STEPS];
    bool saw_attention_range, saw_gemm;
    int64_t stop_after; // steps; 0: never
    uint64_t peak;
    int64_t least_ns; // of the steps
} record;

static bt_status on_start(void *self, const bt_train_start *event)
{
    ((record *)self)->start = *event;
    return BT_OK;
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    record *r = self;
    assert_int_equal(event->step, r->steps);
    assert_true(event->host_ns > 0);
    assert_true(event->device_ns > 0 && event->device_ns <= event->host_ns);
    assert_true(event->grad_norm > 0);
    assert_true(event->peak_allocated_bytes >= event->allocated_bytes);
    assert_true(event->reserved_bytes >= event->peak_allocated_bytes);
    assert_true(event->resident_bytes > 0);
    r->least_ns = r->steps == 0 || event->host_ns < r->least_ns ? event->host_ns : r->least_ns;
    r->loss[r->steps++] = event->loss;
    r->warmup_steps += event->warmup;
    r->profiled_steps += event->profiled;
    r->peak = event->peak_allocated_bytes;
    return BT_OK;
}

static bt_status on_eval(void *self, const bt_train_eval *event)
{
    record *r = self;
    r->eval_loss[r->evals++] = event->loss;
    return BT_OK;
}

static bt_status on_range(void *self, const bt_train_range *event)
{
    record *r = self;
    ++r->ranges;
    r->saw_attention_range |= strcmp(event->path, "step/forward/block/attention/linear") == 0;
    assert_true(event->count > 0 && event->device_ns >= 0 && event->host_ns >= 0);
    return BT_OK;
}

static bt_status on_kernel(void *self, const bt_train_kernel *event)
{
    record *r = self;
    ++r->kernels;
    r->saw_gemm |= strcmp(event->op, "gemm") == 0;
    return BT_OK;
}

static bool should_stop(void *self)
{
    const record *r = self;
    return r->stop_after && r->steps >= r->stop_after;
}

static const bt_train_observer observer = {.start = on_start,
                                           .step = on_step,
                                           .eval = on_eval,
                                           .range = on_range,
                                           .kernel = on_kernel,
                                           .should_stop = should_stop};

// Trains, observed by *r.
static bt_status train(const bt_train_plan *plan, record *r, bt_train_result *result)
{
    bt_train_observer o = observer;
    o.self = r;
    return bt_train_run(plan, &o, result);
}

// Losses of the plan's steps.
static void train_losses(const bt_train_plan *plan, float loss[STEPS])
{
    bt_train_result result;
    record r = {0};
    ASSERT_OK(train(plan, &r, &result));
    memcpy(loss, r.loss, sizeof r.loss);
}

static void a_run_learns_and_reports(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    record r = {0};
    ASSERT_OK(train(&plan, &r, &result));
    assert_int_equal(r.start.tensors, 2 + 2 * 12 + 2);
    assert_int_equal(r.start.accumulation, 2);
    assert_int_equal(r.start.train_tokens, SMALL_TOKENS);
    assert_int_equal(r.steps, STEPS);
    assert_int_equal(r.warmup_steps, 2);
    assert_int_equal(r.profiled_steps, 2);
    assert_int_equal(r.evals, 3); // before steps 0 and 6, and at the end
    assert_true(r.saw_attention_range && r.saw_gemm);
    assert_true(fabs(r.eval_loss[0] - log(SMALL_VOCAB)) < 0.2); // nothing learnt yet
    assert_true(r.loss[STEPS - 1] < r.loss[0] - 0.3F);
    assert_true(r.eval_loss[2] < r.eval_loss[0] - 0.3);
    assert_true(result.val_loss == r.eval_loss[2]);
    assert_int_equal(strlen(result.state_digest), 32);
    assert_int_equal(result.steps_done, STEPS);
    assert_false(result.stopped);
}

// Ten times as long, and the same bits. On one thread: on a loaded machine several wait for each
// other for far longer than a step takes.
static void a_slowdown_lengthens_steps(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result plain, slow;
    record a = {0}, b = {0};
    omp_set_num_threads(1);
    ASSERT_OK(train(&plan, &a, &plain));
    plan.slowdown = 9;
    ASSERT_OK(train(&plan, &b, &slow));
    assert_true(b.least_ns > 2 * a.least_ns);
    assert_string_equal(slow.state_digest, plain.state_digest);
    plan.slowdown = (double)NAN;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "slowdown is nan", train(&plan, &b, &slow));
}

// Not on threads, nor on what is measured.
static void bits_depend_on_nothing_but_the_plan(void **state)
{
    (void)state;
    bt_train_result first;
    record a = {0};
    for (int threads = 1; threads <= 5; threads += 2) {
        bt_train_plan plan = small_train_plan();
        bt_train_result result;
        record r = {0};
        plan.profile_steps = threads - 1;
        plan.eval_every = threads == 1 ? 6 : 0;
        omp_set_num_threads(threads);
        ASSERT_OK(train(&plan, &r, &result));
        if (threads == 1) {
            first = result;
            a = r;
        }
        assert_string_equal(result.state_digest, first.state_digest);
        assert_memory_equal(r.loss, a.loss, sizeof a.loss);
    }
    bt_train_plan plan = small_train_plan();
    bt_train_result other;
    record r = {0};
    plan.seed = 1338;
    ASSERT_OK(train(&plan, &r, &other));
    assert_string_not_equal(other.state_digest, first.state_digest);
}

// Nor on what is kept for the backward, which is less from mode to mode.
static void bits_do_not_depend_on_recomputation(void **state)
{
    (void)state;
    static const bt_precision precisions[] = {BT_PRECISION_FP32, BT_PRECISION_BF16};
    for (int p = 0; p < 2; ++p) {
        bt_train_result results[BT_RECOMPUTE_COUNT][2];
        record first = {0};
        for (int mode = 0; mode < BT_RECOMPUTE_COUNT; ++mode) {
            for (int blocks = 0; blocks < 2; ++blocks) { // all, and one
                bt_train_plan plan = small_train_plan();
                record r = {0};
                plan.precision = precisions[p];
                plan.model.layers = 6; // what blocks keep is most of the memory
                plan.steps = 3;
                plan.recompute = (bt_recompute_mode)mode;
                plan.recompute_blocks = blocks;
                plan.eval_every = 0;
                ASSERT_OK(train(&plan, &r, &results[mode][blocks]));
                first = mode == 0 && blocks == 0 ? r : first;
                assert_memory_equal(r.loss, first.loss, sizeof r.loss);
                assert_string_equal(results[mode][blocks].state_digest, results[0][0].state_digest);
            }
        }
        for (int mode = 1; mode < BT_RECOMPUTE_COUNT; ++mode) {
            const uint64_t all = results[mode][0].peak_allocated_bytes;
            const uint64_t one = results[mode][1].peak_allocated_bytes;
            const uint64_t cheaper = results[mode - 1][0].peak_allocated_bytes;
            print_message("%s: %llu bytes, in one block %llu\n",
                          bt_recompute_mode_name((bt_recompute_mode)mode), (unsigned long long)all,
                          (unsigned long long)one);
            assert_true(all < one && one <= cheaper); // three are on their way
        }
    }
}

static void accumulation_equals_one_large_batch(void **state)
{
    (void)state;
    float loss[2][STEPS];
    for (int i = 0; i < 2; ++i) {
        bt_train_plan plan = small_train_plan();
        plan.micro_batch = i ? 4 : 16;
        plan.eval_every = 0;
        train_losses(&plan, loss[i]);
    }
    for (int i = 0; i < STEPS; ++i) {
        // Sums in another order: some eps(f32) a step, amplified by training.
        assert_true(fabsf(loss[0][i] - loss[1][i]) <= 1e-5F * (float)(i + 1));
    }
}

// bf16 weights and activations beside fp32 ones: the same path within their rounding.
static void bf16_learns_like_fp32(void **state)
{
    (void)state;
    float loss[2][STEPS];
    for (int i = 0; i < 2; ++i) {
        bt_train_plan plan = small_train_plan();
        plan.precision = i ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
        train_losses(&plan, loss[i]);
    }
    bool differs = false;
    for (int i = 0; i < STEPS; ++i) {
        assert_true(fabsf(loss[0][i] - loss[1][i]) <= 2e-2F);
        differs = differs || loss[0][i] != loss[1][i];
    }
    assert_true(differs); // it did compute in bf16
}

static void a_run_stops_when_asked(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    record r = {.stop_after = 3};
    ASSERT_OK(train(&plan, &r, &result));
    assert_true(result.stopped);
    assert_int_equal(result.steps_done, 3);
    assert_int_equal(strlen(result.state_digest), 32);
}

static void memory_limit_is_reported(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_result result;
    record r = {0};
    plan.memory_limit_bytes = 4 << 20;
    plan.micro_batch = 64;
    plan.tokens_per_step = 64 * 16;
    plan.model.width = 64;
    plan.model.heads = 4;
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "largest live blocks:\n", train(&plan, &r, &result));
}

// At every limit at which a run does not fit, the first failure is what is reported, in full.
static void every_memory_limit_is_reported_in_full(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    bt_train_observer quiet = {0};
    bt_train_result result;
    plan.model.layers = 4;
    plan.model.width = 128;
    plan.model.heads = 4;
    plan.micro_batch = 64;
    plan.tokens_per_step = 64 * 16;
    plan.steps = 2;
    plan.warmup_timing_steps = 0;
    plan.profile_steps = 0;
    plan.eval_batches = 1;
    int failed = 0;
    for (uint64_t mib = 36; mib <= 56; ++mib) {
        plan.memory_limit_bytes = mib << 20;
        bt_status status = bt_train_run(&plan, &quiet, &result);
        if (status == BT_OK) {
            continue;
        }
        const char *message = bt_error_message();
        char limit[32];
        (void)snprintf(limit, sizeof limit, "limit %llu.0 MiB", (unsigned long long)mib);
        if (status != BT_STATUS_OUT_OF_MEMORY || !strstr(message, "cpu: requested ") ||
            !strstr(message, limit) || !strstr(message, "largest live blocks:\n") ||
            !strstr(message, " MiB  ")) {
            fail_msg("%llu MiB: %s", (unsigned long long)mib, message);
        }
        ++failed;
    }
    assert_true(failed >= 5);
}

// Sizes in range whose products are not: refused by name, before anything is computed with them.
static void overflowing_plans_are_refused(void **state)
{
    (void)state;
    const int64_t most = INT64_C(1) << 40;
    bt_train_plan plan = small_train_plan();
    plan.micro_batch = most; // x sequence = 2^64
    plan.sequence = plan.model.context = INT64_C(1) << 24;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "micro_batch 1099511627776 x sequence 16777216",
                 bt_train_check(&plan));
    plan.sequence = plan.model.context = most; // 2^80
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "micro_batch", bt_train_check(&plan));
    plan = small_train_plan();
    plan.model.width = most;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "model.width", bt_train_check(&plan));
    plan = small_train_plan();
    plan.model.layers = most;
    plan.model.width = INT64_C(1) << 20;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "model.layers x 12 model.width^2",
                 bt_train_check(&plan));
    plan = small_train_plan();
    plan.model.vocab = most;
    plan.micro_batch = INT64_C(1) << 20;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "model.vocab", bt_train_check(&plan));
    plan = small_train_plan();
    plan.eval_batches = most;
    plan.micro_batch = INT64_C(1) << 20;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "eval_batches", bt_train_check(&plan));
    plan = small_train_plan();
    plan.steps = most;
    plan.tokens_per_step = most;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "steps x tokens_per_step", bt_train_check(&plan));
    plan = small_train_plan();
    plan.profile_steps = most;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "profile_steps", bt_train_check(&plan));
    plan = small_train_plan();
    plan.device = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no device", bt_train_check(&plan));
    plan = small_train_plan();
    plan.val_shards = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "validation shards", bt_train_check(&plan));
}

static bt_status on_note(void *self, const char *text)
{
    (void)snprintf(self, 256, "%s", text);
    return BT_OK;
}

// OMP_DYNAMIC is switched off, and the log reports it; OMP_THREAD_LIMIT and teams of one are
// served.
static void teams_of_changing_size_are_corrected(void **state)
{
    (void)state;
    char note[256] = "";
    bt_train_plan plan = small_train_plan();
    bt_train_observer listener = {.self = note, .note = on_note};
    bt_train_result result;
    plan.steps = 1;
    plan.warmup_timing_steps = plan.profile_steps = plan.eval_every = 0;
    const int was = omp_get_dynamic();
    omp_set_dynamic(1);
    ASSERT_OK(bt_train_run(&plan, &listener, &result));
    assert_int_equal(omp_get_dynamic(), 0);
    assert_non_null(strstr(note, "OMP_DYNAMIC is on: it was switched off"));
    note[0] = '\0';
    ASSERT_OK(bt_train_run(&plan, &listener, &result));
    assert_string_equal(note, "");
    omp_set_dynamic(was);
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    bt_train_plan plan = small_train_plan();
    bt_train_observer quiet = {0};
    bt_train_result result;
    plan.steps = 1;
    plan.warmup_timing_steps = 0;
    plan.profile_steps = 1;
    int64_t n = 1;
    // A few failures are survived (memory plans are not made then), but not five in a row.
    for (int survived = 0; n < 100000 && survived < 5; n += 1 + n / 16) {
        bt_mem_fail_at(n);
        bt_status status = bt_train_run(&plan, &quiet, &result);
        bt_mem_fail_at(0);
        assert_int_equal(bt_mem_live_count(), before);
        survived = status == BT_OK ? survived + 1 : 0;
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
    }
    assert_true(n > 500 && n < 100000);
}

static void impossible_plans_are_refused(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    plan.tokens_per_step = 200;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tokens_per_step 200 is not a multiple",
                 bt_train_check(&plan));
    plan = small_train_plan();
    plan.sequence = 32;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "longer than model.context 16", bt_train_check(&plan));
    plan = small_train_plan();
    plan.optimizer.beta1 = (double)NAN;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "optimizer.beta1 is nan", bt_train_check(&plan));
    plan = small_train_plan();
    plan.precision = BT_PRECISION_TF32;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tf32 needs a GPU", bt_train_check(&plan));
    plan = small_train_plan();
    plan.steps = 0;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "steps is 0", bt_train_check(&plan));
    plan = small_train_plan();
    plan.model.heads = 3;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "not divisible", bt_train_check(&plan));
    plan = small_train_plan();
    plan.parallel.invariant = 4; // the step has two micro-batches
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "invariant is 4", bt_train_check(&plan));
    plan = small_train_plan();
    plan.parallel.bucket_mb = (double)NAN;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "bucket_mb is nan", bt_train_check(&plan));
    plan = small_train_plan();
    const bt_group_backend host = {.name = "host"}, links = {.name = "p2p", .on_gpu = true};
    const bt_backend cuda = {.name = "cuda"};
    bt_device gpu = {.backend = &cuda};
    bt_group ranks = {.backend = &links, .size = 2, .device = &gpu};
    plan.parallel.group = &ranks;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "'p2p' use memory of the device cuda",
                 bt_train_check(&plan));
    ranks = (bt_group){.backend = &host, .size = 2};
    ASSERT_OK(bt_train_check(&plan));
    plan.device = "cuda";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "'host' use memory of the device cpu",
                 bt_train_check(&plan));
    plan = small_train_plan();
    plan.model.vocab = 40; // the text has tokens up to 47
    bt_train_result result;
    bt_train_observer quiet = {0};
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "outside of the vocabulary of 40",
                 bt_train_run(&plan, &quiet, &result));
}

// The second family: no dedicated kernel.
static bt_train_plan llama_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.model.family = "llama";
    plan.model.kv_heads = 1;
    plan.model.hidden = 48;
    return plan;
}

static void a_llama_learns(void **state)
{
    (void)state;
    bt_train_plan plan = llama_plan();
    bt_train_result result;
    record r = {0};
    const bt_train_observer told = {
        .self = &r, .start = on_start, .step = on_step, .eval = on_eval};
    ASSERT_OK(bt_train_run(&plan, &told, &result));
    // Embedding and head; a block: q, o [32, 32], k, v [16, 32], three of [48, 32], norms; a norm.
    assert_int_equal(r.start.parameters,
                     2 * 48 * 32 + 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32 + 64) + 32);
    assert_int_equal(r.steps, STEPS);
    assert_true(r.loss[STEPS - 1] < 0.9F * r.loss[0]);
    assert_true(r.eval_loss[r.evals - 1] < r.eval_loss[0]);
}

static void models_are_refused(void **state)
{
    (void)state;
    bt_train_plan plan = llama_plan();
    bt_train_result result;
    const bt_train_observer quiet = {0};
    plan.recompute = BT_RECOMPUTE_BLOCK;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "family llama support only none",
                 bt_train_run(&plan, &quiet, &result));
    plan = llama_plan();
    plan.model.hidden = 0;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "model.hidden is 0",
                 bt_train_run(&plan, &quiet, &result));
    plan = llama_plan();
    plan.model.family = "lama";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"lama\", which is unknown", bt_train_check(&plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_learns),
        cmocka_unit_test(models_are_refused),
        cmocka_unit_test(a_run_learns_and_reports),
        cmocka_unit_test(a_slowdown_lengthens_steps),
        cmocka_unit_test(bits_depend_on_nothing_but_the_plan),
        cmocka_unit_test(bits_do_not_depend_on_recomputation),
        cmocka_unit_test(accumulation_equals_one_large_batch),
        cmocka_unit_test(bf16_learns_like_fp32),
        cmocka_unit_test(a_run_stops_when_asked),
        cmocka_unit_test(memory_limit_is_reported),
        cmocka_unit_test(every_memory_limit_is_reported_in_full),
        cmocka_unit_test(overflowing_plans_are_refused),
        cmocka_unit_test(teams_of_changing_size_are_corrected),
        cmocka_unit_test(failing_allocations_leak_nothing),
        cmocka_unit_test(impossible_plans_are_refused),
    };
    return cmocka_run_group_tests_name("training", tests, small_corpus_write, small_corpus_remove);
}
