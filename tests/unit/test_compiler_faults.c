// tests/unit/test_compiler_faults.c - whatever fails in the compiler, a step has its bits and says
// why it, or a group of it, ran eagerly
//
// Failures are injected below the compiler: by the library that lowers texts, by the n-th
// allocation, by the folder of the cache.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/compiler/step.h"
#include "tests/support/fake_disk.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_world.h"

enum { ROWS = 2, TEXTS = 128 };

// ---- a library that fails -----------------------------------------------------------------------

typedef enum fault_kind {
    FAULT_STATUS,   // the call fails
    FAULT_GARBAGE,  // it makes bytes that are no object
    FAULT_CUT,      // it makes the first half of the object
    FAULT_NO_SYMBOL // it makes an object without the function that the text has
} fault_kind;

typedef struct fault {
    fault_kind kind;
    bt_mlir_status status;
    const char *message; // what the library says
    const char *words;   // what the reason must contain
} fault;

static const bt_mlir_library *real;
static struct {
    char *text, *bytes;
    size_t size_bytes;
} made[TEXTS]; // what the library made, so that each text is lowered once
static int made_count;
static const fault *injected; // NULL: none
static int calls, first_faulty;
static bool lasting; // calls after the first faulty one say that they fail because of it

static bt_mlir_status lower_once(const bt_mlir_request *request, bt_mlir_result *result)
{
    int i = 0;
    while (i < made_count && strcmp(made[i].text, request->text) != 0) {
        ++i;
    }
    if (i == made_count) {
        assert_true(made_count < TEXTS);
        assert_int_equal(real->lower(request, result), BT_MLIR_OK);
        made[made_count].text = strdup(request->text);
        made[made_count].size_bytes = result->size_bytes;
        made[made_count].bytes = result->bytes;
        made_count += 1;
    }
    memset(result, 0, sizeof *result);
    result->size_bytes = made[i].size_bytes;
    result->bytes = malloc(result->size_bytes + 1);
    memcpy(result->bytes, made[i].bytes, result->size_bytes);
    result->bytes[result->size_bytes] = '\0';
    return BT_MLIR_OK;
}

// Replaces the name of the function everywhere in the object.
static void rename_function(bt_mlir_result *result)
{
    static const char name[] = "kernel";
    for (size_t i = 0; i + sizeof name <= result->size_bytes; ++i) {
        if (memcmp(result->bytes + i, name, sizeof name - 1) == 0) {
            result->bytes[i] = 'x';
        }
    }
}

static bt_mlir_status faulty_lower(const bt_mlir_request *request, bt_mlir_result *result)
{
    const int call = ++calls;
    const bt_mlir_status status = lower_once(request, result);
    if (!injected || call < first_faulty || (call > first_faulty && !lasting)) {
        return status;
    }
    switch (injected->kind) {
    case FAULT_STATUS:
        real->release(result);
        result->size_bytes = 0;
        (void)snprintf(result->message, sizeof result->message, "%s",
                       call == first_faulty ? injected->message : "failed in an earlier call");
        return injected->status;
    case FAULT_GARBAGE:
        memset(result->bytes, 'g', result->size_bytes);
        return BT_MLIR_OK;
    case FAULT_CUT:
        result->size_bytes /= 2;
        return BT_MLIR_OK;
    case FAULT_NO_SYMBOL:
        rename_function(result);
        return BT_MLIR_OK;
    }
    return status;
}

static bt_mlir_library faulty;

static int use_faulty_library(void **state)
{
    faulty = *real;
    faulty.lower = faulty_lower;
    (void)bt_lower_through(&faulty);
    return test_scratch_setup(state);
}

static int use_real_library(void **state)
{
    (void)bt_lower_through(real);
    for (int i = 0; i < made_count; ++i) {
        free(made[i].text);
        free(made[i].bytes);
    }
    return test_scratch_teardown(state);
}

// A step without a cache on disk: every group is lowered.
static bt_compiled_step *open_step(compiled_world *w, bt_code_cache *cache)
{
    bt_compiled_step *step = NULL;
    calls = 0;
    ASSERT_OK(bt_compiled_step_create(&w->f.context, &w->model, cache, &step));
    return step;
}

