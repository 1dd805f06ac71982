// tests/unit/test_gemm_grouped.c - bt_gemm_grouped on the CPU: the same as one product after
// another
#include "tests/support/test.h"

#include "framework/linalg/gemm.h"
#include "tests/support/fixture.h"

typedef struct size {
    int64_t m, n, k;
    double beta;
} size;

static const size sizes[] = {{5, 7, 3, 0}, {64, 33, 20, 1}, {1, 1, 1, 0},
                             {0, 4, 4, 0}, {4, 4, 0, 1},    {130, 2, 65, 1},
                             {9, 8, 7, 0}, {3, 3, 3, 1},    {2, 5, 11, 0}};
enum { COUNT = sizeof sizes / sizeof sizes[0] };

typedef struct product {
    bt_tensor *a, *b, *d;
} product;

static bt_tensor *matrix(fixture *f, int64_t rows, int64_t cols, uint64_t seed)
{
    return fixture_random(f, BT_F32, BT_SHAPE(rows, cols), -1, 1, seed);
}

static bt_gemm_args weight_gradient(fixture *f, const size *is, product *of, uint64_t seed)
{
    of->a = matrix(f, is->k, is->m, seed);
    of->b = matrix(f, is->k, is->n, seed + 1);
    of->d = matrix(f, is->m, is->n, seed + 2);
    return (bt_gemm_args){.m = is->m,
                          .n = is->n,
                          .k = is->k,
                          .trans_a = true,
                          .a = bt_tensor_data(of->a),
                          .b = bt_tensor_data(of->b),
                          .c = bt_tensor_data(of->d),
                          .d = bt_tensor_data(of->d),
                          .lda = is->m,
                          .ldb = is->n,
                          .ldc = is->n,
                          .ldd = is->n,
                          .batch = 1,
                          .alpha = 1,
                          .beta = is->beta,
                          .ab_dtype = BT_F32,
                          .d_dtype = BT_F32};
}

static void release(product *of)
{
    bt_tensor_release(of->a);
    bt_tensor_release(of->b);
    bt_tensor_release(of->d);
}

static void test_equals_one_after_the_other(void **state)
{
    (void)state;
    for (int count = 1; count <= COUNT; ++count) {
        fixture f;
        product grouped[COUNT], single[COUNT];
        bt_gemm_args args[COUNT];
        fixture_open(&f, 0);
        for (int i = 0; i < count; ++i) {
            bt_gemm_args alone = weight_gradient(&f, &sizes[i], &single[i], (uint64_t)(3 * i));
            ASSERT_OK(bt_gemm(&f.context, &alone));
            args[i] = weight_gradient(&f, &sizes[i], &grouped[i], (uint64_t)(3 * i));
        }
        ASSERT_OK(bt_gemm_grouped(&f.context, args, count));
        for (int i = 0; i < count; ++i) {
            size_t size_bytes = (size_t)(sizes[i].m * sizes[i].n) * sizeof(float);
            if (size_bytes > 0) {
                assert_memory_equal(bt_tensor_data(grouped[i].d), bt_tensor_data(single[i].d),
                                    size_bytes);
            }
            release(&grouped[i]);
            release(&single[i]);
        }
        fixture_close(&f);
    }
}

static void test_empty_group(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    ASSERT_OK(bt_gemm_grouped(&f.context, NULL, 0));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "a group of 2 products",
                 bt_gemm_grouped(&f.context, NULL, 2));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "a group of -1 products",
                 bt_gemm_grouped(&f.context, NULL, -1));
    fixture_close(&f);
}

// A product that no row serves: the error names it, the one before it is computed.
static void test_names_the_product(void **state)
{
    (void)state;
    fixture f;
    product of[3];
    bt_gemm_args args[3];
    fixture_open(&f, 0);
    for (int i = 0; i < 3; ++i) {
        args[i] = weight_gradient(&f, &sizes[0], &of[i], 1);
    }
    args[1].compute = BT_COMPUTE_TF32; // not on the CPU
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "product 1 of 2", bt_gemm_grouped(&f.context, args, 2));
    ASSERT_OK(bt_gemm(&f.context, &args[2]));
    assert_memory_equal(bt_tensor_data(of[0].d), bt_tensor_data(of[2].d),
                        (size_t)(sizes[0].m * sizes[0].n) * sizeof(float));
    for (int i = 0; i < 3; ++i) {
        release(&of[i]);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_one_after_the_other),
        cmocka_unit_test(test_empty_group),
        cmocka_unit_test(test_names_the_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
