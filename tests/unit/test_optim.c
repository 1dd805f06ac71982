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
                 "the list has 41 parameters, the optimizer 1; the first missing one is lA",
                 bt_adamw_step(&f.context, &optimizer, 0.1, 1));
    assert_int_equal(optimizer.step, 1);
    bt_params_release(&params);
    bt_adamw_release(&optimizer); // records its contents, independent of the list
    fixture_close(&f);
}

// The memory of the released tensor is used again, and keeps its values.
static void uninitialised_parameters_are_not_sampled(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    for (int uninitialised = 0; uninitialised < 2; ++uninitialised) {
        fixture f;
        bt_params params;
        bt_tensor *value = NULL, *before = NULL;
        fixture_open(&f, 0);
        ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(COUNT), "before", &before));
        const void *memory = bt_tensor_data(before);
        bt_tensor_release(before);
        bt_params_init(&params, &f.context, BT_F32, BT_F32, 1);
        params.uninitialised = uninitialised;
        ASSERT_OK(bt_params_add(&params, "p", BT_PARAM_MASTER, BT_SHAPE(COUNT), 3, 0, &value));
        const float *values = bt_tensor_data(value);
        assert_ptr_equal(values, memory);
        for (int i = 0; i < COUNT; ++i) {
            assert_true(values[i] == (uninitialised ? 0.0F : 3.0F));
        }
        bt_params_release(&params);
        fixture_close(&f);
    }
}

enum { BLOCK = BT_SQUARES_BLOCK, ROWS = 3, COLS = BLOCK - 100, VECTOR = 5 };

// A matrix and a vector with random gradients.
static void open_pair(fixture *f, bt_params *params, bt_dtype compute)
{
    bt_tensor *value = NULL;
    fixture_open(f, 0);
    bt_params_init(params, &f->context, BT_F32, compute, 1);
    ASSERT_OK(
        bt_params_add(params, "matrix", BT_PARAM_COMPUTE, BT_SHAPE(ROWS, COLS), 0, 1, &value));
    value->grad = fixture_random(f, BT_F32, value->shape, -1, 1, 7);
    ASSERT_OK(bt_params_add(params, "vector", BT_PARAM_MASTER, BT_SHAPE(VECTOR), 0, 1, &value));
    value->grad = fixture_random(f, BT_F32, value->shape, -1, 1, 8);
}

static void close_pair(fixture *f, bt_params *params)
{
    bt_params_release(params);
    fixture_close(f);
}

// Three optimizers with a part each, their partial sums brought together, do what one does.
static void slices_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    enum { PARTS = 3 };
    static const bt_adamw_slice parts[PARTS][2] = {
        {{.param = 0, .offset = 0, .count = BLOCK}, {.param = 1, .count = VECTOR}},
        {{.param = 0, .offset = BLOCK, .count = BLOCK}, {.param = 1, .count = 0}},
        {{.param = 0, .offset = 2 * BLOCK, .count = ROWS * COLS - 2 * BLOCK},
         {.param = 1, .count = 0}}};
    static const bt_dtype computes[] = {BT_F32, BT_BF16};
    const bt_adamw_config config = {0.9, 0.99, 1e-8, 0.1, 1};
    for (int c = 0; c < 2; ++c) {
        fixture f[2];
        bt_params params[2];
        bt_adamw whole, part[PARTS];
        bt_tensor *partials = NULL, *grads[2];
        open_pair(&f[0], &params[0], computes[c]);
        open_pair(&f[1], &params[1], computes[c]);
        ASSERT_OK(bt_adamw_init(&params[0], &config, &whole));
        ASSERT_OK(bt_adamw_step(&f[0].context, &whole, 0.1, 0.5));
        for (int i = 0; i < PARTS; ++i) {
            ASSERT_OK(bt_adamw_init_slices(&params[1], &config, parts[i], 2, &part[i]));
        }
        assert_int_equal(bt_adamw_partial_count(&part[0]), 4);
        ASSERT_OK(bt_tensor_zeros(&f[1].context, BT_F64, BT_SHAPE(4), "partials", &partials));
        for (int i = 0; i < PARTS; ++i) {
            ASSERT_OK(bt_adamw_squares(&f[1].context, &part[i], partials));
        }
        for (int i = 0; i < 2; ++i) {
            grads[i] = bt_tensor_retain(params[1].items[i].value->grad);
        }
        for (int i = 0; i < PARTS; ++i) {
            for (int p = 0; p < 2; ++p) { // the update before dropped them
                bt_tensor_release(params[1].items[p].value->grad);
                params[1].items[p].value->grad = bt_tensor_retain(grads[p]);
            }
            ASSERT_OK(bt_adamw_clip(&f[1].context, &part[i], partials, 0.5));
            assert_memory_equal(bt_tensor_data(part[i].norm), bt_tensor_data(whole.norm), 4);
            ASSERT_OK(bt_adamw_update(&f[1].context, &part[i], 0.1));
        }
        for (int p = 0; p < 2; ++p) {
            const bt_param *a = &params[0].items[p], *b = &params[1].items[p];
            assert_memory_equal(bt_tensor_data(a->master), bt_tensor_data(b->master),
                                bt_tensor_bytes(a->master));
            assert_memory_equal(bt_tensor_data(a->value), bt_tensor_data(b->value),
                                bt_tensor_bytes(a->value));
            bt_tensor_release(grads[p]);
        }
        for (int i = 0; i < PARTS; ++i) {
            bt_adamw_release(&part[i]);
        }
        bt_tensor_release(partials);
        bt_adamw_release(&whole);
        close_pair(&f[0], &params[0]);
        close_pair(&f[1], &params[1]);
    }
}

static void a_slice_outside_of_its_parameter_is_refused(void **state)
{
    (void)state;
    static const bt_adamw_slice wrong[] = {{.param = 2, .count = 1},
                                           {.param = 1, .offset = 3, .count = 3},
                                           {.param = 1, .offset = -1, .count = 1}};
    fixture f;
    bt_params params;
    open_pair(&f, &params, BT_F32);
    for (int i = 0; i < 3; ++i) {
        bt_adamw optimizer;
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "a slice of",
                     bt_adamw_init_slices(&params, &(bt_adamw_config){0.9, 0.99, 1e-8, 0.1, 1},
                                          &wrong[i], 1, &optimizer));
    }
    close_pair(&f, &params);
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
                     bt_nn_block_init(&params, "h", widths[i], 1, NULL, 1, 1, &block));
        assert_int_equal(params.count, 0);
    }
    bt_params_release(&params);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_added_after_init_is_refused),
        cmocka_unit_test(uninitialised_parameters_are_not_sampled),
        cmocka_unit_test(slices_give_the_bits_of_the_whole),
        cmocka_unit_test(a_slice_outside_of_its_parameter_is_refused),
        cmocka_unit_test(a_width_that_overflows_is_refused),
    };
    return cmocka_run_group_tests_name("optim", tests, NULL, NULL);
}
