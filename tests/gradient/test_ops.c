// tests/gradient/test_ops.c - every row of the op table: its gradients, for every subset of inputs
//
// For random weights w and scalar L = sum over outputs of w * y, the gradient of L in each float
// input that requires one is compared
//   f64        with central differences of L. With step h these err by O(h^2) truncation and
//              O(eps |L| / h) rounding; h = 1e-5 keeps both under 1e-8 for the tests' magnitudes,
//              and the tolerance is ten times that.
//   f32, bf16  with the f64 gradient of the same inputs and weights, which bf16 represents exactly.
//              An op and its backward round a few times (u each) what is at most of the size of
//              the largest gradient of the input or of its operands (1): ROUNDINGS u (1 + max).
// The subsets are run as recorded, in each mode of recomputation, in a recomputed body that is
// given the inputs, and in one that captures them; with leaves (whose gradient is f32 where they
// are bf16) and with activations; twice, so that the second backward adds to the gradients of the
// first.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixture.h"
#include "tests/support/op_samples.h"
#include "tests/support/test.h"

static const double step = 1e-5;
static const double tolerance = 1e-7;
enum { ROUNDINGS = 6 };

typedef enum run_mode {
    MODE_RECORDED,
    MODE_GELU_LN,
    MODE_BLOCK,
    MODE_BLOCK_OFFLOAD,
    MODE_GIVEN,
    MODE_CAPTURED,
    MODES
} run_mode;
static const char *const mode_names[] = {"recorded",          "recorded as gelu_ln",
                                         "recorded as block", "recorded as block_offload",
                                         "recomputed",        "captured"};

typedef struct probe {
    fixture f;
    bt_op_id id;
    op_sample sample;
    double *values[BT_OP_MAX_INPUTS];  // of float inputs, owned
    int32_t *ids[BT_OP_MAX_INPUTS];    // of the others, owned
    double *numeric[BT_OP_MAX_INPUTS]; // central differences, owned
    double *exact[BT_OP_MAX_INPUTS];   // f64 gradients, owned
} probe;

// One run: the op's inputs in a type.
typedef struct trial {
    probe *p;
    bt_dtype dtype;
    run_mode mode;
    unsigned trained;
    bool leaves;
    bt_tensor *leaf[BT_OP_MAX_INPUTS];
    bt_tensor *in[BT_OP_MAX_INPUTS]; // what the op is given: the leaf or an activation
} trial;

static bool is_float(const probe *p, int i)
{
    return p->sample.present[i] && bt_dtype_is_float(p->sample.in[i].dtype);
}

static double to_bf16(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    bits &= 0xFFFF0000u;
    memcpy(&narrow, &bits, sizeof bits);
    return (double)narrow;
}

static bt_tensor *random_tensor(fixture *f, bt_dtype dtype, bt_shape shape, uint64_t seed)
{
    bt_tensor *drawn = fixture_random(f, BT_F64, shape, -1, 1, seed);
    double *values = bt_tensor_data(drawn); // the CPU's memory
    for (int64_t i = 0; i < bt_tensor_count(drawn); ++i) {
        values[i] = to_bf16(values[i]);
    }
    bt_tensor *out = fixture_doubles(f, dtype, shape, values);
    bt_tensor_release(drawn);
    return out;
}

static void open_probe(probe *p, bt_op_id id, const op_sample *sample)
{
    memset(p, 0, sizeof *p);
    fixture_open(&p->f, 0);
    p->id = id;
    p->sample = *sample;
    for (int i = 0; i < sample->in_count; ++i) {
        if (!sample->present[i]) {
            continue;
        }
        const bt_op_spec *spec = &sample->in[i];
        bt_tensor *drawn = fixture_random(&p->f, spec->dtype, spec->shape, sample->low[i],
                                          sample->high[i], 100 + (uint64_t)i);
        const size_t count = (size_t)bt_tensor_count(drawn);
        if (is_float(p, i)) {
            p->values[i] = fixture_read(&p->f, drawn);
            for (size_t k = 0; k < count; ++k) {
                p->values[i][k] = to_bf16(p->values[i][k]);
            }
        } else {
            p->ids[i] = malloc(count * sizeof(int32_t));
            ASSERT_OK(bt_tensor_read(&p->f.context, drawn, p->ids[i]));
            if (sample->integers[i]) {
                memcpy(p->ids[i], sample->integers[i], count * sizeof(int32_t));
            }
        }
        bt_tensor_release(drawn);
    }
}

