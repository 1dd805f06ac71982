// tests/gradient/test_twice.c - gradients of gradients of every row of the op table
//
// For L = sum over outputs of w y^2, and S = sum over inputs of v dL/dx with random w and v, the
// gradient of S by bt_backward_recorded and bt_backward is compared with central differences of S,
// where dL/dx is made by bt_backward alone: f64, for every subset of inputs that requires
// gradients. With step h the differences err by O(h^2) truncation and O(eps |S| / h) rounding:
// below 1e-8 of the largest value here; the tolerance is a hundred times that.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/ops/linear.h"
#include "tests/support/fixture.h"
#include "tests/support/op_samples.h"
#include "tests/support/test.h"

static const double step = 1e-5, tolerance = 1e-6;

typedef struct probe {
    fixture f;
    bt_op_id id;
    op_sample sample;
    unsigned trained; // bit i: input i requires a gradient
    double *values[BT_OP_MAX_INPUTS], *weights[BT_OP_MAX_INPUTS]; // owned, of float inputs
    int32_t *ids[BT_OP_MAX_INPUTS];                               // owned, of the others
    bt_tensor *leaf[BT_OP_MAX_INPUTS];
} probe;

static bool is_float(const probe *p, int i)
{
    return p->sample.present[i] && bt_dtype_is_float(p->sample.in[i].dtype);
}

static void open_probe(probe *p, bt_op_id id, const op_sample *sample)
{
    memset(p, 0, sizeof *p);
    fixture_open(&p->f, 0);
    p->id = id;
    p->sample = *sample;
    for (int i = 0; i < sample->in_count; ++i) {
        const bt_op_spec *spec = &sample->in[i];
        if (!sample->present[i]) {
            continue;
        }
        bt_tensor *drawn = fixture_random(&p->f, spec->dtype, spec->shape, sample->low[i],
                                          sample->high[i], 100 + (uint64_t)i);
        if (is_float(p, i)) {
            bt_tensor *weight =
                fixture_random(&p->f, BT_F64, spec->shape, -1, 1, 300 + (uint64_t)i);
            p->values[i] = fixture_read(&p->f, drawn);
            p->weights[i] = fixture_read(&p->f, weight);
            bt_tensor_release(weight);
        } else {
            p->ids[i] = malloc((size_t)bt_tensor_count(drawn) * sizeof(int32_t));
            ASSERT_OK(bt_tensor_read(&p->f.context, drawn, p->ids[i]));
        }
        bt_tensor_release(drawn);
    }
}

static void close_probe(probe *p)
{
    for (int i = 0; i < BT_OP_MAX_INPUTS; ++i) {
        free(p->values[i]);
        free(p->weights[i]);
        free(p->ids[i]);
    }
    fixture_close(&p->f);
}

static void make_leaves(probe *p)
{
    for (int i = 0; i < p->sample.in_count; ++i) {
        const bt_shape shape = p->sample.in[i].shape;
        p->leaf[i] = p->ids[i]      ? fixture_values(&p->f, BT_I32, shape, p->ids[i])
                     : p->values[i] ? fixture_values(&p->f, BT_F64, shape, p->values[i])
                                    : NULL;
        if (p->values[i]) {
            p->leaf[i]->requires_grad = p->trained >> i & 1U;
        }
    }
}

static void release_leaves(probe *p)
{
    for (int i = 0; i < p->sample.in_count; ++i) {
        BT_TENSOR_RELEASE(p->leaf[i]);
    }
}

// *total (may be NULL) += sum of weight times x.
static void add_weighted(probe *p, bt_tensor *x, bt_tensor *weight, bt_tensor **total)
{
    bt_context *context = &p->f.context;
    bt_tensor *product = NULL, *sum = NULL, *both = NULL;
    ASSERT_OK(bt_mul(context, x, weight, &product));
    ASSERT_OK(bt_sum_all(context, product, &sum));
    if (*total) {
        ASSERT_OK(bt_add(context, *total, sum, &both));
        bt_tensor_release(sum);
        sum = both;
    }
    bt_tensor_release(product);
    bt_tensor_release(*total);
    *total = sum;
}

