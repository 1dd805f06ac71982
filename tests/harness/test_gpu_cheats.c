// tests/harness/test_gpu_cheats.c - cheats that need a GPU, tried on our own worker's clock
//
// bt_kernel_find is defined in this file: it returns the real CUDA row of GELU, whose launch is
// replaced by one that also works on its own stream, or makes its input persist in L2.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cases/cases.h"
#include "harness/suite/json.h"
#include "kernels/kernels.h"
#include "tests/support/test.h"

typedef bt_status (*kernel_launch)(const bt_launch *launch, const void *args);

enum { SIDE_BYTES = 64 << 20, SIDE_FILLS = 64 };

static bt_kernel altered;    // the row that is handed out
static kernel_launch honest; // its own launch
static kernel_launch cheat;  // NULL: none
static bt_device *opened;    // by the case
static bt_stream side;       // a stream of our own
static void *side_block;     // of SIDE_BYTES
static double median_ns;     // of the samples that were reported
static int64_t behind_ns;    // of the result

// ---- cheats ------------------------------------------------------------------------------------

// Half a millisecond and more of fills that the events of the main stream do not wait for.
static bt_status works_on_a_side_stream(const bt_launch *launch, const void *args)
{
    const bt_backend *backend = opened->backend;
    if (!side) {
        BT_TRY(backend->stream_create(opened, false, &side));
        BT_TRY(backend->memory_alloc(opened, SIDE_BYTES, &side_block));
    }
    for (int i = 0; i < SIDE_FILLS; ++i) {
        BT_TRY(backend->fill(opened, side_block, (uint8_t)i, SIDE_BYTES, side));
    }
    return honest(launch, args);
}

// What the driver takes: CUaccessPolicyWindow within CUlaunchAttributeValue, 64 bytes.
typedef union window_attribute {
    struct {
        void *base;
        size_t size_bytes;
        float hit_ratio;
        int hit, miss; // 0 normal, 1 streaming, 2 persisting
    } window;
    char bytes[64];
} window_attribute;

enum { LIMIT_PERSISTING = 6, ATTRIBUTE_WINDOW = 1 };

static int (*set_attribute)(bt_stream stream, int attribute, const window_attribute *value);
static int (*set_limit)(int limit, size_t value);
static int refusals; // of the driver

// Everything that GELU reads is to stay in L2 from one sample to the next.
static bt_status makes_its_input_persist(const bt_launch *launch, const void *args)
{
    const bt_unary_args *unary = args;
    const window_attribute value = {
        .window = {(void *)(uintptr_t)unary->x, (size_t)unary->count * sizeof(float), 1, 2, 1}};
    refusals += set_attribute(launch->stream, ATTRIBUTE_WINDOW, &value) != 0;
    return honest(launch, args);
}

// ---- a case with such a kernel -----------------------------------------------------------------

bt_status bt_kernel_find(const bt_device *device, bt_kernel_op op, bt_dtype dtype, const void *args,
                         const bt_kernel **out)
{
    union {
        void *pointer;
        bt_status (*function)(const bt_device *, bt_kernel_op, bt_dtype, const void *,
                              const bt_kernel **);
    } next = {.pointer = dlsym(RTLD_NEXT, "bt_kernel_find")};
    BT_TRY(next.function(device, op, dtype, args, out));
    if (cheat && op == BT_KERNEL_UNARY && dtype == BT_F32) {
        altered = **out;
        honest = altered.launch;
        altered.launch = cheat;
        *out = &altered;
    }
    return BT_OK;
}

bt_status bt_device_open(const char *backend, int ordinal, bt_device *out)
{
    union {
        void *pointer;
        bt_status (*function)(const char *, int, bt_device *);
    } next = {.pointer = dlsym(RTLD_NEXT, "bt_device_open")};
    opened = strcmp(backend, "cuda") == 0 ? out : opened;
    return next.function(backend, ordinal, out);
}

static bt_status on_start(void *self, const bt_train_start *start)
{
    (void)self, (void)start;
    return BT_OK;
}

static bt_status on_kernel(void *self, const bt_train_kernel *kernel)
{
    (void)self, (void)kernel;
    return BT_OK;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bt_status on_samples(void *self, const double *times_ns, int64_t count)
{
    (void)self;
    enum { MOST = 4096 };
    double sorted[MOST];
    const int64_t taken = count < MOST ? count : MOST;
    memcpy(sorted, times_ns, (size_t)taken * sizeof *sorted);
    qsort(sorted, (size_t)taken, sizeof *sorted, by_size);
    median_ns = sorted[taken / 2];
    return BT_OK;
}

static bt_status on_measured(void *self, const bt_case_measured *event)
{
    (void)self, (void)event;
    return BT_OK;
}

static bool goes_on(void *self)
{
    (void)self;
    return false;
}

// GELU of 16 MiB, cold: it fits the L2 of any GPU that has persisting lines.
static bt_status run_case(kernel_launch with)
{
    static const char text[] =
        "{\"kind\":\"kernel\",\"kernel\":{\"op\":\"gelu\",\"direction\":\"forward\",\"dtype\":"
        "\"f32\",\"cache\":\"cold\",\"shape\":\"4194304\",\"seed\":5,\"max_time_s\":1}}";
    bt_json_doc json;
    ASSERT_OK(bt_json_parse("case", text, strlen(text), &json));
    bt_case_work work = {.item = json.root, .device = "cuda"};
    bt_train_result result = {0};
    bt_case_listener listener = {
        .train = {.start = on_start, .kernel = on_kernel, .should_stop = goes_on},
        .samples = on_samples,
        .measured = on_measured};
    cheat = with;
    bt_status status = bt_case_run(&work, &listener, &result);
    behind_ns = result.behind_ns;
    bt_json_doc_release(&json);
    cheat = NULL;
    side = NULL; // its device is closed
    return status;
}

static void work_on_a_side_stream_is_seen(void **state)
{
    (void)state;
    ASSERT_OK(run_case(NULL));
    assert_int_equal(behind_ns, 0);
    ASSERT_OK(run_case(works_on_a_side_stream));
    (void)fprintf(stderr, "side stream: %lld ns behind samples of %.0f ns\n", (long long)behind_ns,
                  median_ns);
    assert_true(behind_ns > 100000);
}

static void persisting_lines_gain_nothing(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(driver);
    *(void **)(&set_attribute) = dlsym(driver, "cuStreamSetAttribute");
    *(void **)(&set_limit) = dlsym(driver, "cuCtxSetLimit");
    assert_true(set_attribute && set_limit);
    ASSERT_OK(run_case(NULL));
    const double plain_ns = median_ns;
    assert_int_equal(set_limit(LIMIT_PERSISTING, 32 << 20), 0);
    ASSERT_OK(run_case(makes_its_input_persist));
    (void)fprintf(stderr, "persisting lines: %.0f ns, without them %.0f ns, %d refusals\n",
                  median_ns, plain_ns, refusals);
    assert_int_equal(refusals, 0);
    assert_true(median_ns > 0.9 * plain_ns);
    (void)set_limit(LIMIT_PERSISTING, 0);
    (void)dlclose(driver);
}

int main(void)
{
    int count = 0;
    if (bt_device_count("cuda", &count) != BT_OK) {
        (void)printf("skipped: %s\n", bt_error_message());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_on_a_side_stream_is_seen),
        cmocka_unit_test(persisting_lines_gain_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
