// tests/unit/test_lower.c - MLIR text to code: an object that runs, PTX, and texts that are wrong
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/object.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

// y[0] = exp(x[0]) + 3
static const char *const cpu_text = "func.func @kernel(%x: !llvm.ptr, %y: !llvm.ptr) {\n"
                                    "  %c = arith.constant 3.0 : f64\n"
                                    "  %a = llvm.load %x : !llvm.ptr -> f64\n"
                                    "  %b = math.exp %a : f64\n"
                                    "  %d = arith.addf %b, %c : f64\n"
                                    "  llvm.store %d, %y : f64, !llvm.ptr\n"
                                    "  return\n"
                                    "}\n";

static const char *const gpu_text =
    "module attributes {gpu.container_module} {\n"
    "gpu.module @m {\n"
    "  gpu.func @kernel(%x: !llvm.ptr<1>) kernel {\n"
    "    %t = gpu.thread_id x\n"
    "    %i = arith.index_castui %t : index to i64\n"
    "    %p = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32\n"
    "    %a = llvm.load %p : !llvm.ptr<1> -> f32\n"
    "    %b = math.tanh %a : f32\n"
    "    llvm.store %b, %p : f32, !llvm.ptr<1>\n"
    "    gpu.return\n"
    "  }\n"
    "}\n"
    "}\n";

static bt_target host(void)
{
    bt_target target;
    ASSERT_OK(bt_target_host(&target));
    return target;
}

static double run(const bt_code *code, double x)
{
    bt_object object;
    void *address = NULL;
    void (*kernel)(const double *, double *) = NULL;
    double y = 0;
    ASSERT_OK(bt_object_load(code->bytes, code->size_bytes, &object));
    ASSERT_OK(bt_object_function(&object, "kernel", &address));
    memcpy(&kernel, &address, sizeof kernel);
    kernel(&x, &y);
    bt_object_release(&object);
    return y;
}

static void test_object_runs(void **state)
{
    (void)state;
    const bt_target target = host();
    const bt_lower_options options = {.keep_llvm = true};
    bt_code code;
    char *llvm = NULL;
    ASSERT_OK(bt_lower(&target, cpu_text, &options, &code, &llvm));
    assert_true(run(&code, 0) == 4);
    assert_non_null(strstr(llvm, "define"));
    bt_mem_free(llvm);
    bt_code_release(&code);
}

static void test_ptx(void **state)
{
    (void)state;
    const int archs[] = {80, 89, 90};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; ++i) {
        bt_target target;
        bt_code code;
        ASSERT_OK(bt_target_cuda(archs[i], &target));
        const bt_status status = bt_lower(&target, gpu_text, NULL, &code, NULL);
        if (status == BT_STATUS_UNSUPPORTED) {
            print_message("no libdevice here: %s\n", bt_error_message());
            return;
        }
        ASSERT_OK(status);
        assert_non_null(strstr(code.bytes, target.processor));
        assert_null(strstr(code.bytes, ".extern"));
        bt_code_release(&code);
    }
    bt_target old;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "7.5", bt_target_cuda(75, &old));
}

// LLVM 19 cannot generate code for a processor that it does not know.
static void test_later_gpus(void **state)
{
    (void)state;
    const struct {
        int arch;
        const char *processor;
        bool is_early;
    } rows[] = {{80, "sm_80", false}, {86, "sm_86", false}, {88, "sm_87", false},
                {89, "sm_89", false}, {90, "sm_90a", true}, {100, "sm_90", true},
                {120, "sm_90", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        bt_target target;
        ASSERT_OK(bt_target_cuda(rows[i].arch, &target));
        assert_string_equal(target.processor, rows[i].processor);
        assert_true(target.has_early_launch == rows[i].is_early);
    }
}

static void test_libdevice(void **state)
{
    (void)state;
    bt_target target;
    bt_code code;
    ASSERT_OK(bt_target_cuda(90, &target));
    const bt_lower_options missing = {.libdevice = test_scratch_path("none.bc")};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "__nv_tanhf",
                 bt_lower(&target, gpu_text, &missing, &code, NULL));
    // A text that calls no function of it does not need it. A folder cannot be read.
    char *plain = NULL;
    ASSERT_OK(bt_mem_strdup(gpu_text, &plain));
    memcpy(strstr(plain, "math.tanh "), "arith.negf", 10);
    const bt_lower_options folder = {.libdevice = test_scratch_path("")};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "cannot be read",
                 bt_lower(&target, gpu_text, &folder, &code, NULL));
    ASSERT_OK(bt_lower(&target, plain, &folder, &code, NULL));
    bt_code_release(&code);
    bt_mem_free(plain);
    const bt_lower_options wrong = {.libdevice = test_scratch_write("wrong.bc", "text", 4)};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "libdevice is damaged",
                 bt_lower(&target, gpu_text, &wrong, &code, NULL));
}

