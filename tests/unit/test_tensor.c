// tests/unit/test_tensor.c - views, versions, ownership, and what the tape makes of them
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

static void views_share_storage_and_keep_it(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    double values[12];
    for (int i = 0; i < 12; ++i) {
        values[i] = i;
    }
    bt_tensor *x = fixture_values(&f, BT_F64, BT_SHAPE(3, 4), values);
    bt_tensor *t = NULL;
    bt_tensor *row = NULL;
    bt_tensor *copy = NULL;
    ASSERT_OK(bt_transpose(&f.context, x, 0, 1, &t));
    ASSERT_OK(bt_narrow(&f.context, t, 0, 1, 2, &row)); // columns 1 and 2 of x, as rows
    bt_tensor_release(x);
    bt_tensor_release(t);
    assert_false(bt_tensor_is_contiguous(row));
    ASSERT_OK(bt_contiguous(&f.context, row, &copy));
    double *read = fixture_read(&f, copy);
    const double expected[] = {1, 5, 9, 2, 6, 10};
    test_assert_close(read, expected, 6, 0, 0, "copy");
    free(read);
    bt_tensor_release(row);
    bt_tensor_release(copy);
    fixture_close(&f);
}

static void impossible_shapes_and_views_are_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *x = NULL;
    bt_tensor *y = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape [-1, 2]",
                 bt_tensor_create(&f.context, BT_F32, BT_SHAPE(-1, 2), "x", &x));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_tensor_create(&f.context, BT_F32, BT_SHAPE(INT64_MAX, 8), "x", &x));
    assert_null(x);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(2, 3), "x", &x));
    int64_t stride[] = {3, 1};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "more than its 6 elements",
                 bt_tensor_view(x, BT_SHAPE(2, 3), stride, 1, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "reshape: shape [4] does not have the elements",
                 bt_reshape(&f.context, x, BT_SHAPE(4), &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "3 elements from 2 of axis 1",
                 bt_narrow(&f.context, x, 1, 2, 3, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "permutation",
                 bt_permute(&f.context, x, (int[]){0, 0}, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "does not fit",
                 bt_matmul(&f.context, x, false, x, false, &y));
    assert_null(y);
    bt_tensor_release(x);
    fixture_close(&f);
}

// Sizes whose products, sums or extremes do not fit 64 bits. Sanitizers see arithmetic on them.
static void sizes_are_checked_before_arithmetic(void **state)
{
    (void)state;
    fixture f;
    bt_tensor *x = NULL, *y = NULL;
    const int64_t large = (int64_t)1 << 62;
    const bt_shape negative = BT_SHAPE(-2, -3);
    const bt_shape huge = BT_SHAPE(0, large, large);
    bt_shape deep = BT_SHAPE(1, 1, 1, 1, 1, 1, 2, 3);
    deep.rank = BT_MAX_RANK + 1;
    fixture_open(&f, 0);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_tensor_create(&f.context, BT_F32, huge, "x", &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "rank 9, allowed 0 to 8",
                 bt_tensor_create(&f.context, BT_F32, deep, "x", &y));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(2, 3), "x", &x));
    const struct {
        const int64_t stride[2], offset;
    } views[] = {{{large, 1}, 0}, {{large, large}, 0}, {{1, 1}, INT64_MAX}, {{-large, -large}, -2}};
    for (int i = 0; i < 4; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "view of x",
                     bt_tensor_view(x, BT_SHAPE(4, 4), views[i].stride, views[i].offset, &y));
    }
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "view of x",
                 bt_tensor_view(x, BT_SHAPE(0), views[0].stride, 7, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_reshape(&f.context, x, negative, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_reshape(&f.context, x, huge, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "rank 9", bt_reshape(&f.context, x, deep, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "rank 9", bt_expand(&f.context, x, deep, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_expand(&f.context, x, BT_SHAPE(large, large, 2, 3), &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "elements from",
                 bt_narrow(&f.context, x, 1, INT64_MAX, INT64_MAX, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "axes 7 and 9", bt_transpose(&f.context, x, 7, 9, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "axis -2147483646",
                 bt_sum(&f.context, x, INT_MIN, &y));
    bt_tensor *qkv = NULL;
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(1, 2, 6), "qkv", &qkv));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "heads",
                 bt_attention(&f.context, qkv, large, true, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "function 99",
                 bt_unary_op(&f.context, (bt_unary)99, 0, x, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "function 99",
                 bt_binary_op(&f.context, (bt_binary)99, x, x, &y));
    assert_null(y);
    bt_tensor_release(qkv);
    bt_tensor_release(x);
    fixture_close(&f);
}

static void attention_refuses_what_does_not_fit(void **state)
{
    (void)state;
    fixture f;
    bt_tensor *q = NULL, *k = NULL, *starts = NULL, *y = NULL;
    fixture_open(&f, 0);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(2, 3, 8), "q", &q));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(2, 5, 4), "k", &k));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_I32, BT_SHAPE(2), "starts", &starts));
    const bt_attention_options good = {.heads = 4, .kv_heads = 2};
    const struct {
        bt_tensor *q, *k, *v, *starts;
        bt_attention_options with;
        const char *message;
    } bad[] = {
        {q, k, k, NULL, {.heads = 4, .kv_heads = 3}, "4 heads with 3 of keys"},
        {q, k, k, NULL, {.heads = 4, .kv_heads = 4}, "does not fit"},
        {q, k, NULL, NULL, good, "without values"},
        {q, NULL, k, NULL, good, "without values"},
        {q, k, q, NULL, good, "does not fit"},
        {q, starts, k, NULL, good, "does not fit"},
        {q, NULL, NULL, NULL, {.heads = 4}, "qkv of shape [2, 3, 8] with 4 heads"},
        {q, k, k, NULL, {.heads = 4, .kv_heads = 2, .window = -1}, "window -1"},
        {q, k, k, NULL, {.heads = 4, .kv_heads = 2, .dropout = 1}, "dropout 1"},
        {q, k, k, k, good, "input 3"},
        {q, k, k, starts, good, "documents need a batch of 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        ASSERT_FAILS(
            BT_STATUS_INVALID_ARGUMENT, bad[i].message,
            bt_attend(&f.context, bad[i].q, bad[i].k, bad[i].v, bad[i].starts, &bad[i].with, &y));
        assert_null(y);
    }
    ASSERT_OK(bt_attend(&f.context, q, k, k, NULL, &good, &y));
    bt_tensor_release(y);
    bt_tensor_release(q), bt_tensor_release(k), bt_tensor_release(starts);
    fixture_close(&f);
}

