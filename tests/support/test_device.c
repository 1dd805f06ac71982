// tests/support/test_device.c - twins, and runs on both sides
#include "tests/support/test_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"

enum {
    GUARD_BYTES = 256,
    GUARD = 0xA5,
    POISON = 0xFF,
    MAX_TWINS = 64,
    LAUNCHES = 3,
    BUSY_BYTES = 16 << 20
};

static bt_device gpu;
static bt_device cpu;
static test_twin *twins[MAX_TWINS];
static int twin_count;
static int64_t offset;
static char case_name[160];
static bool is_wide;
static int launches = LAUNCHES;
static bool busy;
static bt_stream busy_stream; // owned, made when it is first needed
static void *busy_block;      // owned, device memory, likewise

bool test_device_open(void)
{
    if (bt_device_open("cuda", 0, &gpu) != BT_OK) {
        printf("unavailable: %s\n", bt_error_message());
        return false;
    }
    return bt_device_open("cpu", 0, &cpu) == BT_OK;
}

void test_device_close(void)
{
    if (busy_block) {
        gpu.backend->stream_destroy(&gpu, busy_stream);
        gpu.backend->memory_free(&gpu, busy_block);
        busy_block = NULL;
    }
    bt_device_close(&gpu);
    bt_device_close(&cpu);
}

bt_device *test_device(void) { return &gpu; }

void test_device_arguments(int argc, char **argv)
{
    is_wide = argc > 1 && strcmp(argv[1], "wide") == 0;
    if (argc > 1 && !is_wide) {
        cmocka_set_test_filter(argv[1]);
    }
}

bool test_is_wide(void) { return is_wide; }

void test_device_launches(int count, bool beside)
{
    launches = count;
    busy = beside;
}

// Fills memory on another stream `times` times.
static void keep_busy(int times)
{
    if (!busy_block) {
        ASSERT_OK(gpu.backend->memory_alloc(&gpu, BUSY_BYTES, &busy_block));
        ASSERT_OK(gpu.backend->stream_create(&gpu, false, &busy_stream));
    }
    for (int i = 0; i < times; ++i) {
        ASSERT_OK(gpu.backend->fill(&gpu, busy_block, 0, BUSY_BYTES, busy_stream));
    }
}

void test_case_name(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(case_name, sizeof case_name, format, arguments);
    va_end(arguments);
}

void test_twin_offset(int64_t elements) { offset = elements; }

static void *checked_alloc(size_t size_bytes)
{
    void *block = calloc(1, size_bytes ? size_bytes : 1);
    assert_non_null(block);
    return block;
}

static test_twin *make_twin(bt_dtype dtype, int64_t count)
{
    test_twin *twin = checked_alloc(sizeof *twin);
    size_t size = bt_dtype_size(dtype);
    assert_true(twin_count < MAX_TWINS);
    twins[twin_count++] = twin;
    twin->dtype = dtype;
    twin->count = count;
    twin->size_bytes = (size_t)count * size;
    twin->begin_bytes = GUARD_BYTES + (size_t)offset * size;
    twin->total_bytes = twin->begin_bytes + twin->size_bytes + GUARD_BYTES;
    twin->host = checked_alloc((size_t)count * (bt_dtype_is_float(dtype) ? sizeof(double) : size));
    twin->image = checked_alloc(twin->total_bytes);
    twin->result = checked_alloc(twin->total_bytes);
    memset(twin->image, GUARD, twin->total_bytes);
    memset(twin->image + twin->begin_bytes, POISON, twin->size_bytes);
    ASSERT_OK(gpu.backend->memory_alloc(&gpu, twin->total_bytes, &twin->near_memory));
    twin->near = (unsigned char *)twin->near_memory + twin->begin_bytes;
    return twin;
}

void test_twin_set(test_twin *twin, int64_t at, double value)
{
    unsigned char *near = twin->image + twin->begin_bytes + (size_t)at * bt_dtype_size(twin->dtype);
    float single = (float)value;
    uint16_t half = bt_f32_to_bf16(single);
    int32_t small = bt_dtype_is_float(twin->dtype) ? 0 : (int32_t)value;
    switch ((int)twin->dtype) {
    case BT_F32:
        memcpy(near, &single, sizeof single);
        ((double *)twin->host)[at] = (double)single;
        break;
    case BT_BF16:
        memcpy(near, &half, sizeof half);
        ((double *)twin->host)[at] = (double)bt_bf16_to_f32(half);
        break;
    case BT_F64:
        memcpy(near, &value, sizeof value);
        ((double *)twin->host)[at] = value;
        break;
    case BT_I32:
        memcpy(near, &small, sizeof small);
        ((int32_t *)twin->host)[at] = small;
        break;
    default:
        fail_msg("no twins of %s", bt_dtype_name(twin->dtype));
    }
}

