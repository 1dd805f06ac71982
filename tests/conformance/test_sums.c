// Sums on CUDA against the CPU in double: reduce_sum, the embedding and its gradient, the gradient
// norm; and AdamW, which ends a step.
#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const bt_dtype dtypes[] = {BT_F32, BT_BF16};
static const double EPSILON = 0x1p-23;

// outer, reduce, inner, elements off alignment
static const int64_t sums[][4] = {
    {1, 1, 1, 0},    {1, 0, 5, 0},    {3, 7, 1, 0},      {130, 768, 1, 0}, {1, 100000, 1, 0},
    {5, 3000, 1, 0}, {5, 3001, 1, 1}, {1, 1000, 768, 0}, {1, 999, 769, 0}, {1, 5000, 24, 0},
    {4, 300, 64, 0}, {3, 50, 40, 1},  {0, 4, 4, 0},      {2, 4, 0, 0},     {1, 70000, 8, 0}};

static void reduce_sum_with(bt_dtype dtype, bt_dtype y_dtype, const int64_t *shape, bool accumulate)
{
    int64_t outer = shape[0];
    int64_t reduce = shape[1];
    int64_t inner = shape[2];
    test_twin *x = test_twin_random(dtype, outer * reduce * inner, 1, -1, 1);
    test_twin *y = accumulate ? test_twin_inout(y_dtype, outer * inner, 2, -1, 1)
                              : test_twin_output(y_dtype, outer * inner);
    bt_reduce_sum_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_reduce_sum_args){.x = test_at(x, side),
                                          .y = test_at(y, side),
                                          .outer = outer,
                                          .reduce = reduce,
                                          .inner = inner,
                                          .scale = 0.5,
                                          .accumulate = accumulate,
                                          .dtype = test_type(dtype, side),
                                          .y_dtype = test_type(y_dtype, side)};
    }
    test_run(BT_KERNEL_REDUCE_SUM, dtype, &args[0], &args[1]);
    // At most one rounding an addition, of a partial sum that a random walk keeps below sqrt(n).
    double walk = sqrt((double)reduce + 1);
    test_twin_check(y, EPSILON * (4 + walk * 16), bt_dtype_epsilon(y_dtype), "reduce_sum");
    test_twins_release();
}

static void reduce_sum(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; ++i) {
        for (int type = 0; type < 2; ++type) {
            for (int accumulate = 0; accumulate < 2; ++accumulate) {
                test_case_name("%s [%d, %d, %d] + %d", bt_dtype_name(dtypes[type]), (int)sums[i][0],
                               (int)sums[i][1], (int)sums[i][2], (int)sums[i][3]);
                test_twin_offset(sums[i][3]);
                reduce_sum_with(dtypes[type], BT_F32, sums[i], accumulate);
                reduce_sum_with(dtypes[type], dtypes[type], sums[i], accumulate);
                test_twin_offset(0);
            }
        }
    }
}

// rows, cols, vocab, positions, elements off alignment
static const int64_t lookups[][5] = {
    {1, 1, 1, 1, 0},
    {64, 768, 50, 16, 0},
    {1000, 64, 7, 100, 0},
    {999, 72, 3000, 37, 0},
    {300, 65, 20, 300, 0},
    {128, 64, 9, 128, 1},
    {0, 16, 4, 4, 0},
    {2000, 1032, 1, 8, 0},
    // Many rows or ids: those of an id are brought together in another way.
    {140000, 8, 700, 1000, 0},
    {50, 4, 400000, 7, 0},
    {9000, 64, 60000, 100, 0},
    {120000, 8, 700, 1000, 0}};

enum { LOOKUPS = sizeof lookups / sizeof lookups[0] };

// Ids as in text: a few frequent, most rare. Half of the rows have the first id.
static test_twin *make_ids(int64_t rows, int64_t vocab)
{
    double *values = calloc((size_t)rows + 1, sizeof *values);
    assert_non_null(values);
    for (int64_t r = 0; r < rows; ++r) {
        values[r] = r % 2 ? 0 : (double)((r * 7919 + r / 64) % vocab);
    }
    test_twin *ids = test_twin_values(BT_I32, values, rows);
    free(values);
    return ids;
}