// Products with an empty operand may be impossible results, or none at all.
static void empty_operands_make_no_impossible_result(void **state)
{
    (void)state;
    fixture f;
    bt_tensor *a = NULL, *b = NULL, *y = NULL;
    const int64_t wide = (int64_t)1 << 40;
    fixture_open(&f, 0);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(wide, 0), "a", &a));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(0, wide), "b", &b));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_matmul(&f.context, a, false, b, false, &y));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape",
                 bt_linear(&f.context, a, a, NULL, NULL, BT_ACTIVATION_NONE, &y));
    bt_tensor_release(a);
    bt_tensor_release(b);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(wide, 1, 0), "a", &a));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(wide, 0), "b", &b));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "impossible shape", bt_add(&f.context, a, b, &y));
    assert_null(y);
    bt_tensor_release(a);
    bt_tensor_release(b);
    fixture_close(&f);
}

static void stale_saved_tensor_is_named(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *x = fixture_random(&f, BT_F64, BT_SHAPE(5), 0, 1, 1);
    bt_tensor *y = NULL;
    x->requires_grad = true;
    x->name = "activations";
    ASSERT_OK(bt_gelu(&f.context, x, &y));
    ASSERT_OK(bt_tensor_fill(&f.context, x, 3));
    bt_tensor *seed = fixture_random(&f, BT_F64, BT_SHAPE(5), 0, 1, 2);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "unary: the tensor \"activations\"",
                 bt_backward(&f.context, y, seed));
    assert_null(x->grad);
    bt_tensor_release(seed);
    bt_tensor_release(y);
    bt_tensor_release(x);
    fixture_close(&f);
}

