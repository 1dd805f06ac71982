// tests/unit/test_emit_cpu.c - generated kernels against the CPU's own, bit for bit, and bounds
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixture.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_group.h"

static const bt_dtype types[] = {BT_F32, BT_F64, BT_BF16};

static const struct {
    bt_dtype dtype;
    int64_t count;
} vectors[] = {{BT_F32, 1}, {BT_F32, 33}, {BT_F32, 16384 + 37}, {BT_F64, 47}, {BT_BF16, 1000}};

// Every function and slope, on random numbers of several sizes and on special ones.
static void test_functions(void **state)
{
    (void)state;
    static const double special[] = {0.0,   -0.0,  1e-40, -1e-40, 1e-30, 0.625, -0.625, 88.7,
                                     -87.4, -103., 89.5,  -105.5, 200.0, -200., 1e30,   -1e30};
    for (int f = 0; f < BT_UNARY_COUNT; ++f) {
        const bool positive = f == BT_UNARY_LOG || f == BT_UNARY_SQRT;
        for (size_t n = 0; n < sizeof vectors / sizeof *vectors; ++n) {
            const bt_dtype dtype = vectors[n].dtype;
            const int64_t count = vectors[n].count;
            double *x = test_doubles(count), *ones = test_doubles(count);
            test_random(x, count, n, positive ? 0.01 : -12, 12);
            for (int64_t i = 0; i < count; ++i) {
                ones[i] = 1;
                if (i < 18 && count > 18) {
                    x[i] = i < 16 ? special[i] : i == 16 ? TEST_INFINITY : TEST_NAN;
                }
            }
            test_buffer in = test_buffer_make(dtype, x, count);
            test_buffer dy = test_buffer_make(dtype, ones, count);
            test_buffer y = test_buffer_make(dtype, NULL, count), dx = y;
            dx = test_buffer_make(dtype, NULL, count);
            test_buffer own = test_buffer_make(dtype, NULL, count);
            test_buffer slope = test_buffer_make(dtype, NULL, count);
            const bt_unary_args forward = {.function = (bt_unary)f,
                                           .alpha = 0.3,
                                           .x = in.data,
                                           .y = own.data,
                                           .count = count,
                                           .dtype = dtype};
            const bt_unary_backward_args backward = {.function = (bt_unary)f,
                                                     .alpha = 0.3,
                                                     .x = in.data,
                                                     .dy = dy.data,
                                                     .dx = slope.data,
                                                     .count = count,
                                                     .dtype = dtype};
            TEST_KERNEL(BT_KERNEL_UNARY, dtype, &forward, &own);
            TEST_KERNEL(BT_KERNEL_UNARY_BACKWARD, dtype, &backward, &slope);
            bt_fused group = group_unary(dtype, count, (bt_unary)f, 0.3);
            run_group(&group, count, (test_buffer *[]){&in, &y, &dx});
            assert_same_bits(&y, &own, bt_unary_name((bt_unary)f));
            assert_same_bits(&dx, &slope, bt_unary_name((bt_unary)f));
            test_buffer_release(&in), test_buffer_release(&dy), test_buffer_release(&y);
            test_buffer_release(&dx), test_buffer_release(&own), test_buffer_release(&slope);
            free(x);
            free(ones);
        }
    }
}