static void close_probe(probe *p)
{
    for (int i = 0; i < BT_OP_MAX_INPUTS; ++i) {
        free(p->values[i]);
        free(p->ids[i]);
        free(p->numeric[i]);
        free(p->exact[i]);
    }
    fixture_close(&p->f);
}

// ---- one run ------------------------------------------------------------------------------------

static void open_trial(trial *t)
{
    probe *p = t->p;
    for (int i = 0; i < p->sample.in_count; ++i) {
        t->leaf[i] = t->in[i] = NULL;
        if (p->ids[i]) {
            t->leaf[i] = fixture_values(&p->f, BT_I32, p->sample.in[i].shape, p->ids[i]);
        } else if (p->sample.present[i]) {
            t->leaf[i] = fixture_doubles(&p->f, t->dtype, p->sample.in[i].shape, p->values[i]);
            t->leaf[i]->requires_grad = t->trained >> i & 1U;
            t->leaf[i]->grad_dtype = t->dtype == BT_F64 ? BT_F64 : BT_F32;
        }
    }
}

static void close_trial(trial *t)
{
    for (int i = 0; i < t->p->sample.in_count; ++i) {
        bt_tensor_release(t->leaf[i]);
    }
}

static void make_inputs(trial *t)
{
    for (int i = 0; i < t->p->sample.in_count; ++i) {
        t->in[i] = NULL;
        if (t->leaf[i] && t->leaf[i]->requires_grad && !t->leaves) {
            ASSERT_OK(bt_scale(&t->p->f.context, t->leaf[i], 1, &t->in[i]));
        } else {
            t->in[i] = bt_tensor_retain(t->leaf[i]);
        }
    }
}

// *total (may be NULL at first) += sum of a fixed random weight times y.
static bt_status add_weighted(bt_context *context, probe *p, bt_tensor *y, uint64_t seed,
                              bt_tensor **total)
{
    bt_tensor *product = NULL, *sum = NULL, *both = NULL;
    bt_tensor *weight = random_tensor(&p->f, y->dtype, y->shape, seed);
    bt_status status = bt_mul(context, y, weight, &product);
    status = status == BT_OK ? bt_sum_all(context, product, &sum) : status;
    if (status == BT_OK && *total) {
        status = bt_add(context, *total, sum, &both);
        bt_tensor_release(sum);
        sum = both;
    }
    bt_tensor_release(weight);
    bt_tensor_release(product);
    bt_tensor_release(*total);
    *total = sum;
    return status;
}

static bt_status weighted_sum(bt_context *context, probe *p, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *outputs[BT_OP_MAX_OUTPUTS] = {NULL};
    *out = NULL;
    bt_status status =
        bt_op_apply(context, p->id, &p->sample.attrs, in, p->sample.in_count, outputs);
    for (int i = 0; i < bt_op_row(p->id)->out_count; ++i) {
        if (status == BT_OK && bt_dtype_is_float(outputs[i]->dtype)) {
            status = add_weighted(context, p, outputs[i], 200 + (uint64_t)i, out);
        }
        bt_tensor_release(outputs[i]);
    }
    return status;
}

static bt_status body(bt_context *context, const void *self, bt_tensor *const *in, int in_count,
                      bt_tensor **out)
{
    const trial *t = self;
    (void)in_count;
    return weighted_sum(context, t->p, t->mode == MODE_CAPTURED ? t->in : in, out);
}

static bt_tensor *loss_of(trial *t)
{
    bt_context *context = &t->p->f.context;
    bt_tensor *loss = NULL;
    if (t->mode <= MODE_BLOCK_OFFLOAD) {
        context->recompute = (bt_recompute_mode)t->mode;
        ASSERT_OK(weighted_sum(context, t->p, t->in, &loss));
        context->recompute = BT_RECOMPUTE_NONE;
    } else if (t->mode == MODE_GIVEN) {
        ASSERT_OK(bt_recompute(context, body, t, t->in, t->p->sample.in_count, &loss));
    } else {
        bt_tensor *unrelated = fixture_random(&t->p->f, BT_F32, BT_SCALAR, 0, 1, 1);
        ASSERT_OK(bt_recompute(context, body, t, &unrelated, 1, &loss));
        bt_tensor_release(unrelated);
    }
    return loss;
}