static void spent_tape_is_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    bt_tensor *x = fixture_random(&f, BT_F64, BT_SCALAR, 0, 1, 1);
    bt_tensor *y = NULL;
    bt_tensor *z = NULL;
    bt_tensor *constant = NULL;
    x->requires_grad = true;
    ASSERT_OK(bt_gelu(&f.context, x, &y));
    ASSERT_OK(bt_backward(&f.context, y, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "was reset", bt_backward(&f.context, y, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "bt_detach", bt_gelu(&f.context, y, &z));
    ASSERT_OK(bt_detach(y, &constant));
    ASSERT_OK(bt_mul(&f.context, x, constant, &z));
    ASSERT_OK(bt_backward(&f.context, z, NULL));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "depends on no tensor",
                 bt_backward(&f.context, constant, NULL));
    bt_tensor_release(x);
    bt_tensor_release(y);
    bt_tensor_release(z);
    bt_tensor_release(constant);
    fixture_close(&f);
}

// d/dx of x*x + gelu(x)*x with x used four times: the tape sums all paths.
static void gradients_of_all_paths_add_up(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    double value = 0.7;
    bt_tensor *x = fixture_values(&f, BT_F64, BT_SCALAR, &value);
    bt_tensor *square = NULL;
    bt_tensor *cube = NULL;
    bt_tensor *sum = NULL;
    x->requires_grad = true;
    ASSERT_OK(bt_mul(&f.context, x, x, &square));
    ASSERT_OK(bt_mul(&f.context, square, x, &cube));
    ASSERT_OK(bt_add(&f.context, square, cube, &sum));
    ASSERT_OK(bt_backward(&f.context, sum, NULL));
    double *grad = fixture_read(&f, x->grad);
    const double expected = 2 * 0.7 + 3 * 0.7 * 0.7;
    test_assert_close(grad, &expected, 1, 1e-15, 1e-15, "gradient");
    free(grad);
    bt_tensor_release(x);
    bt_tensor_release(square);
    bt_tensor_release(cube);
    bt_tensor_release(sum);
    fixture_close(&f);
}

static void anomaly_mode_names_the_op(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    double value = 0;
    bt_tensor *x = fixture_values(&f, BT_F64, BT_SCALAR, &value);
    bt_tensor *root = NULL;
    bt_tensor *y = NULL;
    x->requires_grad = true;
    f.context.anomaly = true;
    ASSERT_OK(bt_unary_op(&f.context, BT_UNARY_SQRT, 0, x, &root)); // infinite slope at 0
    ASSERT_OK(bt_scale(&f.context, root, 2, &y));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "backward of unary produced the first non-finite gradient",
                 bt_backward(&f.context, y, NULL));
    assert_non_null(strstr(bt_error_message(), "of input 0 (x)"));
    assert_non_null(strstr(bt_error_message(), "; attributes: function sqrt, alpha 0"));
    bt_tensor_release(x);
    bt_tensor_release(root);
    bt_tensor_release(y);
    fixture_close(&f);
}

typedef struct hook_record {
    int calls;
    double seen;
} hook_record;

static bt_status on_grad(void *self, bt_context *context, bt_tensor *grad)
{
    hook_record *r = self;
    ++r->calls;
    return bt_tensor_read(context, grad, &r->seen);
}