// Some ids are not in the table, of both signs, where `bad`: row 3 is the first.
static test_twin *make_bad_ids(int64_t rows, int64_t vocab)
{
    double *values = calloc((size_t)rows, sizeof *values);
    assert_non_null(values);
    for (int64_t r = 0; r < rows; ++r) {
        values[r] = (double)(r % vocab);
        values[r] = r < 3 || r % 4 != 3 ? values[r] : r % 8 == 3 ? (double)vocab : -1;
    }
    if (rows > 8) {
        values[8] = 0x1p30;
    }
    test_twin *ids = test_twin_values(BT_I32, values, rows);
    free(values);
    return ids;
}

static void embedding_with(bt_dtype dtype, const int64_t *shape, bool positions, bool bad)
{
    int64_t rows = shape[0];
    int64_t cols = shape[1];
    test_twin *ids = bad ? make_bad_ids(rows, shape[2]) : make_ids(rows, shape[2]);
    test_twin *good_ids = test_twin_output(BT_I32, rows);
    test_twin *bad_row = test_twin_output(BT_I64, 1);
    test_twin *table = test_twin_random(dtype, shape[2] * cols, 3, -1, 1);
    test_twin *position = positions ? test_twin_random(dtype, shape[3] * cols, 4, -1, 1) : NULL;
    test_twin *y = test_twin_output(dtype, rows * cols);
    bt_embedding_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_embedding_args){.ids = test_at(ids, side),
                                         .table = test_at(table, side),
                                         .position = test_at(position, side),
                                         .y = test_at(y, side),
                                         .rows = rows,
                                         .cols = cols,
                                         .vocab = shape[2],
                                         .positions = shape[3],
                                         .dtype = test_type(dtype, side),
                                         .good_ids = test_at(good_ids, side),
                                         .bad_row = test_at(bad_row, side)};
    }
    test_run(BT_KERNEL_EMBEDDING, dtype, &args[0], &args[1]);
    test_twin_check(y, 0, bt_dtype_epsilon(dtype), "embedding");
    test_twin_check(good_ids, 0, 0, "embedding good_ids");
    test_twin_check(bad_row, 0, 0, "embedding bad_row");
    assert_int_equal((int)test_twin_get(bad_row, TEST_NEAR, 0), bad && rows > 3 ? 3 : -1);
    test_twins_release();
}

static void embedding_backward_with(bt_dtype dtype, const int64_t *shape, bool accumulate)
{
    int64_t rows = shape[0];
    int64_t cols = shape[1];
    test_twin *ids = make_ids(rows, shape[2]);
    test_twin *dy = test_twin_random(dtype, rows * cols, 5, -1, 1);
    test_twin *dtable = accumulate ? test_twin_inout(BT_F32, shape[2] * cols, 6, -1, 1)
                                   : test_twin_output(BT_F32, shape[2] * cols);
    test_twin *dposition = accumulate ? test_twin_inout(BT_F32, shape[3] * cols, 7, -1, 1)
                                      : test_twin_output(BT_F32, shape[3] * cols);
    bt_embedding_backward_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_embedding_backward_args){.ids = test_at(ids, side),
                                                  .dy = test_at(dy, side),
                                                  .dtable = test_at(dtable, side),
                                                  .dposition = test_at(dposition, side),
                                                  .rows = rows,
                                                  .cols = cols,
                                                  .vocab = shape[2],
                                                  .positions = shape[3],
                                                  .accumulate = accumulate,
                                                  .accumulate_position = accumulate,
                                                  .dtype = test_type(dtype, side),
                                                  .grad_dtype = test_type(BT_F32, side)};
    }
    test_run(BT_KERNEL_EMBEDDING_BACKWARD, dtype, &args[0], &args[1]);
    double walk = EPSILON * (4 + 16 * sqrt((double)rows));
    test_twin_check(dtable, walk, EPSILON, "dtable");
    test_twin_check(dposition, walk, EPSILON, "dposition");
    test_twins_release();
}

static void embedding(void **state)
{
    (void)state;
    for (int type = 0; type < 2; ++type) {
        for (int i = 0; i < LOOKUPS; ++i) {
            for (int flag = 0; flag < 2; ++flag) {
                test_case_name("%s [%d, %d] of %d, %d", bt_dtype_name(dtypes[type]),
                               (int)lookups[i][0], (int)lookups[i][1], (int)lookups[i][2], flag);
                test_twin_offset(lookups[i][4]);
                embedding_with(dtypes[type], lookups[i], flag, false);
                embedding_with(dtypes[type], lookups[i], flag, true);
                embedding_backward_with(dtypes[type], lookups[i], flag);
                test_twin_offset(0);
            }
        }
    }
}

enum { TENSORS = 9 };
static const int64_t sizes[TENSORS] = {1, 0, 768, 8192, 8193, 3, 100000, 5, 40000};

