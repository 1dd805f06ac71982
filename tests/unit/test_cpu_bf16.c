// tests/unit/test_cpu_bf16.c - bf16 on the CPU is f32 on the same numbers, rounded once
//
// Every call is made twice: in bf16, and in f32 on the numbers that the bf16 operands hold. Where
// blocks do not matter the results are equal bit by bit once the second is rounded; sums that go on
// from block to block may differ by the rounding of f32.
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/kernel.h"

// A tensor in both types, with the same numbers.
typedef struct twin {
    test_buffer narrow, wide;
} twin;

static twin twin_of(const double *values, int64_t count)
{
    twin made = {test_buffer_make(BT_BF16, values, count), {0}};
    double *rounded = test_doubles(count);
    test_buffer_read(&made.narrow, rounded);
    made.wide = test_buffer_make(BT_F32, rounded, count);
    free(rounded);
    return made;
}

static twin twin_random(int64_t count, uint64_t seed, double low, double high)
{
    double *values = test_doubles(count);
    test_random(values, count, seed, low, high);
    twin made = twin_of(values, count);
    free(values);
    return made;
}

static void twin_release(twin *of)
{
    test_buffer_release(&of->narrow);
    test_buffer_release(&of->wide);
}

// Each narrow number is the wide one rounded; with a share above 0, within that share of it and of
// half a unit.
static void twin_check(const twin *of, double share, const char *what)
{
    double *narrow = test_doubles(of->narrow.count), *wide = test_doubles(of->wide.count);
    test_buffer_read(&of->narrow, narrow);
    test_buffer_read(&of->wide, wide);
    for (int64_t i = 0; i < of->wide.count; ++i) {
        const double rounded = (double)bt_bf16_to_f32(bt_f32_to_bf16((float)wide[i]));
        const double limit = share > 0 ? (share + 0x1p-8) * fabs(wide[i]) + share : 0;
        if (!(fabs(narrow[i] - rounded) <= limit) && !(isnan(narrow[i]) && isnan(rounded))) {
            fail_msg("%s[%lld]: %a, f32 gives %a", what, (long long)i, narrow[i], wide[i]);
        }
    }
    free(narrow);
    free(wide);
}

// f32 results of both calls that are f32 in both.
static void same_check(const test_buffer *got, const test_buffer *expected, double share,
                       const char *what)
{
    double *left = test_doubles(got->count), *right = test_doubles(got->count);
    test_buffer_read(got, left);
    test_buffer_read(expected, right);
    test_assert_close(left, right, got->count, share, share, what);
    free(left);
    free(right);
}

#define BOTH(op, narrow_args, wide_args, narrow_out, wide_out)                                     \
    do {                                                                                           \
        TEST_KERNEL(op, BT_BF16, narrow_args, narrow_out);                                         \
        TEST_KERNEL(op, BT_F32, wide_args, wide_out);                                              \
    } while (0)

static const int64_t counts[] = {0, 1, 5, 300000};