static void hooks_see_complete_gradients_once(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    double value = 0.7;
    hook_record leaf = {0};
    hook_record middle = {0};
    bt_tensor *x = fixture_values(&f, BT_F64, BT_SCALAR, &value);
    bt_tensor *square = NULL;
    bt_tensor *cube = NULL;
    bt_tensor *sum = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "constant",
                 bt_tensor_set_grad_hook(&f.context, x, (bt_grad_hook){&leaf, on_grad, NULL}));
    x->requires_grad = true;
    ASSERT_OK(bt_tensor_set_grad_hook(&f.context, x, (bt_grad_hook){&leaf, on_grad, NULL}));
    ASSERT_OK(bt_mul(&f.context, x, x, &square));
    ASSERT_OK(bt_tensor_set_grad_hook(&f.context, square, (bt_grad_hook){&middle, on_grad, NULL}));
    ASSERT_OK(bt_mul(&f.context, square, x, &cube));
    ASSERT_OK(bt_add(&f.context, square, cube, &sum));
    ASSERT_OK(bt_backward(&f.context, sum, NULL));
    assert_int_equal(leaf.calls, 1);
    assert_int_equal(middle.calls, 1);
    const double expected[] = {2 * 0.7 + 3 * 0.7 * 0.7, 1 + 0.7};
    test_assert_close(&leaf.seen, &expected[0], 1, 1e-15, 1e-15, "leaf");
    test_assert_close(&middle.seen, &expected[1], 1, 1e-15, 1e-15, "square");
    bt_tensor_release(x);
    bt_tensor_release(square);
    bt_tensor_release(cube);
    bt_tensor_release(sum);
    fixture_close(&f);
}

static bt_status small_network(fixture *f, bt_tensor *x, bt_tensor *w)
{
    bt_tensor *hidden = NULL;
    bt_tensor *loss = NULL;
    bt_status status = bt_linear(&f->context, x, w, NULL, NULL, BT_ACTIVATION_GELU, &hidden);
    if (status == BT_OK) {
        status = bt_mean_all(&f->context, hidden, &loss);
    }
    if (status == BT_OK) {
        status = bt_backward(&f->context, loss, NULL);
    }
    bt_tensor_release(hidden);
    bt_tensor_release(loss);
    bt_tape_reset(f->tape);
    return status;
}

// The n-th allocation fails, on the host and on the device, for n = 1, 2, 3 ...: a clear status,
// nothing leaks (fixture_close checks), and afterwards everything works.
static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    for (int where = 0; where < 2; ++where) {
        fixture f;
        fixture_open(&f, 0);
        bt_tensor *x = fixture_random(&f, BT_F64, BT_SHAPE(4, 3), -1, 1, 1);
        bt_tensor *w = fixture_random(&f, BT_F64, BT_SHAPE(5, 3), -1, 1, 2);
        w->requires_grad = true;
        int64_t failures = 0;
        for (int64_t n = 1; n < 1000; ++n) {
            if (where == 0) {
                bt_mem_fail_at(n);
            } else {
                bt_pool_fail_at(f.pool, n);
            }
            bt_status status = small_network(&f, x, w);
            bt_mem_fail_at(0);
            bt_pool_fail_at(f.pool, 0);
            if (status == BT_OK) {
                break;
            }
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
            ++failures;
        }
        assert_true(failures > 5);
        assert_true(failures < 900);
        ASSERT_OK(small_network(&f, x, w));
        bt_tensor_release(x);
        bt_tensor_release(w);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_share_storage_and_keep_it),
        cmocka_unit_test(impossible_shapes_and_views_are_refused),
        cmocka_unit_test(sizes_are_checked_before_arithmetic),
        cmocka_unit_test(attention_refuses_what_does_not_fit),
        cmocka_unit_test(empty_operands_make_no_impossible_result),
        cmocka_unit_test(stale_saved_tensor_is_named),
        cmocka_unit_test(spent_tape_is_refused),
        cmocka_unit_test(gradients_of_all_paths_add_up),
        cmocka_unit_test(anomaly_mode_names_the_op),
        cmocka_unit_test(hooks_see_complete_gradients_once),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
