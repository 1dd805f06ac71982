// tests/unit/test_assembler_faults.c - whatever fails between PTX and a loaded kernel, a step has
// the bits of eager execution and says why it, or a group of it, ran eagerly
//
// The device has the host's memory and the CPU's kernels, but a CUDA device's kind: groups are
// lowered to PTX and assembled by a table of this file in place of the driver's (generated.h).
// Code that it made cannot run, so steps run where all groups fail, and are only compiled
// elsewhere.
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "kernels/generated.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_world.h"

enum { ROWS = 2 };

// ---- a driver that fails ------------------------------------------------------------------------

typedef struct fault {
    bt_status status;
    bool in_load;        // in load, else in assemble
    const char *message; // of the driver
    const char *log;     // of the assembler; NULL: none
} fault;

static const fault *injected; // NULL: none
static int first_faulty, last_faulty, assembled, loaded;
static const char machine_code[] = "machine code";

static bool is_faulty(bool in_load, int call)
{
    return injected && injected->in_load == in_load && call >= first_faulty && call <= last_faulty;
}

static int driver_version(void) { return 13000; }

// As kernels/cuda/generated.cu reports it.
static bt_status report(void)
{
    const bt_status status = bt_error(injected->status, "%s", injected->message);
    return injected->log ? bt_error_context(status, "%s", injected->log) : status;
}

static bt_status assemble(const bt_device *device, const char *ptx, void **code, size_t *size_bytes)
{
    assert_int_equal(device->info.arch, 90);
    assert_non_null(strstr(ptx, ".target sm_90a"));
    assert_non_null(strstr(ptx, ".entry kernel("));
    *code = NULL;
    *size_bytes = 0;
    if (is_faulty(false, ++assembled)) {
        return report();
    }
    BT_TRY(bt_mem_alloc(1, sizeof machine_code, code));
    memcpy(*code, machine_code, sizeof machine_code);
    *size_bytes = sizeof machine_code;
    return BT_OK;
}

static bt_status load(const bt_device *device, const void *code, const char *name,
                      bt_generated *out)
{
    (void)device;
    *out = (bt_generated){0};
    assert_memory_equal(code, machine_code, sizeof machine_code);
    assert_true(strcmp(name, "kernel") == 0 || strcmp(name, "finish") == 0);
    return is_faulty(true, ++loaded) ? report() : BT_OK;
}

static void unload(bt_generated *generated) { *generated = (bt_generated){0}; }

static bt_status launch(const bt_device *device, const bt_generated *generated, int64_t blocks,
                        int threads, bool is_early, void **parameters, bt_stream stream)
{
    (void)device, (void)generated, (void)blocks, (void)threads;
    (void)is_early, (void)parameters, (void)stream;
    fail_msg("a kernel that has no code was launched");
    return BT_STATUS_INTERNAL;
}

static const bt_generated_table driver = {
    .abi = BT_GENERATED_ABI,
    .driver_version = driver_version,
    .assemble = assemble,
    .load = load,
    .unload = unload,
    .launch = launch,
};

// ---- a CUDA device in the host's memory ---------------------------------------------------------

static bt_backend backend;

static bt_status open_device(int ordinal, bt_device *device)
{
    const bt_backend *cpu = NULL;
    BT_TRY(bt_device_backend("cpu", &cpu));
    BT_TRY(cpu->device_open(ordinal, device));
    device->backend = &backend;
    device->info.arch = 90;
    return BT_OK;
}

static int add_device(void **state)
{
    bt_device device;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    backend = *device.backend;
    backend.name = "pretended";
    backend.kind = BT_DEVICE_CUDA;
    backend.device_open = open_device;
    backend.kernels = bt_kernel_table(&device, &backend.kernel_count);
    bt_device_close(&device);
    ASSERT_OK(bt_device_add(&backend));
    bt_compile_through(&driver);
    return test_scratch_setup(state);
}

static int use_real_driver(void **state)
{
    bt_compile_through(NULL);
    return test_scratch_teardown(state);
}

static void open_world(compiled_world *w)
{
    compiled_world_open_on(w, "pretended", "llama", BT_F32);
    assembled = loaded = 0;
    first_faulty = 1;
    last_faulty = INT32_MAX;
    injected = NULL;
}

// Compiles for one batch without running it.
static bt_compiled_step *prepare(compiled_world *w, bt_code_cache *cache)
{
    compiled_tokens t;
    bt_compiled_step *step = NULL;
    assembled = loaded = 0;
    compiled_world_tokens(w, ROWS, 0, &t);
    ASSERT_OK(bt_compiled_step_create(&w->f.context, &w->model, cache, &step));
    ASSERT_OK(bt_compiled_step_prepare(step, &t.batch, false));
    compiled_world_release_tokens(&t);
    return step;
}

// The assembler's log, then the driver's message; the end is cut where both are too long.
static void expect_reason(const bt_compiled_kind *kind, const fault *f)
{
    char expected[sizeof kind->reason];
    bt_str line = {0};
    (void)snprintf(expected, sizeof expected, "%s%s%s", f->log ? f->log : "", f->log ? ": " : "",
                   f->message);
    bt_compiled_kind_print(kind, &line);
    assert_string_equal(kind->reason, expected);
    assert_non_null(strstr(bt_str_text(&line), expected));
    bt_str_release(&line);
    assert_string_equal(bt_error_message(), ""); // nothing is left for a later failure
}