static void grad_norm_with(double max_norm, double spoilt)
{
    bt_grad_norm_item items[TEST_SIDES][TENSORS];
    bt_grad_norm_args args[TEST_SIDES];
    test_twin *norm = test_twin_output(BT_F32, 1);
    test_twin *scale = test_twin_output(BT_F32, 1);
    for (int i = 0; i < TENSORS; ++i) {
        test_twin_offset(i == 7);
        test_twin *grad = test_twin_random(BT_F32, sizes[i], 8 + (uint64_t)i, -1, 1);
        test_twin_offset(0);
        if (i == 4 && !(fabs(spoilt) <= 0)) {
            test_twin_set(grad, 8000, spoilt);
        }
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            items[side][i] = (bt_grad_norm_item){test_at(grad, side), sizes[i]};
        }
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_grad_norm_args){.items = items[side],
                                         .item_count = TENSORS,
                                         .grad_scale = 0.125,
                                         .max_norm = max_norm,
                                         .norm = test_at(norm, side),
                                         .scale = test_at(scale, side),
                                         .dtype = test_type(BT_F32, side)};
    }
    test_run(BT_KERNEL_GRAD_NORM, BT_F32, &args[0], &args[1]);
    test_twin_check(norm, 0, 16 * EPSILON, "norm");
    test_twin_check(scale, 0, 16 * EPSILON, "scale");
    assert_true(!(fabs(spoilt) <= 0) == (bool)isnan(test_twin_get(scale, TEST_NEAR, 0)));
    test_twins_release();
}

static void grad_norm(void **state)
{
    (void)state;
    grad_norm_with(1, 0);
    grad_norm_with(0, 0);
    grad_norm_with(1e6, 0);
    grad_norm_with(1, (double)NAN);
    grad_norm_with(1, (double)INFINITY);
}

// The two halves, of items on and off the alignment of vectors.
static void sum_squares(void **state)
{
    (void)state;
    enum { PARTIALS = 1 + 1 + 1 + 1 + 1 + 7 + 1 + 3 };
    bt_sum_squares_item items[TEST_SIDES][TENSORS];
    bt_sum_squares_args args[TEST_SIDES];
    test_twin *partials = test_twin_output(BT_F64, PARTIALS);
    int64_t first = 0;
    for (int i = 0; i < TENSORS; ++i) {
        test_twin_offset(i == 7);
        test_twin *x = test_twin_random(BT_F32, sizes[i], 8 + (uint64_t)i, -1, 1);
        test_twin_offset(0);
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            items[side][i] = (bt_sum_squares_item){test_at(x, side), sizes[i],
                                                   (double *)test_at(partials, side) + first};
        }
        first += (sizes[i] + BT_SQUARES_BLOCK - 1) / BT_SQUARES_BLOCK;
    }
    assert_int_equal(first, PARTIALS);
    test_case_name("sums of squares of %d tensors", (int)TENSORS);
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_sum_squares_args){items[side], TENSORS, test_type(BT_F32, side)};
    }
    test_run(BT_KERNEL_SUM_SQUARES, BT_F32, &args[0], &args[1]);
    test_twin_check(partials, 0, 64 * EPSILON, "partial sums");
    test_twins_release();
}

// With its own partial sums: a run restores every operand first.
static void clip_scale(void **state)
{
    (void)state;
    static const double max_norms[] = {0, 1, 1e6};
    double values[300];
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
        values[i] = 0.25 + (double)(i % 17);
    }
    for (size_t count = 1; count <= sizeof values / sizeof *values; count += 1 + count / 2) {
        for (size_t m = 0; m < sizeof max_norms / sizeof *max_norms; ++m) {
            bt_clip_scale_args args[TEST_SIDES];
            test_twin *partials = test_twin_values(BT_F64, values, (int64_t)count);
            test_case_name("clip scale of %zu sums, norm at most %g", count, max_norms[m]);
            test_twin *norm = test_twin_output(BT_F32, 1);
            test_twin *scale = test_twin_output(BT_F32, 1);
            for (test_side side = 0; side < TEST_SIDES; ++side) {
                args[side] = (bt_clip_scale_args){.partials = test_at(partials, side),
                                                  .count = (int64_t)count,
                                                  .grad_scale = 0.125,
                                                  .max_norm = max_norms[m],
                                                  .norm = test_at(norm, side),
                                                  .scale = test_at(scale, side),
                                                  .dtype = test_type(BT_F32, side)};
            }
            test_run(BT_KERNEL_CLIP_SCALE, BT_F32, &args[0], &args[1]);
            test_twin_check(norm, 0, 16 * EPSILON, "norm");
            test_twin_check(scale, 0, 16 * EPSILON, "scale");
            test_twins_release();
        }
    }
}

