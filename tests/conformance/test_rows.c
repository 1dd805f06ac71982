// Softmax, LayerNorm, cross-entropy and ids of a split vocabulary on CUDA against the CPU in
// double: shapes that fill a warp, a block or neither, misaligned operands, aliased outputs, rows
// of NaN and infinities.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const bt_dtype dtypes[] = {BT_F32, BT_BF16};
static const double EPSILON = 0x1p-23; // f32, in which everything is summed

// rows, cols, and elements off alignment
static const int64_t shapes[][3] = {
    {0, 768, 0},    {1, 1, 0},       {1, 768, 0},    {3, 7, 0},     {5, 769, 0},    {64, 768, 0},
    {300, 768, 0},  {64, 768, 1},    {17, 1024, 0},  {9, 1600, 0},  {7, 2048, 0},   {5, 4096, 0},
    {3, 5000, 0},   {700, 64, 0},    {41, 96, 3},    {2, 9001, 0},  {9001, 136, 0}, {5000, 512, 0},
    {7001, 640, 0}, {6000, 1024, 0}, {900, 3072, 0}, {1300, 120, 0}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef void row_case(bt_dtype dtype, int64_t rows, int64_t cols);

static void of_shape(row_case *f, bt_dtype dtype, const int64_t shape[3])
{
    test_case_name("%s [%d, %d] + %d", bt_dtype_name(dtype), (int)shape[0], (int)shape[1],
                   (int)shape[2]);
    test_twin_offset(shape[2]);
    f(dtype, shape[0], shape[1]);
    test_twins_release();
    test_twin_offset(0);
}

// For every type and shape, naming the case should it fail.
static void for_each(row_case *f)
{
    for (int type = 0; type < 2; ++type) {
        for (int i = 0; i < SHAPES; ++i) {
            of_shape(f, dtypes[type], shapes[i]);
        }
    }
}

static void softmax_case(bt_dtype dtype, int64_t rows, int64_t cols)
{
    test_twin *x = test_twin_random(dtype, rows * cols, 1, -8, 8);
    test_twin *y = test_twin_output(dtype, rows * cols);
    bt_softmax_args args[TEST_SIDES];
    if (rows > 2 && cols > 2) {
        test_twin_set(x, 1, (double)-INFINITY); // probability 0
        test_twin_set(x, cols, (double)NAN);    // the row is NaN
        for (int64_t c = 0; c < cols; ++c) {
            test_twin_set(x, 2 * cols + c, (double)-INFINITY); // the row is NaN
        }
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_softmax_args){test_at(x, side), test_at(y, side), rows, cols,
                                       test_type(dtype, side)};
    }
    test_run(BT_KERNEL_SOFTMAX, dtype, &args[0], &args[1]);
    // The exponent's argument, up to 16, is rounded; the sum adds a rounding a step of its tree.
    test_twin_check(y, EPSILON, 64 * EPSILON + bt_dtype_epsilon(dtype), "softmax");
}

static void softmax_backward_case(bt_dtype dtype, int64_t rows, int64_t cols)
{
    test_twin *y = test_twin_random(dtype, rows * cols, 2, 0, 2.0 / (double)cols);
    test_twin *dy = test_twin_random(dtype, rows * cols, 3, -1, 1);
    test_twin *dx = test_twin_output(dtype, rows * cols);
    bt_softmax_backward_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_softmax_backward_args){
            test_at(y, side),      test_at(dy, side), test_at(dx, side), rows, cols,
            test_type(dtype, side)};
    }
    test_run(BT_KERNEL_SOFTMAX_BACKWARD, dtype, &args[0], &args[1]);
    test_twin_check(dx, 64 * EPSILON / (double)cols, bt_dtype_epsilon(dtype), "softmax backward");
}