static const fault faults[] = {
    {BT_STATUS_INTERNAL, false, "assembling: a PTX JIT compilation failed (CUDA driver error 218)",
     "ptxas application ptx input, line 32; error : Unknown symbol '__nv_expf'"},
    {BT_STATUS_INTERNAL, false, "linking: out of registers (CUDA driver error 209)",
     "ptxas error : Entry function 'kernel' uses too much shared data (0x12000 bytes, 0xc000 max), "
     "and a second line of the log which is so long that no reason has room for all of it: "
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
    {BT_STATUS_UNAVAILABLE, false, "the CUDA driver lacks a function that loads code", NULL},
    {BT_STATUS_OUT_OF_MEMORY, false, "assembling: out of memory (CUDA driver error 2)", NULL},
    {BT_STATUS_INTERNAL, true, "loading generated code: device kernel image is invalid", NULL},
};

enum { FAULTS = sizeof faults / sizeof *faults };

// ---- tests --------------------------------------------------------------------------------------

// The step runs eagerly, with its bits and with the assembler's message.
static void every_assembly_fails(void **state)
{
    (void)state;
    for (int i = 0; i < FAULTS; ++i) {
        compiled_world w;
        open_world(&w);
        injected = &faults[i];
        bt_compiled_step *step = prepare(&w, &w.cache);
        assert_true((faults[i].in_load ? loaded : assembled) > 4);
        compiled_world_same(&w, step, ROWS, 1);
        compiled_world_same(&w, step, ROWS, 3); // also where gradients are added to
        const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
        assert_false(kind->compiled);
        assert_true(kind->left_out > 4);
        assert_int_equal(kind->groups, 0);
        expect_reason(kind, &faults[i]);
        bt_compiled_step_destroy(step);
        compiled_world_close(&w);
    }
}

// Groups of the n-th kernel have no code, the others have.
static void the_nth_assembly_fails(void **state)
{
    (void)state;
    compiled_world w;
    open_world(&w);
    bt_compiled_step *step = prepare(&w, NULL);
    const bt_compiled_kind all = *bt_compiled_step_kind(step, 0);
    const int kernels = assembled;
    assert_true(all.compiled && kernels > 4);
    assert_string_equal(all.reason, "");
    bt_compiled_step_destroy(step);
    for (first_faulty = 1; first_faulty <= kernels; ++first_faulty) {
        last_faulty = first_faulty;
        injected = &faults[first_faulty % 2];
        step = prepare(&w, NULL);
        const bt_compiled_kind *kind = bt_compiled_step_kind(step, 0);
        assert_true(kind->compiled && kind->left_out > 0);
        assert_int_equal(kind->groups + kind->left_out, all.groups);
        assert_int_equal(assembled, kernels);
        expect_reason(kind, injected);
        bt_compiled_step_destroy(step);
    }
    compiled_world_close(&w);
}

// A failure is not kept: the next process assembles again, from PTX of the cache, and keeps that.
static void a_failure_is_not_cached(void **state)
{
    (void)state;
    compiled_world w;
    bt_code_cache cache;
    open_world(&w);
    ASSERT_OK(bt_code_cache_open(&bt_file_ops_system, test_scratch_path("fresh"), 1 << 26, &cache));
    injected = &faults[0];
    bt_compiled_step *step = prepare(&w, &cache);
    const int kernels = assembled;
    assert_false(bt_compiled_step_kind(step, 0)->compiled);
    bt_compiled_step_destroy(step);
    injected = NULL;
    const bt_mlir_library *library = bt_lower_through(NULL); // texts outside the cache have no PTX
    step = prepare(&w, &cache);
    assert_int_equal(assembled, kernels);
    assert_true(bt_compiled_step_kind(step, 0)->compiled);
    assert_string_equal(bt_compiled_step_kind(step, 0)->reason, "");
    bt_compiled_step_destroy(step);
    step = prepare(&w, &cache);
    assert_int_equal(assembled, 0); // machine code is in the cache as well
    assert_true(loaded >= kernels && bt_compiled_step_kind(step, 0)->compiled);
    bt_compiled_step_destroy(step);
    (void)bt_lower_through(library);
    bt_code_cache_close(&cache);
    compiled_world_close(&w);
}

// None of the functions of a table of another build is called.
static void a_table_of_another_build(void **state)
{
    (void)state;
    compiled_world w;
    open_world(&w);
    const bt_generated_table other = {.abi = BT_GENERATED_ABI + 1};
    bt_compile_through(&other);
    bt_compiled_step *step = prepare(&w, NULL);
    compiled_world_same(&w, step, ROWS, 1);
    assert_non_null(strstr(bt_compiled_step_kind(step, 0)->reason, "belongs to another build"));
    bt_compiled_step_destroy(step);
    bt_compile_through(&driver);
    compiled_world_close(&w);
}

int main(void)
{
    const bt_mlir_library *library = bt_lower_through(NULL);
    if (!library) {
        return test_skip("no compiler");
    }
    (void)bt_lower_through(library);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_assembly_fails),
        cmocka_unit_test(the_nth_assembly_fails),
        cmocka_unit_test(a_failure_is_not_cached),
        cmocka_unit_test(a_table_of_another_build),
    };
    return cmocka_run_group_tests(tests, add_device, use_real_driver);
}
