// tests/unit/test_cpu_gemm.c - matrix products of the CPU, with every epilogue
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/kernel.h"

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

typedef struct gemm_case {
    int64_t m, n, k, batch;
    bool trans_a, trans_b;
    double alpha, beta;
    bt_epilogue epilogue;
    bool has_bias, in_place; // in place: c is d
    int64_t pad;             // extra elements at the end of every row
} gemm_case;

typedef struct gemm_data {
    int64_t a_count, b_count, d_count, aux_count;
    double *a, *b, *c, *bias, *aux, *d, *got;
} gemm_data;

// Rows x cols of `in`, at `batch` copies; returns the elements that it takes.
static int64_t extent(int64_t rows, int64_t stride, int64_t batch) { return rows * stride * batch; }

static bt_gemm_args describe(const gemm_case *test, bt_dtype dtype, gemm_data *data)
{
    const int64_t a_rows = test->trans_a ? test->k : test->m;
    const int64_t b_rows = test->trans_b ? test->n : test->k;
    bt_gemm_args args = {.m = test->m, .n = test->n, .k = test->k, .batch = test->batch};
    args.trans_a = test->trans_a, args.trans_b = test->trans_b;
    args.lda = (test->trans_a ? test->m : test->k) + test->pad;
    args.ldb = (test->trans_b ? test->k : test->n) + test->pad;
    args.ldc = args.ldd = test->n + test->pad;
    args.stride_a = a_rows * args.lda, args.stride_b = b_rows * args.ldb;
    args.stride_c = args.stride_d = test->m * args.ldd;
    args.alpha = test->alpha, args.beta = test->beta, args.epilogue = test->epilogue;
    args.ab_dtype = args.d_dtype = dtype;
    data->a_count = extent(a_rows, args.lda, test->batch);
    data->b_count = extent(b_rows, args.ldb, test->batch);
    data->d_count = extent(test->m, args.ldd, test->batch);
    return args;
}

// Plain loops; leaves d and, for BIAS_GELU, aux. Padding keeps what c and aux had.
static void reference(const bt_gemm_args *args, const gemm_case *test, gemm_data *data)
{
    for (int64_t z = 0; z < args->batch; ++z) {
        for (int64_t i = 0; i < args->m; ++i) {
            for (int64_t j = 0; j < args->n; ++j) {
                double sum = 0;
                for (int64_t p = 0; p < args->k; ++p) {
                    sum += data->a[z * args->stride_a +
                                   (args->trans_a ? p * args->lda + i : i * args->lda + p)] *
                           data->b[z * args->stride_b +
                                   (args->trans_b ? j * args->ldb + p : p * args->ldb + j)];
                }
                const int64_t at = z * args->stride_d + i * args->ldd + j;
                double value = args->alpha * sum;
                if (test->has_bias) {
                    value += data->bias[j];
                }
                if (test->epilogue == BT_EPILOGUE_BIAS_GELU) {
                    data->aux[at] = value;
                    value = gelu(value);
                } else if (test->epilogue == BT_EPILOGUE_DGELU) {
                    value *= gelu_slope(data->aux[at]);
                }
                data->d[at] = value + (args->beta != 0 ? args->beta * data->c[at] : 0);
            }
        }
    }
}