static void elementwise(void **state)
{
    (void)state;
    for (int i = 0; i < 8; ++i) {
        const int64_t count = counts[i / 2];
        twin x = twin_random(count, 1, -4, 4), dy = twin_random(count, 2, -1, 1);
        twin y = twin_random(count, 3, -1, 1);
        bt_unary_args unary = {BT_UNARY_GELU, 0,       x.narrow.data, y.narrow.data,
                               count,         BT_BF16, false};
        bt_unary_args unary32 = {BT_UNARY_GELU, 0, x.wide.data, y.wide.data, count, BT_F32, false};
        BOTH(BT_KERNEL_UNARY, &unary, &unary32, &y.narrow, &y.wide);
        twin_check(&y, 0, "gelu");
        twin_release(&y);
        y = twin_random(count, 3, -1, 1);
        bt_unary_backward_args back = {BT_UNARY_GELU, 0,     x.narrow.data, dy.narrow.data,
                                       y.narrow.data, count, BT_BF16,       i % 2 == 1};
        bt_unary_backward_args back32 = {BT_UNARY_GELU, 0,     x.wide.data, dy.wide.data,
                                         y.wide.data,   count, BT_F32,      i % 2 == 1};
        BOTH(BT_KERNEL_UNARY_BACKWARD, &back, &back32, &y.narrow, &y.wide);
        twin_check(&y, 0, "gelu backward");
        bt_dropout_args drop = {dy.narrow.data, y.narrow.data, count, 0.25, 7, 9, i % 2, BT_BF16};
        bt_dropout_args drop32 = {dy.wide.data, y.wide.data, count, 0.25, 7, 9, i % 2, BT_F32};
        twin_release(&y);
        y = twin_random(count, 3, -1, 1);
        drop.y = y.narrow.data, drop32.y = y.wide.data;
        BOTH(BT_KERNEL_DROPOUT, &drop, &drop32, &y.narrow, &y.wide);
        twin_check(&y, 0, "dropout");
        twin_release(&y);
        y = twin_random(count, 3, -1, 1);
        const double third = 1.0 / 3;
        test_buffer factor = test_buffer_make(BT_F32, &third, 1);
        bt_scale_args scale = {
            dy.narrow.data, factor.data, y.narrow.data, count, i % 2, BT_BF16, 0};
        bt_scale_args scale32 = {dy.wide.data, factor.data, y.wide.data, count, i % 2, BT_F32, 0};
        BOTH(BT_KERNEL_SCALE, &scale, &scale32, &y.narrow, &y.wide);
        twin_check(&y, 0, "scale");
        test_buffer_release(&factor);
        twin_release(&x), twin_release(&dy), twin_release(&y);
    }
}

// A factor for each group of elements.
static void scale_by_groups(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {{0, 3}, {1, 1}, {7, 5}, {300, 129}, {2, 200000}};
    for (int i = 0; i < 2 * (int)(sizeof cases / sizeof cases[0]); ++i) {
        const int64_t groups = cases[i / 2][0], group = cases[i / 2][1], count = groups * group;
        twin x = twin_random(count, 1, -4, 4), y = twin_random(count, 2, -4, 4);
        twin factors = twin_random(groups, 3, -2, 2);
        const void *by = factors.wide.data;
        bt_scale_args narrow = {x.narrow.data, by, y.narrow.data, count, i % 2, BT_BF16, group};
        bt_scale_args wide = {x.wide.data, by, y.wide.data, count, i % 2, BT_F32, group};
        BOTH(BT_KERNEL_SCALE, &narrow, &wide, &y.narrow, &y.wide);
        twin_check(&y, 0, "scale by groups");
        twin_release(&x), twin_release(&y), twin_release(&factors);
    }
}

static void binary_with_any_strides(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, cols, a[2], b[2];
    } cases[] = {{1, 300000, {300000, 1}, {300000, 1}},
                 {700, 500, {500, 1}, {0, 1}},
                 {30, 50, {50, 1}, {1, 0}},
                 {30, 50, {1, 30}, {50, 1}},
                 {3, 7, {0, 0}, {7, 1}},
                 {0, 7, {7, 1}, {7, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const int64_t count = cases[i].rows * cases[i].cols;
        twin a = twin_random(count + 1, 1, -4, 4), b = twin_random(count + 500, 2, -4, 4);
        twin y = twin_random(count, 3, 0, 1);
        bt_binary_args op = {.function = BT_BINARY_MUL,
                             .rank = 2,
                             .shape = {cases[i].rows, cases[i].cols},
                             .a = a.narrow.data,
                             .a_stride = {cases[i].a[0], cases[i].a[1]},
                             .b = b.narrow.data,
                             .b_stride = {cases[i].b[0], cases[i].b[1]},
                             .y = y.narrow.data,
                             .dtype = BT_BF16};
        bt_binary_args op32 = op;
        op32.a = a.wide.data, op32.b = b.wide.data, op32.y = y.wide.data, op32.dtype = BT_F32;
        BOTH(BT_KERNEL_BINARY, &op, &op32, &y.narrow, &y.wide);
        twin_check(&y, 0, "product");
        twin_release(&a), twin_release(&b), twin_release(&y);
    }
}

static const int64_t shapes[][2] = {{0, 5}, {1, 1}, {3, 2}, {5, 17}, {2, 300000}, {700, 768}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void rows_of_softmax(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; ++i) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        twin x = twin_random(rows * cols, 1, -9, 9), y = twin_random(rows * cols, 2, 0, 1);
        twin dy = twin_random(rows * cols, 3, -1, 1);
        bt_softmax_args op = {x.narrow.data, y.narrow.data, rows, cols, BT_BF16};
        bt_softmax_args op32 = {x.wide.data, y.wide.data, rows, cols, BT_F32};
        BOTH(BT_KERNEL_SOFTMAX, &op, &op32, &y.narrow, &y.wide);
        twin_check(&y, 0, "softmax");
        bt_softmax_backward_args back = {x.narrow.data, dy.narrow.data, dy.narrow.data,
                                         rows,          cols,           BT_BF16};
        bt_softmax_backward_args back32 = {x.wide.data, dy.wide.data, dy.wide.data,
                                           rows,        cols,         BT_F32};
        BOTH(BT_KERNEL_SOFTMAX_BACKWARD, &back, &back32, &dy.narrow, &dy.wide);
        twin_check(&dy, 0, "softmax backward");
        twin_release(&x), twin_release(&y), twin_release(&dy);
    }
}