static bt_tensor *make_loss(probe *p)
{
    bt_tensor *y[BT_OP_MAX_OUTPUTS] = {NULL}, *loss = NULL;
    ASSERT_OK(bt_op_apply(&p->f.context, p->id, &p->sample.attrs, p->leaf, p->sample.in_count, y));
    for (int i = 0; i < bt_op_row(p->id)->out_count; ++i) {
        if (bt_dtype_is_float(y[i]->dtype)) {
            bt_tensor *square = NULL;
            bt_tensor *weight =
                fixture_random(&p->f, BT_F64, y[i]->shape, -1, 1, 200 + (uint64_t)i);
            bt_tensor *narrow = NULL;
            ASSERT_OK(bt_cast(&p->f.context, weight, y[i]->dtype, &narrow));
            ASSERT_OK(bt_mul(&p->f.context, y[i], y[i], &square));
            add_weighted(p, square, narrow, &loss);
            bt_tensor_release(weight);
            bt_tensor_release(narrow);
            bt_tensor_release(square);
        }
        bt_tensor_release(y[i]);
    }
    return loss;
}

// S from first gradients by bt_backward.
static double evaluate(probe *p)
{
    double sum = 0;
    make_leaves(p);
    bt_tensor *loss = make_loss(p);
    ASSERT_OK(bt_backward(&p->f.context, loss, NULL));
    for (int i = 0; i < p->sample.in_count; ++i) {
        if (p->trained >> i & 1U) {
            double *grad = fixture_read(&p->f, p->leaf[i]->grad);
            for (int64_t k = 0; k < bt_tensor_count(p->leaf[i]); ++k) {
                sum += p->weights[i][k] * grad[k];
            }
            free(grad);
        }
    }
    bt_tensor_release(loss);
    release_leaves(p);
    return sum;
}

// S from recorded gradients, as a tensor; leaves and loss are made and stay.
static bt_status record(probe *p, bt_tensor **loss, bt_tensor **out)
{
    bt_tensor *of[BT_OP_MAX_INPUTS], *grads[BT_OP_MAX_INPUTS];
    int count = 0, inputs[BT_OP_MAX_INPUTS];
    make_leaves(p);
    *loss = make_loss(p);
    *out = NULL;
    for (int i = 0; i < p->sample.in_count; ++i) {
        if (p->trained >> i & 1U) {
            inputs[count] = i;
            of[count++] = p->leaf[i];
        }
    }
    BT_TRY(bt_backward_recorded(&p->f.context, *loss, NULL, of, count, grads));
    for (int i = 0; i < count; ++i) {
        bt_tensor *weight = fixture_values(&p->f, BT_F64, of[i]->shape, p->weights[inputs[i]]);
        assert_null(of[i]->grad);
        add_weighted(p, grads[i], weight, out);
        bt_tensor_release(weight);
        bt_tensor_release(grads[i]);
    }
    return BT_OK;
}

static void compare(probe *p, int variant, int input, const double *got)
{
    double largest = 1;
    for (int64_t k = 0; k < bt_shape_count(&p->sample.in[input].shape); ++k) {
        const double kept = p->values[input][k];
        p->values[input][k] = kept + step;
        const double above = evaluate(p);
        p->values[input][k] = kept - step;
        const double below = evaluate(p);
        p->values[input][k] = kept;
        const double expected = (above - below) / (2 * step), value = got ? got[k] : 0;
        largest = fmax(largest, fabs(expected));
        if (!(fabs(value - expected) <= tolerance * largest)) {
            fail_msg("%s variant %d, inputs %#x: d/d input %d [%lld]: got %.12g, expected %.12g",
                     bt_op_row(p->id)->name, variant, p->trained, input, (long long)k, value,
                     expected);
        }
    }
}

static void check_trained(probe *p, int variant)
{
    bt_tensor *loss = NULL, *sum = NULL;
    double *second[BT_OP_MAX_INPUTS] = {NULL}, value = 0;
    ASSERT_OK(record(p, &loss, &sum));
    ASSERT_OK(bt_tensor_read(&p->f.context, sum, &value));
    if (sum->requires_grad) { // of linear ops of one input as well: L is a square
        ASSERT_OK(bt_backward(&p->f.context, sum, NULL));
    }
    for (int i = 0; i < p->sample.in_count; ++i) {
        if (p->leaf[i] && p->leaf[i]->grad) {
            second[i] = fixture_read(&p->f, p->leaf[i]->grad);
        }
    }
    bt_tensor_release(loss);
    bt_tensor_release(sum);
    release_leaves(p);
    bt_tape_reset(p->f.tape);
    const double expected = evaluate(p);
    if (!(fabs(value - expected) <= 1e-12 * fmax(1, fabs(expected)))) {
        fail_msg("%s variant %d, inputs %#x: recorded %.15g, backward %.15g",
                 bt_op_row(p->id)->name, variant, p->trained, value, expected);
    }
    for (int i = 0; i < p->sample.in_count; ++i) {
        if (p->trained >> i & 1U) {
            compare(p, variant, i, second[i]);
        }
        free(second[i]);
    }
}