static void check_gemm(const gemm_case *test, bt_dtype dtype)
{
    gemm_data data = {0};
    bt_gemm_args args = describe(test, dtype, &data);
    data.a = test_doubles(data.a_count), data.b = test_doubles(data.b_count);
    data.c = test_doubles(data.d_count), data.d = test_doubles(data.d_count);
    data.aux = test_doubles(data.d_count), data.got = test_doubles(data.d_count);
    data.bias = test_doubles(test->n);
    test_random(data.a, data.a_count, 1, -1, 1);
    test_random(data.b, data.b_count, 2, -1, 1);
    test_random(data.c, data.d_count, 3, -1, 1);
    test_random(data.aux, data.d_count, 4, -2, 2);
    test_random(data.bias, test->n, 5, -1, 1);
    test_buffer a = test_buffer_make(dtype, data.a, data.a_count);
    test_buffer b = test_buffer_make(dtype, data.b, data.b_count);
    test_buffer c = test_buffer_make(dtype, data.c, data.d_count);
    test_buffer d = test_buffer_make(dtype, data.c, data.d_count);
    test_buffer aux = test_buffer_make(dtype, data.aux, data.d_count);
    test_buffer bias = test_buffer_make(dtype, data.bias, test->n);
    for (int64_t i = 0; i < data.d_count; ++i) {
        data.d[i] = data.c[i];
    }
    args.a = a.data, args.b = b.data, args.d = d.data, args.aux = aux.data;
    args.c = test->in_place ? d.data : c.data;
    args.bias = test->has_bias ? bias.data : NULL;
    TEST_KERNEL(BT_KERNEL_GEMM, dtype, &args, &d, &aux);
    reference(&args, test, &data);
    // Each of k products and sums is rounded; entries are at most 1, the result of size sqrt(k).
    const double tolerance = 4 * bt_dtype_epsilon(dtype) * (sqrt((double)test->k) + 4) + 1e-9;
    test_buffer_read(&d, data.got);
    test_assert_close(data.got, data.d, data.d_count, tolerance, 16 * bt_dtype_epsilon(dtype), "d");
    test_buffer_read(&aux, data.got);
    test_assert_close(data.got, data.aux, data.d_count, tolerance, 0, "aux");
    free(data.a), free(data.b), free(data.c), free(data.d), free(data.aux), free(data.got);
    free(data.bias);
    test_buffer_release(&a), test_buffer_release(&b), test_buffer_release(&c);
    test_buffer_release(&d), test_buffer_release(&aux), test_buffer_release(&bias);
}

static void check_both(gemm_case test)
{
    check_gemm(&test, BT_F32);
    check_gemm(&test, BT_F64);
}

static void test_shapes(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{1, 1, 1},      {1, 5, 3},       {7, 1, 9},     {3, 4, 0},
                                 {0, 4, 4},      {4, 0, 4},       {17, 33, 65},  {64, 96, 32},
                                 {130, 70, 300}, {200, 1100, 40}, {1100, 90, 40}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
        for (int trans = 0; trans < 4; ++trans) {
            gemm_case test = {.m = shapes[i][0], .n = shapes[i][1], .k = shapes[i][2], .batch = 1};
            test.trans_a = trans & 1, test.trans_b = trans & 2, test.alpha = 1;
            check_both(test);
            test.pad = 3, test.alpha = -0.5, test.beta = 1, test.in_place = true;
            check_both(test);
        }
    }
}

// Products that are cut into tiles: more than 2^21 multiply-adds.
enum { EPILOGUE_K = TEST_SANITIZED ? 75 : 130 };

static void test_epilogues(void **state)
{
    (void)state;
    for (int epilogue = 0; epilogue < BT_EPILOGUE_COUNT; ++epilogue) {
        for (int variant = 0; variant < 16; ++variant) {
            gemm_case test = {.m = 150, .n = 190, .k = EPILOGUE_K, .batch = 1, .alpha = 0.25};
            test.epilogue = (bt_epilogue)epilogue;
            test.beta = variant & 1 ? 0.5 : 0;
            test.in_place = variant & 2;
            test.has_bias = (variant & 4) &&
                            (epilogue == BT_EPILOGUE_BIAS || epilogue == BT_EPILOGUE_BIAS_GELU);
            test.batch = variant & 8 ? 3 : 1;
            test.pad = variant & 8 ? 5 : 0;
            check_both(test);
        }
    }
}

static void test_small_batches(void **state)
{
    (void)state;
    check_both((gemm_case){.m = 5, .n = 6, .k = 7, .batch = 20, .alpha = 1, .trans_b = true});
    check_both((gemm_case){.m = 5, .n = 6, .k = 7, .batch = 0, .alpha = 1});
}

