// Matrix products on CUDA against the CPU in double: transpositions, row strides, batches, alpha
// and beta, epilogues, precisions. A combination that the backend refuses is counted, not failed,
// except for those that training needs.
#include <math.h>
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const double EPSILON = 0x1p-23;

typedef struct product {
    int64_t m, n, k, batch;
    int64_t pad; // added to every row stride
    double alpha, beta;
    bool in_place; // c is d
} product;

static const product products[] = {
    {1, 1, 1, 1, 0, 1, 0, false},      {128, 256, 64, 1, 0, 1, 0, false},
    {64, 768, 768, 1, 0, 1, 0, false}, {96, 80, 48, 3, 8, 0.5, 0, false},
    {64, 64, 200, 1, 0, 1, 1, true},   {72, 40, 24, 2, 8, 2, -0.5, false},
    {8, 3072, 768, 1, 0, 1, 0, false}, {0, 16, 16, 1, 0, 1, 0, false},
    {16, 16, 0, 1, 0, 1, 0.5, true},   {33, 17, 129, 1, 1, 1, 0, false},
};

typedef struct precision {
    bt_dtype ab, d;
    bt_compute compute;
} precision;

static const precision precisions[] = {
    {BT_F32, BT_F32, BT_COMPUTE_NATIVE},
    {BT_F32, BT_F32, BT_COMPUTE_TF32},
    {BT_BF16, BT_BF16, BT_COMPUTE_NATIVE},
    {BT_BF16, BT_F32, BT_COMPUTE_NATIVE},
};

static int refused;

static bool serves(const bt_gemm_args *args)
{
    const bt_kernel *row = NULL;
    bool found = bt_kernel_find(test_device(), BT_KERNEL_GEMM, args->ab_dtype, args, &row) == BT_OK;
    refused += !found;
    return found;
}

// A product of operands in [-1, 1] is known to half a unit of its inputs' type and a rounding of
// each sum; k random terms keep the sum and its error near sqrt(k).
static double bound_of(const precision *with, const product *shape)
{
    double walk = sqrt((double)shape->k + 1) * fabs(shape->alpha);
    double inputs = with->compute == BT_COMPUTE_TF32 ? 0x1p-10 : 0;
    return walk * (4 * inputs + 16 * EPSILON) + bt_dtype_epsilon(with->d);
}

static void run_product(const precision *with, const product *shape, bool trans_a, bool trans_b,
                        bt_epilogue epilogue)
{
    int64_t lda = (trans_a ? shape->m : shape->k) + shape->pad;
    int64_t ldb = (trans_b ? shape->k : shape->n) + shape->pad;
    int64_t ldd = shape->n + shape->pad;
    int64_t size_a = lda * (trans_a ? shape->k : shape->m);
    int64_t size_b = ldb * (trans_b ? shape->n : shape->k);
    int64_t size_d = ldd * shape->m;
    bool gelu = epilogue == BT_EPILOGUE_BIAS_GELU;
    bool dgelu = epilogue == BT_EPILOGUE_DGELU;
    test_twin *a = test_twin_random(with->ab, size_a * shape->batch, 1, -1, 1);
    test_twin *b = test_twin_random(with->ab, size_b * shape->batch, 2, -1, 1);
    test_twin *bias = test_twin_random(with->ab, shape->n, 3, -1, 1); // NONE must not look at it
    // Starts from numbers, so that the padding, which is not written, compares equal.
    test_twin *d = test_twin_inout(with->d, size_d * shape->batch, 4, -1, 1);
    test_twin *c = shape->in_place ? d : test_twin_random(with->d, size_d * shape->batch, 5, -1, 1);
    test_twin *aux =
        gelu || dgelu ? test_twin_inout(with->d, size_d * shape->batch, 6, -2, 2) : NULL;
    bt_gemm_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] =
            (bt_gemm_args){.m = shape->m,
                           .n = shape->n,
                           .k = shape->k,
                           .trans_a = trans_a,
                           .trans_b = trans_b,
                           .a = test_at(a, side),
                           .b = test_at(b, side),
                           .c = test_at(c, side),
                           .d = test_at(d, side),
                           .lda = lda,
                           .ldb = ldb,
                           .ldc = ldd,
                           .ldd = ldd,
                           .batch = shape->batch,
                           .stride_a = size_a,
                           .stride_b = size_b,
                           .stride_c = size_d,
                           .stride_d = size_d,
                           .alpha = shape->alpha,
                           .beta = shape->beta,
                           .epilogue = epilogue,
                           .bias = test_at(bias, side),
                           .aux = test_at(aux, side),
                           .ab_dtype = test_type(with->ab, side),
                           .d_dtype = test_type(with->d, side),
                           .compute = side == TEST_HOST ? BT_COMPUTE_NATIVE : with->compute};
    }
    if (serves(&args[TEST_NEAR])) {
        test_run(BT_KERNEL_GEMM, with->ab, &args[0], &args[1]);
        // cuBLASLt's GELU and its slope come from an approximate tanh, good to 2^-10.
        double approximate = gelu || dgelu ? 0x1p-10 : 0;
        test_twin_check(d, bound_of(with, shape), bt_dtype_epsilon(with->d) + approximate,
                        "gemm d");
        if (gelu) {
            test_twin_check(aux, bound_of(with, shape), bt_dtype_epsilon(with->d), "gemm aux");
        }
    }
    test_twins_release();
}