static void layernorm_with(bt_dtype dtype, bt_dtype param, int64_t rows, int64_t cols,
                           bool residual)
{
    test_twin *x = test_twin_random(dtype, rows * cols, 4, -2, 3);
    test_twin *other = residual ? test_twin_random(dtype, rows * cols, 5, -2, 2) : NULL;
    test_twin *sum = residual ? test_twin_output(dtype, rows * cols) : NULL;
    test_twin *gamma = test_twin_random(param, cols, 6, 0.5, 1.5);
    test_twin *beta = residual ? NULL : test_twin_random(param, cols, 7, -1, 1);
    test_twin *y = test_twin_output(dtype, rows * cols);
    test_twin *mean = test_twin_output(BT_F32, rows);
    test_twin *rstd = test_twin_output(BT_F32, rows);
    bt_layernorm_args args[TEST_SIDES];
    bool spoilt = rows > 2 && cols > 2;
    if (spoilt) {
        test_twin_set(x, cols, (double)NAN);
        test_twin_set(x, 2 * cols + 1, (double)INFINITY);
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_layernorm_args){.x = test_at(x, side),
                                         .residual = test_at(other, side),
                                         .sum = test_at(sum, side),
                                         .gamma = test_at(gamma, side),
                                         .beta = test_at(beta, side),
                                         .y = test_at(y, side),
                                         .mean = test_at(mean, side),
                                         .rstd = test_at(rstd, side),
                                         .rows = rows,
                                         .cols = cols,
                                         .epsilon = 1e-5,
                                         .dtype = test_type(dtype, side),
                                         .param_dtype = test_type(param, side)};
    }
    test_run(BT_KERNEL_LAYERNORM, dtype, &args[0], &args[1]);
    // With a residual, s itself is rounded to dtype before its statistics are taken; a row of one
    // column amplifies that rounding by 1/sqrt(epsilon).
    double epsilon = bt_dtype_epsilon(dtype);
    double rounding = residual ? (cols < 16 ? 400 : 8) * epsilon : 0;
    test_twin_check(y, 64 * EPSILON + rounding, epsilon, "layernorm y");
    if (residual) {
        test_twin_check(sum, 0, epsilon, "layernorm sum");
    }
    // An infinity makes the mean infinite on one side and the row NaN on both: spare that row.
    if (spoilt) {
        ((double *)mean->host)[2] = test_twin_get(mean, TEST_NEAR, 2);
        ((double *)rstd->host)[2] = test_twin_get(rstd, TEST_NEAR, 2);
    }
    test_twin_check(mean, 16 * EPSILON + rounding, EPSILON, "layernorm mean");
    test_twin_check(rstd, rounding, 16 * EPSILON + 2 * rounding, "layernorm rstd");
}

static void layernorm_case(bt_dtype dtype, int64_t rows, int64_t cols)
{
    for (int residual = 0; residual < 2; ++residual) {
        layernorm_with(dtype, BT_F32, rows, cols, residual);
        test_twins_release();
        layernorm_with(dtype, dtype, rows, cols, residual);
        test_twins_release();
    }
}

