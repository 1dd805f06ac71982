// tests/unit/test_cpu_gemm_values.c - special operands through every GEMM row of the CPU
#include "tests/support/gemm_values.h"
#include "tests/support/test.h"

static const gemm_precision precisions[] = {{BT_F32, BT_F32, BT_COMPUTE_NATIVE},
                                            {BT_F64, BT_F64, BT_COMPUTE_NATIVE},
                                            {BT_BF16, BT_BF16, BT_COMPUTE_NATIVE},
                                            {BT_BF16, BT_F32, BT_COMPUTE_NATIVE}};

static void each_precision(gemm_values values)
{
    bt_device device;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; ++i) {
        assert_true(test_gemm_values(&device, &precisions[i], values) >= 52);
    }
    bt_device_close(&device);
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
    bt_device device;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; ++i) {
        assert_int_equal(test_gemm_small_sizes(&device, &precisions[i]), 6 * 6 * 6 * 4);
    }
    bt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST_VALUES(name, text) cmocka_unit_test(test_##name),
        GEMM_VALUES_LIST(TEST_VALUES)
#undef TEST_VALUES
            cmocka_unit_test(test_small_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