// Parameters in bf16 or f32, with and without residual.
static void check_layernorm(int64_t rows, int64_t cols, bool narrow_params, bool residual)
{
    twin x = twin_random(rows * cols, 1, -2, 4), other = twin_random(rows * cols, 2, -1, 1);
    twin gamma = twin_random(cols, 3, 0.5, 2), beta = twin_random(cols, 4, -1, 1);
    twin s = twin_random(rows * cols, 5, 0, 1), y = twin_random(rows * cols, 5, 0, 1);
    test_buffer mean = test_buffer_make(BT_F32, NULL, rows), mean32, rstd32;
    test_buffer rstd = test_buffer_make(BT_F32, NULL, rows);
    mean32 = test_buffer_make(BT_F32, NULL, rows), rstd32 = test_buffer_make(BT_F32, NULL, rows);
    bt_layernorm_args op = {.x = x.narrow.data,
                            .residual = residual ? other.narrow.data : NULL,
                            .sum = residual ? s.narrow.data : NULL,
                            .gamma = narrow_params ? gamma.narrow.data : gamma.wide.data,
                            .beta = narrow_params ? beta.narrow.data : beta.wide.data,
                            .y = y.narrow.data,
                            .mean = mean.data,
                            .rstd = rstd.data,
                            .rows = rows,
                            .cols = cols,
                            .epsilon = 1e-5,
                            .dtype = BT_BF16,
                            .param_dtype = narrow_params ? BT_BF16 : BT_F32};
    TEST_KERNEL(BT_KERNEL_LAYERNORM, BT_BF16, &op, &y.narrow, &s.narrow, &mean, &rstd);
    // f32: of the sum as bf16 stores it.
    double *sum = test_doubles(rows * cols);
    test_buffer_read(residual ? &s.narrow : &x.narrow, sum);
    test_buffer stored = test_buffer_make(BT_F32, sum, rows * cols);
    bt_layernorm_args op32 = op;
    op32.x = stored.data, op32.residual = op32.sum = NULL, op32.y = y.wide.data;
    op32.gamma = gamma.wide.data, op32.beta = beta.wide.data;
    op32.mean = mean32.data, op32.rstd = rstd32.data, op32.dtype = op32.param_dtype = BT_F32;
    TEST_KERNEL(BT_KERNEL_LAYERNORM, BT_F32, &op32, &y.wide, &mean32, &rstd32);
    twin_check(&y, 0, "layernorm");
    same_check(&mean, &mean32, 0, "mean");
    same_check(&rstd, &rstd32, 0, "rstd");
    if (residual) {
        double *left = test_doubles(rows * cols), *right = test_doubles(rows * cols);
        test_buffer_read(&x.wide, left);
        test_buffer_read(&other.wide, right);
        for (int64_t i = 0; i < rows * cols; ++i) {
            const float expected = (float)left[i] + (float)right[i];
            assert_true(sum[i] == (double)bt_bf16_to_f32(bt_f32_to_bf16(expected)));
        }
        free(left), free(right);
    }
    free(sum);
    test_buffer_release(&stored), test_buffer_release(&mean), test_buffer_release(&rstd);
    test_buffer_release(&mean32), test_buffer_release(&rstd32);
    twin_release(&x), twin_release(&other), twin_release(&gamma), twin_release(&beta);
    twin_release(&s), twin_release(&y);
}