static const struct {
    int64_t rows, cols;
} shapes[] = {{1, 1}, {3, 31}, {5, 32}, {2, 33}, {7, 512}, {4, 768}, {3, 1000}, {9, 4096}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// y = softmax(x) with the bits of the CPU's kernel; some exponentials would be subnormal in f32,
// which the kernel makes 0.
static void test_softmax(void **state)
{
    (void)state;
    for (int n = 0; n < SHAPES * 2; ++n) {
        const bt_dtype dtype = types[n % 2];
        const int64_t rows = shapes[n / 2].rows, cols = shapes[n / 2].cols, count = rows * cols;
        double *x = test_doubles(count);
        test_random(x, count, 5, -60, 60);
        test_buffer in = test_buffer_make(dtype, x, count);
        test_buffer y = test_buffer_make(dtype, NULL, count);
        test_buffer own = test_buffer_make(dtype, NULL, count);
        const bt_softmax_args args = {
            .x = in.data, .y = own.data, .rows = rows, .cols = cols, .dtype = dtype};
        TEST_KERNEL(BT_KERNEL_SOFTMAX, dtype, &args, &own);
        bt_fused group = group_softmax(dtype, rows, cols, BT_F64);
        run_group(&group, rows, (test_buffer *[]){&in, &y});
        assert_same_bits(&y, &own, "softmax");
        test_buffer_release(&in), test_buffer_release(&y), test_buffer_release(&own);
        free(x);
    }
}

static void test_layernorm(void **state)
{
    (void)state;
    for (int n = 0; n < SHAPES * 2; ++n) {
        const bt_dtype dtype = n % 2 ? BT_BF16 : BT_F32;
        const int64_t rows = shapes[n / 2].rows, cols = shapes[n / 2].cols, count = rows * cols;
        double *x = test_doubles(count), *g = test_doubles(cols), *h = test_doubles(cols);
        test_random(x, count, 7, -3, 5), test_random(g, cols, 8, 0, 2),
            test_random(h, cols, 9, -1, 1);
        test_buffer in = test_buffer_make(dtype, x, count),
                    gamma = test_buffer_make(dtype, g, cols);
        test_buffer beta = test_buffer_make(dtype, h, cols);
        test_buffer y[2], mean[2], rstd[2];
        for (int i = 0; i < 2; ++i) {
            y[i] = test_buffer_make(dtype, NULL, count);
            mean[i] = test_buffer_make(BT_F32, NULL, rows);
            rstd[i] = test_buffer_make(BT_F32, NULL, rows);
        }
        const bt_layernorm_args args = {.x = in.data,
                                        .gamma = gamma.data,
                                        .beta = beta.data,
                                        .y = y[1].data,
                                        .mean = mean[1].data,
                                        .rstd = rstd[1].data,
                                        .rows = rows,
                                        .cols = cols,
                                        .epsilon = 1e-5,
                                        .dtype = dtype,
                                        .param_dtype = dtype};
        TEST_KERNEL(BT_KERNEL_LAYERNORM, dtype, &args, &y[1], &mean[1], &rstd[1]);
        bt_fused group = group_layernorm(dtype, rows, cols, 1e-5, BT_F64);
        run_group(&group, rows, (test_buffer *[]){&in, &gamma, &beta, &y[0], &mean[0], &rstd[0]});
        assert_same_bits(&mean[0], &mean[1], "mean");
        assert_same_bits(&rstd[0], &rstd[1], "rstd");
        assert_same_bits(&y[0], &y[1], "layernorm");
        for (int i = 0; i < 2; ++i) {
            test_buffer_release(&y[i]), test_buffer_release(&mean[i]),
                test_buffer_release(&rstd[i]);
        }
        test_buffer_release(&in), test_buffer_release(&gamma), test_buffer_release(&beta);
        free(x), free(g), free(h);
    }
}

static double epsilon_of(bt_dtype dtype)
{
    return dtype == BT_F64 ? DBL_EPSILON : dtype == BT_F32 ? (double)FLT_EPSILON : 0x1p-8;
}

// Compares with doubles: |error| <= bound eps (1 + |expected|).
static void assert_near(const test_buffer *got, const double *expected, double bound,
                        const char *what)
{
    double *values = test_doubles(got->count);
    test_buffer_read(got, values);
    test_assert_close(values, expected, got->count, bound * epsilon_of(got->dtype),
                      bound * epsilon_of(got->dtype), what);
    free(values);
}

// Sums in any order: within some eps of a reference in double.
static void test_rmsnorm(void **state)
{
    (void)state;
    for (int n = 0; n < SHAPES * 3; ++n) {
        const bt_dtype dtype = types[n % 3];
        const int64_t rows = shapes[n / 3].rows, cols = shapes[n / 3].cols, count = rows * cols;
        double *x = test_doubles(count), *r = test_doubles(count), *g = test_doubles(cols);
        double *s = test_doubles(count), *y = test_doubles(count);
        test_random(x, count, 1, -2, 2), test_random(r, count, 2, -2, 2);
        test_random(g, cols, 3, 0.5, 1.5);
        test_buffer in = test_buffer_make(dtype, x, count), res = test_buffer_make(dtype, r, count);
        test_buffer gamma = test_buffer_make(dtype, g, cols);
        test_buffer sum = test_buffer_make(dtype, NULL, count);
        test_buffer out = test_buffer_make(dtype, NULL, count);
        test_buffer_read(&in, x), test_buffer_read(&res, r), test_buffer_read(&gamma, g);
        for (int64_t i = 0; i < rows; ++i) {
            double squares = 0;
            for (int64_t c = i * cols; c < (i + 1) * cols; ++c) {
                s[c] = x[c] + r[c];
                squares += s[c] * s[c];
            }
            for (int64_t c = 0; c < cols; ++c) {
                y[i * cols + c] = s[i * cols + c] / sqrt(squares / (double)cols + 1e-6) * g[c];
            }
        }
        bt_fused group = group_rmsnorm(dtype, rows, cols, 1e-6, BT_F64);
        run_group(&group, rows, (test_buffer *[]){&in, &res, &gamma, &sum, &out});
        assert_near(&sum, s, 1, "sum");
        assert_near(&out, y, 16, "rmsnorm");
        test_buffer_release(&in), test_buffer_release(&res), test_buffer_release(&gamma);
        test_buffer_release(&sum), test_buffer_release(&out);
        free(x), free(r), free(g), free(s), free(y);
    }
}

static void test_cross_entropy(void **state)
{
    (void)state;
    for (int n = 0; n < SHAPES * 2; ++n) {
        const bt_dtype dtype = types[n % 2];
        const int64_t rows = shapes[n / 2].rows, cols = shapes[n / 2].cols, count = rows * cols;
        double *x = test_doubles(count), *loss = test_doubles(rows);
        int32_t *t = calloc((size_t)rows, sizeof *t);
        assert_non_null(t);
        test_random(x, count, 4, -9, 9);
        for (int64_t i = 0; i < rows; ++i) {
            double sum = exp(x[i * cols]);
            t[i] = (int32_t)(i * 7919 % cols);
            for (int64_t c = 1; c < cols; ++c) {
                sum += exp(x[i * cols + c]);
            }
            loss[i] = log(sum) - x[i * cols + t[i]];
        }
        test_buffer in = test_buffer_make(dtype, x, count), out = in;
        test_buffer target = test_buffer_integers(t, rows);
        out = test_buffer_make(dtype, NULL, rows);
        bt_fused group = group_cross_entropy(dtype, rows, cols, BT_F64);
        run_group(&group, rows, (test_buffer *[]){&in, &target, &out});
        assert_near(&out, loss, 24, "cross-entropy");
        test_buffer_release(&in), test_buffer_release(&target), test_buffer_release(&out);
        free(x), free(loss), free(t);
    }
}

static void test_columns(void **state)
{
    (void)state;
    static const int64_t cols_of[] = {1, 63, 64, 65, 200};
    for (int n = 0; n < 5 * 3; ++n) {
        const bt_dtype dtype = types[n % 3], wide = dtype == BT_F64 ? BT_F64 : BT_F32;
        const int64_t rows = 37, cols = cols_of[n / 3], count = rows * cols;
        double *x = test_doubles(count), *w = test_doubles(cols), *sum = test_doubles(cols);
        test_random(x, count, 1, -2, 2), test_random(w, cols, 2, -2, 2);
        test_random(sum, cols, 3, -2, 2);
        test_buffer in = test_buffer_make(dtype, x, count),
                    weight = test_buffer_make(dtype, w, cols);
        test_buffer y = test_buffer_make(dtype, NULL, count);
        test_buffer total = test_buffer_make(wide, sum, cols);
        test_buffer_read(&in, x), test_buffer_read(&weight, w);
        for (int64_t i = 0; i < count; ++i) {
            x[i] *= w[i % cols];
            sum[i % cols] += x[i];
        }
        bt_fused group = group_column(dtype, rows, cols, BT_F64);
        run_group(&group, rows, (test_buffer *[]){&in, &weight, &y, &total});
        assert_near(&y, x, 1, "product");
        assert_near(&total, sum, 40, "sums of columns");
        test_buffer_release(&in), test_buffer_release(&weight), test_buffer_release(&y);
        test_buffer_release(&total);
        free(x), free(w), free(sum);
    }
}

// Transposed, broadcast and strided operands of three axes; the first may have another size.
static void test_strides(void **state)
{
    (void)state;
    enum { A = 3, B = 5, C = 21 };
    const int64_t shape[] = {A, B, C}, turned[] = {B, 1, A * B}, rows_only[] = {0, 1, 0};
    bt_fused group;
    ASSERT_OK(bt_fused_init(&group, BT_FUSED_ELEMENTWISE, shape, 3));
    group.dynamic_rows = true;
    bt_fused_builder b = {&group, BT_OK};
    const int x = bt_fused_load(&b, bt_fused_operand_add(&b, BT_F32, turned));
    const int y = bt_fused_load(&b, bt_fused_operand_add(&b, BT_F32, rows_only));
    const int z = bt_fused_binary(&b, BT_FUSED_SUB, x, y);
    bt_fused_store(&b, bt_fused_operand_add(&b, BT_F32, NULL), z);
    bt_fused_store(&b, bt_fused_operand_add(&b, BT_F32, turned), z);
    ASSERT_OK(b.status);
    double xs[A * B * C], ys[B], plain[A * B * C], expected[2][A * B * C];
    test_random(xs, A * B * C, 1, -1, 1), test_random(ys, B, 2, -1, 1);
    for (int64_t rows = 1; rows <= A; ++rows) {
        for (int i = 0; i < A * B * C; ++i) {
            plain[i] = expected[0][i] = expected[1][i] = -9;
        }
        for (int i = 0; i < rows * B * C; ++i) {
            const int p = i / (B * C), q = i / C % B, r = i % C, at = p * B + q + r * A * B;
            expected[0][i] = expected[1][at] = (double)((float)xs[at] - (float)ys[q]);
        }
        test_buffer in = test_buffer_make(BT_F32, xs, A * B * C),
                    row = test_buffer_make(BT_F32, ys, B);
        test_buffer one = test_buffer_make(BT_F32, plain, A * B * C);
        test_buffer two = test_buffer_make(BT_F32, plain, A * B * C);
        test_buffer same[] = {test_buffer_make(BT_F32, expected[0], A * B * C),
                              test_buffer_make(BT_F32, expected[1], A * B * C)};
        run_group(&group, rows, (test_buffer *[]){&in, &row, &one, &two});
        assert_same_bits(&one, &same[0], "contiguous");
        assert_same_bits(&two, &same[1], "turned");
        test_buffer_release(&in), test_buffer_release(&row), test_buffer_release(&one);
        test_buffer_release(&two), test_buffer_release(&same[0]), test_buffer_release(&same[1]);
    }
}

// x is overwritten in the first phase and used in the second: what it held before counts.
static void test_in_place(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 70 };
    const int64_t shape[] = {ROWS, COLS}, per_row[] = {1, 0};
    bt_fused group;
    ASSERT_OK(bt_fused_init(&group, BT_FUSED_ROW, shape, 2));
    bt_fused_builder b = {&group, BT_OK};
    const int memory = bt_fused_operand_add(&b, BT_F32, NULL);
    const int x = bt_fused_load(&b, memory);
    bt_fused_store(&b, memory, bt_fused_unary(&b, BT_UNARY_SCALE, 2, x));
    const int max = bt_fused_reduce(&b, BT_FUSED_ROW_MAX, x, -1, bt_fused_lanes(BT_F32, 0, BT_F32));
    bt_fused_store(&b, bt_fused_operand_add(&b, BT_F32, NULL),
                   bt_fused_binary(&b, BT_FUSED_SUB, x, max));
    bt_fused_store(&b, bt_fused_operand_add(&b, BT_F32, per_row), max);
    ASSERT_OK(b.status);
    double xs[ROWS * COLS], twice[ROWS * COLS], less[ROWS * COLS], top[ROWS];
    test_random(xs, ROWS * COLS, 1, -1, 1);
    for (int r = 0; r < ROWS; ++r) {
        top[r] = -TEST_INFINITY;
        for (int c = r * COLS; c < (r + 1) * COLS; ++c) {
            top[r] = xs[c] > top[r] ? xs[c] : top[r];
        }
        for (int c = r * COLS; c < (r + 1) * COLS; ++c) {
            twice[c] = 2 * xs[c];
            less[c] = (double)((float)xs[c] - (float)top[r]);
        }
    }
    test_buffer in = test_buffer_make(BT_F32, xs, ROWS * COLS);
    test_buffer out = test_buffer_make(BT_F32, NULL, ROWS * COLS);
    test_buffer most = test_buffer_make(BT_F32, NULL, ROWS);
    run_group(&group, ROWS, (test_buffer *[]){&in, &out, &most});
    assert_near(&in, twice, 0, "overwritten");
    assert_near(&out, less, 0, "what was there before");
    assert_near(&most, top, 0, "largest");
    test_buffer_release(&in), test_buffer_release(&out), test_buffer_release(&most);
}

