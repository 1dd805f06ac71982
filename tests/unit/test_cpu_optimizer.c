// tests/unit/test_cpu_optimizer.c - AdamW, gradient norm, dropout, count of non-finite numbers
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/kernel.h"

static const bt_dtype reals[] = {BT_F32, BT_F64};

// ---- gradient norm -----------------------------------------------------------------------------

static void check_norm(bt_dtype dtype, double max_norm)
{
    const int64_t counts[] = {1, 0, 100, 70001};
    const double eps = bt_dtype_epsilon(dtype), grad_scale = 0.25;
    bt_grad_norm_item items[4];
    test_buffer buffers[4];
    double sum = 0, norm, scale;
    for (int i = 0; i < 4; ++i) {
        double *values = test_doubles(counts[i]);
        test_random(values, counts[i], (uint64_t)i, -1, 1);
        for (int64_t k = 0; k < counts[i]; ++k) {
            sum += values[k] * values[k];
        }
        buffers[i] = test_buffer_make(dtype, values, counts[i]);
        items[i] = (bt_grad_norm_item){buffers[i].data, counts[i]};
        free(values);
    }
    test_buffer bnorm = test_buffer_make(dtype, NULL, 1);
    test_buffer bscale = test_buffer_make(dtype, NULL, 1);
    bt_grad_norm_args args = {items, 4, grad_scale, max_norm, bnorm.data, bscale.data, dtype};
    TEST_KERNEL(BT_KERNEL_GRAD_NORM, dtype, &args, &bnorm, &bscale);
    test_buffer_read(&bnorm, &norm);
    test_buffer_read(&bscale, &scale);
    const double expected = grad_scale * sqrt(sum);
    const double clipped = max_norm > 0 ? fmin(1, max_norm / (expected + 1e-6)) : 1;
    const double own = 0x1p-53 * 70102; // the reference adds one by one
    assert_true(fabs(norm - expected) <= (4 * eps + own) * expected);
    assert_true(fabs(scale - grad_scale * clipped) <= 4 * eps + own);

    // One NaN, or an infinity, anywhere.
    const double bad[2] = {TEST_NAN, TEST_INFINITY};
    for (int i = 0; i < 2; ++i) {
        test_buffer last = test_buffer_make(dtype, &bad[i], 1);
        items[0].grad = last.data;
        TEST_KERNEL(BT_KERNEL_GRAD_NORM, dtype, &args, &bnorm, &bscale);
        test_buffer_read(&bnorm, &norm);
        test_buffer_read(&bscale, &scale);
        assert_true(!isfinite(norm) && isnan(scale));
        test_buffer_release(&last);
    }
    for (int i = 0; i < 4; ++i) {
        test_buffer_release(&buffers[i]);
    }
    test_buffer_release(&bnorm), test_buffer_release(&bscale);
}

static void test_grad_norm(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        check_norm(reals[t], 1);
        check_norm(reals[t], 1e6);
        check_norm(reals[t], 0);
    }
}

static void test_grad_norm_of_nothing(void **state)
{
    (void)state;
    float norm = 7, scale = 7;
    bt_grad_norm_args args = {NULL, 0, 2, 1, &norm, &scale, BT_F32};
    ASSERT_OK(test_kernel_status(BT_KERNEL_GRAD_NORM, BT_F32, &args));
    assert_true(norm == 0 && scale == 2);
}