static void check_layernorm_backward(int64_t rows, int64_t cols, bool accumulate)
{
    twin dy = twin_random(rows * cols, 1, -1, 1), s = twin_random(rows * cols, 2, -2, 2);
    twin gamma = twin_random(cols, 3, 0.5, 2), dx = twin_random(rows * cols, 4, -1, 1);
    twin mean = twin_random(rows, 5, -0.1, 0.1), rstd = twin_random(rows, 6, 0.5, 2);
    twin dgamma = twin_random(cols, 7, -1, 1), dbeta = twin_random(cols, 8, -1, 1);
    double *start = test_doubles(cols);
    test_buffer_read(&dgamma.wide, start);
    test_buffer own_dgamma = test_buffer_make(BT_F32, start, cols);
    test_buffer_read(&dbeta.wide, start);
    test_buffer own_dbeta = test_buffer_make(BT_F32, start, cols);
    bt_layernorm_backward_args op = {.dy = dy.narrow.data,
                                     .s = s.narrow.data,
                                     .gamma = gamma.narrow.data,
                                     .mean = mean.wide.data,
                                     .rstd = rstd.wide.data,
                                     .dx = dx.narrow.data,
                                     .dgamma = own_dgamma.data,
                                     .dbeta = own_dbeta.data,
                                     .rows = rows,
                                     .cols = cols,
                                     .accumulate = accumulate,
                                     .accumulate_params = accumulate,
                                     .dtype = BT_BF16,
                                     .param_dtype = BT_BF16,
                                     .grad_dtype = BT_F32};
    bt_layernorm_backward_args op32 = op;
    op32.dy = dy.wide.data, op32.s = s.wide.data, op32.gamma = gamma.wide.data;
    op32.dx = dx.wide.data, op32.dgamma = dgamma.wide.data, op32.dbeta = dbeta.wide.data;
    op32.dtype = op32.param_dtype = BT_F32;
    TEST_KERNEL(BT_KERNEL_LAYERNORM_BACKWARD, BT_BF16, &op, &dx.narrow, &own_dgamma, &own_dbeta);
    TEST_KERNEL(BT_KERNEL_LAYERNORM_BACKWARD, BT_F32, &op32, &dx.wide, &dgamma.wide, &dbeta.wide);
    twin_check(&dx, 0, "layernorm backward");
    // Sums of `rows` terms of size 1, in another grouping.
    const double share = 0x1p-22 * sqrt((double)rows + 1);
    same_check(&own_dgamma, &dgamma.wide, share, "dgamma");
    same_check(&own_dbeta, &dbeta.wide, share, "dbeta");
    free(start);
    test_buffer_release(&own_dgamma), test_buffer_release(&own_dbeta);
    twin_release(&dy), twin_release(&s), twin_release(&gamma), twin_release(&dx);
    twin_release(&mean), twin_release(&rstd), twin_release(&dgamma), twin_release(&dbeta);
}

static void rows_of_layernorm(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; ++i) {
        // More than a block of elements: sanitizers run one of the combinations.
        const bool one = TEST_SANITIZED && shapes[i][0] * shapes[i][1] > 1 << 18;
        for (int how = one ? 3 : 0; how < 4; ++how) {
            check_layernorm(shapes[i][0], shapes[i][1], how & 1, how & 2);
        }
        if (!one) {
            check_layernorm_backward(shapes[i][0], shapes[i][1], false);
        }
        check_layernorm_backward(shapes[i][0], shapes[i][1], true);
    }
}