static void layernorm_backward_with(bt_dtype dtype, bt_dtype param, int64_t rows, int64_t cols,
                                    bool accumulate)
{
    test_twin *dy = test_twin_random(dtype, rows * cols, 8, -1, 1);
    test_twin *s = test_twin_random(dtype, rows * cols, 9, -2, 3);
    test_twin *gamma = test_twin_random(param, cols, 10, 0.5, 1.5);
    test_twin *mean = test_twin_random(BT_F32, rows, 11, 0.4, 0.6);
    test_twin *rstd = test_twin_random(BT_F32, rows, 12, 0.6, 0.8);
    test_twin *dx = accumulate ? test_twin_inout(dtype, rows * cols, 13, -1, 1)
                               : test_twin_output(dtype, rows * cols);
    test_twin *dgamma =
        accumulate ? test_twin_inout(BT_F32, cols, 14, -1, 1) : test_twin_output(BT_F32, cols);
    test_twin *dbeta =
        accumulate ? test_twin_inout(BT_F32, cols, 15, -1, 1) : test_twin_output(BT_F32, cols);
    bt_layernorm_backward_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_layernorm_backward_args){.dy = test_at(dy, side),
                                                  .s = test_at(s, side),
                                                  .gamma = test_at(gamma, side),
                                                  .mean = test_at(mean, side),
                                                  .rstd = test_at(rstd, side),
                                                  .dx = test_at(dx, side),
                                                  .dgamma = test_at(dgamma, side),
                                                  .dbeta = test_at(dbeta, side),
                                                  .rows = rows,
                                                  .cols = cols,
                                                  .accumulate = accumulate,
                                                  .accumulate_params = accumulate,
                                                  .dtype = test_type(dtype, side),
                                                  .param_dtype = test_type(param, side),
                                                  .grad_dtype = test_type(BT_F32, side)};
    }
    test_run(BT_KERNEL_LAYERNORM_BACKWARD, dtype, &args[0], &args[1]);
    test_twin_check(dx, 64 * EPSILON, bt_dtype_epsilon(dtype), "layernorm dx");
    double sums = EPSILON * (16 + 2 * (double)rows); // terms up to 2, added one by one at worst
    test_twin_check(dgamma, sums, 4 * EPSILON, "layernorm dgamma");
    test_twin_check(dbeta, sums, 4 * EPSILON, "layernorm dbeta");
}

static void layernorm_backward_case(bt_dtype dtype, int64_t rows, int64_t cols)
{
    for (int accumulate = 0; accumulate < 2; ++accumulate) {
        layernorm_backward_with(dtype, BT_F32, rows, cols, accumulate);
        test_twins_release();
        layernorm_backward_with(dtype, dtype, rows, cols, accumulate);
        test_twins_release();
    }
}

enum { IGNORE = -100 };

// Targets spread over the vocabulary; every seventh is ignored, and one is invalid if requested.
static test_twin *make_targets(int64_t rows, int64_t vocab, bool bad)
{
    double *values = calloc((size_t)rows + 1, sizeof *values);
    assert_non_null(values);
    for (int64_t r = 0; r < rows; ++r) {
        values[r] = r % 7 == 3 ? IGNORE : (double)((r * 7919 + 13) % vocab);
    }
    if (bad && rows > 4) {
        values[rows - 1] = (double)vocab;
        values[2] = -1;
    }
    test_twin *targets = test_twin_values(BT_I32, values, rows);
    free(values);
    return targets;
}

static void cross_entropy_with(bt_dtype dtype, int64_t rows, int64_t vocab, bool bad)
{
    int64_t stride = vocab + (vocab % 8 ? 0 : 8);
    test_twin *logits = test_twin_random(dtype, rows * stride, 16, -10, 10);
    test_twin *targets = make_targets(rows, vocab, bad);
    test_twin *loss = test_twin_output(BT_F32, rows);
    test_twin *lse = test_twin_output(BT_F32, rows);
    test_twin *mean = test_twin_output(BT_F32, 1);
    test_twin *inv_count = test_twin_output(BT_F32, 1);
    test_twin *bad_row = test_twin_output(BT_I64, 1);
    bt_cross_entropy_args args[TEST_SIDES];
    for (int64_t c = 0; rows > 1 && c + 1 < vocab; ++c) {
        test_twin_set(logits, stride + c, (double)-INFINITY); // all mass on the last
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_cross_entropy_args){.logits = test_at(logits, side),
                                             .targets = test_at(targets, side),
                                             .loss = test_at(loss, side),
                                             .lse = test_at(lse, side),
                                             .mean = test_at(mean, side),
                                             .inv_count = test_at(inv_count, side),
                                             .bad_row = test_at(bad_row, side),
                                             .rows = rows,
                                             .vocab = vocab,
                                             .logits_stride = stride,
                                             .ignore = IGNORE,
                                             .dtype = test_type(dtype, side)};
    }
    test_run(BT_KERNEL_CROSS_ENTROPY, dtype, &args[0], &args[1]);
    test_twin_check(lse, 64 * EPSILON, 2 * EPSILON, "cross-entropy lse");
    test_twin_check(loss, 64 * EPSILON, 2 * EPSILON, "cross-entropy loss");
    test_twin_check(mean, 64 * EPSILON, (16 + (double)rows) * EPSILON, "cross-entropy mean");
    test_twin_check(inv_count, 0, EPSILON, "cross-entropy inv_count");
    test_twin_check(bad_row, 0, 0, "cross-entropy bad_row");
    assert_int_equal((int)test_twin_get(bad_row, TEST_NEAR, 0), bad && rows > 4 ? 2 : -1);
}