static void expect_reason(const bt_compiled_kind *kind, const char *words)
{
    bt_str line = {0};
    bt_compiled_kind_print(kind, &line);
    if (!strstr(kind->reason, words) || !strstr(bt_str_text(&line), words)) {
        fail_msg("\"%s\" does not contain \"%s\"", bt_str_text(&line), words);
    }
    bt_str_release(&line);
    assert_string_equal(bt_error_message(), ""); // nothing is left for a later failure
}

static const fault faults[] = {
    {FAULT_STATUS, BT_MLIR_BAD_TEXT, "a pass failed", "a pass failed"},
    {FAULT_STATUS, BT_MLIR_BAD_TEXT, "invalid LLVM IR: use before definition", "invalid LLVM IR"},
    {FAULT_STATUS, BT_MLIR_UNSUPPORTED, "LLVM does not support the processor: x", "processor: x"},
    {FAULT_STATUS, BT_MLIR_NO_MEMORY, "out of memory", "out of memory"},
    {FAULT_STATUS, BT_MLIR_BROKEN, "LLVM failed: cannot select", "LLVM failed: cannot select"},
    {FAULT_GARBAGE, BT_MLIR_OK, "", "object"},
    {FAULT_CUT, BT_MLIR_OK, "", "object"},
    {FAULT_NO_SYMBOL, BT_MLIR_OK, "", "has no function kernel"},
};

// The n-th kernel fails: its groups run as separate calls, the others compiled.
static void the_nth_kernel_fails(void **state)
{
    (void)state;
    compiled_world w;
    compiled_world_open(&w, "llama", BT_F32);
    bt_compiled_step *step = open_step(&w, NULL);
    compiled_world_same(&w, step, ROWS, 1);
    const int kernels = calls;
    const int groups = bt_compiled_step_kind(step, 0)->groups;
    bt_compiled_step_destroy(step);
    assert_true(kernels > 4);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        for (first_faulty = 1; first_faulty <= kernels; ++first_faulty) {
            injected = &faults[i];
            step = open_step(&w, NULL);
            compiled_world_same(&w, step, ROWS, 1);
            const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
            assert_true(kind->compiled && kind->left_out > 0);
            assert_int_equal(kind->groups + kind->left_out, groups);
            expect_reason(kind, faults[i].words);
            bt_compiled_step_destroy(step);
        }
    }
    injected = NULL;
    compiled_world_close(&w);
}

// LLVM fails and refuses all later calls: the reason is the first failure, not its consequence.
static void all_kernels_fail_from_the_nth(void **state)
{
    (void)state;
    compiled_world w;
    compiled_world_open(&w, "llama", BT_BF16);
    lasting = true;
    injected = &faults[4];
    for (first_faulty = 1; first_faulty <= 4; first_faulty += 3) {
        bt_compiled_step *step = open_step(&w, NULL);
        compiled_world_same(&w, step, ROWS, 3); // also where gradients are added to
        const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
        assert_int_equal(kind->compiled, first_faulty > 1);
        expect_reason(kind, "LLVM failed: cannot select");
        bt_compiled_step_destroy(step);
    }
    lasting = false;
    injected = NULL;
    compiled_world_close(&w);
}

static void expect_compiled(compiled_world *w, bt_code_cache *cache)
{
    bt_compiled_step *step = open_step(w, cache);
    compiled_world_same(w, step, ROWS, 1);
    const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
    assert_true(kind->compiled);
    assert_string_equal(kind->reason, "");
    bt_compiled_step_destroy(step);
}

// ---- memory -------------------------------------------------------------------------------------

static int64_t next_allocation(int64_t n) { return n + 1 + n / 12; }

