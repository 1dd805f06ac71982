// Measured choices on the GPU (framework/linalg/tune.h): products are right and operands unharmed
// while they are measured, and another process takes the choices from the file and gives the same
// bits.
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/autograd/session.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/linalg/gemm.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

extern char **environ;

typedef struct product {
    int64_t m, n, k;
    bool trans_a, trans_b, adds; // adds: into D
    bt_dtype ab, d;
    bt_compute compute;
} product;

static const product products[] = {
    {512, 768, 1024, false, true, false, BT_BF16, BT_BF16, BT_COMPUTE_NATIVE},
    {512, 768, 1024, false, false, true, BT_BF16, BT_BF16, BT_COMPUTE_NATIVE},
    {256, 256, 8192, true, false, true, BT_BF16, BT_F32, BT_COMPUTE_NATIVE},
    {256, 256, 8192, true, false, true, BT_F32, BT_F32, BT_COMPUTE_TF32},
    {512, 768, 1024, false, true, false, BT_F32, BT_F32, BT_COMPUTE_TF32},
    {200, 136, 600, true, false, true, BT_F32, BT_F32, BT_COMPUTE_NATIVE},
    {33, 17, 65, false, true, false, BT_BF16, BT_BF16, BT_COMPUTE_NATIVE},
};
enum { PRODUCTS = sizeof products / sizeof products[0] };

static bt_session session;
static char labels[PRODUCTS][96];
static int at_product;

static void on_kernel(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                      const void *args)
{
    (void)self;
    bt_kernel_label(&session.device, kernel, plan, args, labels[at_product], sizeof labels[0]);
}

static void *upload(bt_dtype dtype, int64_t count, uint64_t seed)
{
    float *values = malloc((size_t)count * sizeof *values);
    uint16_t *narrow = malloc((size_t)count * sizeof *narrow);
    void *near = NULL;
    assert_true(values && narrow);
    bt_rng_uniform_fill((bt_rng){seed, 31}, values, count, -1, 1);
    for (int64_t i = 0; i < count; ++i) {
        narrow[i] = bt_f32_to_bf16(values[i]);
    }
    const size_t size = (size_t)count * bt_dtype_size(dtype);
    ASSERT_OK(session.device.backend->memory_alloc(&session.device, size, &near));
    ASSERT_OK(session.device.backend->copy(&session.device, near,
                                           dtype == BT_F32 ? (void *)values : narrow, size,
                                           BT_COPY_HOST_TO_DEVICE, NULL));
    ASSERT_OK(session.device.backend->stream_synchronize(&session.device, NULL));
    free(values);
    free(narrow);
    return near;
}

