// tests/conformance/test_linear_exps.c - loss and gradient of a linear layer's logits from the
// product's epilogue, on CUDA against the CPU in double, and as part of linear_cross_entropy
//
// BT_GEMM=own: the row serves shapes that are too small for it to be fast.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/session.h"
#include "framework/base/find.h"
#include "framework/ops/ops.h"
#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

enum { IGNORE = -100 };
static const double EPSILON = 0x1p-23;

typedef struct problem {
    int64_t rows, vocab, width;
} problem;

// Every third row is ignored, unless there is only one; with `bad` row 4 has no such target.
static test_twin *make_targets(const problem *s, bool bad)
{
    double *values = test_doubles(s->rows);
    for (int64_t r = 0; r < s->rows; ++r) {
        values[r] = r % 3 == 2 ? IGNORE : (double)(r * 7919 % s->vocab);
    }
    if (bad && s->rows > 4) {
        values[4] = (double)s->vocab;
    }
    test_twin *targets = test_twin_values(BT_I32, values, s->rows);
    free(values);
    return targets;
}

// x in [-size, size]; faults: a NaN in row 0, infinities in row 1, a target out of range.
static void check(const problem *s, double size, bool faults)
{
    test_case_name("%d rows, %d columns, width %d, x up to %g%s", (int)s->rows, (int)s->vocab,
                   (int)s->width, size, faults ? ", faults" : "");
    test_twin *x = test_twin_random(BT_BF16, s->rows * s->width, 1, -size, size);
    test_twin *w = test_twin_random(BT_BF16, s->vocab * s->width, 2, -1, 1);
    test_twin *targets = make_targets(s, faults);
    test_twin *inv_count = test_twin_random(BT_F32, 1, 3, 0.01, 0.02);
    test_twin *exps = test_twin_output(BT_BF16, s->rows * s->vocab);
    test_twin *scaled_x = test_twin_output(BT_BF16, s->rows * s->width);
    test_twin *scale = test_twin_output(BT_F32, s->rows);
    test_twin *loss = test_twin_output(BT_F32, s->rows);
    bt_linear_exps_args args[TEST_SIDES];
    if (faults) {
        test_twin_set(x, 0, (double)NAN);
        if (s->rows > 1) {
            test_twin_set(x, s->width, (double)INFINITY);
        }
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_linear_exps_args){.x = test_at(x, side),
                                           .w = test_at(w, side),
                                           .targets = test_at(targets, side),
                                           .inv_count = test_at(inv_count, side),
                                           .exps = test_at(exps, side),
                                           .scaled_x = test_at(scaled_x, side),
                                           .scale = test_at(scale, side),
                                           .loss = test_at(loss, side),
                                           .rows = s->rows,
                                           .vocab = s->vocab,
                                           .width = s->width,
                                           .ignore = IGNORE,
                                           .dtype = test_type(BT_BF16, side)};
    }
    test_run(BT_KERNEL_LINEAR_EXPS, BT_BF16, &args[0], &args[1]);
    // A logit errs by half a unit of a sum of `width` products, the exponent by one of itself: both
    // are magnified by the exponential.
    const double logit = (double)s->width * size * EPSILON + 32 * EPSILON;
    test_twin_check(loss, 4 * logit, 16 * EPSILON, "loss");
    test_twin_check(scale, 0, 4 * logit + 16 * EPSILON, "scale");
    test_twin_check(scaled_x, 0, 4 * logit + bt_dtype_epsilon(BT_BF16), "scaled x");
    test_twin_check(exps, 0x1p-126, 4 * logit + bt_dtype_epsilon(BT_BF16), "exps");
    test_twins_release();
}

// Tiles of 128 x 128 and 128 x 192, cut and full; rows of a block of 32, cut and full.
static void against_the_cpu(void **state)
{
    (void)state;
    static const problem shapes[] = {
        {1, 8, 8},      {3, 64, 16},     {31, 200, 72},    {33, 136, 8},    {128, 192, 64},
        {129, 384, 72}, {257, 1000, 40}, {300, 2056, 264}, {513, 4104, 96}, {40, 50304, 768}};
    for (int64_t i = 0; i < BT_COUNT(shapes); ++i) {
        check(&shapes[i], 1, false);
        check(&shapes[i], 0, false); // equal logits
    }
}

// Logits of hundreds: the sums of most rows exceed 2^64, or the target holds all of the mass.
static void large_logits(void **state)
{
    (void)state;
    static const problem shapes[] = {{1, 8, 64}, {70, 1000, 128}, {130, 392, 768}};
    static const double sizes[] = {8, 64, 1000};
    for (int64_t i = 0; i < BT_COUNT(shapes); ++i) {
        for (int64_t k = 0; k < BT_COUNT(sizes); ++k) {
            check(&shapes[i], sizes[k], false);
        }
    }
}

static void faults_stay_in_their_rows(void **state)
{
    (void)state;
    static const problem shapes[] = {{1, 8, 8}, {40, 200, 72}, {300, 520, 64}};
    for (int64_t i = 0; i < BT_COUNT(shapes); ++i) {
        check(&shapes[i], 1, true);
    }
}

// ---- as part of the op --------------------------------------------------------------------------

enum { ROWS = 300, WIDTH = 64, VOCAB = 520 };

typedef struct answer {
    float loss, dx[ROWS * WIDTH], dw[VOCAB * WIDTH];
    int calls; // of the row under test
} answer;