// Large results go past the cache, with the same bits.
static void test_past(void **state)
{
    (void)state;
    const int64_t count = ((int64_t)16 << 20) / 4 + 5;
    double *x = test_doubles(count);
    test_random(x, count, 1, -4, 4);
    test_buffer in = test_buffer_make(BT_F32, x, count);
    test_buffer own = test_buffer_make(BT_F32, NULL, count), slope = own;
    slope = test_buffer_make(BT_F32, NULL, count);
    float *memory = aligned_alloc(64, (size_t)(count + 64) / 16 * 64 * 2);
    assert_non_null(memory);
    const bt_unary_args forward = {
        .function = BT_UNARY_GELU, .x = in.data, .y = own.data, .count = count, .dtype = BT_F32};
    ASSERT_OK(test_kernel_status(BT_KERNEL_UNARY, BT_F32, &forward));
    bt_fused group = group_unary(BT_F32, count, BT_UNARY_GELU, 0);
    bt_compiled *compiled = NULL;
    ASSERT_OK(bt_compile(&group, NULL, &compiled));
    void *operands[] = {in.data, memory, memory + (count + 63) / 16 * 16};
    ASSERT_OK(bt_compiled_run(compiled, NULL, count, operands, NULL));
    assert_memory_equal(memory, own.data, own.size_bytes);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "rows",
                 bt_compiled_run(compiled, NULL, 3, operands, NULL));
    bt_compiled_release(compiled);
    free(memory);
    free(x);
    test_buffer_release(&in), test_buffer_release(&own), test_buffer_release(&slope);
}