static void cross_entropy_case(bt_dtype dtype, int64_t rows, int64_t vocab)
{
    cross_entropy_with(dtype, rows, vocab, false);
    test_twins_release();
    cross_entropy_with(dtype, rows, vocab, true);
}

static void cross_entropy_backward_case(bt_dtype dtype, int64_t rows, int64_t vocab)
{
    int64_t stride = vocab + (vocab % 8 ? 0 : 8);
    test_twin *logits = test_twin_inout(dtype, rows * stride, 17, -10, 0);
    test_twin *targets = make_targets(rows, vocab, false);
    test_twin *lse = test_twin_random(BT_F32, rows, 18, 0, 1);
    test_twin *inv_count = test_twin_random(BT_F32, 1, 19, 0.1, 0.2);
    test_twin *dmean = test_twin_random(BT_F32, 1, 20, 0.5, 1);
    bt_cross_entropy_backward_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_cross_entropy_backward_args){.logits = test_at(logits, side),
                                                      .targets = test_at(targets, side),
                                                      .lse = test_at(lse, side),
                                                      .inv_count = test_at(inv_count, side),
                                                      .dmean = test_at(dmean, side),
                                                      .dlogits = test_at(logits, side),
                                                      .rows = rows,
                                                      .vocab = vocab,
                                                      .logits_stride = stride,
                                                      .ignore = IGNORE,
                                                      .dtype = test_type(dtype, side)};
    }
    test_run(BT_KERNEL_CROSS_ENTROPY_BACKWARD, dtype, &args[0], &args[1]);
    test_twin_check(logits, 2 * EPSILON, 32 * EPSILON + bt_dtype_epsilon(dtype),
                    "cross-entropy backward");
}

// Loss and gradient at once, in place; without a gradient; and the count of the targets alone.
static void cross_entropy_grad_with(bt_dtype dtype, int64_t rows, int64_t vocab, bool bad)
{
    int64_t stride = vocab + (vocab % 8 ? 0 : 8);
    test_twin *logits = test_twin_inout(dtype, rows * stride, 17, -10, 10);
    test_twin *targets = make_targets(rows, vocab, bad);
    test_twin *inv_count = test_twin_random(BT_F32, 1, 19, 0.1, 0.2);
    test_twin *loss = test_twin_output(BT_F32, rows);
    bt_cross_entropy_grad_args args[TEST_SIDES];
    for (int64_t c = 0; rows > 1 && c + 1 < vocab; ++c) {
        test_twin_set(logits, stride + c, (double)-INFINITY); // all mass on the last
    }
    if (rows > 5) {
        test_twin_set(logits, 3 * stride, (double)NAN); // ignored
        test_twin_set(logits, 5 * stride + vocab - 1, (double)NAN);
    }
    for (int with = 0; with < 2; ++with) {
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            args[side] =
                (bt_cross_entropy_grad_args){.logits = test_at(logits, side),
                                             .targets = test_at(targets, side),
                                             .inv_count = test_at(inv_count, side),
                                             .loss = test_at(loss, side),
                                             .dlogits = with ? test_at(logits, side) : NULL,
                                             .rows = rows,
                                             .vocab = vocab,
                                             .logits_stride = stride,
                                             .ignore = IGNORE,
                                             .dtype = test_type(dtype, side)};
        }
        test_run(BT_KERNEL_CROSS_ENTROPY_GRAD, dtype, &args[0], &args[1]);
        test_twin_check(loss, 64 * EPSILON, 2 * EPSILON, "cross-entropy loss");
    }
    // The exponent, of size up to 40, is rounded, which the exponential magnifies by as much.
    test_twin_check(logits, 4 * EPSILON, 64 * EPSILON + bt_dtype_epsilon(dtype),
                    "cross-entropy gradient");
}