static void check_refused(probe *p)
{
    bt_tensor *loss = NULL, *sum = NULL;
    char message[64];
    (void)snprintf(message, sizeof message, "%s is not twice differentiable",
                   bt_op_row(p->id)->name);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, message, record(p, &loss, &sum));
    bt_tensor_release(loss);
    release_leaves(p);
    bt_tape_reset(p->f.tape);
}

static void rows_have_right_second_gradients(void **state)
{
    (void)state;
    int64_t runs = 0, refused = 0;
    for (int id = 0; id < BT_OP_COUNT; ++id) {
        const bt_op *op = bt_op_row((bt_op_id)id);
        op_sample sample;
        for (int variant = 0; op_sample_of((bt_op_id)id, variant, &sample); ++variant) {
            const bool activates =
                id == BT_OP_LINEAR &&
                ((const bt_linear_attrs *)(const void *)sample.attrs)->activation;
            probe p;
            open_probe(&p, (bt_op_id)id, &sample);
            for (p.trained = 1; p.trained < 1U << sample.in_count; ++p.trained) {
                bool floats = true;
                for (int i = 0; i < sample.in_count; ++i) {
                    floats = floats && (is_float(&p, i) || !(p.trained >> i & 1U));
                }
                if (!floats) {
                    continue;
                }
                if (op->recorded && !activates) {
                    check_trained(&p, variant);
                    ++runs;
                } else if (!activates) {
                    check_refused(&p);
                    ++refused;
                }
            }
            close_probe(&p);
        }
    }
    print_message("%lld runs, %lld refused\n", (long long)runs, (long long)refused);
    assert_true(runs > 100 && refused > 10);
}

// y = x^3: gradients 3 x^2, 6 x and 6; a tensor of the tape is asked for as well as a leaf.
static void can_be_repeated(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    const double value = 1.5;
    bt_tensor *x = fixture_values(&f, BT_F64, BT_SHAPE(1), &value), *h = NULL, *square = NULL;
    bt_tensor *y = NULL, *first[2], *second = NULL, *third = NULL;
    x->requires_grad = true;
    ASSERT_OK(bt_scale(&f.context, x, 1, &h));
    ASSERT_OK(bt_mul(&f.context, h, h, &square));
    ASSERT_OK(bt_mul(&f.context, square, h, &y));
    ASSERT_OK(bt_backward_recorded(&f.context, y, NULL, (bt_tensor *[]){x, h}, 2, first));
    ASSERT_OK(bt_backward_recorded(&f.context, first[0], NULL, &x, 1, &second));
    ASSERT_OK(bt_backward_recorded(&f.context, second, NULL, &h, 1, &third));
    bt_tensor *const made[] = {first[0], first[1], second, third};
    const double expected[] = {6.75, 6.75, 9, 6};
    for (int i = 0; i < 4; ++i) {
        double *got = fixture_read(&f, made[i]);
        assert_true(fabs(got[0] - expected[i]) <= 1e-12);
        free(got);
        bt_tensor_release(made[i]);
    }
    ASSERT_OK(bt_backward(&f.context, y, NULL)); // the tape is whole
    double *got = fixture_read(&f, x->grad);
    assert_true(fabs(got[0] - 6.75) <= 1e-12);
    free(got);
    bt_tensor_release(x);
    bt_tensor_release(h);
    bt_tensor_release(square);
    bt_tensor_release(y);
    fixture_close(&f);
}

static void refuses(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *x = fixture_random(&f, BT_F64, BT_SHAPE(2, 4), -1, 1, 1), *y = NULL, *out = NULL;
    bt_tensor *w = fixture_random(&f, BT_F64, BT_SHAPE(3, 4), -1, 1, 2);
    x->name = "x";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "depends on no tensor",
                 bt_backward_recorded(&f.context, x, NULL, &x, 1, &out));
    w->requires_grad = true;
    ASSERT_OK(bt_linear(&f.context, x, w, NULL, NULL, BT_ACTIVATION_GELU, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"x\" is a constant",
                 bt_backward_recorded(&f.context, y, NULL, &x, 1, &out));
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "linear with GELU is not twice differentiable",
                 bt_backward_recorded(&f.context, y, NULL, &w, 1, &out));
    assert_null(out);
    bt_tensor_release(y);
    bt_tensor_release(x);
    bt_tensor_release(w);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_right_second_gradients),
                                       cmocka_unit_test(can_be_repeated),
                                       cmocka_unit_test(refuses)};
    return cmocka_run_group_tests_name("gradients of gradients", tests, NULL, NULL);
}