static void test_wrong_texts(void **state)
{
    (void)state;
    const struct {
        const char *text, *words;
    } cases[] = {
        {"nonsense", "1:1"},
        {"func.func @f(%x: f32) -> f32 {\n  return %y : f32\n}\n", "2:10"},
        {"func.func @f(%x: f32) -> f64 {\n  return %x : f32\n}\n", "f32"},
        {"\"unknown.op\"() : () -> ()\n", "unregistered"},
        {"func.func @f(%x: memref<4xf32>) {\n  return\n}\nfunc.func @f() {\n return\n}\n",
         "redefinition"},
        {"func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n",
         ""},
        {"gpu.module @m {\n  gpu.func @k(%x: f32) kernel {\n  }\n}\n", ""},
    };
    const bt_target target = host();
    bt_target cuda;
    ASSERT_OK(bt_target_cuda(90, &cuda));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        bt_code code;
        const bt_status status = bt_lower(&target, cases[i].text, NULL, &code, NULL);
        if (status == BT_OK || !strstr(bt_error_message(), cases[i].words)) {
            print_message("case %zu: %s\n", i, status ? bt_error_message() : "no error");
        }
        assert_int_not_equal(status, BT_OK);
        assert_non_null(strstr(bt_error_message(), cases[i].words));
        assert_null(code.bytes);
    }
    bt_code code;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no gpu.module",
                 bt_lower(&cuda, cpu_text, NULL, &code, NULL));
    ASSERT_OK(bt_lower(&target, cpu_text, NULL, &code, NULL)); // still works
    bt_code_release(&code);
}

static void test_cached(void **state)
{
    (void)state;
    const bt_target target = host();
    bt_code_cache cache;
    bt_code code;
    char key[2][BT_CODE_KEY_BYTES];
    ASSERT_OK(bt_code_cache_open(&bt_file_ops_system, test_scratch_path("code"), 1 << 20, &cache));
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(bt_lower_cached(&cache, &target, cpu_text, &code));
        assert_true(run(&code, 0) == 4);
        bt_code_release(&code);
    }
    assert_int_equal(cache.hits, 2);
    assert_int_equal(cache.misses, 1);
    bt_lower_key(&target, cpu_text, key[0]);
    char path[64];
    (void)snprintf(path, sizeof path, "code/%s", key[0]);
    (void)test_scratch_write(path, "damage", 6);
    ASSERT_OK(bt_lower_cached(&cache, &target, cpu_text, &code)); // made again
    assert_true(run(&code, 0) == 4);
    bt_code_release(&code);
    assert_int_equal(cache.damaged, 1);
    bt_target other = target;
    (void)snprintf(other.processor, sizeof other.processor, "x86-64");
    if (strcmp(other.processor, target.processor) != 0) {
        bt_lower_key(&other, cpu_text, key[1]);
        assert_string_not_equal(key[0], key[1]);
    }
    bt_code_cache_close(&cache);
    // A folder that cannot be written costs time only.
    ASSERT_OK(bt_code_cache_open(&bt_file_ops_system, "/proc/none", 1 << 20, &cache));
    ASSERT_OK(bt_lower_cached(&cache, &target, cpu_text, &code));
    assert_int_equal(cache.unwritten, 1);
    assert_non_null(strstr(cache.why_unwritten, "/proc/none"));
    bt_code_release(&code);
    bt_code_cache_close(&cache);
}