static void plain(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; ++p) {
        for (size_t i = 0; i < sizeof products / sizeof products[0]; ++i) {
            for (int trans = 0; trans < 4; ++trans) {
                test_case_name("%s -> %s, compute %d, product %d, transposed %d",
                               bt_dtype_name(precisions[p].ab), bt_dtype_name(precisions[p].d),
                               (int)precisions[p].compute, (int)i, trans);
                refused = 0;
                run_product(&precisions[p], &products[i], trans & 1, trans & 2, BT_EPILOGUE_NONE);
                assert_int_equal(refused, 0);
            }
        }
    }
}

// The products of a GPT-2 layer: forward with bias and GELU, backward through GELU.
static void epilogues(void **state)
{
    (void)state;
    static const product layers[] = {{64, 3072, 768, 1, 0, 1, 0, false},
                                     {64, 768, 3072, 1, 0, 1, 0, false},
                                     {24, 64, 40, 1, 8, 1, 0, false}};
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; ++p) {
        refused = 0;
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
            test_case_name("%s -> %s, compute %d, layer %d", bt_dtype_name(precisions[p].ab),
                           bt_dtype_name(precisions[p].d), (int)precisions[p].compute, (int)i);
            run_product(&precisions[p], &layers[i], false, true, BT_EPILOGUE_BIAS);
            run_product(&precisions[p], &layers[i], false, true, BT_EPILOGUE_BIAS_GELU);
            run_product(&precisions[p], &layers[i], false, false, BT_EPILOGUE_DGELU);
        }
        print_message("%s -> %s, compute %d: %d of 9 epilogue calls refused\n",
                      bt_dtype_name(precisions[p].ab), bt_dtype_name(precisions[p].d),
                      (int)precisions[p].compute, refused);
    }
}

// What the contract leaves to the caller.
static void refuses(void **state)
{
    (void)state;
    bt_gemm_args args = {.m = 16, .n = 16, .k = 16, .batch = 1, .alpha = 1, .beta = 1};
    args.lda = args.ldb = args.ldc = args.ldd = 16;
    args.ab_dtype = BT_F32;
    args.d_dtype = BT_F32;
    args.epilogue = BT_EPILOGUE_BIAS_GELU;
    const bt_kernel *row = NULL;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "no gemm kernel",
                 bt_kernel_find(test_device(), BT_KERNEL_GEMM, BT_F32, &args, &row));
    args.beta = 0; // f32: the library's GELU is approximate
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "no gemm kernel",
                 bt_kernel_find(test_device(), BT_KERNEL_GEMM, BT_F32, &args, &row));
    args.epilogue = BT_EPILOGUE_NONE;
    args.d_dtype = BT_BF16;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "gemm_cublaslt_f32",
                 bt_kernel_find(test_device(), BT_KERNEL_GEMM, BT_F32, &args, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(epilogues),
        cmocka_unit_test(refuses),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
