// tests/conformance/test_train_faults.c - watching over a run on a GPU changes none of its bits
#include <string.h>

#include "tests/support/small_train.h"
#include "tests/support/test.h"

static int64_t faults;

static bt_status on_fault(void *self, const bt_train_fault *event)
{
    (void)self;
    print_message("step %lld: %s, %s: %s\n", (long long)event->step,
                  bt_train_fault_name(event->kind), event->action, event->message);
    ++faults;
    return BT_OK;
}

static void train(const bt_train_plan *plan, bt_ranges *ranges, bt_train_result *result)
{
    const bt_train_observer observer = {.fault = on_fault, .ranges = ranges};
    faults = 0;
    ASSERT_OK(bt_train_run(plan, &observer, result));
    assert_int_equal(faults, 0);
}

static void bits_are_the_same_under_every_watch(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        bt_train_plan plan = small_train_plan();
        bt_train_result expected, result;
        bt_ranges ranges = {0};
        plan.device = "cuda";
        plan.precision = (bt_precision)precision;
        plan.model.width = 128; // heads of 64
        train(&plan, NULL, &expected);
        plan.on_nonfinite = BT_TRAIN_POLICY_SKIP;
        train(&plan, &ranges, &result);
        assert_string_equal(result.state_digest, expected.state_digest);
        assert_true(bt_ranges_moves(&ranges) > 1000 && ranges.depth == 0);
        plan.verify_every = 3;
        train(&plan, NULL, &result); // a replay that differs would be a fault
        assert_string_equal(result.state_digest, expected.state_digest);
        plan.anomaly = true;
        train(&plan, NULL, &result);
        assert_string_equal(result.state_digest, expected.state_digest);
    }
}

// A learning rate at which the parameters leave the range of floats: the replay in anomaly mode
// names an op, on the device as on the CPU.
static void a_run_that_diverges_is_explained(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    const bt_train_observer observer = {0};
    bt_train_result result;
    plan.device = "cuda";
    plan.model.width = 128;
    plan.optimizer.lr = 9e5;
    plan.optimizer.min_lr = 9e5;
    plan.optimizer.warmup_steps = 0;
    plan.optimizer.weight_decay = 9e5; // weights grow by 8e11 a step
    plan.steps = 20;
    plan.eval_every = 0;
    plan.on_nonfinite = BT_TRAIN_POLICY_STOP;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "a replay gives it too",
                 bt_train_run(&plan, &observer, &result));
}

int main(void)
{
    int count = 0;
    if (bt_device_count("cuda", &count) != BT_OK) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same_under_every_watch),
        cmocka_unit_test(a_run_that_diverges_is_explained),
    };
    return cmocka_run_group_tests_name("watching over training on a GPU", tests, small_corpus_write,
                                       small_corpus_remove);
}