// Bits must not depend on threads at training shapes either; the plain product is compared where
// it is cheap, here only the runs with each other (inside TEST_KERNEL).
static void test_training_shapes_do_not_depend_on_threads(void **state)
{
    (void)state;
    const int64_t shapes[][5] = {{512, 1536, 256, 0, 0},
                                 {512, 768, 1000, 0, 1},
                                 {768, 3072, 128, 1, 0},
                                 {100, 5003, 64, 0, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
        const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
        double *a = test_doubles(m * k), *b = test_doubles(n * k);
        test_random(a, m * k, 1, -1, 1);
        test_random(b, n * k, 2, -1, 1);
        test_buffer ba = test_buffer_make(BT_F32, a, m * k);
        test_buffer bb = test_buffer_make(BT_F32, b, n * k);
        test_buffer bd = test_buffer_make(BT_F32, NULL, m * n);
        bt_gemm_args args = {.m = m, .n = n, .k = k, .batch = 1, .alpha = 1};
        args.a = ba.data, args.b = bb.data, args.d = bd.data;
        args.ab_dtype = args.d_dtype = BT_F32;
        args.trans_a = shapes[i][3], args.trans_b = shapes[i][4];
        args.lda = args.trans_a ? m : k, args.ldb = args.trans_b ? k : n, args.ldd = n;
        TEST_KERNEL(BT_KERNEL_GEMM, BT_F32, &args, &bd);
        free(a), free(b);
        test_buffer_release(&ba), test_buffer_release(&bb), test_buffer_release(&bd);
    }
}

// However many processors cut D, every element is computed once.
static void test_any_number_of_processors(void **state)
{
    (void)state;
    enum { M = 200, N = 330, K = 70 };
    double *a = test_doubles(M * K), *b = test_doubles(N * K), *got = test_doubles(M * N);
    double *expected = test_doubles(M * N);
    test_random(a, M * K, 1, -1, 1);
    test_random(b, N * K, 2, -1, 1);
    for (int64_t i = 0; i < M * N; ++i) {
        for (int64_t p = 0; p < K; ++p) {
            expected[i] += a[i / N * K + p] * b[p * N + i % N];
        }
    }
    test_buffer ba = test_buffer_make(BT_F64, a, M * K), bb = test_buffer_make(BT_F64, b, N * K);
    bt_device device;
    const bt_kernel *kernel = NULL;
    bt_gemm_args args = {.m = M, .n = N, .k = K, .batch = 1, .alpha = 1};
    args.a = ba.data, args.b = bb.data, args.lda = K, args.ldb = args.ldd = N;
    args.ab_dtype = args.d_dtype = BT_F64;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    ASSERT_OK(bt_kernel_find(&device, BT_KERNEL_GEMM, BT_F64, &args, &kernel));
    for (int processors = 0; processors < 70; processors = 2 * processors + 1) {
        test_buffer bd = test_buffer_make(BT_F64, NULL, M * N);
        args.d = bd.data, device.info.processor_count = processors;
        ASSERT_OK(kernel->launch(&(bt_launch){.device = &device}, &args));
        test_buffer_read(&bd, got);
        test_assert_close(got, expected, M * N, 1e-13, 1e-13, "d");
        test_buffer_release(&bd);
    }
    bt_device_close(&device);
    free(a), free(b), free(got), free(expected);
    test_buffer_release(&ba), test_buffer_release(&bb);
}

static void test_nan_and_unread_operands(void **state)
{
    (void)state;
    const double a[4] = {1, 2, TEST_NAN, 4}, b[4] = {1, 0, 0, 1};
    double got[4];
    test_buffer ba = test_buffer_make(BT_F32, a, 4), bb = test_buffer_make(BT_F32, b, 4);
    test_buffer bd = test_buffer_make(BT_F32, NULL, 4); // NaN: must not be read without beta
    bt_gemm_args args = {.m = 2, .n = 2, .k = 2, .batch = 1, .alpha = 1};
    args.a = ba.data, args.b = bb.data, args.c = bd.data, args.d = bd.data;
    args.lda = args.ldb = args.ldc = args.ldd = 2;
    args.ab_dtype = args.d_dtype = BT_F32;
    TEST_KERNEL(BT_KERNEL_GEMM, BT_F32, &args, &bd);
    test_buffer_read(&bd, got);
    assert_true(got[0] == 1 && got[1] == 2 && isnan(got[2]) && isnan(got[3]));
    args.epilogue = BT_EPILOGUE_BIAS_GELU; // without aux
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "gemm_cpu_f32",
                 test_kernel_status(BT_KERNEL_GEMM, BT_F32, &args));
    args.epilogue = BT_EPILOGUE_NONE, args.compute = BT_COMPUTE_TF32;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "gemm_cpu_f32",
                 test_kernel_status(BT_KERNEL_GEMM, BT_F32, &args));
    args.epilogue = BT_EPILOGUE_COUNT, args.compute = BT_COMPUTE_NATIVE;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "epilogue",
                 test_kernel_status(BT_KERNEL_GEMM, BT_F32, &args));
    test_buffer_release(&ba), test_buffer_release(&bb), test_buffer_release(&bd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_small_batches),
        cmocka_unit_test(test_training_shapes_do_not_depend_on_threads),
        cmocka_unit_test(test_any_number_of_processors),
        cmocka_unit_test(test_nan_and_unread_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
