// Special operands through every GEMM row of the GPU, our own wherever they can (BT_GEMM=own): see
// tests/support/gemm_values.h for the conditions. Also tf32's results for the largest numbers: our
// rows round values within half a last place of 2^128 to infinity.
//
// compute-sanitizer's racecheck fails with an internal error in cuBLASLt's kernels and in our
// clusters of 2 and 3; memcheck reports nothing there:
//   BT_TEST_ROWS=gemm_bf16_sm90 BT_TEST_FILTER=test_HUGE_VALUES compute-sanitizer
//   --tool racecheck --launch-count 40 PROGRAM
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gemm_values.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const gemm_precision precisions[] = {{BT_F32, BT_F32, BT_COMPUTE_NATIVE},
                                            {BT_F32, BT_F32, BT_COMPUTE_TF32},
                                            {BT_BF16, BT_BF16, BT_COMPUTE_NATIVE},
                                            {BT_BF16, BT_F32, BT_COMPUTE_NATIVE}};

static void each_precision(gemm_values values)
{
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; ++i) {
        // One row for any GPU serves each of 52 plain products, and others serve some.
        const int served = test_gemm_values(test_device(), &precisions[i], values);
        assert_true(served > 52 || getenv("BT_TEST_ROWS"));
    }
}

#define TEST_VALUES(name, text)                                                                    \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        each_precision(GEMM_VALUES_##name);                                                        \
    }
GEMM_VALUES_LIST(TEST_VALUES)
#undef TEST_VALUES

static void test_small_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; ++i) {
        const int served = test_gemm_small_sizes(test_device(), &precisions[i]);
        assert_true(served >= 2 * 6 * 6 * 6 * 4 || getenv("BT_TEST_ROWS"));
    }
}

// d = a b of [8,8] matrices whose elements are all a, all b, computed by `row`.
static double product_of(const bt_kernel *row, double a, double b, int layout, bool *served)
{
    enum { SIDE = 8, COUNT = SIDE * SIDE };
    double values[2][COUNT];
    for (int i = 0; i < COUNT; ++i) {
        values[0][i] = a;
        values[1][i] = b;
    }
    const test_twin *left = test_twin_values(BT_F32, values[0], COUNT);
    const test_twin *right = test_twin_values(BT_F32, values[1], COUNT);
    const test_twin *d = test_twin_output(BT_F32, COUNT);
    const bt_gemm_args args = {.m = SIDE,
                               .n = SIDE,
                               .k = SIDE,
                               .batch = 1,
                               .alpha = 1,
                               .a = test_at(left, TEST_NEAR),
                               .b = test_at(right, TEST_NEAR),
                               .d = test_at(d, TEST_NEAR),
                               .lda = SIDE,
                               .ldb = SIDE,
                               .ldc = SIDE,
                               .ldd = SIDE,
                               .trans_a = layout & 1,
                               .trans_b = layout & 2,
                               .ab_dtype = BT_F32,
                               .d_dtype = BT_F32,
                               .compute = BT_COMPUTE_TF32};
    *served = test_gemm_serves(test_device(), row, &args);
    double first = 0;
    if (*served) {
        test_run_row(row, NULL, &args);
        first = test_twin_get(d, TEST_NEAR, 0);
        for (int i = 1; i < COUNT; ++i) {
            assert_true(test_twin_get(d, TEST_NEAR, i) == first);
        }
    }
    test_twins_release();
    return first;
}

// Rounding to nearest makes what is less than half of a last place below 2^128 infinite, as a
// conversion to any narrower type does. Our rows do that; of cuBLASLt's algorithms some do, and
// some cut the lower bits off.
static void test_tf32_of_the_largest(void **state)
{
    (void)state;
    const double largest = 0x1.ffcp127;                                       // of tf32
    const double down = 0x1.ffcffep127, up = (double)FLT_MAX, less = 0x1p-13; // 8 products
    int rows = 0, tested = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        const bool ours = strstr(row->name, "gemm_tf32") != NULL;
        for (int layout = 0; layout < 4 && (ours || strstr(row->name, "gemm_cublaslt_f32"));
             ++layout) {
            bool served;
            test_case_name("%s, layout %d", row->name, layout);
            const double kept = product_of(row, down, less, layout, &served);
            const double edge = product_of(row, up, less, layout, &served);
            const double negative = product_of(row, less, -up, layout, &served);
            const bool cut = !ours && edge == largest * 0x1p-10;
            const double expected = cut ? edge : (double)INFINITY;
            if (served &&
                (kept != largest * 0x1p-10 || edge != expected || negative != -expected)) {
                fail_msg("%s, layout %d: %a, %a, %a", row->name, layout, kept, edge, negative);
            }
            tested += served;
        }
    }
    assert_true(tested >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tf32_of_the_largest),
#define TEST_VALUES(name, text) cmocka_unit_test(test_##name),
        GEMM_VALUES_LIST(TEST_VALUES)
#undef TEST_VALUES
            cmocka_unit_test(test_small_sizes),
    };
    if (setenv("BT_GEMM", "own", 0) != 0 || !test_device_open()) {
        return test_skip("no CUDA device");
    }
    if (getenv("BT_TEST_FILTER")) { // a test's name, for compute-sanitizer
        cmocka_set_test_filter(getenv("BT_TEST_FILTER"));
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