// The two halves give the bits of the whole, wherever the parts lie.
static void test_halves_of_the_norm(void **state)
{
    (void)state;
    enum { ITEMS = 3, COUNT = 3 * BT_SQUARES_BLOCK + 77 };
    static const int64_t counts[ITEMS] = {COUNT, 1, BT_SQUARES_BLOCK};
    static float values[ITEMS][COUNT + 1];
    for (int shift = 0; shift < 2; ++shift) {
        bt_grad_norm_item whole[ITEMS];
        bt_sum_squares_item parts[ITEMS + 1];
        double partials[6] = {0};
        float norm[2], scale[2];
        for (int i = 0; i < ITEMS; ++i) {
            bt_rng_normal_fill((bt_rng){5, (uint64_t)i}, values[i] + shift, counts[i], 0, 1);
            whole[i] = (bt_grad_norm_item){values[i] + shift, counts[i]};
        }
        // The first tensor in two parts, the last part of all first.
        parts[0] = (bt_sum_squares_item){values[2] + shift, counts[2], partials + 5};
        parts[1] = (bt_sum_squares_item){values[0] + shift, BT_SQUARES_BLOCK, partials};
        parts[2] = (bt_sum_squares_item){values[0] + shift + BT_SQUARES_BLOCK,
                                         COUNT - BT_SQUARES_BLOCK, partials + 1};
        parts[3] = (bt_sum_squares_item){values[1] + shift, 1, partials + 4};
        const bt_grad_norm_args once = {whole, ITEMS, 0.25, 1, &norm[0], &scale[0], BT_F32};
        const bt_sum_squares_args squares = {parts, ITEMS + 1, BT_F32};
        const bt_clip_scale_args clip = {partials, 6, 0.25, 1, &norm[1], &scale[1], BT_F32};
        ASSERT_OK(test_kernel_status(BT_KERNEL_GRAD_NORM, BT_F32, &once));
        ASSERT_OK(test_kernel_status(BT_KERNEL_SUM_SQUARES, BT_F32, &squares));
        ASSERT_OK(test_kernel_status(BT_KERNEL_CLIP_SCALE, BT_F32, &clip));
        assert_memory_equal(&norm[0], &norm[1], sizeof norm[0]);
        assert_memory_equal(&scale[0], &scale[1], sizeof scale[0]);
        assert_true(norm[0] > 1 && scale[0] < 0.25F);
        partials[4] = TEST_NAN;
        ASSERT_OK(test_kernel_status(BT_KERNEL_CLIP_SCALE, BT_F32, &clip));
        assert_true(isnan(norm[1]) && isnan(scale[1]));
    }
}

// ---- AdamW -------------------------------------------------------------------------------------

enum { TENSORS = 3 };
static const int64_t adam_counts[TENSORS] = {1, 0, 40003};

typedef struct adam_case {
    double *param[TENSORS], *grad[TENSORS], *m[TENSORS], *v[TENSORS]; // the reference's
    test_buffer param_b[TENSORS], grad_b[TENSORS], m_b[TENSORS], v_b[TENSORS];
    uint16_t *copy;
    bt_adamw_item items[TENSORS];
} adam_case;

static void adam_make(adam_case *test, bt_dtype dtype)
{
    for (int i = 0; i < TENSORS; ++i) {
        const int64_t count = adam_counts[i];
        double *const all[4] = {test_doubles(count), test_doubles(count), test_doubles(count),
                                test_doubles(count)};
        test->param[i] = all[0], test->grad[i] = all[1], test->m[i] = all[2], test->v[i] = all[3];
        test_random(test->param[i], count, 1, -1, 1);
        test_random(test->grad[i], count, 2, -1, 1);
        test->param_b[i] = test_buffer_make(dtype, test->param[i], count);
        test->grad_b[i] = test_buffer_make(dtype, test->grad[i], count);
        test->m_b[i] = test_buffer_make(dtype, test->m[i], count);
        test->v_b[i] = test_buffer_make(dtype, test->v[i], count);
        test->items[i] = (bt_adamw_item){.param = test->param_b[i].data, .count = count};
        test->items[i].grad = test->grad_b[i].data, test->items[i].m = test->m_b[i].data;
        test->items[i].v = test->v_b[i].data, test->items[i].decay = i == 0 ? 0 : 0.1;
    }
    test->copy = calloc((size_t)adam_counts[2], sizeof *test->copy);
    assert_non_null(test->copy);
    test->items[2].copy = test->copy;
}

