// Products with endings that no CPU kernel fuses, and the op that requests them: bt_gemm's sums of
// columns are those of the column-sum kernel, bt_feed_forward is two linear layers.
#include <stdlib.h>
#include <string.h>

#include "framework/autograd/tape.h"
#include "framework/base/mem.h"
#include "framework/linalg/gemm.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

static bt_gemm_args product(bt_tensor *a, bt_tensor *b, bt_tensor *d)
{
    const int64_t m = a->shape.size[0], k = a->shape.size[1], n = b->shape.size[1];
    return (bt_gemm_args){.m = m,
                          .n = n,
                          .k = k,
                          .a = bt_tensor_data(a),
                          .b = bt_tensor_data(b),
                          .d = bt_tensor_data(d),
                          .lda = k,
                          .ldb = n,
                          .ldc = n,
                          .ldd = n,
                          .batch = 1,
                          .alpha = 1,
                          .ab_dtype = a->dtype,
                          .d_dtype = d->dtype};
}

static bt_tensor *random_tensor(fixture *f, bt_dtype dtype, bt_shape shape, double low, double high,
                                uint64_t seed)
{
    bt_tensor *wide = fixture_random(f, BT_F32, shape, low, high, seed);
    bt_tensor *cast = NULL;
    ASSERT_OK(bt_cast(&f->context, wide, dtype, &cast));
    bt_tensor_release(wide);
    return cast;
}

static void column_sums_are_those_of_the_result(void **state)
{
    (void)state;
    enum { M = 37, N = 19, K = 23 };
    static const bt_dtype types[][2] = {
        {BT_F32, BT_F32}, {BT_F64, BT_F64}, {BT_BF16, BT_F32}, {BT_BF16, BT_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        for (int accumulate = 0; accumulate < 2; ++accumulate) {
            fixture f;
            fixture_open(&f, 0);
            bt_tensor *a = random_tensor(&f, types[i][0], BT_SHAPE(M, K), -1, 1, 1);
            bt_tensor *b = random_tensor(&f, types[i][0], BT_SHAPE(K, N), -1, 1, 2);
            bt_tensor *pre = random_tensor(&f, types[i][0], BT_SHAPE(M, N), -2, 2, 3);
            bt_tensor *d = random_tensor(&f, types[i][0], BT_SHAPE(M, N), -1, 1, 4);
            bt_tensor *sums = random_tensor(&f, types[i][1], BT_SHAPE(N), 5, 6, 5);
            bt_tensor *expected = random_tensor(&f, types[i][1], BT_SHAPE(N), 5, 6, 5);
            bt_gemm_args args = product(a, b, d);
            args.epilogue = BT_EPILOGUE_DGELU;
            args.aux = bt_tensor_data(pre);
            args.dbias = bt_tensor_data(sums);
            args.dbias_dtype = types[i][1];
            args.dbias_accumulate = accumulate;
            ASSERT_OK(bt_gemm(&f.context, &args));
            bt_reduce_sum_args sum = {.x = bt_tensor_data(d),
                                      .y = bt_tensor_data(expected),
                                      .outer = 1,
                                      .reduce = M,
                                      .inner = N,
                                      .scale = 1,
                                      .accumulate = accumulate,
                                      .dtype = types[i][0],
                                      .y_dtype = types[i][1]};
            ASSERT_OK(bt_context_launch(&f.context, BT_KERNEL_REDUCE_SUM, types[i][0], &sum));
            assert_memory_equal(bt_tensor_data(sums), bt_tensor_data(expected),
                                N * bt_dtype_size(types[i][1]));
            bt_tensor *all[] = {a, b, pre, d, sums, expected};
            for (size_t t = 0; t < sizeof all / sizeof all[0]; ++t) {
                bt_tensor_release(all[t]);
            }
            fixture_close(&f);
        }
    }
}

static void column_sums_may_be_those_of_a(void **state)
{
    (void)state;
    enum { M = 21, N = 19, K = 37 };
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *a = random_tensor(&f, BT_BF16, BT_SHAPE(K, M), -1, 1, 1);
    bt_tensor *b = random_tensor(&f, BT_BF16, BT_SHAPE(K, N), -1, 1, 2);
    bt_tensor *d = random_tensor(&f, BT_BF16, BT_SHAPE(M, N), -1, 1, 3);
    bt_tensor *sums = random_tensor(&f, BT_F32, BT_SHAPE(M), 5, 6, 4);
    double *before = fixture_read(&f, sums), *values = fixture_read(&f, a);
    bt_gemm_args args = product(a, b, d);
    args.m = M;
    args.k = K;
    args.trans_a = true;
    args.dbias = bt_tensor_data(sums);
    args.dbias_dtype = BT_F32;
    args.dbias_accumulate = args.dbias_of_a = true;
    ASSERT_OK(bt_gemm(&f.context, &args));
    double *after = fixture_read(&f, sums);
    for (int64_t m = 0; m < M; ++m) {
        for (int64_t k = 0; k < K; ++k) {
            before[m] += values[k * M + m];
        }
    }
    test_assert_close(after, before, M, 0x1p-20, 0x1p-20, "sums of A's columns");
    args.trans_a = false; // the sums of rows
    args.lda = K;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "or of A^T", bt_gemm(&f.context, &args));
    free(before);
    free(values);
    free(after);
    bt_tensor *all[] = {a, b, d, sums};
    for (size_t t = 0; t < sizeof all / sizeof all[0]; ++t) {
        bt_tensor_release(all[t]);
    }
    fixture_close(&f);
}