// The n-th allocation while the step is compiled fails. It is the compiler's, so the step runs.
static void the_nth_allocation_of_the_compiler_fails(void **state)
{
    (void)state;
    compiled_world w;
    compiled_tokens t;
    compiled_world_open(&w, "llama", BT_F32);
    compiled_world_tokens(&w, ROWS, 0, &t);
    fake_disk *disk = fake_disk_make();
    bt_code_cache cache;
    ASSERT_OK(bt_code_cache_open(fake_disk_ops(disk), "/cache", 1 << 26, &cache));
    int eager = 0, partial = 0;
    bool pending = false;
    expect_compiled(&w, &cache); // fills the cache
    const int64_t live = bt_mem_live_count();
    for (int64_t n = 1; !pending; n = next_allocation(n)) {
        bt_compiled_step *step = open_step(&w, &cache);
        bt_mem_fail_at(n);
        const bt_status status = bt_compiled_step_prepare(step, &t.batch, false);
        pending = bt_mem_fail_pending();
        bt_mem_fail_at(0);
        ASSERT_OK(status);
        assert_string_equal(bt_error_message(), "");
        for (int64_t i = 0; i < w.params.count; ++i) {
            assert_null(w.params.items[i].value->grad);
        }
        const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
        assert_non_null(kind);
        eager += !kind->compiled;
        partial += kind->left_out > 0;
        if (!kind->compiled || kind->left_out) {
            expect_reason(kind, "memory");
        }
        compiled_world_same(&w, step, ROWS, 1);
        bt_compiled_step_destroy(step);
        assert_int_equal(bt_mem_live_count(), live);
    }
    assert_true(eager > 30 && partial > 0);
    bt_code_cache_close(&cache);
    fake_disk_free(disk);
    compiled_world_release_tokens(&t);
    compiled_world_close(&w);
}

// The same where gradients exist: they keep their values, and the step adds to them. An allocation
// of the step itself fails the step.
static void the_nth_allocation_of_a_step_that_adds_fails(void **state)
{
    (void)state;
    compiled_world w;
    compiled_tokens t;
    size_t bytes = 0, got_bytes = 0;
    bool failed = false, pending = false;
    int kept = 0;
    compiled_world_open(&w, "llama", BT_F32);
    compiled_world_tokens(&w, ROWS, 1, &t);
    unsigned char *expected = compiled_world_run(&w, NULL, ROWS, 2, &bytes);
    for (int64_t n = 1; !failed && !pending; n = next_allocation(n)) {
        compiled_tokens first;
        bt_tensor *loss = NULL;
        bt_compiled_step *step = open_step(&w, NULL);
        compiled_world_tokens(&w, ROWS, 0, &first);
        ASSERT_OK(bt_model_loss(&w.f.context, &w.model, &first.batch, &loss));
        ASSERT_OK(bt_backward(&w.f.context, loss, NULL));
        bt_tensor_release(loss);
        compiled_world_release_tokens(&first);
        bt_mem_fail_at(n);
        const bt_status status = bt_compiled_step_run(step, &t.batch, &loss);
        pending = bt_mem_fail_pending();
        bt_mem_fail_at(0);
        failed = status == BT_STATUS_OUT_OF_MEMORY;
        assert_true(failed || status == BT_OK);
        if (failed) {
            bt_params_clear_grads(&w.params);
            assert_true(bt_compiled_step_kind(step, 0)->compiled);
        } else {
            unsigned char *got = compiled_world_take(&w, loss, &got_bytes);
            assert_int_equal(got_bytes, bytes);
            assert_memory_equal(got, expected, bytes);
            free(got);
            kept += 1;
        }
        bt_tensor_release(loss);
        bt_compiled_step_destroy(step);
    }
    assert_true(kept > 30);
    free(expected);
    compiled_world_release_tokens(&t);
    compiled_world_close(&w);
}

// ---- the cache ----------------------------------------------------------------------------------

static void remove_cache(const compiled_world *w)
{
    bt_io_names names = {0};
    char path[BT_PATH_CAPACITY];
    ASSERT_OK(bt_io_list(&bt_file_ops_system, w->cache.folder, &names));
    assert_true(names.count > 4);
    for (int64_t i = 0; i < names.count; ++i) {
        ASSERT_OK(bt_io_path(w->cache.folder, names.items[i], path));
        assert_int_equal(unlink(path), 0);
    }
    bt_io_names_release(&names);
    assert_int_equal(rmdir(w->cache.folder), 0);
}

