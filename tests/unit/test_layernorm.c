// tests/unit/test_layernorm.c - layer normalisation whose parameters are frozen, shared or unused
#include <stdlib.h>

#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { X, RESIDUAL, GAMMA, BETA, INPUTS, ROWS = 4, COLS = 3 };

typedef struct setting {
    fixture f;
    bt_tensor *in[INPUTS], *seed;
} setting;

static void open_setting(setting *s)
{
    fixture_open(&s->f, 0);
    for (int i = 0; i < INPUTS; ++i) {
        s->in[i] = fixture_random(&s->f, BT_F64, i < GAMMA ? BT_SHAPE(ROWS, COLS) : BT_SHAPE(COLS),
                                  0.5, 2, (uint64_t)i);
        s->in[i]->requires_grad = true;
    }
    s->seed = fixture_random(&s->f, BT_F64, BT_SHAPE(ROWS, COLS), -1, 1, 9);
}

static void close_setting(setting *s)
{
    for (int i = 0; i < INPUTS; ++i) {
        bt_tensor_release(s->in[i]);
    }
    bt_tensor_release(s->seed);
    fixture_close(&s->f);
}

static void backward(setting *s)
{
    bt_tensor *y = NULL;
    ASSERT_OK(bt_layernorm(&s->f.context, s->in[X], s->in[GAMMA], s->in[BETA], 1e-5, &y));
    ASSERT_OK(bt_backward(&s->f.context, y, s->seed));
    bt_tensor_release(y);
}

// The gradient of input i when all are trained, times `factor`, plus `more`.
static void assert_grad(setting *s, int i, double factor, double more)
{
    setting plain;
    open_setting(&plain);
    backward(&plain);
    const double *once = bt_tensor_data(plain.in[i]->grad);
    const double *grad = bt_tensor_data(s->in[i]->grad);
    for (int64_t k = 0; k < bt_tensor_count(s->in[i]); ++k) {
        const double expected = factor * once[k] + more;
        test_assert_close(&grad[k], &expected, 1, 1e-14, 1e-14, "gradient");
    }
    close_setting(&plain);
}

static void a_frozen_parameter_does_not_stop_the_other(void **state)
{
    (void)state;
    for (int frozen = GAMMA; frozen <= BETA; ++frozen) {
        setting s;
        open_setting(&s);
        s.in[frozen]->requires_grad = false;
        for (int batch = 1; batch <= 3; ++batch) { // micro-batches
            backward(&s);
            assert_grad(&s, GAMMA + BETA - frozen, batch, 0);
            assert_grad(&s, X, batch, 0);
            assert_null(s.in[frozen]->grad);
        }
        close_setting(&s);
    }
}

// The other use comes later on the tape: its gradient is there when that of layernorm is made.
static void a_parameter_may_be_used_elsewhere(void **state)
{
    (void)state;
    for (int shared = GAMMA; shared <= BETA; ++shared) {
        setting s;
        bt_tensor *y = NULL, *weighted = NULL, *a = NULL, *more = NULL, *b = NULL, *loss = NULL;
        open_setting(&s);
        bt_context *context = &s.f.context;
        ASSERT_OK(bt_layernorm(context, s.in[X], s.in[GAMMA], s.in[BETA], 1e-5, &y));
        ASSERT_OK(bt_mul(context, y, s.seed, &weighted));
        ASSERT_OK(bt_sum_all(context, weighted, &a));
        ASSERT_OK(bt_scale(context, s.in[shared], 7, &more));
        ASSERT_OK(bt_sum_all(context, more, &b));
        ASSERT_OK(bt_add(context, a, b, &loss));
        ASSERT_OK(bt_backward(context, loss, NULL));
        assert_grad(&s, shared, 1, 7);
        assert_grad(&s, GAMMA + BETA - shared, 1, 0);
        bt_tensor *all[] = {y, weighted, a, more, b, loss};
        for (int i = 0; i < 6; ++i) {
            bt_tensor_release(all[i]);
        }
        close_setting(&s);
    }
}

static void the_sum_alone_may_be_used(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    for (int batch = 1; batch <= 2; ++batch) {
        bt_tensor *y = NULL, *sum = NULL;
        ASSERT_OK(bt_add_layernorm(&s.f.context, s.in[X], s.in[RESIDUAL], s.in[GAMMA], s.in[BETA],
                                   1e-5, &y, &sum));
        bt_tensor_release(y);
        ASSERT_OK(bt_backward(&s.f.context, sum, s.seed));
        bt_tensor_release(sum);
        const double *seed = bt_tensor_data(s.seed);
        for (int i = 0; i < INPUTS; ++i) {
            const double *grad = bt_tensor_data(s.in[i]->grad);
            for (int64_t k = 0; k < bt_tensor_count(s.in[i]); ++k) {
                assert_true(grad[k] == (i < GAMMA ? batch * seed[k] : 0));
            }
        }
    }
    close_setting(&s);
}

// The kernel reads both in one type.
static void parameters_of_two_types_are_refused(void **state)
{
    (void)state;
    fixture f;
    bt_tensor *x = NULL, *gamma = NULL, *beta = NULL, *y = NULL;
    fixture_open(&f, 0);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_BF16, BT_SHAPE(2, 3), "x", &x));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(3), "gamma", &gamma));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_BF16, BT_SHAPE(3), "beta", &beta));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "input 2 [3] bf16 does not fit input 1 [3] f32",
                 bt_layernorm(&f.context, x, gamma, beta, 1e-5, &y));
    bt_tensor_release(x);
    bt_tensor_release(gamma);
    bt_tensor_release(beta);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_parameter_does_not_stop_the_other),
        cmocka_unit_test(a_parameter_may_be_used_elsewhere),
        cmocka_unit_test(the_sum_alone_may_be_used),
        cmocka_unit_test(parameters_of_two_types_are_refused),
    };
    return cmocka_run_group_tests_name("layernorm", tests, NULL, NULL);
}
