// tests/unit/test_cpu_rows.c - softmax, layer normalisation, embedding, cross-entropy on the CPU
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kernel.h"

static const bt_dtype reals[] = {BT_F32, BT_F64};
static const int64_t shapes[][2] = {{0, 5},  {1, 1},   {3, 2},    {2, 15},  {5, 16},
                                    {4, 17}, {7, 200}, {3, 5000}, {130, 96}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

// ---- softmax -----------------------------------------------------------------------------------

static void softmax(const double *x, double *y, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; ++r) {
        double max = -TEST_INFINITY, sum = 0;
        for (int64_t c = 0; c < cols; ++c) {
            max = fmax(max, x[r * cols + c]);
        }
        for (int64_t c = 0; c < cols; ++c) {
            sum += exp(x[r * cols + c] - max);
        }
        for (int64_t c = 0; c < cols; ++c) {
            y[r * cols + c] = exp(x[r * cols + c] - max) / sum;
        }
    }
}

static void check_softmax(int64_t rows, int64_t cols, bt_dtype dtype)
{
    const int64_t count = rows * cols;
    const double eps = bt_dtype_epsilon(dtype);
    double *x = test_doubles(count), *dy = test_doubles(count), *expected = test_doubles(count);
    double *got = test_doubles(count);
    test_random(x, count, 1, -10, 10);
    test_random(dy, count, 2, -1, 1);
    test_buffer bx = test_buffer_make(dtype, x, count), by = test_buffer_make(dtype, NULL, count);
    bt_softmax_args args = {bx.data, by.data, rows, cols, dtype};
    TEST_KERNEL(BT_KERNEL_SOFTMAX, dtype, &args, &by);
    softmax(x, expected, rows, cols);
    test_buffer_read(&by, got);
    // x - max rounds by up to 20 half units, which exp turns into a relative error.
    test_assert_close(got, expected, count, 0, 16 * eps, "softmax");
    args.y = bx.data;
    TEST_KERNEL(BT_KERNEL_SOFTMAX, dtype, &args, &bx);
    test_buffer_read(&bx, got);
    test_assert_close(got, expected, count, 0, 16 * eps, "softmax in place");

    test_buffer bdy = test_buffer_make(dtype, dy, count);
    bt_softmax_backward_args back = {bx.data, bdy.data, bdy.data, rows, cols, dtype};
    TEST_KERNEL(BT_KERNEL_SOFTMAX_BACKWARD, dtype, &back, &bdy); // dx is dy
    for (int64_t r = 0; r < rows; ++r) {
        double dot = 0;
        for (int64_t c = 0; c < cols; ++c) {
            dot += got[r * cols + c] * dy[r * cols + c];
        }
        for (int64_t c = 0; c < cols; ++c) {
            expected[r * cols + c] = got[r * cols + c] * (dy[r * cols + c] - dot);
        }
    }
    test_buffer_read(&bdy, got);
    test_assert_close(got, expected, count, 2 * eps, 2 * eps, "softmax backward");
    free(x), free(dy), free(expected), free(got);
    test_buffer_release(&bx), test_buffer_release(&by), test_buffer_release(&bdy);
}

static void test_softmax(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; ++i) {
        check_softmax(shapes[i / 2][0], shapes[i / 2][1], reals[i % 2]);
    }
    const double x[8] = {TEST_NAN, 1, 5000, 4000, -TEST_INFINITY, 0, TEST_INFINITY, 0};
    double got[8];
    test_buffer bx = test_buffer_make(BT_F32, x, 8);
    bt_softmax_args args = {bx.data, bx.data, 4, 2, BT_F32};
    TEST_KERNEL(BT_KERNEL_SOFTMAX, BT_F32, &args, &bx);
    test_buffer_read(&bx, got);
    assert_true(isnan(got[0]) && isnan(got[1]) && got[2] == 1 && got[3] == 0);
    assert_true(got[4] == 0 && got[5] == 1 && isnan(got[6]));
    test_buffer_release(&bx);
}