// Its folder is removed, then replaced by a file, then made again.
static void the_folder_of_the_cache_goes(void **state)
{
    (void)state;
    compiled_world w;
    compiled_world_open(&w, "llama", BT_F32);
    expect_compiled(&w, &w.cache);
    remove_cache(&w);
    expect_compiled(&w, &w.cache);
    assert_int_equal(w.cache.unwritten, 0);
    remove_cache(&w);
    (void)test_scratch_write("code", "a file", 6);
    expect_compiled(&w, &w.cache);
    assert_true(w.cache.unwritten > 4);
    assert_non_null(strstr(w.cache.why_unwritten, w.cache.folder));
    assert_int_equal(unlink(w.cache.folder), 0);
    const long long unwritten = w.cache.unwritten;
    expect_compiled(&w, &w.cache);
    assert_int_equal(w.cache.unwritten, unwritten);
    compiled_world_close(&w);
}

// No path of an entry fits: nothing is cached, and the cache says so.
static void the_path_of_the_cache_is_too_long(void **state)
{
    (void)state;
    compiled_world w;
    bt_code_cache cache;
    char folder[BT_PATH_CAPACITY];
    memset(folder, 'x', sizeof folder - 1);
    folder[0] = '/';
    folder[sizeof folder - 1] = '\0';
    compiled_world_open(&w, "llama", BT_F32);
    ASSERT_OK(bt_code_cache_open(&bt_file_ops_system, folder, 1 << 26, &cache));
    expect_compiled(&w, &cache);
    assert_true(cache.unwritten > 4 && cache.why_unwritten[0]);
    bt_code_cache_close(&cache);
    compiled_world_close(&w);
}

// ---- the capture, and what is an error ----------------------------------------------------------

static void hear(void *self, const bt_tensor *tensor, bt_trace_contents contents)
{
    (void)self;
    (void)tensor;
    (void)contents;
}

static void a_context_that_is_listened_to(void **state)
{
    (void)state;
    compiled_world w;
    compiled_world_open(&w, "llama", BT_F32);
    bt_compiled_step *step = open_step(&w, NULL);
    w.f.context.trace_hook.tensor = hear;
    compiled_world_same(&w, step, ROWS, 1);
    assert_ptr_equal(w.f.context.trace_hook.tensor, hear);
    w.f.context.trace_hook.tensor = NULL;
    const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
    assert_false(kind->compiled);
    expect_reason(kind, "already has a listener");
    bt_compiled_step_destroy(step);
    compiled_world_close(&w);
}

// A wrong batch is an error of the step, at every call.
static void a_wrong_batch_is_an_error(void **state)
{
    (void)state;
    compiled_world w;
    compiled_tokens t;
    bt_tensor *loss = NULL;
    compiled_world_open(&w, "llama", BT_F32);
    bt_compiled_step *step = open_step(&w, NULL);
    compiled_world_tokens(&w, ROWS, 0, &t);
    bt_batch half = t.batch;
    half.count = 1;
    for (int i = 0; i < 2; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "targets",
                     bt_compiled_step_run(step, &half, &loss));
        assert_null(loss);
    }
    bt_error_clear();
    expect_reason(bt_compiled_step_kind(step, 0), "targets");
    bt_params_clear_grads(&w.params);
    compiled_world_same(&w, step, ROWS, 1); // the next step is compiled
    assert_true(bt_compiled_step_kind(step, 1)->compiled);
    bt_compiled_step_destroy(step);
    compiled_world_release_tokens(&t);
    compiled_world_close(&w);
}

int main(void)
{
    real = bt_lower_through(NULL);
    if (!real) {
        return test_skip("no compiler");
    }
    (void)bt_lower_through(real);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_kernel_fails),
        cmocka_unit_test(all_kernels_fail_from_the_nth),
        cmocka_unit_test(the_nth_allocation_of_the_compiler_fails),
        cmocka_unit_test(the_nth_allocation_of_a_step_that_adds_fails),
        cmocka_unit_test(the_folder_of_the_cache_goes),
        cmocka_unit_test(the_path_of_the_cache_is_too_long),
        cmocka_unit_test(a_context_that_is_listened_to),
        cmocka_unit_test(a_wrong_batch_is_an_error),
    };
    return cmocka_run_group_tests(tests, use_faulty_library, use_real_library);
}
