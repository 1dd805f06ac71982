// tests/unit/test_compiled_kinds.c - which program a compiled step chooses: layouts of the batch,
// and parameters with and without gradients
#include <stdio.h>
#include <string.h>

#include "framework/compiler/lower.h"
#include "framework/compiler/step.h"
#include "framework/ops/expression.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { SIDE = 5, STEPS = 3 };

typedef struct world {
    fixture f;
    bt_params params;
    bt_tensor *first, *second; // [SIDE], borrowed
    bool uses_second;
    bt_model model;
    bt_compiled_step *step;
} world;

// The mean of (x first + second)^2, or of (x first)^2.
static bt_status loss_of(bt_context *context, const void *self, const bt_batch *batch,
                         bt_tensor **loss)
{
    const world *w = self;
    bt_expression e = {.context = context};
    bt_tensor *x = NULL;
    BT_TRY(bt_batch_find(batch, "x", &x));
    bt_tensor *y = bt_expression_binary(&e, BT_BINARY_MUL, x, w->first);
    y = w->uses_second ? bt_expression_binary(&e, BT_BINARY_ADD, y, w->second) : y;
    y = bt_expression_unary(&e, BT_UNARY_SQUARE, 0, y);
    const bt_status status = e.status ? e.status : bt_mean_all(context, y, loss);
    const bt_status finished = bt_expression_finish(&e);
    return status ? status : finished;
}

static void open_world(world *w, bool uses_second)
{
    memset(w, 0, sizeof *w);
    fixture_open(&w->f, 0);
    bt_params_init(&w->params, &w->f.context, BT_F32, BT_F32, 7);
    ASSERT_OK(bt_params_add(&w->params, "first", BT_PARAM_MASTER, BT_SHAPE(SIDE), 0, 1, &w->first));
    ASSERT_OK(
        bt_params_add(&w->params, "second", BT_PARAM_MASTER, BT_SHAPE(SIDE), 0, 1, &w->second));
    w->uses_second = uses_second;
    w->model = (bt_model){.family = "test", .self = w, .params = &w->params, .loss = loss_of};
    ASSERT_OK(bt_compiled_step_create(&w->f.context, &w->model, NULL, &w->step));
}

static void close_world(world *w)
{
    bt_compiled_step_destroy(w->step);
    bt_params_release(&w->params);
    fixture_close(&w->f);
}

// The loss of one batch; gradients are added.
static float run(world *w, bt_tensor *x, bool compiled)
{
    const bt_batch batch = {.count = 1, .items = {{"x", x}}};
    bt_tensor *loss = NULL;
    float value = 0;
    if (compiled) {
        ASSERT_OK(bt_compiled_step_run(w->step, &batch, &loss));
    } else {
        ASSERT_OK(bt_model_loss(&w->f.context, &w->model, &batch, &loss));
        ASSERT_OK(bt_backward(&w->f.context, loss, NULL));
    }
    value = *(const float *)bt_tensor_data(loss);
    bt_tensor_release(loss);
    return value;
}

static bt_tensor *make_x(world *w)
{
    return fixture_random(&w->f, BT_F32, BT_SHAPE(SIDE, SIDE), -1, 1, 3);
}

// A transposed batch has the shape of the one before.
static void strides_of_a_batch(void **state)
{
    (void)state;
    const int64_t turned[] = {1, SIDE};
    bt_tensor *view = NULL;
    world w;
    open_world(&w, true);
    bt_tensor *x = make_x(&w);
    ASSERT_OK(bt_tensor_view(x, BT_SHAPE(SIDE, SIDE), turned, 0, &view));
    const float straight = run(&w, x, false);
    bt_params_clear_grads(&w.params);
    const float expected = run(&w, view, false);
    bt_params_clear_grads(&w.params);
    assert_true(straight != expected);
    assert_true(run(&w, x, true) == straight);
    bt_params_clear_grads(&w.params);
    assert_true(run(&w, view, true) == expected);
    assert_true(bt_compiled_step_kind(w.step, 1)->compiled);
    bt_tensor_release(view);
    bt_tensor_release(x);
    close_world(&w);
}