static void cross_entropy_grad_case(bt_dtype dtype, int64_t rows, int64_t vocab)
{
    cross_entropy_grad_with(dtype, rows, vocab, false);
    test_twins_release();
    cross_entropy_grad_with(dtype, rows, vocab, true);
}

static void cross_entropy_mean_case(bt_dtype dtype, int64_t rows, int64_t vocab)
{
    (void)dtype;
    test_twin *targets = make_targets(rows, vocab, true);
    test_twin *loss = test_twin_random(BT_F32, rows, 21, 0, 10);
    for (int64_t r = 0; r < rows; ++r) {
        if (r % 7 == 3) { // ignored, see make_targets
            test_twin_set(loss, r, 0);
        }
    }
    test_twin *mean = test_twin_output(BT_F32, 1);
    test_twin *inv_count = test_twin_output(BT_F32, 1);
    test_twin *bad_row = test_twin_output(BT_I64, 1);
    bt_cross_entropy_mean_args args[TEST_SIDES];
    for (int with = 0; with < 2; ++with) {
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            args[side] = (bt_cross_entropy_mean_args){.targets = test_at(targets, side),
                                                      .loss = with ? test_at(loss, side) : NULL,
                                                      .mean = with ? test_at(mean, side) : NULL,
                                                      .inv_count = test_at(inv_count, side),
                                                      .bad_row = test_at(bad_row, side),
                                                      .rows = rows,
                                                      .vocab = vocab,
                                                      .ignore = IGNORE,
                                                      .dtype = test_type(BT_F32, side)};
        }
        test_run(BT_KERNEL_CROSS_ENTROPY_MEAN, BT_F32, &args[0], &args[1]);
        test_twin_check(inv_count, 0, EPSILON, "count of targets");
        test_twin_check(bad_row, 0, 0, "bad row");
    }
    test_twin_check(mean, 0, (16 + (double)rows) * EPSILON, "mean of losses");
}

// Ids of every part of a vocabulary of `vocab`, split over three ranks, and some outside of it.
static test_twin *make_ids(int64_t count, int64_t vocab)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = i % 11 == 5   ? (double)vocab
                    : i % 11 == 8 ? INT32_MAX
                    : i % 7 == 3  ? IGNORE
                                  : (double)((i * 7919 + 13) % vocab);
    }
    test_twin *ids = test_twin_values(BT_I32, values, count);
    free(values);
    return ids;
}

static void shard_ids_case(bt_dtype dtype, int64_t count, int64_t vocab)
{
    enum { RANKS = 3 };
    const int64_t each = (vocab + RANKS - 1) / RANKS;
    test_twin *ids = make_ids(count, vocab);
    test_twin *own = test_twin_output(BT_I32, count);
    test_twin *mask = test_twin_output(dtype, count);
    bt_shard_ids_args args[TEST_SIDES];
    for (int64_t first = 0; first < vocab; first += each) {
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            args[side] = (bt_shard_ids_args){.ids = test_at(ids, side),
                                             .own = test_at(own, side),
                                             .mask = test_at(mask, side),
                                             .count = count,
                                             .first = first,
                                             .rows = vocab - first < each ? vocab - first : each,
                                             .vocab = vocab,
                                             .dtype = test_type(dtype, side)};
        }
        test_run(BT_KERNEL_SHARD_IDS, dtype, &args[0], &args[1]);
        test_twin_check(own, 0, 0, "own ids");
        test_twin_check(mask, 0, 0, "mask of own ids");
    }
}

