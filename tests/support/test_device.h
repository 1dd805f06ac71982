// tests/support/test_device.h - a kernel of the GPU against the same op of the CPU in double
//
// A twin is an operand on both sides: on the GPU in the type under test, between guard bands, at
// any offset from alignment; on the host in double (integers stay what they are), holding exactly
// the values that the GPU's type can hold. test_run gives the call to the CPU once and to the GPU
// several times, each time from the same contents, and fails unless
//   - every launch gives the same bits, in outputs and in nothing else (inputs do not change)
//   - nothing outside of the operands and of the workspace that was asked for is written to.
// The workspace and fresh outputs are poisoned (0xFF, a NaN), so what is read unwritten shows.
#ifndef BT_TESTS_SUPPORT_TEST_DEVICE_H
#define BT_TESTS_SUPPORT_TEST_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

typedef enum test_side { TEST_HOST, TEST_NEAR, TEST_SIDES } test_side;

typedef struct test_twin {
    bt_dtype dtype; // on the GPU
    int64_t count;
    bool output;
    void *host;            // owned: f64 for floats, else dtype
    void *near;            // inside of near_memory
    void *near_memory;     // owned, device memory
    unsigned char *image;  // owned: what near_memory holds before a run
    unsigned char *result; // owned: what it held after the last test_run
    size_t size_bytes, begin_bytes, total_bytes;
} test_twin;

// Opens the GPU and the CPU. False, with the reason on standard output, when there is no GPU.
bool test_device_open(void);
void test_device_close(void);
// The GPU, for tests that call it by themselves.
bt_device *test_device(void);

// The argument of a test program: `wide` runs its sweeps in full, which may take an hour; another
// one names the tests to run, for compute-sanitizer.
void test_device_arguments(int argc, char **argv);
bool test_is_wide(void);
// How often test_run launches from now on, 3 times at first. busy: from the second launch on
// another stream has work, so that blocks of the kernel start in another order.
void test_device_launches(int launches, bool busy);

// Names the case at hand in the messages of failures.
void test_case_name(const char *format, ...) BT_PRINTF(1, 2);
// Elements by which the operands made from now on are off 16-byte alignment.
void test_twin_offset(int64_t elements);
// Uniform in [low, high], rounded to dtype. The same seed gives the same numbers.
test_twin *test_twin_random(bt_dtype dtype, int64_t count, uint64_t seed, double low, double high);
// The same, and the call may change it.
test_twin *test_twin_inout(bt_dtype dtype, int64_t count, uint64_t seed, double low, double high);
// Poisoned, written by the call.
test_twin *test_twin_output(bt_dtype dtype, int64_t count);
// Integers (i32, i64) or floats as given, rounded to dtype.
test_twin *test_twin_values(bt_dtype dtype, const double *values, int64_t count);
void test_twin_set(test_twin *twin, int64_t at, double value);
// Forgets all twins made so far.
void test_twins_release(void);

// The operand's address on a side (NULL for no twin), and its type there.
void *test_at(const test_twin *twin, test_side side);
bt_dtype test_type(bt_dtype dtype, test_side side);

// Runs the rows that serve the calls. Fails the test when one of the two sides has none.
void test_run(bt_kernel_op op, bt_dtype dtype, const void *host_args, const void *near_args);
// The same with a row of the caller's choosing; without host_args the CPU is not asked again.
void test_run_row(const bt_kernel *row, const void *host_args, const void *near_args);
// The same by one of the row's plans; NULL for the row's own choice.
void test_run_plan(const bt_kernel *row, const bt_kernel_plan *plan, const void *host_args,
                   const void *near_args);
// |got - expected| <= absolute + relative |expected| for each element; NaN and infinities must be
// the same on both sides.
void test_twin_check(const test_twin *twin, double absolute, double relative, const char *what);
// An element after a run, on either side.
double test_twin_get(const test_twin *twin, test_side side, int64_t at);

#endif