// ---- layer normalisation -----------------------------------------------------------------------

typedef struct norm_data {
    double *x, *residual, *gamma, *beta, *dy;
    double *s, *y, *mean, *rstd, *dx, *dgamma, *dbeta, *got;
} norm_data;

static norm_data norm_make(int64_t rows, int64_t cols)
{
    const int64_t count = rows * cols;
    norm_data data = {test_doubles(count),
                      test_doubles(count),
                      test_doubles(cols),
                      test_doubles(cols),
                      test_doubles(count),
                      test_doubles(count),
                      test_doubles(count),
                      test_doubles(rows),
                      test_doubles(rows),
                      test_doubles(count),
                      test_doubles(cols),
                      test_doubles(cols),
                      test_doubles(count + rows + cols)};
    // A mean far from 0: variance by subtraction of squares would lose all its digits in f32.
    test_random(data.x, count, 1, 999, 1001);
    test_random(data.residual, count, 2, -1, 1);
    test_random(data.gamma, cols, 3, 0.5, 2);
    test_random(data.beta, cols, 4, -1, 1);
    test_random(data.dy, count, 5, -1, 1);
    return data;
}

static void norm_release(norm_data *data)
{
    free(data->x), free(data->residual), free(data->gamma), free(data->beta), free(data->dy);
    free(data->s), free(data->y), free(data->mean), free(data->rstd), free(data->dx);
    free(data->dgamma), free(data->dbeta), free(data->got);
}

// Forward and backward in double; s is given (rounded as the kernel rounds it).
static void norm_reference(norm_data *data, int64_t rows, int64_t cols, double epsilon, bool beta)
{
    memset(data->dgamma, 0, (size_t)cols * sizeof(double));
    memset(data->dbeta, 0, (size_t)cols * sizeof(double));
    for (int64_t r = 0; r < rows; ++r) {
        const double *s = data->s + r * cols, *dy = data->dy + r * cols;
        double mean = 0, variance = 0, sum = 0, dot = 0;
        for (int64_t c = 0; c < cols; ++c) {
            mean += s[c] / (double)cols;
        }
        for (int64_t c = 0; c < cols; ++c) {
            variance += (s[c] - mean) * (s[c] - mean) / (double)cols;
        }
        const double rstd = 1 / sqrt(variance + epsilon);
        for (int64_t c = 0; c < cols; ++c) {
            const double xhat = (s[c] - mean) * rstd, g = dy[c] * data->gamma[c];
            data->y[r * cols + c] = xhat * data->gamma[c] + (beta ? data->beta[c] : 0);
            data->dgamma[c] += dy[c] * xhat;
            data->dbeta[c] += dy[c];
            sum += g, dot += g * xhat;
        }
        for (int64_t c = 0; c < cols; ++c) {
            const double xhat = (s[c] - mean) * rstd, g = dy[c] * data->gamma[c];
            data->dx[r * cols + c] = rstd * (g - (sum + xhat * dot) / (double)cols);
        }
        data->mean[r] = mean, data->rstd[r] = rstd;
    }
}

static void compare(const test_buffer *buffer, const double *expected, double *room,
                    double absolute, double relative, const char *what)
{
    test_buffer_read(buffer, room);
    test_assert_close(room, expected, buffer->count, absolute, relative, what);
}