// Half the gradients of two passes.
static void run(trial *t, double **grads)
{
    open_trial(t);
    for (int pass = 0; pass < 2; ++pass) {
        make_inputs(t);
        bt_tensor *loss = loss_of(t);
        ASSERT_OK(bt_backward(&t->p->f.context, loss, NULL));
        bt_tensor_release(loss);
        for (int i = 0; i < t->p->sample.in_count; ++i) {
            bt_tensor_release(t->in[i]);
        }
    }
    for (int i = 0; i < t->p->sample.in_count; ++i) {
        grads[i] = NULL;
        if (t->trained >> i & 1U) {
            assert_non_null(t->leaf[i]->grad);
            assert_int_equal(t->leaf[i]->grad->dtype, t->leaf[i]->grad_dtype);
            grads[i] = fixture_read(&t->p->f, t->leaf[i]->grad);
            for (int64_t k = 0; k < bt_tensor_count(t->leaf[i]); ++k) {
                grads[i][k] /= 2;
            }
        } else if (t->leaf[i]) {
            assert_null(t->leaf[i]->grad);
        }
    }
    close_trial(t);
}

static double evaluate(probe *p)
{
    trial t = {.p = p, .dtype = BT_F64, .leaves = true};
    double value = 0;
    open_trial(&t);
    bt_tensor *loss = NULL;
    ASSERT_OK(weighted_sum(&p->f.context, p, t.leaf, &loss));
    ASSERT_OK(bt_tensor_read(&p->f.context, loss, &value));
    bt_tensor_release(loss);
    close_trial(&t);
    return value;
}

static void differentiate(probe *p)
{
    for (int i = 0; i < p->sample.in_count; ++i) {
        const int64_t count = bt_shape_count(&p->sample.in[i].shape);
        p->numeric[i] = is_float(p, i) ? calloc((size_t)count, sizeof(double)) : NULL;
        for (int64_t k = 0; k < count && p->numeric[i]; ++k) {
            const double kept = p->values[i][k];
            p->values[i][k] = kept + step;
            const double above = evaluate(p);
            p->values[i][k] = kept - step;
            const double below = evaluate(p);
            p->values[i][k] = kept;
            p->numeric[i][k] = (above - below) / (2 * step);
        }
    }
}

// ---- comparison ---------------------------------------------------------------------------------

static double unit_roundoff(bt_dtype dtype)
{
    return dtype == BT_BF16 ? 0x1p-8 : dtype == BT_F32 ? 0x1p-24 : 0x1p-53;
}

// The place of the first element that is wrong, or -1.
static int64_t first_wrong(const probe *p, int i, bt_dtype dtype, const double *grad)
{
    const bool exact = dtype == BT_F64;
    const double *expected = exact ? p->numeric[i] : p->exact[i];
    const int64_t count = bt_shape_count(&p->sample.in[i].shape);
    double largest = 0;
    for (int64_t k = 0; k < count; ++k) {
        largest = fmax(largest, fabs(expected[k]));
    }
    for (int64_t k = 0; k < count; ++k) {
        const double allowed = exact ? tolerance * (1 + fabs(expected[k]))
                                     : ROUNDINGS * unit_roundoff(dtype) * (1 + largest);
        if (!(fabs(grad[k] - expected[k]) <= allowed)) {
            return k;
        }
    }
    return -1;
}