static void expect_gradients(const world *w, const float *first, const float *second)
{
    assert_memory_equal(bt_tensor_data(w->first->grad), first, SIDE * sizeof *first);
    if (second) {
        assert_memory_equal(bt_tensor_data(w->second->grad), second, SIDE * sizeof *second);
    } else {
        assert_null(w->second->grad);
    }
}

// A parameter that the loss does not read has no gradient, in no micro-batch.
static void a_parameter_without_gradient(void **state)
{
    (void)state;
    world w;
    float eager[SIDE];
    open_world(&w, false);
    bt_tensor *x = make_x(&w);
    for (int i = 0; i < STEPS; ++i) {
        (void)run(&w, x, false);
    }
    memcpy(eager, bt_tensor_data(w.first->grad), sizeof eager);
    bt_params_clear_grads(&w.params);
    const bt_batch batch = {.count = 1, .items = {{"x", x}}};
    ASSERT_OK(bt_compiled_step_prepare(w.step, &batch, false));
    ASSERT_OK(bt_compiled_step_prepare(w.step, &batch, true));
    for (int i = 0; i < STEPS; ++i) {
        (void)run(&w, x, true);
    }
    expect_gradients(&w, eager, NULL);
    for (int i = 0; i < 2; ++i) {
        const bt_compiled_kind *kind = bt_compiled_step_kind(w.step, i);
        if (!kind->compiled) {
            fail_msg("kind %d: %s", i, kind->reason);
        }
    }
    bt_tensor_release(x);
    close_world(&w);
}

// A caller may release one gradient between two steps.
static void a_gradient_released_between_steps(void **state)
{
    (void)state;
    world w;
    float first[SIDE], second[SIDE];
    open_world(&w, true);
    bt_tensor *x = make_x(&w);
    for (int compiled = 0; compiled < 2; ++compiled) {
        for (int i = 0; i < STEPS; ++i) {
            (void)run(&w, x, compiled);
        }
        BT_TENSOR_RELEASE(w.second->grad);
        (void)run(&w, x, compiled);
        (void)run(&w, x, compiled);
        if (!compiled) {
            memcpy(first, bt_tensor_data(w.first->grad), sizeof first);
            memcpy(second, bt_tensor_data(w.second->grad), sizeof second);
        } else {
            expect_gradients(&w, first, second);
        }
        bt_params_clear_grads(&w.params);
    }
    bt_tensor_release(x);
    close_world(&w);
}

// The mean, times a number that the host writes into a part of a tensor.
static bt_status loss_with_part(bt_context *context, const void *self, const bt_batch *batch,
                                bt_tensor **loss)
{
    const float two = 2;
    bt_tensor *plain = NULL, *pair = NULL, *part = NULL;
    BT_TRY(loss_of(context, self, batch, &plain));
    bt_status status = bt_tensor_create(context, BT_F32, BT_SHAPE(2), "pair", &pair);
    BT_IF_OK(status, bt_tensor_view(pair, BT_SCALAR, NULL, 1, &part));
    BT_IF_OK(status, bt_tensor_write(context, part, &two));
    BT_IF_OK(status, bt_mul(context, plain, part, loss));
    bt_tensor_release(part);
    bt_tensor_release(pair);
    bt_tensor_release(plain);
    return status;
}

// Recording stops before the loss is made.
static void a_forward_that_cannot_be_captured(void **state)
{
    (void)state;
    world w;
    open_world(&w, true);
    w.model.loss = loss_with_part;
    bt_tensor *x = make_x(&w);
    const float expected = run(&w, x, false);
    bt_params_clear_grads(&w.params);
    assert_true(run(&w, x, true) == expected);
    assert_non_null(strstr(bt_compiled_step_kind(w.step, 0)->reason, "the host wrote a part"));
    bt_tensor_release(x);
    close_world(&w);
}

int main(void)
{
    if (bt_compiler_available()) {
        print_message("%s\n", bt_error_message());
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(strides_of_a_batch),
                                       cmocka_unit_test(a_parameter_without_gradient),
                                       cmocka_unit_test(a_gradient_released_between_steps),
                                       cmocka_unit_test(a_forward_that_cannot_be_captured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