static void rows_of_cross_entropy(void **state)
{
    (void)state;
    enum { ROWS = 40, VOCAB = 9000, STRIDE = 9008 };
    twin logits = twin_random((int64_t)ROWS * STRIDE, 1, -5, 5);
    int32_t targets[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        targets[r] = r % 7 == 3 ? -100 : r * 211 % VOCAB;
    }
    targets[35] = VOCAB; // out of range
    test_buffer out[2][4], rows = test_buffer_integers(targets, ROWS);
    int64_t bad_row[2] = {0, 0};
    for (int t = 0; t < 2; ++t) {
        for (int i = 0; i < 4; ++i) {
            out[t][i] = test_buffer_make(BT_F32, NULL, i < 2 ? ROWS : 1);
        }
        bt_cross_entropy_args op = {.logits = t ? logits.wide.data : logits.narrow.data,
                                    .targets = rows.data,
                                    .loss = out[t][0].data,
                                    .lse = out[t][1].data,
                                    .mean = out[t][2].data,
                                    .inv_count = out[t][3].data,
                                    .bad_row = &bad_row[t],
                                    .rows = ROWS,
                                    .vocab = VOCAB,
                                    .logits_stride = STRIDE,
                                    .ignore = -100,
                                    .dtype = t ? BT_F32 : BT_BF16};
        TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY, op.dtype, &op, &out[t][0], &out[t][1], &out[t][2],
                    &out[t][3]);
    }
    assert_int_equal(bad_row[0], 35);
    assert_int_equal(bad_row[1], 35);
    double got[2];
    test_buffer_read(&out[0][2], &got[0]);
    assert_true(isnan(got[0])); // the mean has the bad row's NaN
    same_check(&out[0][1], &out[1][1], 0, "lse");
    same_check(&out[0][3], &out[1][3], 0, "inv_count");
    const double one = 1;
    test_buffer dmean = test_buffer_make(BT_F32, &one, 1);
    bt_cross_entropy_backward_args back = {logits.narrow.data,
                                           rows.data,
                                           out[0][1].data,
                                           out[0][3].data,
                                           dmean.data,
                                           logits.narrow.data,
                                           ROWS,
                                           VOCAB,
                                           STRIDE,
                                           -100,
                                           BT_BF16};
    bt_cross_entropy_backward_args back32 = back;
    back32.logits = back32.dlogits = logits.wide.data, back32.dtype = BT_F32;
    BOTH(BT_KERNEL_CROSS_ENTROPY_BACKWARD, &back, &back32, &logits.narrow, &logits.wide);
    twin_check(&logits, 0, "cross-entropy backward, in place"); // what lies between rows as well
    twin fresh = twin_random((int64_t)ROWS * STRIDE, 2, -5, 5);
    bt_cross_entropy_grad_args grad = {.logits = fresh.narrow.data,
                                       .targets = rows.data,
                                       .inv_count = out[0][3].data,
                                       .loss = out[0][0].data,
                                       .rows = ROWS,
                                       .vocab = VOCAB,
                                       .logits_stride = STRIDE,
                                       .ignore = -100,
                                       .dtype = BT_BF16};
    bt_cross_entropy_grad_args grad32 = grad;
    grad32.logits = fresh.wide.data, grad32.loss = out[1][0].data, grad32.dtype = BT_F32;
    BOTH(BT_KERNEL_CROSS_ENTROPY_GRAD, &grad, &grad32, &out[0][0], &out[1][0]);
    grad.dlogits = fresh.narrow.data, grad32.dlogits = fresh.wide.data;
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_GRAD, BT_BF16, &grad, &out[0][0], &fresh.narrow);
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_GRAD, BT_F32, &grad32, &out[1][0], &fresh.wide);
    same_check(&out[0][0], &out[1][0], 0, "losses");
    twin_check(&fresh, 0, "cross-entropy with its gradient, in place");
    twin_release(&fresh);
    for (int i = 0; i < 4; ++i) {
        test_buffer_release(&out[0][i]), test_buffer_release(&out[1][i]);
    }
    test_buffer_release(&rows), test_buffer_release(&dmean);
    twin_release(&logits);
}

