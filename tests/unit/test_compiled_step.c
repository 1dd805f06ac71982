// tests/unit/test_compiled_step.c - a model's step run compiled, against the same step run eagerly
//
// On the CPU both have the same bits.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/compiler/step.h"
#include "framework/ops/ops.h"
#include "tests/support/fake_disk.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_world.h"

enum { BATCHES = 3 };

static void a_llama_keeps_its_bits(bt_dtype compute)
{
    compiled_world w;
    bt_compiled_step *step = NULL;
    compiled_world_open(&w, "llama", compute);
    ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &w.cache, &step));
    compiled_world_same(&w, step, 2, 1);
    compiled_world_same(&w, step, 2, BATCHES); // the second and third add to gradients
    const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
    assert_true(kind->compiled);
    assert_string_equal(kind->reason, "");
    assert_true(kind->groups > 10 && kind->group_calls > 4 * kind->groups);
    assert_true(kind->bytes_after < kind->bytes_before);
    assert_non_null(bt_compiled_step_kind(step, 1));
    assert_null(bt_compiled_step_kind(step, 2));
    bt_compiled_step_destroy(step);
    compiled_world_close(&w);
}

static void a_llama_in_f32(void **state)
{
    (void)state;
    a_llama_keeps_its_bits(BT_F32);
}

static void a_llama_in_bf16(void **state)
{
    (void)state;
    a_llama_keeps_its_bits(BT_BF16);
}

// A batch of another size is another kind that makes no code.
static void another_batch_makes_no_code(void **state)
{
    (void)state;
    compiled_world w;
    bt_compiled_step *step = NULL;
    compiled_world_open(&w, "llama", BT_F32);
    ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &w.cache, &step));
    compiled_world_same(&w, step, 2, 1);
    const int64_t made = w.cache.misses + w.cache.hits;
    assert_true(made > 0);
    compiled_world_same(&w, step, 5, 1);
    compiled_world_same(&w, step, 3, 2);
    assert_true(bt_compiled_step_kind(step, 1)->compiled);
    assert_int_equal(w.cache.misses + w.cache.hits, made);
    bt_compiled_step_destroy(step);
    compiled_world_close(&w);
}

static void prepared_ahead(void **state)
{
    (void)state;
    compiled_world w;
    compiled_tokens t;
    bt_compiled_step *step = NULL;
    compiled_world_open(&w, "llama", BT_F32);
    ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &w.cache, &step));
    compiled_world_tokens(&w, 2, 0, &t);
    ASSERT_OK(bt_compiled_step_prepare(step, &t.batch, false));
    ASSERT_OK(bt_compiled_step_prepare(step, &t.batch, true));
    ASSERT_OK(bt_compiled_step_prepare(step, &t.batch, true));
    for (int64_t i = 0; i < w.params.count; ++i) {
        assert_null(w.params.items[i].value->grad);
    }
    compiled_world_release_tokens(&t);
    compiled_world_same(&w, step, 2, 2);
    assert_null(bt_compiled_step_kind(step, 2));
    bt_compiled_step_destroy(step);
    compiled_world_close(&w);
}

// ---- what runs eagerly --------------------------------------------------------------------------

static void expect_eager(compiled_world *w, bt_compiled_step *step, const char *reason)
{
    bt_str line = {0};
    compiled_world_same(w, step, 2, 1);
    const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
    assert_false(kind->compiled);
    bt_compiled_kind_print(kind, &line);
    assert_non_null(strstr(bt_str_text(&line), "runs eagerly"));
    if (!strstr(kind->reason, reason)) {
        fail_msg("the reason is \"%s\", not \"%s\"", kind->reason, reason);
    }
    bt_str_release(&line);
    bt_compiled_step_destroy(step);
}