static void *lower_some(void *self)
{
    const bt_target *target = self;
    for (int i = 0; i < 5; ++i) {
        bt_code code;
        if (bt_lower(target, cpu_text, NULL, &code, NULL) != BT_OK) {
            return self;
        }
        bt_code_release(&code);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    bt_target target = host();
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, lower_some, &target), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

// LLVM ends the process where it cannot parse inline assembly. Here the call fails, and so do all
// later ones of the process: a child, which need not release what LLVM held then.
static void test_failure_of_llvm(void **state)
{
    (void)state;
    const char *text = "llvm.func @f() {\n"
                       "  llvm.inline_asm has_side_effects \"nonsense\", \"\" : () -> ()\n"
                       "  llvm.return\n"
                       "}\n";
    const bt_target target = host();
    const pid_t child = fork();
    if (child == 0) {
        bt_code code;
        bool good = bt_lower(&target, text, NULL, &code, NULL) == BT_STATUS_INTERNAL &&
                    strstr(bt_error_message(), "LLVM failed");
        good = good && bt_lower(&target, cpu_text, NULL, &code, NULL) == BT_STATUS_INTERNAL &&
               strstr(bt_error_message(), "earlier call");
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#if TEST_SANITIZED
static void test_memory_of_llvm(void **state)
{
    (void)state;
    print_message("a sanitizer needs its own address space\n");
}
#else
// Leaves the process room_bytes of memory, in pieces that adjoin where malloc made them so.
static bool leave(size_t room_bytes)
{
    enum { PIECE = 1000 };
    const struct rlimit none = {0, RLIM_INFINITY}; // nothing more is mapped
    void **kept = NULL;
    if (setrlimit(RLIMIT_AS, &none)) {
        return false;
    }
    for (void **piece = malloc(PIECE); piece; piece = malloc(PIECE)) {
        *piece = (void *)kept;
        kept = piece;
    }
    for (size_t left = room_bytes; kept && left >= PIECE; left -= PIECE) {
        void **next = *kept;
        free((void *)kept);
        kept = next;
    }
    return true;
}

// 0: lowered; 1: an error that names memory; 2: another result.
static int lower_within(const bt_target *target, const char *text, size_t room_bytes)
{
    bt_code code;
    if (!leave(room_bytes)) {
        return 2;
    }
    const bt_status status = bt_lower(target, text, NULL, &code, NULL);
    return status == BT_OK ? 0 : strstr(bt_error_message(), "memory") ? 1 : 2;
}

// Where memory runs out, inside LLVM or not, the call fails; the process does not end.
static void test_memory_of_llvm(void **state)
{
    (void)state;
    enum { FUNCTIONS = 3, STEP = 200 << 10, STEPS = 8 };
    const bt_target target = host();
    bt_str text = {0};
    int outcomes[3] = {0};
    for (int i = 0; i < FUNCTIONS; ++i) {
        bt_str_format(&text, "func.func @f%d%s", i, strchr(cpu_text, '('));
    }
    ASSERT_OK(bt_str_status(&text));
    bt_code warm;
    ASSERT_OK(bt_lower(&target, cpu_text, NULL, &warm, NULL));
    bt_code_release(&warm);
    for (int i = 0; i < STEPS; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            _exit(lower_within(&target, bt_str_text(&text), (size_t)i * STEP));
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
            fail_msg("with %d KiB the child ended with %x", i * (STEP >> 10), (unsigned)status);
        }
        outcomes[WEXITSTATUS(status)] += 1;
    }
    assert_true(outcomes[1] > 2);
    bt_str_release(&text);
}
#endif

int main(void)
{
    const bt_status status = bt_compiler_available();
    if (status == BT_STATUS_UNAVAILABLE) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object_runs),    cmocka_unit_test(test_ptx),
        cmocka_unit_test(test_later_gpus),     cmocka_unit_test(test_libdevice),
        cmocka_unit_test(test_wrong_texts),    cmocka_unit_test(test_cached),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_failure_of_llvm),
        cmocka_unit_test(test_memory_of_llvm),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