static void embedding(void **state)
{
    (void)state;
    enum { ROWS = 900, COLS = 640, VOCAB = 50, POSITIONS = 300 };
    twin table = twin_random((int64_t)VOCAB * COLS, 1, -1, 1);
    twin position = twin_random((int64_t)POSITIONS * COLS, 2, -1, 1);
    twin y = twin_random((int64_t)ROWS * COLS, 3, -1, 1);
    int32_t ids[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        ids[r] = r * 7 % VOCAB;
    }
    test_buffer rows = test_buffer_integers(ids, ROWS);
    bt_embedding_args op = {.ids = rows.data,
                            .table = table.narrow.data,
                            .position = position.narrow.data,
                            .y = y.narrow.data,
                            .rows = ROWS,
                            .cols = COLS,
                            .vocab = VOCAB,
                            .positions = POSITIONS,
                            .dtype = BT_BF16};
    bt_embedding_args op32 = op;
    op32.table = table.wide.data, op32.position = position.wide.data, op32.y = y.wide.data;
    op32.dtype = BT_F32;
    BOTH(BT_KERNEL_EMBEDDING, &op, &op32, &y.narrow, &y.wide);
    twin_check(&y, 0, "embedding");
    op.position = op32.position = NULL;
    BOTH(BT_KERNEL_EMBEDDING, &op, &op32, &y.narrow, &y.wide);
    twin_check(&y, 0, "embedding without positions");
    for (int how = 0; how < 4; ++how) {
        test_buffer sums[2][2];
        for (int t = 0; t < 2; ++t) {
            double *zeros = test_doubles((int64_t)VOCAB * COLS + (int64_t)POSITIONS * COLS);
            sums[t][0] = test_buffer_make(BT_F32, zeros, (int64_t)VOCAB * COLS);
            sums[t][1] = test_buffer_make(BT_F32, zeros, (int64_t)POSITIONS * COLS);
            free(zeros);
            bt_embedding_backward_args back = {rows.data,
                                               t ? y.wide.data : y.narrow.data,
                                               sums[t][0].data,
                                               how & 2 ? sums[t][1].data : NULL,
                                               ROWS,
                                               COLS,
                                               VOCAB,
                                               POSITIONS,
                                               how & 1,
                                               how & 1,
                                               t ? BT_F32 : BT_BF16,
                                               BT_F32};
            TEST_KERNEL(BT_KERNEL_EMBEDDING_BACKWARD, back.dtype, &back, &sums[t][0], &sums[t][1]);
        }
        // y.wide is not y.narrow's numbers, but rounds to them.
        same_check(&sums[0][0], &sums[1][0], 0x1p-7 * 18, "dtable");
        same_check(&sums[0][1], &sums[1][1], 0x1p-7 * 3, "dposition");
        for (int t = 0; t < 2; ++t) {
            test_buffer_release(&sums[t][0]), test_buffer_release(&sums[t][1]);
        }
    }
    test_buffer_release(&rows);
    twin_release(&table), twin_release(&position), twin_release(&y);
}

static void sums(void **state)
{
    (void)state;
    static const int64_t cases[][3] = {{1, 1, 1},     {2, 0, 3},      {1, 700, 768}, {700, 768, 1},
                                       {3, 5, 70000}, {2, 300000, 1}, {1, 3, 300000}};
    for (size_t i = 0; i < 3 * sizeof cases / sizeof cases[0]; ++i) {
        const int64_t *c = cases[i / 3];
        const bool narrow_out = i % 3 != 0, accumulate = i % 3 == 2;
        twin x = twin_random(c[0] * c[1] * c[2], 1, -1, 1), y = twin_random(c[0] * c[2], 2, -1, 1);
        twin z = twin_random(c[0] * c[2], 2, -1, 1);
        bt_reduce_sum_args op = {.x = x.narrow.data,
                                 .y = narrow_out ? y.narrow.data : z.wide.data,
                                 .outer = c[0],
                                 .reduce = c[1],
                                 .inner = c[2],
                                 .scale = 0.5,
                                 .accumulate = accumulate,
                                 .dtype = BT_BF16,
                                 .y_dtype = narrow_out ? BT_BF16 : BT_F32};
        bt_reduce_sum_args op32 = op;
        op32.x = x.wide.data, op32.y = y.wide.data, op32.dtype = op32.y_dtype = BT_F32;
        TEST_KERNEL(BT_KERNEL_REDUCE_SUM, BT_BF16, &op, narrow_out ? &y.narrow : &z.wide);
        TEST_KERNEL(BT_KERNEL_REDUCE_SUM, BT_F32, &op32, &y.wide);
        const double share = 0x1p-23 * sqrt((double)c[1] + 1);
        if (narrow_out) {
            twin_check(&y, share, "sum");
        } else {
            same_check(&z.wide, &y.wide, share, "sum in f32");
        }
        twin_release(&x), twin_release(&y), twin_release(&z);
    }
}