test_twin *test_twin_random(bt_dtype dtype, int64_t count, uint64_t seed, double low, double high)
{
    test_twin *twin = make_twin(dtype, count);
    bt_rng rng = {seed, 4711};
    for (int64_t i = 0; i < count; ++i) {
        double unit = (double)bt_rng_uniform(rng, (uint64_t)i);
        test_twin_set(twin, i, low + (high - low) * unit);
    }
    return twin;
}

test_twin *test_twin_inout(bt_dtype dtype, int64_t count, uint64_t seed, double low, double high)
{
    test_twin *twin = test_twin_random(dtype, count, seed, low, high);
    twin->output = true;
    return twin;
}

test_twin *test_twin_output(bt_dtype dtype, int64_t count)
{
    test_twin *twin = make_twin(dtype, count);
    twin->output = true;
    for (int64_t i = 0; bt_dtype_is_float(dtype) && i < count; ++i) {
        ((double *)twin->host)[i] = (double)NAN;
    }
    return twin;
}

test_twin *test_twin_values(bt_dtype dtype, const double *values, int64_t count)
{
    test_twin *twin = make_twin(dtype, count);
    for (int64_t i = 0; i < count; ++i) {
        test_twin_set(twin, i, values[i]);
    }
    return twin;
}

void test_twins_release(void)
{
    for (int i = 0; i < twin_count; ++i) {
        gpu.backend->memory_free(&gpu, twins[i]->near_memory);
        free(twins[i]->host);
        free(twins[i]->image);
        free(twins[i]->result);
        free(twins[i]);
    }
    twin_count = 0;
}

void *test_at(const test_twin *twin, test_side side)
{
    return !twin ? NULL : side == TEST_HOST ? twin->host : twin->near;
}

bt_dtype test_type(bt_dtype dtype, test_side side)
{
    return side == TEST_HOST && bt_dtype_is_float(dtype) ? BT_F64 : dtype;
}

static void run_host(bt_kernel_op op, const void *args)
{
    const bt_kernel *row = NULL;
    bt_launch launch = {.device = &cpu};
    ASSERT_OK(bt_kernel_find(&cpu, op, BT_F64, args, &row));
    if (row->workspace) {
        launch.workspace_bytes = row->workspace(&cpu, args);
        ASSERT_OK(cpu.backend->memory_alloc(&cpu, launch.workspace_bytes, &launch.workspace));
    }
    ASSERT_OK(row->launch(&launch, args));
    cpu.backend->memory_free(&cpu, launch.workspace);
}