static const product_sizes products[] = {
    {1, 1, 1, 1, false, false, 0},    {1, 7, 33, 5, false, true, 0},
    {1, 16, 16, 64, true, false, 2},  {3, 5, 17, 40, false, false, 0},
    {2, 1, 50, 3, true, true, 1},     {4, 9, 1, 12, false, true, 0},
    {1, 33, 100, 129, true, true, 0},
};

// The sums over k ascend: the bits that the interpreter makes.
static void test_products(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    for (size_t n = 0; n < sizeof products / sizeof *products * 3; ++n) {
        const bt_dtype dtype = types[n % 3], work = dtype == BT_F64 ? BT_F64 : BT_F32;
        const product_sizes *sizes = &products[n / 3];
        const int64_t all = sizes->batch * sizes->m * sizes->n;
        const int64_t counts[] = {product_a_count(sizes), product_b_count(sizes), sizes->n, all};
        const bt_fused group = group_product(dtype, sizes, true);
        test_buffer operands[6], *of_group[5];
        void *at[5];
        for (int i = 0; i < 4; ++i) {
            double *x = test_doubles(counts[i]);
            test_random(x, counts[i], (uint64_t)i + n, -2, 2);
            operands[i] = test_buffer_make(i == 3 ? work : dtype, x, counts[i]);
            free(x);
        }
        for (int i = 4; i < 6; ++i) {
            operands[i] = test_buffer_make(dtype, NULL, all);
        }
        for (int i = 0; i < 5; ++i) {
            of_group[i] = &operands[i];
            at[i] = operands[i < 4 ? i : 5].data;
        }
        run_group(&group, group.shape[0], of_group);
        ASSERT_OK(bt_fused_interpret(NULL, &f.context, &group, at));
        assert_same_bits(&operands[4], &operands[5], "product");
        for (int i = 0; i < 6; ++i) {
            test_buffer_release(&operands[i]);
        }
    }
    const product_sizes small = {1, 8, 8, 8, false, true, 0};
    const bt_fused any = group_product(BT_F32, &small, false);
    bt_emitted emitted;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "order", bt_emit_cpu(&any, &emitted));
    bt_emitted_release(&emitted);
    fixture_close(&f);
}

int main(void)
{
    if (bt_compiler_available() == BT_STATUS_UNAVAILABLE) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),     cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_layernorm),     cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_columns),
        cmocka_unit_test(test_strides),       cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_past),          cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