static void check_norm(int64_t rows, int64_t cols, bt_dtype dtype, bool residual, bool beta)
{
    const int64_t count = rows * cols;
    const double eps = bt_dtype_epsilon(dtype), epsilon = 1e-5;
    norm_data data = norm_make(rows, cols);
    test_buffer x = test_buffer_make(dtype, data.x, count);
    test_buffer extra = test_buffer_make(dtype, data.residual, count);
    test_buffer gamma = test_buffer_make(dtype, data.gamma, cols);
    test_buffer shift = test_buffer_make(dtype, data.beta, cols);
    test_buffer sum = test_buffer_make(dtype, NULL, count),
                y = test_buffer_make(dtype, NULL, count);
    test_buffer mean = test_buffer_make(dtype, NULL, rows);
    test_buffer rstd = test_buffer_make(dtype, NULL, rows);
    bt_layernorm_args args = {.x = x.data, .gamma = gamma.data, .y = y.data};
    args.residual = residual ? extra.data : NULL, args.sum = residual ? sum.data : NULL;
    args.beta = beta ? shift.data : NULL;
    args.mean = mean.data, args.rstd = rstd.data, args.rows = rows, args.cols = cols;
    args.epsilon = epsilon, args.dtype = args.param_dtype = dtype;
    TEST_KERNEL(BT_KERNEL_LAYERNORM, dtype, &args, &y, &sum, &mean, &rstd);
    test_buffer_read(residual ? &sum : &x, data.s);
    for (int64_t i = 0; i < count; ++i) {
        const double exact = data.x[i] + (residual ? data.residual[i] : 0);
        assert_true(fabs(data.s[i] - exact) <= eps * fabs(exact));
    }
    norm_reference(&data, rows, cols, epsilon, beta);
    // The reference adds one by one in double: its own error is up to cols half units.
    const double own = 0x1p-53 * (double)cols;
    // s is near 1000: rounding the mean alone shifts xhat by 1000 eps rstd.
    const double spread = 2000 * (eps + own) * (cols > 1 ? 10 : 1 / sqrt(epsilon));
    compare(&mean, data.mean, data.got, 0, eps + own, "mean");
    compare(&rstd, data.rstd, data.got, 0, 4 * eps + 1000 * own, "rstd");
    compare(&y, data.y, data.got, spread, 4 * eps, "y");

    test_buffer dy = test_buffer_make(dtype, data.dy, count);
    test_buffer dgamma = test_buffer_make(dtype, data.gamma, cols);
    test_buffer dbeta = test_buffer_make(dtype, NULL, cols);
    bt_layernorm_backward_args back = {.dy = dy.data, .gamma = gamma.data, .dx = dy.data};
    back.s = residual ? sum.data : x.data, back.mean = mean.data, back.rstd = rstd.data;
    back.dgamma = dgamma.data, back.dbeta = beta ? dbeta.data : NULL;
    back.rows = rows, back.cols = cols;
    back.dtype = back.param_dtype = back.grad_dtype = dtype;
    TEST_KERNEL(BT_KERNEL_LAYERNORM_BACKWARD, dtype, &back, &dy, &dgamma, &dbeta); // dx is dy
    compare(&dy, data.dx, data.got, 20 * spread, 8 * eps, "dx");
    compare(&dgamma, data.dgamma, data.got, spread * (double)rows, 4 * eps, "dgamma");
    if (beta) {
        compare(&dbeta, data.dbeta, data.got, 16 * eps * sqrt((double)rows), 2 * eps, "dbeta");
    }
    // Again, added to what is there.
    test_buffer again = test_buffer_make(dtype, data.dy, count);
    back.dy = again.data, back.dx = dy.data, back.accumulate = back.accumulate_params = true;
    TEST_KERNEL(BT_KERNEL_LAYERNORM_BACKWARD, dtype, &back, &dy, &dgamma, &dbeta);
    for (int64_t i = 0; i < count; ++i) {
        data.dx[i] *= 2;
    }
    for (int64_t c = 0; c < cols; ++c) {
        data.dgamma[c] *= 2;
    }
    compare(&dy, data.dx, data.got, 40 * spread, 16 * eps, "dx, accumulated");
    compare(&dgamma, data.dgamma, data.got, 2 * spread * (double)rows, 8 * eps,
            "dgamma, accumulated");
    norm_release(&data);
    test_buffer_release(&x), test_buffer_release(&extra), test_buffer_release(&gamma);
    test_buffer_release(&shift), test_buffer_release(&sum), test_buffer_release(&y);
    test_buffer_release(&mean), test_buffer_release(&rstd), test_buffer_release(&dy);
    test_buffer_release(&dgamma), test_buffer_release(&dbeta), test_buffer_release(&again);
}