static void adam_release(adam_case *test)
{
    for (int i = 0; i < TENSORS; ++i) {
        free(test->param[i]), free(test->grad[i]), free(test->m[i]), free(test->v[i]);
        test_buffer_release(&test->param_b[i]), test_buffer_release(&test->grad_b[i]);
        test_buffer_release(&test->m_b[i]), test_buffer_release(&test->v_b[i]);
    }
    free(test->copy);
}

static void adam_reference(adam_case *test, const bt_adamw_args *args, double scale)
{
    for (int i = 0; i < TENSORS; ++i) {
        for (int64_t k = 0; k < adam_counts[i]; ++k) {
            const double g = test->grad[i][k] * scale;
            double *m = &test->m[i][k], *v = &test->v[i][k], *param = &test->param[i][k];
            *m = args->beta1 * *m + (1 - args->beta1) * g;
            *v = args->beta2 * *v + (1 - args->beta2) * g * g;
            const double m_hat = *m / (1 - pow(args->beta1, (double)args->step));
            const double v_hat = *v / (1 - pow(args->beta2, (double)args->step));
            *param -=
                args->lr * (m_hat / (sqrt(v_hat) + args->epsilon) + test->items[i].decay * *param);
        }
    }
}

static void check_adamw(bt_dtype dtype)
{
    const double eps = bt_dtype_epsilon(dtype), scale = 0.5;
    double *got = test_doubles(adam_counts[2]);
    adam_case test = {0};
    adam_make(&test, dtype);
    test_buffer bscale = test_buffer_make(dtype, &scale, 1);
    bt_adamw_args args = {.items = test.items, .item_count = TENSORS, .lr = 1e-2, .beta1 = 0.9};
    args.beta2 = 0.95, args.epsilon = 1e-8, args.scale = bscale.data, args.dtype = dtype;
    for (args.step = 1; args.step <= 4; ++args.step) {
        TEST_KERNEL(BT_KERNEL_ADAMW, dtype, &args, &test.param_b[0], &test.m_b[0], &test.v_b[0],
                    &test.param_b[2], &test.m_b[2], &test.v_b[2]);
        adam_reference(&test, &args, scale);
    }
    for (int i = 0; i < TENSORS; ++i) {
        test_buffer_read(&test.m_b[i], got);
        test_assert_close(got, test.m[i], adam_counts[i], 4 * eps, 16 * eps, "m");
        test_buffer_read(&test.v_b[i], got);
        test_assert_close(got, test.v[i], adam_counts[i], 0, 32 * eps, "v");
        test_buffer_read(&test.param_b[i], got);
        // Four steps of lr times a quotient near 1.
        test_assert_close(got, test.param[i], adam_counts[i], 4 * eps, 8 * eps, "param");
    }
    for (int64_t k = 0; k < adam_counts[2]; ++k) {
        assert_int_equal(test.copy[k], bt_f32_to_bf16((float)got[k]));
    }
    // A NaN scale: nothing moves, the copy neither.
    const double nan_scale = TEST_NAN;
    test_buffer bnan = test_buffer_make(dtype, &nan_scale, 1);
    memset(test.copy, 0, (size_t)adam_counts[2] * sizeof *test.copy);
    args.scale = bnan.data;
    TEST_KERNEL(BT_KERNEL_ADAMW, dtype, &args, &test.param_b[2], &test.m_b[2]);
    double *after = test_doubles(adam_counts[2]);
    test_buffer_read(&test.param_b[2], after);
    assert_memory_equal(got, after, (size_t)adam_counts[2] * sizeof *got);
    assert_int_equal(test.copy[7], 0);
    free(got), free(after);
    adam_release(&test);
    test_buffer_release(&bscale), test_buffer_release(&bnan);
}

static void test_adamw(void **state)
{
    (void)state;
    check_adamw(BT_F32);
    check_adamw(BT_F64);
}