static void products(void **state)
{
    (void)state;
    enum { M = 37, N = 53, K = 29, PAD = 3, BATCH = 2 };
    const int64_t room = BATCH * (int64_t)(N + K + PAD) * (N + K + PAD);
    for (int how = 0; how < 64; ++how) {
        const bt_epilogue epilogue = (bt_epilogue)(how / 8 % 4);
        const bool narrow_out = how < 32 || epilogue != BT_EPILOGUE_NONE;
        twin a = twin_random(room, 1, -1, 1), b = twin_random(room, 2, -1, 1);
        twin d = twin_random(room, 3, -1, 1), aux = twin_random(room, 4, -1, 1);
        twin bias = twin_random(N, 5, -1, 1);
        bt_gemm_args op = {.m = M,
                           .n = N,
                           .k = K,
                           .trans_a = how & 1,
                           .trans_b = how & 2,
                           .a = a.narrow.data,
                           .b = b.narrow.data,
                           .c = d.narrow.data,
                           .d = d.narrow.data,
                           .lda = (how & 1 ? M : K) + PAD,
                           .ldb = (how & 2 ? K : N) + PAD,
                           .ldc = N + PAD,
                           .ldd = N + PAD,
                           .batch = BATCH,
                           .stride_a = room / BATCH,
                           .stride_b = room / BATCH,
                           .stride_c = room / BATCH,
                           .stride_d = room / BATCH,
                           .alpha = 0.5,
                           .beta = how & 4 ? 1 : 0,
                           .epilogue = epilogue,
                           .bias = epilogue == BT_EPILOGUE_BIAS ? bias.narrow.data : NULL,
                           .aux = aux.narrow.data,
                           .ab_dtype = BT_BF16,
                           .d_dtype = BT_BF16};
        bt_gemm_args op32 = op;
        op32.a = a.wide.data, op32.b = b.wide.data, op32.c = op32.d = d.wide.data;
        op32.bias = op.bias ? bias.wide.data : NULL, op32.aux = aux.wide.data;
        op32.ab_dtype = op32.d_dtype = BT_F32;
        if (epilogue == BT_EPILOGUE_BIAS_GELU) { // a product, then a pass over it: unit.cpu_gemm
            assert_int_equal(test_kernel_status(BT_KERNEL_GEMM, BT_BF16, &op),
                             BT_STATUS_UNSUPPORTED);
        } else if (narrow_out) {
            TEST_KERNEL(BT_KERNEL_GEMM, BT_BF16, &op, &d.narrow, &aux.narrow);
            TEST_KERNEL(BT_KERNEL_GEMM, BT_F32, &op32, &d.wide, &aux.wide);
            twin_check(&d, 0, "product");
            twin_check(&aux, 0, "pre-activation");
        } else {
            twin e = twin_random(room, 3, -1, 1);
            op.c = op.d = e.wide.data, op.d_dtype = BT_F32;
            TEST_KERNEL(BT_KERNEL_GEMM, BT_BF16, &op, &e.wide);
            TEST_KERNEL(BT_KERNEL_GEMM, BT_F32, &op32, &d.wide, &aux.wide);
            same_check(&e.wide, &d.wide, 0, "product in f32");
            twin_release(&e);
        }
        twin_release(&a), twin_release(&b), twin_release(&d), twin_release(&aux);
        twin_release(&bias);
    }
}