static void test_layernorm(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; ++i) {
        for (int variant = 0; variant < 4; ++variant) {
            check_norm(shapes[i / 2][0], shapes[i / 2][1], reals[i % 2], variant & 1, variant & 2);
        }
    }
    bt_layernorm_args mixed = {.dtype = BT_F64, .param_dtype = BT_F32};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "layernorm_cpu_f64",
                 test_kernel_status(BT_KERNEL_LAYERNORM, BT_F64, &mixed));
}

// ---- embedding ---------------------------------------------------------------------------------

static void check_embedding(int64_t rows, int64_t cols, int64_t vocab, int64_t positions,
                            bt_dtype dtype)
{
    const double eps = bt_dtype_epsilon(dtype);
    const int64_t count = rows * cols;
    double *table = test_doubles(vocab * cols), *position = test_doubles(positions * cols);
    double *y = test_doubles(count), *got = test_doubles(count + (vocab + positions) * cols);
    int32_t *ids = malloc((size_t)rows * sizeof *ids + 1);
    assert_non_null(ids);
    test_random(table, vocab * cols, 1, -1, 1);
    test_random(position, positions * cols, 2, -1, 1);
    for (int64_t r = 0; r < rows; ++r) {
        ids[r] = (int32_t)(r * 7 % vocab);
        for (int64_t c = 0; c < cols; ++c) {
            y[r * cols + c] =
                table[ids[r] * cols + c] + (positions ? position[r % positions * cols + c] : 0);
        }
    }
    test_buffer bids = test_buffer_integers(ids, rows);
    test_buffer btable = test_buffer_make(dtype, table, vocab * cols);
    test_buffer bposition = test_buffer_make(dtype, position, positions * cols);
    test_buffer by = test_buffer_make(dtype, NULL, count);
    bt_embedding_args args = {.ids = bids.data,
                              .table = btable.data,
                              .position = positions ? bposition.data : NULL,
                              .y = by.data,
                              .rows = rows,
                              .cols = cols,
                              .vocab = vocab,
                              .positions = positions,
                              .dtype = dtype};
    TEST_KERNEL(BT_KERNEL_EMBEDDING, dtype, &args, &by);
    compare(&by, y, got, eps, eps, "embedding");

    // Backward of y itself; dtable and dposition start from the tables.
    bt_embedding_backward_args back = {.ids = bids.data, .dy = by.data, .dtable = btable.data};
    back.dposition = positions ? bposition.data : NULL;
    back.rows = rows, back.cols = cols, back.vocab = vocab, back.positions = positions;
    back.accumulate = back.accumulate_position = true, back.dtype = back.grad_dtype = dtype;
    TEST_KERNEL(BT_KERNEL_EMBEDDING_BACKWARD, dtype, &back, &btable, &bposition);
    test_buffer_read(&by, y);
    for (int pass = 0; pass < 2; ++pass) {
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < cols; ++c) {
                table[ids[r] * cols + c] += y[r * cols + c];
                if (positions) {
                    position[r % positions * cols + c] += y[r * cols + c];
                }
            }
        }
        const double tolerance = eps * (double)(rows + 1) * 2;
        compare(&btable, table, got, tolerance, eps, "dtable");
        compare(&bposition, position, got, tolerance, eps, "dposition");
        if (pass == 0) { // the second time from nothing: rows never met become zero
            back.accumulate = back.accumulate_position = false;
            TEST_KERNEL(BT_KERNEL_EMBEDDING_BACKWARD, dtype, &back, &btable, &bposition);
            memset(table, 0, (size_t)(vocab * cols) * sizeof *table);
            memset(position, 0, (size_t)(positions * cols) * sizeof *position);
        }
    }
    free(table), free(position), free(y), free(got), free(ids);
    test_buffer_release(&bids), test_buffer_release(&btable), test_buffer_release(&bposition);
    test_buffer_release(&by);
}