// ---- dropout -----------------------------------------------------------------------------------

static void check_dropout(int64_t count, double rate, bt_dtype dtype)
{
    double *x = test_doubles(count), *expected = test_doubles(count), *got = test_doubles(count);
    test_random(x, count, 1, 1, 2);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        uint32_t words[4];
        bt_rng_block((bt_rng){3, 9}, (uint64_t)(i / 4), words);
        const double uniform = (double)(float)(((words[i % 4] >> 8) + 0.5) * 0x1p-24);
        expected[i] = uniform >= rate ? x[i] / (1 - rate) : 0;
        kept += uniform >= rate;
    }
    const double slack = 5 * sqrt((double)count * rate * (1 - rate)) + 1e-9;
    assert_true(fabs((double)kept - (double)count * (1 - rate)) <= slack);
    test_buffer bx = test_buffer_make(dtype, x, count), by = test_buffer_make(dtype, NULL, count);
    bt_dropout_args args = {bx.data, by.data, count, rate, 3, 9, false, dtype};
    TEST_KERNEL(BT_KERNEL_DROPOUT, dtype, &args, &by);
    test_buffer_read(&by, got);
    test_assert_close(got, expected, count, 0, 2 * bt_dtype_epsilon(dtype), "dropout");
    args.accumulate = true;
    TEST_KERNEL(BT_KERNEL_DROPOUT, dtype, &args, &by);
    args.accumulate = false, args.y = bx.data;
    TEST_KERNEL(BT_KERNEL_DROPOUT, dtype, &args, &bx);
    test_buffer_read(&bx, got);
    test_assert_close(got, expected, count, 0, 2 * bt_dtype_epsilon(dtype), "in place");
    for (int64_t i = 0; i < count; ++i) {
        expected[i] *= 2;
    }
    test_buffer_read(&by, got);
    test_assert_close(got, expected, count, 0, 2 * bt_dtype_epsilon(dtype), "accumulated");
    free(x), free(expected), free(got);
    test_buffer_release(&bx), test_buffer_release(&by);
}

static void test_dropout(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        check_dropout(0, 0.5, reals[t]);
        check_dropout(1, 0.5, reals[t]);
        check_dropout(33, 0, reals[t]);
        check_dropout(50001, 0.1, reals[t]);
        check_dropout(20003, 0.9, reals[t]);
    }
    bt_dropout_args bad = {.rate = 1, .dtype = BT_F32};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "dropout rate 1",
                 test_kernel_status(BT_KERNEL_DROPOUT, BT_F32, &bad));
    bad.rate = TEST_NAN;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "dropout rate",
                 test_kernel_status(BT_KERNEL_DROPOUT, BT_F32, &bad));
}

// ---- count -------------------------------------------------------------------------------------

static void test_count_nonfinite(void **state)
{
    (void)state;
    const int64_t count = 60001;
    double *x = test_doubles(count);
    test_random(x, count, 1, -1, 1);
    x[0] = TEST_NAN, x[17] = TEST_INFINITY, x[20000] = -TEST_INFINITY, x[60000] = -TEST_NAN,
    x[5] = 3e38;
    for (int t = 0; t < 2; ++t) {
        test_buffer bx = test_buffer_make(reals[t], x, count);
        int64_t found = 99;
        bt_count_nonfinite_args args = {bx.data, count, &found, reals[t]};
        ASSERT_OK(test_kernel_status(BT_KERNEL_COUNT_NONFINITE, reals[t], &args));
        assert_int_equal(found, 4);
        args.count = 0;
        ASSERT_OK(test_kernel_status(BT_KERNEL_COUNT_NONFINITE, reals[t], &args));
        assert_int_equal(found, 0);
        test_buffer_release(&bx);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grad_norm),
        cmocka_unit_test(test_grad_norm_of_nothing),
        cmocka_unit_test(test_halves_of_the_norm),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_count_nonfinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