static bt_status loss_with_dropout(bt_context *context, const void *self, const bt_batch *batch,
                                   bt_tensor **loss)
{
    const bt_model *inner = self;
    bt_tensor *plain = NULL;
    BT_TRY(bt_model_loss(context, inner, batch, &plain));
    bt_status status = bt_dropout(context, plain, 0.0001, 3, 4, loss);
    bt_tensor_release(plain);
    return status;
}

static bt_status loss_with_host_data(bt_context *context, const void *self, const bt_batch *batch,
                                     bt_tensor **loss)
{
    const bt_model *inner = self;
    const float two = 2;
    bt_tensor *plain = NULL, *factor = NULL;
    BT_TRY(bt_model_loss(context, inner, batch, &plain));
    bt_status status = bt_tensor_create(context, BT_F32, BT_SCALAR, "factor", &factor);
    status = status ? status : bt_tensor_write(context, factor, &two);
    status = status ? status : bt_mul(context, plain, factor, loss);
    bt_tensor_release(factor);
    bt_tensor_release(plain);
    return status;
}

static void graphs_that_run_eagerly(void **state)
{
    static const struct {
        bt_status (*loss)(bt_context *, const void *, const bt_batch *, bt_tensor **);
        const char *reason;
    } rows[] = {{loss_with_dropout, "its dropout mask would repeat"},
                {loss_with_host_data, "the host writes a tensor during the step"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        compiled_world w;
        bt_compiled_step *step = NULL;
        compiled_world_open(&w, "llama", BT_F32);
        bt_model inner = w.model;
        w.model.self = &inner;
        w.model.loss = rows[i].loss;
        ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, NULL, &step));
        expect_eager(&w, step, rows[i].reason);
        w.model = inner;
        compiled_world_close(&w);
    }
}

// A parameter that is frozen between steps gets no gradient from then on.
static void frozen_parameters_are_another_kind(void **state)
{
    (void)state;
    compiled_world w;
    bt_compiled_step *step = NULL;
    compiled_tokens t;
    bt_tensor *loss = NULL;
    compiled_world_open(&w, "llama", BT_F32);
    bt_tensor *frozen = w.params.items[1].value;
    ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &w.cache, &step));
    compiled_world_same(&w, step, 2, 1);
    frozen->requires_grad = false;
    compiled_world_tokens(&w, 2, 0, &t);
    ASSERT_OK(bt_compiled_step_run(step, &t.batch, &loss));
    assert_null(frozen->grad);
    assert_non_null(w.params.items[2].value->grad);
    assert_true(bt_compiled_step_kind(step, 1)->compiled);
    frozen->requires_grad = true;
    bt_tensor_release(loss);
    compiled_world_release_tokens(&t);
    bt_params_clear_grads(&w.params);
    compiled_world_same(&w, step, 2, 1);
    assert_null(bt_compiled_step_kind(step, 2));
    bt_compiled_step_destroy(step);
    compiled_world_close(&w);
}

// Its elementwise work is in hand-written kernels already.
static void gpt2_has_nothing_to_fuse(void **state)
{
    (void)state;
    compiled_world w;
    bt_compiled_step *step = NULL;
    compiled_world_open(&w, "gpt2", BT_F32);
    ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &w.cache, &step));
    expect_eager(&w, step, "no group of calls would be faster than the single calls");
    compiled_world_close(&w);
}

// A disk that fails, or is full, costs time only: whatever operation it is.
static void a_failing_disk_changes_nothing(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 40; n += 3) {
        compiled_world w;
        bt_code_cache cache;
        bt_compiled_step *step = NULL;
        fake_disk *disk = fake_disk_make();
        compiled_world_open(&w, "llama", BT_F32);
        ASSERT_OK(bt_code_cache_open(fake_disk_ops(disk), "/cache", 1 << 20, &cache));
        fake_disk_fail(disk, n, n % 2 ? ENOSPC : EIO, true);
        ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &cache, &step));
        compiled_world_same(&w, step, 2, 1);
        assert_true(bt_compiled_step_kind(step, 0)->compiled);
        bt_compiled_step_destroy(step);
        bt_code_cache_close(&cache);
        fake_disk_free(disk);
        compiled_world_close(&w);
    }
}

