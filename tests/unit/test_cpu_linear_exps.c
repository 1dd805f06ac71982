// tests/unit/test_cpu_linear_exps.c - exponentials and scales of a linear layer's logits on the
// CPU: what follows from them is the gradient of the cross-entropy
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"

enum { ROWS = 9, VOCAB = 13, WIDTH = 5, IGNORE = -100 };
static const bt_dtype reals[] = {BT_F32, BT_F64};

typedef struct problem {
    double x[ROWS * WIDTH], w[VOCAB * WIDTH], inv_count;
    int32_t targets[ROWS];
} problem;

typedef struct answer {
    double exps[ROWS * VOCAB], scaled_x[ROWS * WIDTH], scale[ROWS], loss[ROWS];
} answer;

static void make(problem *p, double size)
{
    test_random(p->x, ROWS * WIDTH, 1, -size, size);
    test_random(p->w, VOCAB * WIDTH, 2, -1, 1);
    p->inv_count = 0.125;
    for (int r = 0; r < ROWS; ++r) {
        p->targets[r] = r % 4 == 2 ? IGNORE : r * 5 % VOCAB;
    }
}

static void run(bt_dtype dtype, const problem *p, answer *out)
{
    test_buffer x = test_buffer_make(dtype, p->x, ROWS * WIDTH);
    test_buffer w = test_buffer_make(dtype, p->w, VOCAB * WIDTH);
    test_buffer inv_count = test_buffer_make(dtype, &p->inv_count, 1);
    test_buffer targets = test_buffer_integers(p->targets, ROWS);
    test_buffer exps = test_buffer_make(dtype, NULL, ROWS * VOCAB);
    test_buffer scaled_x = test_buffer_make(dtype, NULL, ROWS * WIDTH);
    test_buffer scale = test_buffer_make(dtype, NULL, ROWS);
    test_buffer loss = test_buffer_make(dtype, NULL, ROWS);
    const bt_linear_exps_args args = {.x = x.data,
                                      .w = w.data,
                                      .targets = targets.data,
                                      .inv_count = inv_count.data,
                                      .exps = exps.data,
                                      .scaled_x = scaled_x.data,
                                      .scale = scale.data,
                                      .loss = loss.data,
                                      .rows = ROWS,
                                      .vocab = VOCAB,
                                      .width = WIDTH,
                                      .ignore = IGNORE,
                                      .dtype = dtype};
    TEST_KERNEL(BT_KERNEL_LINEAR_EXPS, dtype, &args, &exps, &scaled_x, &scale, &loss);
    test_buffer_read(&exps, out->exps), test_buffer_read(&scaled_x, out->scaled_x);
    test_buffer_read(&scale, out->scale), test_buffer_read(&loss, out->loss);
    test_buffer *const all[] = {&x, &w, &inv_count, &targets, &exps, &scaled_x, &scale, &loss};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        test_buffer_release(all[i]);
    }
}

static double logit(const problem *p, int row, int column)
{
    double sum = 0;
    for (int k = 0; k < WIDTH; ++k) {
        sum += p->x[row * WIDTH + k] * p->w[column * WIDTH + k];
    }
    return sum;
}

// Loss and dlogits of a row by their definition, relative to the largest logit.
static void expect_row(const problem *p, int row, double *loss, double *dlogits)
{
    const int target = p->targets[row];
    double most = -TEST_INFINITY, sum = 0;
    for (int c = 0; c < VOCAB; ++c) {
        most = fmax(most, logit(p, row, c));
    }
    for (int c = 0; c < VOCAB; ++c) {
        sum += exp(logit(p, row, c) - most);
    }
    *loss = target == IGNORE ? 0 : log(sum) + most - logit(p, row, target);
    for (int c = 0; c < VOCAB; ++c) {
        const double softmax = exp(logit(p, row, c) - most) / sum;
        dlogits[c] = target == IGNORE ? 0 : (softmax - (c == target)) * p->inv_count;
    }
}

static void check(double size)
{
    problem p;
    answer got;
    make(&p, size);
    for (int t = 0; t < 2; ++t) {
        const double eps = bt_dtype_epsilon(reals[t]), allowed = (16 + 8 * size) * eps;
        run(reals[t], &p, &got);
        for (int r = 0; r < ROWS; ++r) {
            double loss, expected[VOCAB], dlogits[VOCAB], x[WIDTH];
            expect_row(&p, r, &loss, expected);
            for (int c = 0; c < VOCAB; ++c) {
                dlogits[c] = got.scale[r] * got.exps[r * VOCAB + c];
            }
            for (int k = 0; k < WIDTH; ++k) {
                x[k] = got.scale[r] * p.x[r * WIDTH + k];
            }
            test_assert_close(&got.loss[r], &loss, 1, allowed, allowed, "loss");
            test_assert_close(dlogits, expected, VOCAB, allowed * p.inv_count, allowed, "dlogits");
            test_assert_close(&got.scaled_x[r * WIDTH], x, WIDTH, 0, 4 * eps, "scaled x");
        }
    }
}

// Logits up to 2, of hundreds, which are taken relative to the largest one, and all equal.
static void gives_the_gradient(void **state)
{
    (void)state;
    check(0), check(1), check(300);
}

// The value of an undamaged computation, with the same bits, or NaN.
static void assert_value(double got, double whole, bool faulty)
{
    uint64_t bits[2];
    memcpy(&bits[0], &got, sizeof got);
    memcpy(&bits[1], &whole, sizeof whole);
    assert_true(faulty ? isnan(got) : bits[0] == bits[1]);
}

static void faults_stay_in_their_rows(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        problem p;
        answer whole, got;
        make(&p, 1);
        run(reals[t], &p, &whole);
        p.x[0] = TEST_NAN;
        p.targets[4] = VOCAB;
        run(reals[t], &p, &got);
        for (int r = 0; r < ROWS; ++r) {
            const bool faulty = r == 0 || r == 4;
            assert_value(got.loss[r], whole.loss[r], faulty);
            assert_value(got.scale[r], whole.scale[r], faulty);
            for (int c = 0; c < VOCAB; ++c) {
                assert_value(got.exps[r * VOCAB + c], whole.exps[r * VOCAB + c], faulty);
            }
            for (int k = 0; k < WIDTH; ++k) {
                assert_value(got.scaled_x[r * WIDTH + k], whole.scaled_x[r * WIDTH + k], faulty);
            }
        }
    }
}

// All that the gradients are computed from, not only their product, is zero.
static void ignored_rows_are_zero(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        problem p;
        answer got;
        make(&p, 300);
        p.targets[1] = 0, p.targets[2] = IGNORE, p.targets[3] = IGNORE;
        p.x[3 * WIDTH] = TEST_NAN; // in all of its logits
        run(reals[t], &p, &got);
        double most = fabs(got.scale[2]) + fabs(got.loss[2]);
        for (int c = 0; c < VOCAB; ++c) {
            most += fabs(got.exps[2 * VOCAB + c]);
        }
        for (int k = 0; k < WIDTH; ++k) {
            most += fabs(got.scaled_x[2 * WIDTH + k]);
        }
        assert_true(most <= 0 && got.scale[1] > 0);
        assert_true(fabs(got.scale[3]) <= 0 && fabs(got.loss[3]) <= 0);
        for (int k = 0; k < WIDTH; ++k) {
            assert_true(fabs(got.scaled_x[3 * WIDTH + k]) <= 0);
        }
        assert_true(isnan(got.exps[3 * VOCAB]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_gradient),
        cmocka_unit_test(faults_stay_in_their_rows),
        cmocka_unit_test(ignored_rows_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