// D after one call, as bytes; free() it.
static void *compute(const product *p, bool tuned, size_t *size_bytes)
{
    bt_context context = session.context;
    const bt_backend *backend = session.device.backend;
    bt_gemm_args args = {.m = p->m, .n = p->n, .k = p->k, .batch = 1, .alpha = 1};
    args.trans_a = p->trans_a, args.trans_b = p->trans_b;
    args.lda = p->trans_a ? p->m : p->k, args.ldb = p->trans_b ? p->k : p->n;
    args.ldc = args.ldd = p->n;
    args.ab_dtype = p->ab, args.d_dtype = p->d, args.compute = p->compute;
    args.a = upload(p->ab, p->m * p->k, 1);
    args.b = upload(p->ab, p->k * p->n, 2);
    args.d = upload(p->d, p->m * p->n, 3);
    args.c = p->adds ? args.d : NULL;
    args.beta = p->adds ? 1 : 0;
    context.tuner = tuned ? session.tuner : NULL;
    ASSERT_OK(bt_gemm(&context, &args));
    *size_bytes = (size_t)(p->m * p->n) * bt_dtype_size(p->d);
    void *bytes = malloc(*size_bytes);
    assert_non_null(bytes);
    ASSERT_OK(
        backend->copy(&session.device, bytes, args.d, *size_bytes, BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(backend->stream_synchronize(&session.device, NULL));
    backend->memory_free(&session.device, (void *)args.a);
    backend->memory_free(&session.device, (void *)args.b);
    backend->memory_free(&session.device, args.d);
    return bytes;
}

static double value_at(bt_dtype dtype, const void *bytes, int64_t i)
{
    return dtype == BT_F32 ? (double)((const float *)bytes)[i]
                           : (double)bt_bf16_to_f32(((const uint16_t *)bytes)[i]);
}

// Two ways to add k products of values in [-1, 1]: each has the inputs' rounding (tf32) and a
// rounding per sum, random in sign; and the result's.
static void check_close(const product *p, const void *got, const void *expected)
{
    const double inputs = p->compute == BT_COMPUTE_TF32 ? 0x1p-10 : 0x1p-20;
    const double absolute = 8 * inputs * sqrt((double)p->k);
    for (int64_t i = 0; i < p->m * p->n; ++i) {
        const double x = value_at(p->d, got, i), y = value_at(p->d, expected, i);
        if (!(fabs(x - y) <= absolute + 2 * bt_dtype_epsilon(p->d) * fabs(y))) {
            fail_msg("%s: [%lld] is %.9g, by the row's own choice %.9g", labels[at_product],
                     (long long)i, x, y);
        }
    }
}

static void open_session(void)
{
    ASSERT_OK(bt_session_open("cuda", 0, 0, &session));
    session.context.kernel_hook.launched = on_kernel;
    assert_non_null(session.tuner);
}

static const char *file_of(int i)
{
    char name[32];
    (void)snprintf(name, sizeof name, "product.%d", i);
    return test_scratch_path(name);
}

// Runs a program with one argument to its end; -1 when it cannot be run or dies.
static int exit_code_of(const char *program, const char *argument)
{
    char *const words[] = {(char *)program, (char *)argument, NULL};
    pid_t child = 0;
    int status = 0;
    if (posix_spawn(&child, program, NULL, NULL, words, environ) != 0 ||
        waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

static void test_right_and_remembered(void **state)
{
    const char *program = *state;
    open_session();
    for (at_product = 0; at_product < PRODUCTS; ++at_product) {
        size_t size = 0;
        void *plain = compute(&products[at_product], false, &size);
        void *first = compute(&products[at_product], true, &size);
        void *again = compute(&products[at_product], true, &size);
        print_message("product %d: %s\n", at_product, labels[at_product]);
        check_close(&products[at_product], first, plain);
        assert_memory_equal(first, again, size);
        ASSERT_OK(bt_file_write(file_of(at_product), first, size));
        free(plain), free(first), free(again);
    }
    assert_true(bt_gemm_tuner_measured(session.tuner) >= PRODUCTS - 1);
    bt_session_close(&session);
    assert_int_equal(exit_code_of(program, test_scratch_path("")), 0);
}

// The second process: nothing is measured, and the bits are the first one's.
static int repeat(const char *folder)
{
    int differing = 0;
    if (bt_session_open("cuda", 0, 0, &session) != BT_OK || !session.tuner) {
        return 1;
    }
    for (int i = 0; i < PRODUCTS; ++i) {
        char path[300];
        void *kept = NULL;
        size_t size = 0, kept_size = 0;
        (void)snprintf(path, sizeof path, "%sproduct.%d", folder, i);
        void *got = compute(&products[i], true, &size);
        differing += bt_file_read(path, &kept, &kept_size) != BT_OK || kept_size != size ||
                     memcmp(kept, got, size) != 0;
        free(got);
        bt_mem_free(kept);
    }
    const int64_t measured = bt_gemm_tuner_measured(session.tuner);
    bt_session_close(&session);
    print_message("second process: %d products differ, %lld measured\n", differing,
                  (long long)measured);
    return differing || measured ? 1 : 0;
}

int main(int argc, char **argv)
{
    char program[256] = "";
    bt_device device;
    if (argc > 1) {
        return repeat(argv[1]);
    }
    if (bt_device_open("cuda", 0, &device) != BT_OK) {
        printf("unavailable: %s\n", bt_error_message());
        return test_skip("no CUDA device");
    }
    bt_device_close(&device);
    if (!test_scratch_make() || readlink("/proc/self/exe", program, sizeof program - 1) < 0 ||
        setenv("BT_GEMM_TUNE", "1", 1) != 0 ||
        setenv("BT_CACHE_DIR", test_scratch_path("cache"), 1) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_right_and_remembered, program),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_scratch_remove();
    return failed;
}
