// tests/unit/test_optim.c - AdamW and the list of parameters that it was made for
#include "framework/nn/layers.h"
#include "framework/optim/adamw.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

static void give_grads(fixture *f, bt_params *params)
{
    for (int64_t i = 0; i < params->count; ++i) {
        bt_tensor *value = params->items[i].value;
        ASSERT_OK(bt_tensor_zeros(&f->context, BT_F32, value->shape, "gradient", &value->grad));
    }
}

static void a_parameter_added_after_init_is_refused(void **state)
{
    (void)state;
    fixture f;
    bt_params params;
    bt_adamw optimizer;
    bt_tensor *value = NULL;
    fixture_open(&f, 0);
    bt_params_init(&params, &f.context, BT_F32, BT_F32, 1);
    ASSERT_OK(bt_params_add(&params, "first", BT_PARAM_COMPUTE, BT_SHAPE(3), 0, 1, &value));
    ASSERT_OK(bt_adamw_init(&params, &(bt_adamw_config){0.9, 0.99, 1e-8, 0.1, 1}, &optimizer));
    give_grads(&f, &params);
    ASSERT_OK(bt_adamw_step(&f.context, &optimizer, 0.1, 1));
    for (int i = 0; i < 40; ++i) {
        const char name[] = {'l', (char)('A' + i), 0};
        ASSERT_OK(bt_params_add(&params, name, BT_PARAM_COMPUTE, BT_SHAPE(3), 0, 1, &value));
    }
    give_grads(&f, &params);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "the list has 41 parameters, the optimizer 1; the first that it lacks is lA",
                 bt_adamw_step(&f.context, &optimizer, 0.1, 1));
    assert_int_equal(optimizer.step, 1);
    bt_params_release(&params);
    bt_adamw_release(&optimizer); // knows what it holds, whatever became of the list
    fixture_close(&f);
}

static void a_width_that_overflows_is_refused(void **state)
{
    (void)state;
    fixture f;
    bt_params params;
    bt_nn_block block;
    const int64_t widths[] = {0, -4, INT64_MAX, INT64_MAX / 4 + 1};
    fixture_open(&f, 0);
    bt_params_init(&params, &f.context, BT_F32, BT_F32, 1);
    for (int i = 0; i < 4; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "width",
                     bt_nn_block_init(&params, "h", widths[i], 1, 1, 1, &block));
        assert_int_equal(params.count, 0);
    }
    bt_params_release(&params);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_added_after_init_is_refused),
        cmocka_unit_test(a_width_that_overflows_is_refused),
    };
    return cmocka_run_group_tests_name("optim", tests, NULL, NULL);
}
