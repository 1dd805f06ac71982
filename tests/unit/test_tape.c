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

// ---- what is saved ------------------------------------------------------------------------------

typedef struct written_case {
    const char *name;
    bt_status (*run)(bt_context *context, bt_tensor *const *in, bt_tensor **out);
    unsigned trained; // bit i: input i requires a gradient
    unsigned written; // bit i: input i is written before the backward, which does not read it
} written_case;

enum { WRITTEN_INPUTS = 6 };

static bt_status run_scale(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_scale(context, in[0], 3, out);
}

static bt_status run_negate(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_unary_op(context, BT_UNARY_NEGATE, 0, in[0], out);
}

static bt_status run_shift(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_unary_op(context, BT_UNARY_SHIFT, 3, in[0], out);
}

static bt_status run_add(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_add(context, in[0], in[1], out);
}

static bt_status run_sub(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_sub(context, in[0], in[1], out);
}

static bt_status run_mul(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_mul(context, in[0], in[1], out);
}

static bt_status run_div(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_div(context, in[0], in[1], out);
}

static bt_status run_matmul(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_matmul(context, in[0], false, in[1], false, out);
}

static bt_status run_linear(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_linear(context, in[0], in[1], NULL, in[2], BT_ACTIVATION_NONE, out);
}

static bt_status run_mlp(bt_context *context, bt_tensor *const *in, bt_tensor **out)
{
    return bt_feed_forward(context, in[0], in[1], NULL, in[2], NULL, in[3], out);
}

static const written_case written_cases[] = {
    {"scale", run_scale, 0x1, 0x1},
    {"negate", run_negate, 0x1, 0x1},
    {"shift", run_shift, 0x1, 0x1},
    {"add", run_add, 0x3, 0x3},
    {"sub", run_sub, 0x3, 0x3},
    {"mul, a", run_mul, 0x1, 0x1},
    {"mul, b", run_mul, 0x2, 0x2},
    {"div, a", run_div, 0x1, 0x1},
    {"matmul, a", run_matmul, 0x1, 0x1},
    {"matmul, b", run_matmul, 0x2, 0x2},
    {"linear, x", run_linear, 0x1, 0x5},
    {"linear, w", run_linear, 0x2, 0x6},
    {"linear, residual", run_linear, 0x4, 0x7},
    {"MLP, x", run_mlp, 0x1, 0x9},
    {"MLP, w", run_mlp, 0x2, 0xA},
    {"MLP, v", run_mlp, 0x4, 0xF},
    {"MLP, residual", run_mlp, 0x8, 0xF},
};

// What the backward does not read may be written meanwhile, and gradients stay the same.
static void only_what_backward_reads_is_saved(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof written_cases / sizeof written_cases[0]; ++i) {
        const written_case *c = &written_cases[i];
        double *grads[2][WRITTEN_INPUTS] = {{NULL}};
        for (int write = 0; write < 2; ++write) {
            fixture f;
            bt_tensor *in[WRITTEN_INPUTS] = {NULL}, *y = NULL;
            fixture_open(&f, 0);
            for (int k = 0; k < 4; ++k) {
                in[k] = fixture_random(&f, BT_F64, BT_SHAPE(3, 3), 1, 2, (uint64_t)k);
                in[k]->requires_grad = c->trained >> k & 1U;
                in[k]->name = c->name;
            }
            bt_tensor *seed = fixture_random(&f, BT_F64, BT_SHAPE(3, 3), 1, 2, 9);
            ASSERT_OK(c->run(&f.context, in, &y));
            for (int k = 0; k < 4 && write; ++k) {
                ASSERT_OK(c->written >> k & 1U ? bt_tensor_fill(&f.context, in[k], 100) : BT_OK);
            }
            ASSERT_OK(bt_backward(&f.context, y, seed));
            for (int k = 0; k < 4; ++k) {
                grads[write][k] = in[k]->grad ? fixture_read(&f, in[k]->grad) : NULL;
                bt_tensor_release(in[k]);
            }
            bt_tensor_release(y);
            bt_tensor_release(seed);
            fixture_close(&f);
        }
        for (int k = 0; k < 4; ++k) {
            assert_int_equal(grads[0][k] != NULL, c->trained >> k & 1U);
            if (grads[0][k]) {
                assert_memory_equal(grads[0][k], grads[1][k], 9 * sizeof(double));
            }
            free(grads[0][k]);
            free(grads[1][k]);
        }
    }
}

