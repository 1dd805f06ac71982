// tests/conformance/test_train_resume.c - on a GPU, a run that was killed and continues from a
// checkpoint has the bits of one that was never stopped, in every precision
#include "tests/support/test.h"
#include "tests/support/train_child.h"

static bt_train_plan gpu_plan(const char *folder, int precision, int mode)
{
    bt_train_plan plan = train_child_plan(folder);
    plan.device = "cuda";
    plan.precision = (bt_precision)precision;
    plan.model.width = 128; // heads of 64
    plan.recompute = mode == 2 ? BT_RECOMPUTE_BLOCK : BT_RECOMPUTE_NONE;
    plan.checkpoints.asynchronous = mode > 0;
    plan.checkpoints.host_snapshot = mode == 2;
    return plan;
}

// Synchronous; asynchronous by a copy on the device; asynchronous by a copy to the host, with
// recomputed activations. Across the end of an epoch, step 15.
static void resumed_bits_are_those_of_the_whole_run(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        train_history whole = {0};
        for (int mode = 0; mode < 3; ++mode) {
            char folder[TEST_FOLDER_CAPACITY];
            bt_train_plan plan = gpu_plan(checkpoint_folder_make(folder), precision, mode);
            print_message("%s, mode %d\n", bt_precision_name(plan.precision), mode);
            if (mode == 0) {
                plan.checkpoints.every_steps = 0;
                whole = train_child_well(&plan, 1);
            }
            plan.checkpoints.every_steps = 3;
            (void)train_child(&plan, 1, 13, -1);
            plan.checkpoints.resume = true;
            (void)train_child(&plan, 1, 20, -1);
            const train_history last = train_child_well(&plan, 1);
            assert_true(last.loaded > (mode == 0 ? 17 : 0));
            train_histories_expect_same(&whole, &last);
            checkpoint_folder_remove(folder);
        }
    }
}

// A run resumes on a GPU from a checkpoint of the CPU, and the reverse: the same state, other sums.
static void checkpoints_move_between_devices(void **state)
{
    (void)state;
    for (int from_gpu = 0; from_gpu < 2; ++from_gpu) {
        char folder[TEST_FOLDER_CAPACITY];
        bt_train_plan plan = gpu_plan(checkpoint_folder_make(folder), BT_PRECISION_FP32, 0);
        plan.device = from_gpu ? "cuda" : "cpu";
        const train_history whole = train_child_well(&plan, 1);
        plan.device = from_gpu ? "cpu" : "cuda";
        plan.checkpoints.resume = true;
        const train_history other = train_child_well(&plan, 1);
        assert_int_equal(other.loaded, 20);
        for (int64_t step = other.loaded; step < CHILD_STEPS; ++step) {
            const float error = other.loss[step] / whole.loss[step] - 1.0F;
            assert_true(error < 1e-4F && error > -1e-4F);
        }
        checkpoint_folder_remove(folder);
    }
}

int main(void)
{
    if (!train_child_can_use("cuda")) {
        return test_skip("no GPU");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_bits_are_those_of_the_whole_run),
        cmocka_unit_test(checkpoints_move_between_devices),
    };
    return cmocka_run_group_tests_name("resume on a GPU", tests, train_child_setup,
                                       train_child_remove);
}