static void test_embedding(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        check_embedding(24, 33, 11, 8, reals[t]);
        check_embedding(24, 130, 50, 6, reals[t]);
        check_embedding(1, 1, 1, 1, reals[t]);
        check_embedding(40, 5, 3, 0, reals[t]);
        check_embedding(0, 16, 4, 4, reals[t]);
        check_embedding(300, 200, 20, 100, reals[t]);
        check_embedding(7, 5000, 3, 4, reals[t]); // longer than a buffer
    }
}

// ---- cross-entropy -----------------------------------------------------------------------------

static void check_cross_entropy(int64_t rows, int64_t vocab, int64_t pad, bt_dtype dtype)
{
    const int64_t stride = vocab + pad, count = rows * stride;
    const double eps = bt_dtype_epsilon(dtype);
    double *logits = test_doubles(count), *got = test_doubles(count + rows + 1);
    double *loss = test_doubles(rows), *lse = test_doubles(rows);
    int32_t *targets = malloc((size_t)rows * sizeof *targets + 1);
    assert_non_null(targets);
    test_random(logits, count, 1, -12, 12);
    double mean = 0, counted = 0;
    for (int64_t r = 0; r < rows; ++r) {
        targets[r] = r % 3 == 2 ? -100 : (int32_t)(r * 13 % vocab);
        double sum = 0;
        for (int64_t c = 0; c < vocab; ++c) {
            sum += exp(logits[r * stride + c]);
        }
        lse[r] = sum > 0 ? log(sum) : -TEST_INFINITY;
        loss[r] = targets[r] < 0 ? 0 : lse[r] - logits[r * stride + targets[r]];
        mean += loss[r], counted += targets[r] >= 0;
    }
    const double inv_count = counted > 0 ? 1 / counted : 0;
    mean *= inv_count;
    test_buffer bx = test_buffer_make(dtype, logits, count);
    test_buffer bt = test_buffer_integers(targets, rows);
    test_buffer bloss = test_buffer_make(dtype, NULL, rows);
    test_buffer blse = test_buffer_make(dtype, NULL, rows);
    test_buffer bmean = test_buffer_make(dtype, NULL, 1), binv = test_buffer_make(dtype, NULL, 1);
    int64_t bad_row = 5;
    bt_cross_entropy_args args = {bx.data,  bt.data, bloss.data, blse.data, bmean.data, binv.data,
                                  &bad_row, rows,    vocab,      stride,    -100,       dtype};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY, dtype, &args, &bloss, &blse, &bmean, &binv);
    assert_int_equal(bad_row, -1);
    compare(&blse, lse, got, 16 * eps, 4 * eps, "lse");
    compare(&bloss, loss, got, 16 * eps, 4 * eps, "loss");
    compare(&bmean, &mean, got, 16 * eps, 4 * eps, "mean");
    compare(&binv, &inv_count, got, 0, eps, "inv_count");

    bt_cross_entropy_mean_args all = {bt.data, bloss.data, bmean.data, binv.data, &bad_row,
                                      rows,    vocab,      -100,       dtype};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_MEAN, dtype, &all, &bmean, &binv);
    compare(&bmean, &mean, got, 16 * eps, 4 * eps, "mean of losses");
    all.loss = all.mean = NULL; // the count alone
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_MEAN, dtype, &all, &binv);
    compare(&binv, &inv_count, got, 0, eps, "count without losses");

    // Loss and gradient at once, beside the logits and over them.
    test_buffer bd = test_buffer_make(dtype, logits, count);
    test_buffer brow = test_buffer_make(dtype, NULL, rows);
    double *grad = test_doubles(count);
    for (int64_t i = 0; i < count; ++i) {
        grad[i] = logits[i]; // the padding keeps what it had
    }
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < vocab; ++c) {
            const int64_t at = r * stride + c;
            grad[at] =
                targets[r] < 0 ? 0 : (exp(logits[at] - lse[r]) - (c == targets[r])) * inv_count;
        }
    }
    bt_cross_entropy_grad_args both = {bx.data, bt.data, binv.data, brow.data, NULL,
                                       rows,    vocab,   stride,    -100,      dtype};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_GRAD, dtype, &both, &brow);
    compare(&brow, loss, got, 16 * eps, 4 * eps, "loss alone");
    both.logits = both.dlogits = bd.data;
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_GRAD, dtype, &both, &brow, &bd);
    compare(&brow, loss, got, 16 * eps, 4 * eps, "loss with its gradient");
    compare(&bd, grad, got, 40 * eps * inv_count, 40 * eps, "gradient over the logits");
    both.logits = bx.data;
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_GRAD, dtype, &both, &brow, &bd);
    compare(&bd, grad, got, 40 * eps * inv_count, 40 * eps, "gradient beside the logits");
    free(grad), test_buffer_release(&bd), test_buffer_release(&brow);

    const double dmean = 0.5;
    test_buffer bdmean = test_buffer_make(dtype, &dmean, 1);
    bt_cross_entropy_backward_args back = {bx.data,     bt.data, blse.data, binv.data,
                                           bdmean.data, bx.data, rows,      vocab,
                                           stride,      -100,    dtype};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_BACKWARD, dtype, &back, &bx); // in place
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < vocab; ++c) { // the padding keeps what it had
            const int64_t at = r * stride + c;
            logits[at] = targets[r] < 0
                             ? 0
                             : (exp(logits[at] - lse[r]) - (c == targets[r])) * dmean * inv_count;
        }
    }
    compare(&bx, logits, got, 40 * eps * inv_count, 40 * eps, "dlogits");
    free(logits), free(got), free(loss), free(lse), free(targets);
    test_buffer_release(&bx), test_buffer_release(&bt), test_buffer_release(&bloss);
    test_buffer_release(&blse), test_buffer_release(&bmean), test_buffer_release(&binv);
    test_buffer_release(&bdmean);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SHAPES; ++i) {
        check_cross_entropy(shapes[i / 2][0], shapes[i / 2][1], i % 3, reals[i % 2]);
    }
    check_cross_entropy(3, 50304, 0, BT_F32);
}

