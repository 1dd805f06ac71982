// tests/support/kernel.h - calling a kernel of the CPU from a test
//
// A test writes its data as doubles; test_buffer holds them in the kernel's type between guard
// bands, and test_kernel runs the kernel with 1, 2, 3 and 5 threads, each time from the same
// contents, and fails unless every run gives the same bits. So each call in a test is also a test
// of invariant 1 of kernels.h.
#ifndef BT_TESTS_SUPPORT_KERNEL_H
#define BT_TESTS_SUPPORT_KERNEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "kernels/kernels.h"

// NAN and INFINITY are floats, and a silent step to double is an error.
#define TEST_NAN      ((double)NAN)
#define TEST_INFINITY ((double)INFINITY)

typedef struct test_buffer {
    bt_dtype dtype;
    int64_t count;
    size_t size_bytes;
    void *data;            // inside of memory
    unsigned char *memory; // owned, with the guard bands
} test_buffer;

// Values rounded to f32, so that f32 and f64 runs see the same numbers; NULL: all bytes 0xFF (NaN).
test_buffer test_buffer_make(bt_dtype dtype, const double *values, int64_t count);
test_buffer test_buffer_integers(const int32_t *values, int64_t count);
// Fails when a guard band was written to.
void test_buffer_read(const test_buffer *buffer, double *values);
void test_buffer_release(test_buffer *buffer);

// Reproducible numbers in [low, high], exactly representable in f32.
void test_random(double *values, int64_t count, uint64_t seed, double low, double high);
// A block of `count` doubles, zeroed; free() it.
double *test_doubles(int64_t count);

// Runs the row that serves the call on the CPU. `outputs` are the buffers that it may change, and
// in them what operands.inl says it writes.
void test_kernel(bt_kernel_op op, bt_dtype dtype, const void *args, test_buffer **outputs,
                 int output_count);
// What the call returned, without any check.
bt_status test_kernel_status(bt_kernel_op op, bt_dtype dtype, const void *args);

#define TEST_KERNEL(op, dtype, args, ...)                                                          \
    do {                                                                                           \
        test_buffer *kernel_outputs[] = {__VA_ARGS__};                                             \
        test_kernel(op, dtype, args, kernel_outputs,                                               \
                    (int)(sizeof kernel_outputs / sizeof kernel_outputs[0]));                      \
    } while (0)

#endif