// Packed QKV [B, T, 3C].
static void attention(void **state)
{
    (void)state;
    enum { BATCH = 2, HEADS = 3, TOKENS = 70, DIM = 16, WIDTH = HEADS * DIM };
    const int64_t count = (int64_t)BATCH * TOKENS * WIDTH;
    twin qkv = twin_random(3 * count, 1, -1, 1), o = twin_random(count, 2, -1, 1);
    twin d_qkv = twin_random(3 * count, 3, -1, 1), d_o = twin_random(count, 4, -1, 1);
    test_buffer lse[2];
    for (int causal = 0; causal < 2; ++causal) {
        for (int t = 0; t < 2; ++t) {
            const size_t size = t ? sizeof(float) : sizeof(uint16_t);
            char *in = t ? qkv.wide.data : qkv.narrow.data;
            char *grad = t ? d_qkv.wide.data : d_qkv.narrow.data;
            const int64_t row = 3 * WIDTH;
            lse[t] = test_buffer_make(BT_F32, NULL, (int64_t)BATCH * HEADS * TOKENS);
            bt_attention_view q = {in, TOKENS * row, row, DIM}, k = q, v = q, dq, dk, dv;
            k.base = in + WIDTH * size, v.base = in + 2 * WIDTH * size;
            dq = q, dk = q, dv = q;
            dq.base = grad, dk.base = grad + WIDTH * size, dv.base = grad + 2 * WIDTH * size;
            bt_attention_view out = {t ? o.wide.data : o.narrow.data, TOKENS * WIDTH, WIDTH, DIM};
            bt_attention_view d_out = out;
            d_out.base = t ? d_o.wide.data : d_o.narrow.data;
            const bt_dtype dtype = t ? BT_F32 : BT_BF16;
            const bt_attention_shape shape = {.batch = BATCH,
                                              .heads = HEADS,
                                              .kv_heads = HEADS,
                                              .q_tokens = TOKENS,
                                              .kv_tokens = TOKENS,
                                              .head_dim = DIM,
                                              .scale = 0.25,
                                              .causal = causal};
            bt_attention_args op = {.q = q,
                                    .k = k,
                                    .v = v,
                                    .o = out,
                                    .lse = lse[t].data,
                                    .shape = shape,
                                    .dtype = dtype};
            TEST_KERNEL(BT_KERNEL_ATTENTION, dtype, &op, t ? &o.wide : &o.narrow, &lse[t]);
            bt_attention_backward_args back = {.q = q,
                                               .k = k,
                                               .v = v,
                                               .o = out,
                                               .d_o = d_out,
                                               .lse = lse[t].data,
                                               .dq = dq,
                                               .dk = dk,
                                               .dv = dv,
                                               .shape = shape,
                                               .dtype = dtype};
            TEST_KERNEL(BT_KERNEL_ATTENTION_BACKWARD, dtype, &back,
                        t ? &d_qkv.wide : &d_qkv.narrow);
        }
        twin_check(&o, 0, "attention");
        same_check(&lse[0], &lse[1], 0, "lse");
        // The backward reads o, which is rounded in one of them.
        twin_check(&d_qkv, 0x1p-7, "attention backward");
        test_buffer_release(&lse[0]), test_buffer_release(&lse[1]);
    }
    twin_release(&qkv), twin_release(&o), twin_release(&d_qkv), twin_release(&d_o);
}

static void nan_and_infinity_propagate(void **state)
{
    (void)state;
    const double values[] = {1, TEST_NAN, TEST_INFINITY, -TEST_INFINITY, -2, 0x1p-130};
    double got[6];
    int64_t found = 0;
    test_buffer x = test_buffer_make(BT_BF16, values, 6), y = test_buffer_make(BT_BF16, NULL, 6);
    bt_unary_args op = {BT_UNARY_SCALE, 1, x.data, y.data, 6, BT_BF16, false};
    TEST_KERNEL(BT_KERNEL_UNARY, BT_BF16, &op, &y);
    test_buffer_read(&y, got);
    assert_true(got[0] == 1 && isnan(got[1]) && got[2] > 1e38 && got[3] < -1e38 && got[4] == -2);
    assert_true(got[5] > 0); // a subnormal number stays one
    bt_count_nonfinite_args count = {x.data, 6, &found, BT_BF16};
    ASSERT_OK(test_kernel_status(BT_KERNEL_COUNT_NONFINITE, BT_BF16, &count));
    assert_int_equal(found, 3);
    test_buffer_release(&x), test_buffer_release(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(scale_by_groups),
        cmocka_unit_test(binary_with_any_strides),
        cmocka_unit_test(rows_of_softmax),
        cmocka_unit_test(rows_of_layernorm),
        cmocka_unit_test(rows_of_cross_entropy),
        cmocka_unit_test(embedding),
        cmocka_unit_test(sums),
        cmocka_unit_test(products),
        cmocka_unit_test(attention),
        cmocka_unit_test(nan_and_infinity_propagate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
