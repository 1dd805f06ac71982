// tests/unit/test_tape.c - how the tape delivers gradients: shared inputs, hooks, what is saved
#include <stdlib.h>

#include "tests/support/fixture.h"
#include "tests/support/test.h"

static void assert_grad(fixture *f, const bt_tensor *x, const double *expected, int64_t count)
{
    assert_non_null(x->grad);
    assert_int_equal(bt_tensor_count(x), count);
    double *grad = fixture_read(f, x->grad);
    test_assert_close(grad, expected, count, 1e-14, 1e-14, x->name);
    free(grad);
}

// ---- one tensor as several inputs ---------------------------------------------------------------

// loss = sum(y) + sum(later h) for the y that `combine` makes of h, as which inputs it likes, where
// h = scale(x, 1), or x itself. The use that is later on the tape has filled h's gradient when that
// of y is delivered.
typedef bt_status (*combiner)(bt_context *context, bt_tensor *h, bt_tensor *w, bt_tensor **out);

static bt_status with_itself(bt_context *context, bt_tensor *h, bt_tensor *w, bt_tensor **out)
{
    (void)w;
    return bt_matmul(context, h, false, h, true, out);
}

static bt_status as_x_and_residual(bt_context *context, bt_tensor *h, bt_tensor *w, bt_tensor **out)
{
    return bt_linear(context, h, w, NULL, h, BT_ACTIVATION_NONE, out);
}

static bt_status as_x_and_weight(bt_context *context, bt_tensor *h, bt_tensor *w, bt_tensor **out)
{
    (void)w;
    return bt_linear(context, h, h, NULL, NULL, BT_ACTIVATION_NONE, out);
}

static bt_status as_mlp(bt_context *context, bt_tensor *h, bt_tensor *w, bt_tensor **out)
{
    (void)w;
    return bt_feed_forward(context, h, h, NULL, h, NULL, h, out);
}

static bt_tensor *loss_of(fixture *f, combiner combine, bt_tensor *x, bt_tensor *w, bool leaf)
{
    bt_context *context = &f->context;
    bt_tensor *h = NULL, *y = NULL, *later = NULL, *a = NULL, *b = NULL, *loss = NULL;
    if (leaf) {
        h = bt_tensor_retain(x);
    } else {
        ASSERT_OK(bt_scale(context, x, 1, &h));
    }
    ASSERT_OK(combine(context, h, w, &y));
    ASSERT_OK(bt_scale(context, h, 7, &later));
    ASSERT_OK(bt_sum_all(context, y, &a));
    ASSERT_OK(bt_sum_all(context, later, &b));
    ASSERT_OK(bt_add(context, a, b, &loss));
    bt_tensor_release(h);
    bt_tensor_release(y);
    bt_tensor_release(later);
    bt_tensor_release(a);
    bt_tensor_release(b);
    return loss;
}

static double value_of(fixture *f, combiner combine, bt_tensor *x, bt_tensor *w, bool leaf)
{
    double value = 0;
    f->context.tape = NULL;
    bt_tensor *loss = loss_of(f, combine, x, w, leaf);
    f->context.tape = f->tape;
    ASSERT_OK(bt_tensor_read(&f->context, loss, &value));
    bt_tensor_release(loss);
    return value;
}

static void a_tensor_may_be_several_inputs(void **state)
{
    (void)state;
    static const combiner combiners[] = {with_itself, as_x_and_residual, as_x_and_weight, as_mlp};
    for (int i = 0; i < 8; ++i) {
        const combiner combine = combiners[i / 2];
        const bool leaf = i % 2;
        fixture f;
        fixture_open(&f, 0);
        bt_tensor *x = fixture_random(&f, BT_F64, BT_SHAPE(3, 3), -1, 1, 1);
        bt_tensor *w = fixture_random(&f, BT_F64, BT_SHAPE(3, 3), -1, 1, 2);
        x->requires_grad = true;
        bt_tensor *loss = loss_of(&f, combine, x, w, leaf);
        ASSERT_OK(bt_backward(&f.context, loss, NULL));
        double *values = bt_tensor_data(x);
        double *grad = bt_tensor_data(x->grad);
        for (int k = 0; k < 9; ++k) {
            const double kept = values[k], step = 1e-5;
            values[k] = kept + step;
            const double above = value_of(&f, combine, x, w, leaf);
            values[k] = kept - step;
            const double below = value_of(&f, combine, x, w, leaf);
            values[k] = kept;
            const double expected = (above - below) / (2 * step);
            test_assert_close(&grad[k], &expected, 1, 1e-7, 1e-7, leaf ? "leaf" : "activation");
        }
        bt_tensor_release(loss);
        bt_tensor_release(x);
        bt_tensor_release(w);
        fixture_close(&f);
    }
}

static void a_product_with_itself_counts_both_sides(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    const double two = 2, expected = 2 * 2 + 7;
    bt_tensor *x = fixture_values(&f, BT_F64, BT_SHAPE(1, 1), &two);
    x->requires_grad = true;
    bt_tensor *loss = loss_of(&f, with_itself, x, NULL, false);
    ASSERT_OK(bt_backward(&f.context, loss, NULL));
    assert_grad(&f, x, &expected, 1);
    bt_tensor_release(loss);
    bt_tensor_release(x);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_with_itself_counts_both_sides),
        cmocka_unit_test(a_tensor_may_be_several_inputs),
    };
    return cmocka_run_group_tests_name("tape", tests, NULL, NULL);
}