static void check(trial *t, int variant)
{
    double *grads[BT_OP_MAX_INPUTS] = {NULL};
    run(t, grads);
    for (int i = 0; i < t->p->sample.in_count; ++i) {
        const int64_t k = grads[i] ? first_wrong(t->p, i, t->dtype, grads[i]) : -1;
        if (k >= 0) {
            fail_msg("%s variant %d, %s, %s, inputs %#x of %s: d/d input %d [%lld]: got %.12g, "
                     "expected %.12g",
                     bt_op_row(t->p->id)->name, variant, bt_dtype_name(t->dtype),
                     mode_names[t->mode], t->trained, t->leaves ? "leaves" : "activations", i,
                     (long long)k, grads[i][k],
                     t->dtype == BT_F64 ? t->p->numeric[i][k] : t->p->exact[i][k]);
        }
    }
    for (int i = 0; i < t->p->sample.in_count; ++i) {
        if (!t->p->exact[i] && grads[i]) { // f64, recorded, leaves: just found right
            t->p->exact[i] = grads[i];
        } else {
            free(grads[i]);
        }
    }
}

// The inputs' subset of this number among the float ones; 0 past the last.
static unsigned subset(const probe *p, unsigned number)
{
    unsigned trained = 0;
    for (int i = 0; i < p->sample.in_count; ++i) {
        if (is_float(p, i)) {
            trained |= (number & 1U) << i;
            number >>= 1;
        }
    }
    return number ? 0 : trained;
}

static void check_row(bt_op_id id, bt_dtype dtype, int64_t *runs)
{
    op_sample sample;
    int variant = 0;
    for (; op_sample_of(id, variant, &sample); ++variant) {
        probe p;
        open_probe(&p, id, &sample);
        differentiate(&p);
        unsigned last = 1;
        while (subset(&p, last + 1)) {
            ++last;
        }
        trial whole = {.p = &p, .dtype = BT_F64, .trained = subset(&p, last), .leaves = true};
        check(&whole, variant); // makes p.exact
        for (unsigned number = 1; number <= last; ++number) {
            for (int how = 0; how < 2 * MODES; ++how) {
                trial t = {&p,     dtype, (run_mode)(how / 2), subset(&p, number), how % 2,
                           {NULL}, {NULL}};
                check(&t, variant);
                ++*runs;
            }
        }
        close_probe(&p);
    }
    assert_true(variant > 0); // a row without a test case is a row without a test
}

static void rows_have_right_gradients(bt_dtype dtype)
{
    int64_t runs = 0;
    for (int id = 0; id < BT_OP_COUNT; ++id) {
        check_row((bt_op_id)id, dtype, &runs);
    }
    print_message("%lld runs of %d ops in %s\n", (long long)runs, (int)BT_OP_COUNT,
                  bt_dtype_name(dtype));
}

static void in_f64(void **state)
{
    (void)state;
    rows_have_right_gradients(BT_F64);
}

static void in_f32(void **state)
{
    (void)state;
    rows_have_right_gradients(BT_F32);
}

static void in_bf16(void **state)
{
    (void)state;
    rows_have_right_gradients(BT_BF16);
}

// The checker must find a gradient that is wrong by little more than is allowed.
static void checker_finds_a_wrong_gradient(void **state)
{
    (void)state;
    static const bt_dtype dtypes[] = {BT_F64, BT_F32, BT_BF16};
    for (int i = 0; i < 3; ++i) {
        op_sample sample;
        probe p;
        double *grads[BT_OP_MAX_INPUTS];
        assert_true(op_sample_of(BT_OP_UNARY, BT_UNARY_GELU, &sample));
        open_probe(&p, BT_OP_UNARY, &sample);
        differentiate(&p);
        trial whole = {.p = &p, .dtype = BT_F64, .trained = 1, .leaves = true};
        check(&whole, 0);
        whole.dtype = dtypes[i];
        run(&whole, grads);
        assert_int_equal(first_wrong(&p, 0, dtypes[i], grads[0]), -1);
        const double kept = grads[0][3];
        grads[0][3] += i == 0 ? 1e-4 * kept : 4 * ROUNDINGS * unit_roundoff(dtypes[i]);
        assert_int_equal(first_wrong(&p, 0, dtypes[i], grads[0]), 3);
        grads[0][3] = (double)NAN;
        assert_int_equal(first_wrong(&p, 0, dtypes[i], grads[0]), 3);
        free(grads[0]);
        close_probe(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_f64),
        cmocka_unit_test(in_f32),
        cmocka_unit_test(in_bf16),
        cmocka_unit_test(checker_finds_a_wrong_gradient),
    };
    return cmocka_run_group_tests_name("gradient of ops", tests, NULL, NULL);
}
