// tests/unit/test_overlap.c - what a CUDA kernel may do, by device and by what it was compiled for
#include "kernels/cuda/gemm/arch_sm90.h"
#include "kernels/cuda/overlap.h"
#include "tests/support/test.h"

static void only_code_with_waits_may_overlap(void **state)
{
    (void)state;
    const struct {
        int arch, ptx_version, binary_version;
        bool safe;
        const char *what;
    } rows[] = {
        {80, 80, 80, false, "A100: the device cannot"},
        {89, 89, 89, false, "L4: the device cannot"},
        {90, 90, 90, true, "H200, machine code for 9.0a"},
        {90, 89, 90, false, "H200, PTX of 8.9 compiled by the driver: no waits"},
        {90, 80, 80, false, "H200 would never load this; refused all the same"},
        {100, 89, 100, false, "B200, PTX of 8.9"},
        {100, 90, 100, true, "B200, PTX of 9.0"},
        {120, 89, 120, false, "RTX 5090, PTX of 8.9: what a default build gives it"},
        {120, 80, 120, false, "RTX 5090, PTX of 8.0"},
        {120, 120, 120, true, "RTX 5090, machine code of its own"},
        {80, 90, 80, false, "newer code on an older device"},
        {120, 0, 0, false, "nothing known of the code"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if (bt_overlap_is_safe(rows[i].arch, rows[i].ptx_version, rows[i].binary_version) !=
            rows[i].safe) {
            fail_msg("%s: expected %d", rows[i].what, (int)rows[i].safe);
        }
    }
}

static void kernels_for_hopper_need_their_code(void **state)
{
    (void)state;
    assert_true(bt_sm90_code_runs(90, true));
    assert_false(bt_sm90_code_runs(90, false)); // a build without 90a: their bodies are empty
    assert_false(bt_sm90_code_runs(80, true));
    assert_false(bt_sm90_code_runs(100, true)); // code of 9.0a runs on 9.0 alone
    assert_false(bt_sm90_code_runs(120, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_code_with_waits_may_overlap),
        cmocka_unit_test(kernels_for_hopper_need_their_code),
    };
    return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
