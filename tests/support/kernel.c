// tests/support/kernel.c - guarded buffers, and kernels run at several thread counts
#include "tests/support/kernel.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "kernels/operands.h"
#include "tests/support/test.h"

enum { GUARD_BYTES = 256, GUARD = 0xA5, MAX_OUTPUTS = 8 };

static void *checked_alloc(size_t size_bytes)
{
    void *block = calloc(1, size_bytes ? size_bytes : 1);
    assert_non_null(block);
    return block;
}

double *test_doubles(int64_t count) { return checked_alloc((size_t)count * sizeof(double)); }

void test_random(double *values, int64_t count, uint64_t seed, double low, double high)
{
    bt_rng rng = {seed, 77};
    for (int64_t i = 0; i < count; ++i) {
        float unit = bt_rng_uniform(rng, (uint64_t)i);
        values[i] = (double)(float)(low + (high - low) * (double)unit);
    }
}

static test_buffer make_empty(bt_dtype dtype, int64_t count)
{
    test_buffer buffer = {.dtype = dtype, .count = count};
    buffer.size_bytes = (size_t)count * bt_dtype_size(dtype);
    size_t rounded = (buffer.size_bytes + 255) / 256 * 256;
    buffer.memory = aligned_alloc(256, rounded + (size_t)2 * GUARD_BYTES);
    assert_non_null(buffer.memory);
    buffer.data = buffer.memory + GUARD_BYTES;
    memset(buffer.memory, GUARD, rounded + (size_t)2 * GUARD_BYTES);
    memset(buffer.data, 0xFF, buffer.size_bytes);
    return buffer;
}

test_buffer test_buffer_make(bt_dtype dtype, const double *values, int64_t count)
{
    test_buffer buffer = make_empty(dtype, count);
    for (int64_t i = 0; values && i < count; ++i) {
        if (dtype == BT_F32) {
            ((float *)buffer.data)[i] = (float)values[i];
        } else if (dtype == BT_BF16) {
            ((uint16_t *)buffer.data)[i] = bt_f32_to_bf16((float)values[i]);
        } else {
            assert_int_equal(dtype, BT_F64);
            ((double *)buffer.data)[i] = (double)(float)values[i];
        }
    }
    return buffer;
}

test_buffer test_buffer_integers(const int32_t *values, int64_t count)
{
    test_buffer buffer = make_empty(BT_I32, count);
    if (count) {
        memcpy(buffer.data, values, buffer.size_bytes);
    }
    return buffer;
}

static void check_guards(const test_buffer *buffer)
{
    const unsigned char *after = (const unsigned char *)buffer->data + buffer->size_bytes;
    for (int i = 0; i < GUARD_BYTES; ++i) {
        assert_int_equal(buffer->memory[i], GUARD);
        assert_int_equal(after[i], GUARD);
    }
}

void test_buffer_read(const test_buffer *buffer, double *values)
{
    check_guards(buffer);
    for (int64_t i = 0; i < buffer->count; ++i) {
        values[i] = buffer->dtype == BT_F32 ? (double)((const float *)buffer->data)[i]
                    : buffer->dtype == BT_BF16
                        ? (double)bt_bf16_to_f32(((const uint16_t *)buffer->data)[i])
                        : ((const double *)buffer->data)[i];
    }
}

void test_buffer_release(test_buffer *buffer)
{
    check_guards(buffer);
    free(buffer->memory);
    *buffer = (test_buffer){0};
}

static bt_status run_once(bt_kernel_op op, bt_dtype dtype, const void *args)
{
    bt_device device;
    const bt_kernel *kernel = NULL;
    BT_TRY(bt_device_open("cpu", 0, &device));
    BT_TRY(bt_kernel_find(&device, op, dtype, args, &kernel));
    size_t workspace_bytes = kernel->workspace ? kernel->workspace(&device, args) : 0;
    // 0xFF bytes: a workspace that is read before it is written shows.
    test_buffer workspace = make_empty(BT_U8, (int64_t)workspace_bytes);
    bt_launch launch = {&device, NULL, workspace.data, workspace_bytes, 0};
    bt_status status = kernel->launch(&launch, args);
    test_buffer_release(&workspace);
    bt_device_close(&device);
    return status;
}

bt_status test_kernel_status(bt_kernel_op op, bt_dtype dtype, const void *args)
{
    return run_once(op, dtype, args);
}

// Marks those bytes of an output that one of the operands, by operands.inl, covers as written; they
// must end in it.
static void mark_written(const bt_kernel_operand *operands, int count, const test_buffer *output,
                         unsigned char *written)
{
    const char *data = output->data;
    for (int i = 0; i < count; ++i) {
        const bt_kernel_operand *x = &operands[i];
        const char *at = x->pointer;
        const size_t bytes = (size_t)x->span * bt_dtype_size(x->dtype);
        if (x->writes && at >= data && at < data + output->size_bytes) {
            assert_true(at + bytes <= data + output->size_bytes);
            memset(written + (at - data), 1, bytes);
        }
    }
}

// What operands.inl does not call written is as it was.
static void check_written(bt_kernel_op op, const void *args, const test_buffer *output,
                          const void *before)
{
    bt_kernel_operand operands[BT_KERNEL_OPERANDS_MOST];
    unsigned char *written = checked_alloc(output->size_bytes);
    mark_written(operands, bt_kernel_operands_of(op, args, operands), output, written);
    for (int64_t item = 0; item < bt_kernel_operands_item_count(op, args); ++item) {
        mark_written(operands, bt_kernel_operands_of_item(op, args, item, operands), output,
                     written);
    }
    for (size_t i = 0; i < output->size_bytes; ++i) {
        if (!written[i] && ((const char *)output->data)[i] != ((const char *)before)[i]) {
            fail_msg("%s: byte %zu of an output changed, which operands.inl does not call written",
                     bt_kernel_op_name(op), i);
        }
    }
    free(written);
}

void test_kernel(bt_kernel_op op, bt_dtype dtype, const void *args, test_buffer **outputs,
                 int output_count)
{
    static const int threads[] = {1, 3, 2, 5};
    enum { RUNS = TEST_SANITIZED ? 2 : 4 };
    const int usual = omp_get_max_threads();
    void *before[MAX_OUTPUTS], *first[MAX_OUTPUTS];
    assert_true(output_count <= MAX_OUTPUTS);
    for (int i = 0; i < output_count; ++i) {
        before[i] = checked_alloc(outputs[i]->size_bytes);
        first[i] = checked_alloc(outputs[i]->size_bytes);
        memcpy(before[i], outputs[i]->data, outputs[i]->size_bytes);
    }
    for (int run = 0; run < RUNS; ++run) {
        omp_set_num_threads(threads[run]);
        ASSERT_OK(run_once(op, dtype, args));
        for (int i = 0; i < output_count; ++i) {
            void *data = outputs[i]->data;
            const size_t size_bytes = outputs[i]->size_bytes;
            check_guards(outputs[i]);
            check_written(op, args, outputs[i], before[i]);
            if (run == 0) {
                memcpy(first[i], data, size_bytes);
            } else if (memcmp(first[i], data, size_bytes) != 0) {
                fail_msg("%s %s: output %d differs between 1 and %d threads", bt_kernel_op_name(op),
                         bt_dtype_name(dtype), i, threads[run]);
            }
            if (run < RUNS - 1) {
                memcpy(data, before[i], size_bytes);
            }
        }
    }
    omp_set_num_threads(usual);
    for (int i = 0; i < output_count; ++i) {
        free(before[i]);
        free(first[i]);
    }
}