static void column_sums_of_a_batch_or_with_gaps_are_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *a = fixture_random(&f, BT_F32, BT_SHAPE(4, 4), -1, 1, 1);
    bt_tensor *d = fixture_random(&f, BT_F32, BT_SHAPE(4, 8), -1, 1, 2);
    bt_gemm_args args = product(a, a, d);
    args.dbias = bt_tensor_data(a);
    args.dbias_dtype = BT_F32;
    args.ldd = 8;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "rows of 4 with stride 8", bt_gemm(&f.context, &args));
    args.ldd = 4;
    args.batch = 2;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "no kernel sums columns", bt_gemm(&f.context, &args));
    bt_tensor_release(a);
    bt_tensor_release(d);
    fixture_close(&f);
}

enum { FF_INPUTS = 6 };

// The loss sum(y weight) of an MLP, fused or as two layers; gradients of all inputs in grads.
static void run_mlp(fixture *f, bool fused, bt_dtype dtype, double *grads[FF_INPUTS], double **y)
{
    const bt_shape shapes[FF_INPUTS] = {BT_SHAPE(2, 9, 8), BT_SHAPE(40, 8), BT_SHAPE(40),
                                        BT_SHAPE(12, 40),  BT_SHAPE(12),    BT_SHAPE(2, 9, 12)};
    bt_tensor *in[FF_INPUTS];
    bt_tensor *out = NULL;
    bt_context *context = &f->context;
    for (int i = 0; i < FF_INPUTS; ++i) {
        in[i] = fixture_random(f, dtype, shapes[i], -1, 1, 10 + (uint64_t)i);
        in[i]->requires_grad = true;
    }
    if (fused) {
        ASSERT_OK(bt_feed_forward(context, in[0], in[1], in[2], in[3], in[4], in[5], &out));
    } else {
        bt_tensor *hidden = NULL;
        ASSERT_OK(bt_linear(context, in[0], in[1], in[2], NULL, BT_ACTIVATION_GELU, &hidden));
        ASSERT_OK(bt_linear(context, hidden, in[3], in[4], in[5], BT_ACTIVATION_NONE, &out));
        bt_tensor_release(hidden);
    }
    bt_tensor *seed = fixture_random(f, dtype, out->shape, -1, 1, 99);
    ASSERT_OK(bt_backward(context, out, seed));
    *y = fixture_read(f, out);
    for (int i = 0; i < FF_INPUTS; ++i) {
        grads[i] = fixture_read(f, in[i]->grad);
        bt_tensor_release(in[i]);
    }
    bt_tensor_release(seed);
    bt_tensor_release(out);
}