// A chain of ops that read nothing in backward holds its last tensor only.
static void ops_that_read_nothing_hold_nothing(void **state)
{
    (void)state;
    fixture f;
    bt_pool_stats stats;
    bt_tensor *x = NULL;
    fixture_open(&f, 0);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(1 << 20), "x", &x));
    x->requires_grad = true;
    bt_tensor *chain = bt_tensor_retain(x);
    for (int i = 0; i < 3; ++i) {
        bt_tensor *next = NULL;
        ASSERT_OK(i == 1 ? bt_add(&f.context, chain, x, &next)
                         : bt_scale(&f.context, chain, 2, &next));
        bt_tensor_release(chain);
        chain = next;
    }
    bt_pool_stats_read(f.pool, &stats);
    assert_int_equal(stats.live_blocks, 2); // x and the end of the chain
    bt_tensor_release(chain);
    bt_tensor_release(x);
    fixture_close(&f);
}

// ---- bf16 parameters ----------------------------------------------------------------------------

// 1 + 2^-7 summed 4,097 times, along one axis and along two, is exact in f32 and not in bf16.
static void a_broadcast_parameter_is_summed_in_f32(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{4097, 1, 3}, {17, 3, 241}, {1, 4097, 3}};
    for (int i = 0; i < 3; ++i) {
        const int64_t *size = shapes[i];
        fixture f;
        bt_tensor *p = NULL, *x = NULL, *seed = NULL, *y = NULL;
        fixture_open(&f, 0);
        ASSERT_OK(bt_tensor_zeros(&f.context, BT_BF16, i == 1 ? BT_SHAPE(3, 1) : BT_SHAPE(3),
                                  "parameter", &p));
        p->requires_grad = true;
        p->grad_dtype = BT_F32;
        ASSERT_OK(
            bt_tensor_zeros(&f.context, BT_BF16, BT_SHAPE(size[0], size[1], size[2]), "x", &x));
        ASSERT_OK(bt_tensor_create(&f.context, BT_BF16, x->shape, "seed", &seed));
        ASSERT_OK(bt_tensor_fill(&f.context, seed, 1.0078125));
        ASSERT_OK(bt_add(&f.context, x, p, &y));
        ASSERT_OK(bt_backward(&f.context, y, seed));
        const double sum = 4097 * 1.0078125;
        const double expected[] = {sum, sum, sum};
        assert_int_equal(p->grad->dtype, BT_F32);
        assert_grad(&f, p, expected, 3);
        bt_tensor_release(p);
        bt_tensor_release(x);
        bt_tensor_release(seed);
        bt_tensor_release(y);
        fixture_close(&f);
    }
}

// ---- hooks --------------------------------------------------------------------------------------

static bt_status fail_if_called(void *self, bt_context *context, bt_tensor *grad)
{
    (void)self, (void)context, (void)grad;
    return bt_error(BT_STATUS_INTERNAL, "a hook ran on another op's gradient");
}

static void a_hook_on_a_spent_tensor_is_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    const bt_grad_hook hook = {NULL, fail_if_called, NULL};
    bt_tensor *x = fixture_random(&f, BT_F64, BT_SCALAR, 0, 1, 1);
    bt_tensor *old = NULL, *y = NULL;
    x->requires_grad = true;
    ASSERT_OK(bt_gelu(&f.context, x, &old));
    f.context.tape = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "on the tape of another context",
                 bt_tensor_set_grad_hook(&f.context, old, hook));
    f.context.tape = f.tape;
    ASSERT_OK(bt_backward(&f.context, old, NULL));
    ASSERT_OK(bt_gelu(&f.context, x, &y)); // its node takes the memory of the spent one
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"unary\" was recorded on a tape that was reset",
                 bt_tensor_set_grad_hook(&f.context, old, hook));
    ASSERT_OK(bt_backward(&f.context, y, NULL));
    bt_tensor_release(x);
    bt_tensor_release(old);
    bt_tensor_release(y);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_backward_reads_is_saved),
        cmocka_unit_test(ops_that_read_nothing_hold_nothing),
        cmocka_unit_test(a_broadcast_parameter_is_summed_in_f32),
        cmocka_unit_test(a_hook_on_a_spent_tensor_is_refused),
        cmocka_unit_test(a_product_with_itself_counts_both_sides),
        cmocka_unit_test(a_tensor_may_be_several_inputs),
    };
    return cmocka_run_group_tests_name("tape", tests, NULL, NULL);
}
