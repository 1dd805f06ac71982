// tests/gradient/test_ops.c - every row of the op table against finite differences in float64
//
// For random weights w and scalar L = sum over outputs of w * y, central differences of L in each
// element of each float input must equal the gradient that the tape delivers. With step h the
// difference errs by O(h^2) truncation and O(eps |L| / h) rounding; h = 1e-5 keeps both under 1e-8
// for the tests' magnitudes, and the tolerance is ten times that.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixture.h"
#include "tests/support/test.h"

static const double step = 1e-5;
static const double tolerance = 1e-7;

typedef struct probe {
    fixture f;
    bt_op_id id;
    bt_op_sample sample;
    bt_tensor *in[BT_OP_MAX_INPUTS];
} probe;

static void open_probe(probe *p, bt_op_id id, const bt_op_sample *sample)
{
    fixture_open(&p->f, 0);
    p->id = id;
    p->sample = *sample;
    for (int i = 0; i < sample->in_count; ++i) {
        p->in[i] = NULL;
        if (sample->present[i]) {
            p->in[i] = fixture_random(&p->f, sample->in[i].dtype, sample->in[i].shape,
                                      sample->low[i], sample->high[i], 100 + (uint64_t)i);
            p->in[i]->requires_grad = sample->in[i].dtype == BT_F64;
        }
    }
}

static void close_probe(probe *p)
{
    for (int i = 0; i < p->sample.in_count; ++i) {
        bt_tensor_release(p->in[i]);
    }
    fixture_close(&p->f);
}

// L as a tensor on the tape: sum over float outputs of a fixed random weight times the output.
static bt_tensor *weighted_sum(probe *p)
{
    bt_context *context = &p->f.context;
    bt_tensor *outputs[BT_OP_MAX_OUTPUTS];
    bt_tensor *total = NULL;
    ASSERT_OK(bt_op_apply(context, p->id, &p->sample.attrs, p->in, p->sample.in_count, outputs));
    for (int i = 0; i < bt_op_row(p->id)->out_count; ++i) {
        if (outputs[i]->dtype == BT_F64) {
            bt_tensor *weight =
                fixture_random(&p->f, BT_F64, outputs[i]->shape, -1, 1, 200 + (uint64_t)i);
            bt_tensor *product = NULL;
            bt_tensor *sum = NULL;
            ASSERT_OK(bt_mul(context, outputs[i], weight, &product));
            ASSERT_OK(bt_sum_all(context, product, &sum));
            bt_tensor_release(weight);
            bt_tensor_release(product);
            if (total) {
                bt_tensor *both = NULL;
                ASSERT_OK(bt_add(context, total, sum, &both));
                bt_tensor_release(total);
                bt_tensor_release(sum);
                sum = both;
            }
            total = sum;
        }
        bt_tensor_release(outputs[i]);
    }
    return total;
}

static double evaluate(probe *p)
{
    p->f.context.tape = NULL;
    bt_tensor *total = weighted_sum(p);
    double *value = fixture_read(&p->f, total);
    double result = value[0];
    free(value);
    bt_tensor_release(total);
    p->f.context.tape = p->f.tape;
    return result;
}

static void check_input(probe *p, int input, const char *name, int variant)
{
    bt_tensor *x = p->in[input];
    double *analytic = fixture_read(&p->f, x->grad);
    double *values = bt_tensor_data(x); // the CPU's memory
    for (int64_t i = 0; i < bt_tensor_count(x); ++i) {
        double kept = values[i];
        values[i] = kept + step;
        double above = evaluate(p);
        values[i] = kept - step;
        double below = evaluate(p);
        values[i] = kept;
        double numeric = (above - below) / (2 * step);
        double error = fabs(numeric - analytic[i]);
        if (!(error <= tolerance * (1 + fabs(numeric)))) {
            fail_msg("%s variant %d: d/d input %d [%lld]: tape %.12g, differences %.12g", name,
                     variant, input, (long long)i, analytic[i], numeric);
        }
    }
    free(analytic);
}

static void ops_match_finite_differences(void **state)
{
    (void)state;
    for (int id = 0; id < BT_OP_COUNT; ++id) {
        const bt_op *op = bt_op_row((bt_op_id)id);
        bt_op_sample sample;
        int variant = 0;
        for (; op->sample(variant, &sample); ++variant) {
            probe p;
            open_probe(&p, (bt_op_id)id, &sample);
            // Twice: the second backward adds to the gradients of the first.
            for (int pass = 0; pass < 2; ++pass) {
                bt_tensor *total = weighted_sum(&p);
                ASSERT_OK(bt_backward(&p.f.context, total, NULL));
                bt_tensor_release(total);
            }
            for (int i = 0; i < sample.in_count; ++i) {
                if (p.in[i] && p.in[i]->requires_grad) {
                    double *twice = bt_tensor_data(p.in[i]->grad);
                    for (int64_t k = 0; k < bt_tensor_count(p.in[i]); ++k) {
                        twice[k] /= 2;
                    }
                    check_input(&p, i, op->name, variant);
                }
            }
            close_probe(&p);
        }
        assert_true(variant > 0); // a row without a test case is a row without a test
    }
}

// The checker must find a gradient that is wrong by little.
static void checker_finds_a_wrong_gradient(void **state)
{
    (void)state;
    bt_op_sample sample;
    probe p;
    assert_true(bt_op_row(BT_OP_UNARY)->sample(BT_UNARY_GELU, &sample));
    open_probe(&p, BT_OP_UNARY, &sample);
    bt_tensor *total = weighted_sum(&p);
    ASSERT_OK(bt_backward(&p.f.context, total, NULL));
    bt_tensor_release(total);
    double *values = bt_tensor_data(p.in[0]);
    double *grad = bt_tensor_data(p.in[0]->grad);
    double kept = values[3];
    values[3] = kept + step;
    double above = evaluate(&p);
    values[3] = kept - step;
    double below = evaluate(&p);
    values[3] = kept;
    double numeric = (above - below) / (2 * step);
    assert_true(fabs(numeric - grad[3]) <= tolerance * (1 + fabs(numeric)));
    assert_false(fabs(numeric - 1.0001 * grad[3]) <= tolerance * (1 + fabs(numeric)));
    close_probe(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_match_finite_differences),
        cmocka_unit_test(checker_finds_a_wrong_gradient),
    };
    return cmocka_run_group_tests_name("gradient of ops", tests, NULL, NULL);
}