// Changes the last byte of every file of a folder.
static void damage(const char *folder)
{
    DIR *all = opendir(folder);
    assert_non_null(all);
    for (struct dirent *item = readdir(all); item; item = readdir(all)) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        FILE *file = item->d_name[0] == '.' ? NULL : fopen(path, "r+b");
        if (file) {
            assert_int_equal(fseek(file, -1, SEEK_END), 0);
            const int last = fgetc(file);
            assert_int_equal(fseek(file, -1, SEEK_END), 0);
            assert_int_not_equal(fputc(last ^ 1, file), EOF);
            assert_int_equal(fclose(file), 0);
        }
    }
    (void)closedir(all);
}

// Damaged code is made again.
static void damaged_code_is_made_again(void **state)
{
    (void)state;
    compiled_world w;
    bt_code_cache cache;
    compiled_world_open(&w, "llama", BT_F32);
    ASSERT_OK(
        bt_code_cache_open(&bt_file_ops_system, test_scratch_path("damaged"), 1 << 26, &cache));
    for (int round = 0; round < 2; ++round) {
        bt_compiled_step *step = NULL;
        ASSERT_OK(bt_compiled_step_create(&w.f.context, &w.model, &cache, &step));
        compiled_world_same(&w, step, 2, 1);
        assert_true(bt_compiled_step_kind(step, 0)->compiled);
        bt_compiled_step_destroy(step);
        assert_int_equal(cache.damaged > 0, round > 0);
        damage(test_scratch_path("damaged"));
    }
    bt_code_cache_close(&cache);
    compiled_world_close(&w);
}

// ---- in training --------------------------------------------------------------------------------

static char noted[1024];

static bt_status on_note(void *self, const char *text)
{
    (void)self;
    (void)snprintf(noted, sizeof noted, "%s", text);
    return BT_OK;
}

static char recorded[128];

static bt_status on_kernel(void *self, const bt_train_kernel *event)
{
    (void)self;
    if (strcmp(event->op, "compile") == 0) {
        (void)snprintf(recorded, sizeof recorded, "%s", event->kernel);
    }
    return BT_OK;
}

static struct {
    int rows, groups, others;
    int64_t calls, grouped_calls, time_ns, apart_ns, saved_bytes;
    char first_kernel[40];
} seen;

static bt_status on_group(void *self, const bt_train_group *event)
{
    (void)self;
    const bool group = event->kind[0] != '\0';
    assert_true(event->time_ns > 0 && event->count > 0 && event->calls >= event->count);
    assert_true(group || event->apart_ns == 0);
    assert_true((event->kernel[0] != '\0') == group && (event->ops[0] != '\0') == group);
    if (group && !seen.groups) {
        (void)snprintf(seen.first_kernel, sizeof seen.first_kernel, "%s", event->kernel);
    }
    seen.rows += 1;
    seen.groups += group ? (int)event->count : 0;
    seen.calls += event->calls;
    seen.grouped_calls += group ? event->calls : 0;
    seen.others += !group;
    seen.time_ns += event->time_ns;
    seen.apart_ns += event->apart_ns;
    seen.saved_bytes += event->bytes_before - event->bytes_after;
    return BT_OK;
}

static bt_train_result train(bt_train_plan plan, bool compile)
{
    bt_train_result result;
    const bt_train_observer observer = {.note = on_note, .kernel = on_kernel, .group = on_group};
    memset(&seen, 0, sizeof seen);
    noted[0] = recorded[0] = '\0';
    plan.compile = compile;
    ASSERT_OK(bt_train_run(&plan, &observer, &result));
    return result;
}