static void count_calls(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                        const void *args)
{
    answer *out = self;
    (void)plan, (void)args;
    out->calls += kernel->op == BT_KERNEL_LINEAR_EXPS;
}

static bt_tensor *made(bt_context *context, bt_dtype dtype, bt_shape shape, const void *values,
                       bt_dtype given)
{
    bt_tensor *wide = NULL, *out = NULL;
    ASSERT_OK(bt_tensor_create(context, given, shape, "test", &wide));
    ASSERT_OK(bt_tensor_write(context, wide, values));
    if (dtype == given) {
        return wide;
    }
    ASSERT_OK(bt_tensor_create(context, dtype, shape, "test", &out));
    ASSERT_OK(bt_tensor_copy(context, wide, out));
    bt_tensor_release(wide);
    return out;
}

static void read_floats(bt_context *context, bt_tensor *tensor, float *to)
{
    bt_tensor *wide = NULL;
    ASSERT_OK(bt_tensor_create(context, BT_F32, tensor->shape, "test", &wide));
    ASSERT_OK(bt_tensor_copy(context, tensor, wide));
    ASSERT_OK(bt_tensor_read(context, wide, to));
    bt_tensor_release(wide);
}

// Mean loss and gradients of the op, with the rows of products that BT_GEMM selects.
static void run_op(const char *backend, bt_dtype dtype, const char *rows, int64_t chunk,
                   answer *out)
{
    static float x_values[ROWS * WIDTH], w_values[VOCAB * WIDTH];
    static int32_t targets_values[ROWS];
    bt_session session;
    for (int i = 0; i < ROWS * WIDTH; ++i) {
        x_values[i] = (float)(i * 7919 % 257 - 128) / 64;
    }
    for (int i = 0; i < VOCAB * WIDTH; ++i) {
        w_values[i] = (float)(i * 6151 % 127 - 63) / 64;
    }
    for (int r = 0; r < ROWS; ++r) {
        targets_values[r] = r % 5 == 3 ? IGNORE : r * 37 % VOCAB;
    }
    assert_int_equal(setenv("BT_GEMM", rows, 1), 0);
    ASSERT_OK(bt_session_open(backend, 0, 0, &session));
    bt_context *context = &session.context;
    context->kernel_hook = (bt_kernel_hook){out, count_calls};
    bt_tensor *x = made(context, dtype, BT_SHAPE(ROWS, WIDTH), x_values, BT_F32);
    bt_tensor *w = made(context, dtype, BT_SHAPE(VOCAB, WIDTH), w_values, BT_F32);
    bt_tensor *targets = made(context, BT_I32, BT_SHAPE(ROWS), targets_values, BT_I32);
    bt_tensor *loss = NULL;
    x->requires_grad = w->requires_grad = true;
    w->grad_dtype = x->grad_dtype = BT_F32;
    ASSERT_OK(bt_linear_cross_entropy(context, x, w, targets, IGNORE, chunk, &loss, NULL));
    ASSERT_OK(bt_backward(context, loss, NULL));
    read_floats(context, loss, &out->loss);
    read_floats(context, x->grad, out->dx);
    read_floats(context, w->grad, out->dw);
    bt_tensor_release(loss);
    BT_TENSOR_RELEASE(x->grad);
    BT_TENSOR_RELEASE(w->grad);
    bt_tensor_release(targets);
    bt_tensor_release(x);
    bt_tensor_release(w);
    bt_session_close(&session);
    assert_int_equal(setenv("BT_GEMM", "own", 1), 0);
}

static void check_floats(const float *got, const float *expected, int64_t count, const char *what)
{
    float most = 0;
    for (int64_t i = 0; i < count; ++i) {
        most = fmaxf(most, fabsf(expected[i]));
    }
    for (int64_t i = 0; i < count; ++i) {
        if (!(fabsf(got[i] - expected[i]) <= 0x1p-7F * most)) {
            fail_msg("%s[%d] is %g, expected %g", what, (int)i, (double)got[i],
                     (double)expected[i]);
        }
    }
}

// All operands are exact in bf16; f32 on the CPU is the oracle.
static void serves_the_op(void **state)
{
    (void)state;
    static answer expected, got;
    static const int64_t chunks[] = {0, 128, 299, 300}, counts[] = {1, 3, 2, 1};
    run_op("cpu", BT_F32, "own", 0, &expected);
    assert_int_equal(expected.calls, 0);
    for (int64_t i = 0; i < BT_COUNT(chunks); ++i) {
        static const char *const rows[] = {"own", "cublaslt"}; // with and without the row
        for (int64_t k = 0; k < BT_COUNT(rows); ++k) {
            memset(&got, 0, sizeof got);
            run_op("cuda", BT_BF16, rows[k], chunks[i], &got);
            assert_int_equal(got.calls, k == 0 ? counts[i] : 0);
            assert_true(fabsf(got.loss - expected.loss) <= 0x1p-9F * expected.loss);
            check_floats(got.dx, expected.dx, ROWS * WIDTH, "dx");
            check_floats(got.dw, expected.dw, VOCAB * WIDTH, "dw");
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_cpu),
        cmocka_unit_test(large_logits),
        cmocka_unit_test(faults_stay_in_their_rows),
        cmocka_unit_test(serves_the_op),
    };
    (void)setenv("BT_GEMM", "own", 1);
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    test_device_arguments(argc, argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