// The operands after a run: guards whole, inputs untouched, outputs as the first time.
static void check_after(bt_kernel_op op, test_twin *twin, bool first)
{
    unsigned char *now = checked_alloc(twin->total_bytes);
    ASSERT_OK(gpu.backend->copy(&gpu, now, twin->near_memory, twin->total_bytes,
                                BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(gpu.backend->stream_synchronize(&gpu, NULL));
    size_t end = twin->begin_bytes + twin->size_bytes;
    if (memcmp(now, twin->image, twin->begin_bytes) != 0 ||
        memcmp(now + end, twin->image + end, twin->total_bytes - end) != 0) {
        fail_msg("%s: %s writes outside of an operand of %lld elements", case_name,
                 bt_kernel_op_name(op), (long long)twin->count);
    }
    if (!twin->output && memcmp(now, twin->image, twin->total_bytes) != 0) {
        fail_msg("%s: %s changes an input", case_name, bt_kernel_op_name(op));
    }
    if (!first && memcmp(now, twin->result, twin->total_bytes) != 0) {
        fail_msg("%s: %s gives other bits the next time", case_name, bt_kernel_op_name(op));
    }
    memcpy(twin->result, now, twin->total_bytes);
    free(now);
}

static void check_workspace(bt_kernel_op op, const unsigned char *memory, size_t size_bytes)
{
    unsigned char guard[GUARD_BYTES];
    ASSERT_OK(gpu.backend->copy(&gpu, guard, memory + size_bytes, sizeof guard,
                                BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(gpu.backend->stream_synchronize(&gpu, NULL));
    for (size_t i = 0; i < sizeof guard; ++i) {
        if (guard[i] != POISON) {
            fail_msg("%s: %s writes behind its workspace of %zu bytes", case_name,
                     bt_kernel_op_name(op), size_bytes);
        }
    }
}

void test_run(bt_kernel_op op, bt_dtype dtype, const void *host_args, const void *near_args)
{
    const bt_kernel *row = NULL;
    ASSERT_OK(bt_kernel_find(&gpu, op, dtype, near_args, &row));
    test_run_row(row, host_args, near_args);
}

void test_run_row(const bt_kernel *row, const void *host_args, const void *near_args)
{
    test_run_plan(row, NULL, host_args, near_args);
}

void test_run_plan(const bt_kernel *row, const bt_kernel_plan *plan, const void *host_args,
                   const void *near_args)
{
    const bt_kernel_op op = row->op;
    bt_launch launch = {.device = &gpu, .plan = plan ? plan->number : 0};
    launch.workspace_bytes = plan             ? plan->workspace_bytes
                             : row->workspace ? row->workspace(&gpu, near_args)
                                              : 0;
    ASSERT_OK(
        gpu.backend->memory_alloc(&gpu, launch.workspace_bytes + GUARD_BYTES, &launch.workspace));
    for (int repeat = 0; repeat < launches; ++repeat) {
        for (int i = 0; i < twin_count; ++i) {
            ASSERT_OK(gpu.backend->copy(&gpu, twins[i]->near_memory, twins[i]->image,
                                        twins[i]->total_bytes, BT_COPY_HOST_TO_DEVICE, NULL));
        }
        ASSERT_OK(gpu.backend->fill(&gpu, launch.workspace, POISON,
                                    launch.workspace_bytes + GUARD_BYTES, NULL));
        if (busy) {
            keep_busy(repeat);
        }
        ASSERT_OK(bt_error_context(row->launch(&launch, near_args), "%s", case_name));
        ASSERT_OK(bt_error_context(gpu.backend->stream_synchronize(&gpu, NULL), "%s", case_name));
        for (int i = 0; i < twin_count; ++i) {
            check_after(op, twins[i], repeat == 0);
        }
        check_workspace(op, launch.workspace, launch.workspace_bytes);
    }
    gpu.backend->memory_free(&gpu, launch.workspace);
    if (host_args) {
        run_host(op, host_args);
    }
}

double test_twin_get(const test_twin *twin, test_side side, int64_t at)
{
    size_t size = bt_dtype_size(twin->dtype);
    bool floating = bt_dtype_is_float(twin->dtype);
    const unsigned char *from = twin->result + twin->begin_bytes + (size_t)at * size;
    if (side == TEST_HOST && floating) {
        return ((const double *)twin->host)[at];
    }
    if (side == TEST_HOST) {
        from = (const unsigned char *)twin->host + (size_t)at * size;
    }
    float single = 0;
    uint16_t half = 0;
    double wide = 0;
    int32_t small = 0;
    int64_t large = 0;
    switch ((int)twin->dtype) {
    case BT_F32:
        memcpy(&single, from, sizeof single);
        return (double)single;
    case BT_BF16:
        memcpy(&half, from, sizeof half);
        return (double)bt_bf16_to_f32(half);
    case BT_F64:
        memcpy(&wide, from, sizeof wide);
        return wide;
    case BT_I32:
        memcpy(&small, from, sizeof small);
        return small;
    default:
        memcpy(&large, from, sizeof large);
        return (double)large;
    }
}

void test_twin_check(const test_twin *twin, double absolute, double relative, const char *what)
{
    for (int64_t i = 0; i < twin->count; ++i) {
        double got = test_twin_get(twin, TEST_NEAR, i);
        double expected = test_twin_get(twin, TEST_HOST, i);
        double bound = absolute + relative * fabs(expected);
        if ((isnan(got) && isnan(expected)) ||
            (isinf(got) && isinf(expected) && signbit(got) == signbit(expected))) {
            continue;
        }
        if (!(fabs(got - expected) <= bound)) {
            fail_msg("%s: %s, %s[%lld of %lld]: got %.9g, expected %.9g, error %.3g > %.3g",
                     case_name, what, bt_dtype_name(twin->dtype), (long long)i,
                     (long long)twin->count, got, expected, fabs(got - expected), bound);
        }
    }
}