static void training_keeps_its_bits(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    plan.model.family = "llama";
    plan.model.kv_heads = 1;
    plan.model.hidden = 48;
    plan.verify_every = 4;
    const bt_train_result eager = train(plan, false), compiled = train(plan, true);
    assert_non_null(strstr(noted, "kernel calls run as"));
    assert_non_null(strstr(recorded, "calls in"));
    assert_string_equal(eager.state_digest, compiled.state_digest);
    assert_true((double)compiled.peak_allocated_bytes < 1.01 * (double)eager.peak_allocated_bytes);
    plan = small_train_plan();
    plan.anomaly = true;
    (void)train(plan, true);
    assert_non_null(strstr(noted, "anomaly mode checks every op"));
    assert_string_equal(recorded, "eager: anomaly mode checks every op");
}

// Each kernel of a profiled step is reported once, with what the note says about all.
static void kernels_of_a_profiled_step_are_told(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    plan.model.family = "llama";
    plan.model.kv_heads = 1;
    plan.model.hidden = 48;
    plan.profile_steps = 1;
    (void)train(plan, true);
    const char *of = NULL;
    const long grouped = strtol(strstr(noted, "compile: ") + 9, NULL, 10);
    assert_non_null(of = strstr(noted, " of "));
    assert_int_equal(seen.grouped_calls, grouped);
    assert_in_range(seen.calls, grouped + 1, strtol(of + 4, NULL, 10)); // some were simplified
    assert_non_null(of = strstr(noted, "run as "));
    assert_int_equal(seen.groups, strtol(of + 7, NULL, 10));
    assert_true(grouped > seen.groups && seen.saved_bytes > 0);
    assert_true(seen.others == 2 && seen.rows - seen.others < seen.groups); // layers share kernels
    assert_true(strchr(seen.first_kernel, '-') != NULL);
    (void)train(plan, false);
    assert_int_equal(seen.rows, 0);
}

// The calls of groups are timed one by one in a profiled step, which changes neither bits nor the
// training's memory.
static void calls_of_groups_are_timed_one_by_one(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    plan.model.family = "llama";
    plan.model.kv_heads = 1;
    plan.model.hidden = 48;
    for (int adds = 0; adds < 2; ++adds) {
        plan.micro_batch = adds ? 4 : plan.tokens_per_step / plan.sequence;
        plan.profile_steps = 0;
        const bt_train_result plain = train(plan, true);
        plan.profile_steps = 1;
        const bt_train_result profiled = train(plan, true);
        assert_true(seen.groups > 0 && seen.apart_ns > 0);
        assert_string_equal(plain.state_digest, profiled.state_digest);
        assert_int_equal(plain.peak_allocated_bytes, profiled.peak_allocated_bytes);
    }
    plan.memory_limit_bytes = 1 << 30;
    (void)train(plan, true);
    assert_true(seen.groups > 0 && seen.apart_ns == 0);
    assert_non_null(strstr(noted, "no times of the calls of groups one by one: memory is limited"));
}

static int set_up(void **state) { return small_corpus_write(state) || test_scratch_setup(state); }

static int tear_down(void **state)
{
    return test_scratch_teardown(state) || small_corpus_remove(state);
}

int main(void)
{
    if (bt_compiler_available() == BT_STATUS_UNAVAILABLE) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_in_f32),
        cmocka_unit_test(a_llama_in_bf16),
        cmocka_unit_test(another_batch_makes_no_code),
        cmocka_unit_test(prepared_ahead),
        cmocka_unit_test(graphs_that_run_eagerly),
        cmocka_unit_test(frozen_parameters_are_another_kind),
        cmocka_unit_test(gpt2_has_nothing_to_fuse),
        cmocka_unit_test(a_failing_disk_changes_nothing),
        cmocka_unit_test(damaged_code_is_made_again),
        cmocka_unit_test(training_keeps_its_bits),
        cmocka_unit_test(kernels_of_a_profiled_step_are_told),
        cmocka_unit_test(calls_of_groups_are_timed_one_by_one),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