static void shard_targets_case(bt_dtype dtype, int64_t count, int64_t vocab)
{
    enum { RANKS = 3 };
    const int64_t each = (vocab + RANKS - 1) / RANKS;
    const int32_t ignored[] = {IGNORE, 0, (int32_t)vocab};
    test_twin *targets = make_ids(count, vocab);
    test_twin *outputs[3];
    bt_shard_targets_args args[TEST_SIDES];
    (void)dtype;
    for (int i = 0; i < 3; ++i) {
        outputs[i] = test_twin_output(BT_I32, count);
    }
    for (int n = 0; n < RANKS; ++n) {
        const int64_t first = n * each, rest = vocab - first;
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            args[side] = (bt_shard_targets_args){.targets = test_at(targets, side),
                                                 .own = test_at(outputs[0], side),
                                                 .column = test_at(outputs[1], side),
                                                 .owner = test_at(outputs[2], side),
                                                 .count = count,
                                                 .first = first,
                                                 .rows = rest < 0      ? 0
                                                         : rest < each ? rest
                                                                       : each,
                                                 .vocab = vocab,
                                                 .each = each,
                                                 .ignore = ignored[n]};
        }
        test_run(BT_KERNEL_SHARD_TARGETS, BT_I32, &args[0], &args[1]);
        for (int i = 0; i < 3; ++i) {
            test_twin_check(outputs[i], 0, 0, "targets of a shard");
        }
    }
}

static void softmax(void **state)
{
    (void)state;
    for_each(softmax_case);
    for_each(softmax_backward_case);
}

static void layernorm(void **state)
{
    (void)state;
    for_each(layernorm_case);
    // 16 MB of bf16, above which rows are prefetched.
    static const int64_t many[][3] = {{11000, 768, 0}, {8200, 1024, 0}};
    of_shape(layernorm_case, BT_BF16, many[0]);
    of_shape(layernorm_case, BT_BF16, many[1]);
}

static void layernorm_backward(void **state)
{
    (void)state;
    for_each(layernorm_backward_case);
    // More than 32 rows for each warp that walks them.
    static const int64_t many[3] = {110000, 136, 0};
    of_shape(layernorm_backward_case, BT_F32, many);
    of_shape(layernorm_backward_case, BT_BF16, many);
}

static void cross_entropy(void **state)
{
    (void)state;
    for_each(cross_entropy_case);
    for_each(cross_entropy_backward_case);
}

static void cross_entropy_grad(void **state)
{
    (void)state;
    for_each(cross_entropy_grad_case);
    for_each(cross_entropy_mean_case);
    // Rows that a block of the Hopper kernel holds in shared memory: slices cut and full, two
    // blocks and one on an SM, several rows a block, the largest row and the first too large one.
    static const int64_t held[][3] = {{7, 8192, 0},   {270, 8200, 0}, {140, 30720, 0},
                                      {3, 50304, 0},  {3, 57344, 0},  {3, 57352, 0},
                                      {2, 115200, 0}, {2, 115208, 0}, {2, 131072, 0}};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; ++i) {
        of_shape(cross_entropy_grad_case, BT_F32, held[i]);
        of_shape(cross_entropy_grad_case, BT_BF16, held[i]);
    }
}

static void shards(void **state)
{
    (void)state;
    for_each(shard_ids_case);
    for_each(shard_targets_case);
    static const int64_t many[3] = {300001, 50304, 0}; // more than a grid of 8 blocks an SM
    of_shape(shard_ids_case, BT_BF16, many);
    of_shape(shard_targets_case, BT_BF16, many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards),
        cmocka_unit_test(softmax),
        cmocka_unit_test(layernorm),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(cross_entropy_grad),
        cmocka_unit_test(layernorm_backward),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