static void adamw_with(bt_adamw_item items[TEST_SIDES][TENSORS], double scale_value)
{
    test_twin *state[TENSORS][4];
    bt_adamw_args args[TEST_SIDES];
    test_twin *scale = test_twin_values(BT_F32, &scale_value, 1);
    for (int i = 0; i < TENSORS; ++i) {
        test_twin_offset(i == 7);
        uint64_t seed = 100 + 10 * (uint64_t)i;
        state[i][0] = test_twin_inout(BT_F32, sizes[i], seed, -1, 1);
        state[i][1] = test_twin_inout(BT_F32, sizes[i], seed + 1, -0.1, 0.1);
        state[i][2] = test_twin_inout(BT_F32, sizes[i], seed + 2, 0, 0.01);
        state[i][3] = i % 2 ? NULL : test_twin_output(BT_BF16, sizes[i]);
        test_twin *grad = test_twin_random(BT_F32, sizes[i], seed + 3, -1, 1);
        test_twin_offset(0);
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            items[side][i] =
                (bt_adamw_item){.param = test_at(state[i][0], side),
                                .copy = side == TEST_HOST ? NULL : test_at(state[i][3], side),
                                .grad = test_at(grad, side),
                                .m = test_at(state[i][1], side),
                                .v = test_at(state[i][2], side),
                                .count = sizes[i],
                                .decay = i % 3 ? 0.1 : 0};
        }
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_adamw_args){.items = items[side],
                                     .item_count = TENSORS,
                                     .lr = 3e-3,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .step = 4,
                                     .scale = test_at(scale, side),
                                     .dtype = test_type(BT_F32, side)};
    }
    test_run(BT_KERNEL_ADAMW, BT_F32, &args[0], &args[1]);
    bool unchanged = isnan(scale_value);
    for (int i = 0; i < TENSORS; ++i) {
        test_twin_check(state[i][0], EPSILON, 4 * EPSILON, "param");
        test_twin_check(state[i][1], EPSILON, 4 * EPSILON, "m");
        test_twin_check(state[i][2], EPSILON, 4 * EPSILON, "v");
        for (int64_t at = 0; state[i][3] && at < sizes[i]; ++at) {
            double copy = test_twin_get(state[i][3], TEST_NEAR, at);
            double param = test_twin_get(state[i][0], TEST_NEAR, at);
            double rounded = (double)bt_bf16_to_f32(bt_f32_to_bf16((float)param));
            assert_true(unchanged ? isnan(copy) : fabs(copy - rounded) <= 0);
        }
    }
    test_twins_release();
}

static void adamw(void **state)
{
    (void)state;
    static bt_adamw_item items[TEST_SIDES][TENSORS];
    adamw_with(items, 0.25);
    adamw_with(items, (double)NAN);
}

// More tensors than one launch takes.
static void many_tensors(void **state)
{
    (void)state;
    enum { MANY = 2500 };
    static bt_grad_norm_item items[MANY];
    test_twin *grad = test_twin_random(BT_F32, 3 * MANY, 200, -1, 1);
    test_twin *norm = test_twin_output(BT_F32, 1);
    test_twin *scale = test_twin_output(BT_F32, 1);
    double sum = 0;
    for (int i = 0; i < MANY; ++i) {
        items[i] = (bt_grad_norm_item){(const float *)grad->near + 3 * i, 3};
    }
    for (int64_t i = 0; i < 3 * MANY; ++i) {
        sum += ((double *)grad->host)[i] * ((double *)grad->host)[i];
    }
    bt_grad_norm_args args = {.items = items,
                              .item_count = MANY,
                              .grad_scale = 1,
                              .norm = norm->near,
                              .scale = scale->near,
                              .dtype = BT_F32};
    test_run(BT_KERNEL_GRAD_NORM, BT_F32, NULL, &args);
    assert_true(fabs(test_twin_get(norm, TEST_NEAR, 0) / sqrt(sum) - 1) <= 8 * EPSILON);
    test_twins_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduce_sum),   cmocka_unit_test(embedding),  cmocka_unit_test(grad_norm),
        cmocka_unit_test(sum_squares),  cmocka_unit_test(clip_scale), cmocka_unit_test(adamw),
        cmocka_unit_test(many_tensors),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