static void test_cross_entropy_names_bad_targets(void **state)
{
    (void)state;
    const double logits[12] = {0};
    const int32_t targets[4] = {1, 3, -1, -100}; // vocab 3: rows 1 and 2 are bad
    double loss[4], mean;
    int64_t bad_row = 0;
    test_buffer bx = test_buffer_make(BT_F64, logits, 12), bt = test_buffer_integers(targets, 4);
    test_buffer bloss = test_buffer_make(BT_F64, NULL, 4), blse = test_buffer_make(BT_F64, NULL, 4);
    test_buffer bmean = test_buffer_make(BT_F64, NULL, 1), binv = test_buffer_make(BT_F64, NULL, 1);
    bt_cross_entropy_args args = {bx.data,  bt.data, bloss.data, blse.data, bmean.data, binv.data,
                                  &bad_row, 4,       3,          3,         -100,       BT_F64};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY, BT_F64, &args, &bloss, &blse, &bmean, &binv);
    assert_int_equal(bad_row, 1);
    test_buffer_read(&bloss, loss);
    test_buffer_read(&bmean, &mean);
    assert_true(fabs(loss[0] - log(3)) < 1e-15 && isnan(loss[1]) && isnan(loss[2]) && loss[3] == 0);
    assert_true(isnan(mean));
    bad_row = 0;
    bt_cross_entropy_mean_args count = {bt.data, NULL, NULL, binv.data, &bad_row,
                                        4,       3,    -100, BT_F64};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_MEAN, BT_F64, &count, &binv);
    assert_int_equal(bad_row, 1);
    bt_cross_entropy_grad_args grad = {bx.data, bt.data, binv.data, bloss.data, bx.data,
                                       4,       3,       3,         -100,       BT_F64};
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY_GRAD, BT_F64, &grad, &bloss, &bx);
    test_buffer_read(&bloss, loss);
    assert_true(fabs(loss[0] - log(3)) < 1e-15 && isnan(loss[1]) && isnan(loss[2]) && loss[3] == 0);
    // Nothing counted: no mean, no gradient.
    args.rows = 0;
    TEST_KERNEL(BT_KERNEL_CROSS_ENTROPY, BT_F64, &args, &bmean, &binv);
    test_buffer_read(&bmean, &mean);
    assert_true(mean == 0);
    test_buffer_read(&binv, &mean);
    assert_true(mean == 0);
    test_buffer_release(&bx), test_buffer_release(&bt), test_buffer_release(&bloss);
    test_buffer_release(&blse), test_buffer_release(&bmean), test_buffer_release(&binv);
}