// One rounding of each sum apart: the slope may meet the product before or after it is stored.
static void feed_forward_is_two_layers(void **state)
{
    (void)state;
    static const int64_t counts[FF_INPUTS] = {2 * 9 * 8, 40 * 8, 40, 12 * 40, 12, 2 * 9 * 12};
    static const struct {
        bt_dtype dtype;
        double bound;
    } types[] = {{BT_F64, 0x1p-46}, {BT_F32, 0x1p-17}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; ++t) {
        double *grads[2][FF_INPUTS];
        double *y[2];
        for (int fused = 0; fused < 2; ++fused) {
            fixture f;
            fixture_open(&f, 0);
            run_mlp(&f, fused, types[t].dtype, grads[fused], &y[fused]);
            fixture_close(&f);
        }
        test_assert_close(y[1], y[0], counts[5], types[t].bound, types[t].bound, "y");
        for (int i = 0; i < FF_INPUTS; ++i) {
            test_assert_close(grads[1][i], grads[0][i], counts[i], types[t].bound, types[t].bound,
                              "gradient");
        }
        for (int fused = 0; fused < 2; ++fused) {
            free(y[fused]);
            for (int i = 0; i < FF_INPUTS; ++i) {
                free(grads[fused][i]);
            }
        }
    }
}

// Only requested gradients are computed, whichever input that is.
static void feed_forward_gives_single_gradients(void **state)
{
    (void)state;
    double *all[FF_INPUTS];
    double *y = NULL;
    fixture f;
    fixture_open(&f, 0);
    run_mlp(&f, true, BT_F64, all, &y);
    free(y);
    const bt_shape shapes[FF_INPUTS] = {BT_SHAPE(2, 9, 8), BT_SHAPE(40, 8), BT_SHAPE(40),
                                        BT_SHAPE(12, 40),  BT_SHAPE(12),    BT_SHAPE(2, 9, 12)};
    for (int wanted = 0; wanted < FF_INPUTS; ++wanted) {
        bt_tensor *in[FF_INPUTS];
        bt_tensor *out = NULL;
        for (int i = 0; i < FF_INPUTS; ++i) {
            in[i] = fixture_random(&f, BT_F64, shapes[i], -1, 1, 10 + (uint64_t)i);
            in[i]->requires_grad = i == wanted;
        }
        ASSERT_OK(bt_feed_forward(&f.context, in[0], in[1], in[2], in[3], in[4], in[5], &out));
        bt_tensor *seed = fixture_random(&f, BT_F64, out->shape, -1, 1, 99);
        ASSERT_OK(bt_backward(&f.context, out, seed));
        double *one = fixture_read(&f, in[wanted]->grad);
        test_assert_close(one, all[wanted], bt_tensor_count(in[wanted]), 0, 0, "single gradient");
        for (int i = 0; i < FF_INPUTS; ++i) {
            assert_true(i == wanted || !in[i]->grad);
            bt_tensor_release(in[i]);
        }
        free(one);
        free(all[wanted]);
        bt_tensor_release(seed);
        bt_tensor_release(out);
    }
    fixture_close(&f);
}

static void feed_forward_names_what_does_not_fit(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *x = fixture_random(&f, BT_F32, BT_SHAPE(3, 8), -1, 1, 1);
    bt_tensor *w = fixture_random(&f, BT_F32, BT_SHAPE(16, 8), -1, 1, 2);
    bt_tensor *v = fixture_random(&f, BT_F32, BT_SHAPE(8, 15), -1, 1, 3);
    bt_tensor *fitting = fixture_random(&f, BT_F32, BT_SHAPE(8, 16), -1, 1, 4);
    bt_tensor *out = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "input 3 [8, 15]",
                 bt_feed_forward(&f.context, x, w, NULL, v, NULL, NULL, &out));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "input 5 [8, 15]",
                 bt_feed_forward(&f.context, x, w, NULL, fitting, NULL, v, &out));
    bt_tensor_release(x);
    bt_tensor_release(w);
    bt_tensor_release(v);
    bt_tensor_release(fitting);
    fixture_close(&f);
}

// If no row fuses the requested ending, another way is used: nothing is formatted or allocated.
static void a_missing_row_is_no_error(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *a = fixture_random(&f, BT_F32, BT_SHAPE(8, 6), -1, 1, 1);
    bt_tensor *b = fixture_random(&f, BT_F32, BT_SHAPE(6, 4), -1, 1, 2);
    bt_tensor *d = fixture_random(&f, BT_F32, BT_SHAPE(8, 4), -1, 1, 3);
    bt_tensor *sums = fixture_random(&f, BT_F32, BT_SHAPE(4), -1, 1, 4);
    bt_gemm_args args = product(a, b, d);
    args.dbias = bt_tensor_data(sums);
    args.dbias_dtype = BT_F32;
    bt_error_clear();
    bt_mem_fail_at(1);
    assert_null(bt_kernel_lookup(f.context.device, BT_KERNEL_GEMM, BT_F32, &args));
    assert_string_equal(bt_error_message(), "");
    void *block = NULL; // the failure has not occurred yet: nothing was allocated
    assert_int_equal(bt_mem_alloc(1, 1, &block), BT_STATUS_OUT_OF_MEMORY);
    bt_mem_fail_at(0);
    bt_error_clear();
    ASSERT_OK(bt_gemm(&f.context, &args));
    assert_string_equal(bt_error_message(), "");
    const bt_gemm_args pair[] = {args, args};
    ASSERT_OK(bt_gemm_grouped(&f.context, pair, 2));
    assert_string_equal(bt_error_message(), "");
    bt_tensor *all[] = {a, b, d, sums};
    for (int i = 0; i < 4; ++i) {
        bt_tensor_release(all[i]);
    }
    fixture_close(&f);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *a = fixture_random(&f, BT_F32, BT_SHAPE(4, 4), -1, 1, 1);
    const bt_gemm_args good = product(a, a, a);
    const int64_t huge = INT64_C(1) << 40;
    bt_gemm_args bad[6];
    for (int i = 0; i < 6; ++i) {
        bad[i] = good;
    }
    bad[0].m = -1;
    bad[1].m = huge, bad[1].lda = huge;
    bad[2].batch = huge, bad[2].stride_b = huge;
    bad[3].ldd = INT64_MAX;
    bad[4].batch = INT64_MAX, bad[4].stride_d = 2;
    bad[5].beta = 1, bad[5].c = bad[5].d, bad[5].ldc = INT64_MAX / 2;
    for (int i = 0; i < 6; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "gemm:", bt_gemm(&f.context, &bad[i]));
        const bt_gemm_args pair[] = {good, bad[i]};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "product 1 of 2",
                     bt_gemm_grouped(&f.context, pair, 2));
    }
    bt_tensor_release(a);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_row_is_no_error),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(column_sums_are_those_of_the_result),
        cmocka_unit_test(column_sums_may_be_those_of_a),
        cmocka_unit_test(column_sums_of_a_batch_or_with_gaps_are_refused),
        cmocka_unit_test(feed_forward_is_two_layers),
        cmocka_unit_test(feed_forward_gives_single_gradients),
        cmocka_unit_test(feed_forward_names_what_does_not_fit),
    };
    return cmocka_run_group_tests_name("linalg", tests, NULL, NULL);
}