// ---- a split vocabulary ------------------------------------------------------------------------

enum { IDS = 9 };

// 2^24 + 1 is no f32.
static const int32_t all_ids[IDS] = {0, 9, 10, 19, 20, 16777217, 16777226, -1, -100};

static void test_shard_ids(void **state)
{
    (void)state;
    static const bt_dtype types[] = {BT_F32, BT_F64, BT_BF16};
    static const int32_t expected[IDS] = {0, 0, 0, 9, 0, 0, 0, 0, 0};
    static const double wanted[IDS] = {0, 0, 1, 1, 0, 0, (double)NAN, (double)NAN, (double)NAN};
    for (int t = 0; t < 3; ++t) {
        int32_t own[IDS];
        double got[IDS];
        test_buffer mask = test_buffer_make(types[t], NULL, IDS);
        bt_shard_ids_args args = {all_ids, own, mask.data, IDS, 10, 10, 16777226, types[t]};
        ASSERT_OK(test_kernel_status(BT_KERNEL_SHARD_IDS, types[t], &args));
        assert_memory_equal(own, expected, sizeof own);
        test_buffer_read(&mask, got);
        for (int i = 0; i < IDS; ++i) {
            assert_true(isnan(wanted[i]) ? isnan(got[i]) : got[i] == wanted[i]);
        }
        args.first = 16777217 - 3, args.rows = 12; // the last part
        ASSERT_OK(test_kernel_status(BT_KERNEL_SHARD_IDS, types[t], &args));
        assert_int_equal(own[5], 3);
        test_buffer_read(&mask, got);
        assert_true(got[5] == 1 && got[3] == 0);
        test_buffer_release(&mask);
    }
}

static void test_shard_targets(void **state)
{
    (void)state;
    const int32_t far = INT32_MAX;
    const int32_t expected[][IDS] = {{-1, -1, 0, 9, -1, -1, -1, -1, -1},
                                     {far, far, 0, 9, far, far, far, far, -1},
                                     {0, 0, 1, 1, 2, 1677721, far, far, -1}};
    int32_t own[IDS], column[IDS], owner[IDS];
    bt_shard_targets_args args = {all_ids, own, column, owner, IDS, 10, 10, 16777226, 10, -100};
    ASSERT_OK(test_kernel_status(BT_KERNEL_SHARD_TARGETS, BT_I32, &args));
    assert_memory_equal(own, expected[0], sizeof own);
    assert_memory_equal(column, expected[1], sizeof column);
    assert_memory_equal(owner, expected[2], sizeof owner);
    args.ignore = 19; // a row of this rank
    ASSERT_OK(test_kernel_status(BT_KERNEL_SHARD_TARGETS, BT_I32, &args));
    assert_true(own[3] == -1 && column[3] == -1 && owner[3] == -1);
    assert_true(column[8] == far && owner[8] == far);
    args.ignore = 16777226; // outside of the vocabulary
    ASSERT_OK(test_kernel_status(BT_KERNEL_SHARD_TARGETS, BT_I32, &args));
    assert_true(own[6] == -1 && column[6] == -1 && owner[6] == -1 && owner[5] == 1677721);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_ids),
        cmocka_unit_test(test_shard_targets),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_cross_entropy_names_bad_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
