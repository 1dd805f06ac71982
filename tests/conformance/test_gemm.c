// Matrix products on CUDA against the CPU in double: transpositions, row strides, batches, alpha
// and beta, epilogues, precisions. Every row that accepts a call is run, not only the one that
// would win, and our own kernels accept whatever they can do (BT_GEMM=own). A combination that all
// rows refuse is counted, not failed, except for those that training needs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kernel.h"
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
    {1, 1, 1, 1, 0, 1, 0, false},       {128, 256, 64, 1, 0, 1, 0, false},
    {64, 768, 768, 1, 0, 1, 0, false},  {96, 80, 48, 3, 8, 0.5, 0, false},
    {64, 64, 200, 1, 0, 1, 1, true},    {72, 40, 24, 2, 8, 2, -0.5, false},
    {8, 3072, 768, 1, 0, 1, 0, false},  {0, 16, 16, 1, 0, 1, 0, false},
    {16, 16, 0, 1, 0, 1, 0.5, true},    {33, 17, 129, 1, 1, 1, 0, false},
    {130, 200, 72, 1, 8, 1, 0, false},  {257, 392, 520, 2, 0, 1, 1, true},
    {200, 136, 1032, 1, 0, 1, 1, true}, {9, 8, 8, 1, 0, 3, 0, false},
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

static int refused, ours;

// Does the row serve calls like this one, as bt_kernel_find asks it?
static bool serves(const bt_kernel *row, bt_kernel_op op, bt_dtype dtype, const void *args)
{
    return row->op == op && row->dtype == dtype && row->min_arch <= test_device()->info.arch &&
           (!row->accepts || row->accepts(test_device(), args));
}

// A product of operands in [-1, 1] is known to half a unit of its inputs' type and a rounding of
// each sum. Of k random terms the j-th partial sum is near sqrt(j)/3, so a chain of k additions
// errs by 2^-24 k / 7 (one sd); six of those are less than EPSILON k / 2. Sums in tiles err by
// less. Tensor cores cut off what is below a partial sum's last place, 16 terms at a time, always
// towards zero: the largest of many sums, some 1.5 sqrt(k), errs by up to EPSILON of it a time
// (bf16 at k = 3072: 3.5e-4 seen, at a sum of 79).
static double bound_of(const precision *with, const product *shape)
{
    double k = (double)shape->k, walk = sqrt(k + 1);
    double inputs = with->compute == BT_COMPUTE_TF32 ? 0x1p-10 : 0;
    bool tensor_cores = with->ab == BT_BF16 || with->compute == BT_COMPUTE_TF32;
    double sums = EPSILON * (16 * walk + k / 2 + (tensor_cores ? k / 16 * 1.5 * walk : 0));
    return fabs(shape->alpha) * (4 * walk * inputs + sums) + bt_dtype_epsilon(with->d);
}

// Elements of a device tensor, on the host. The caller frees it.
static void *read_back(const void *data, size_t size_bytes)
{
    bt_device *device = test_device();
    void *host = malloc(size_bytes);
    assert_non_null(host);
    ASSERT_OK(device->backend->copy(device, host, data, size_bytes, BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(device->backend->stream_synchronize(device, NULL));
    return host;
}

// GELU of aux by UNARY is D, bit for bit: what is dropped after the forward can be made again.
static void check_remade(const bt_gemm_args *args, const char *name)
{
    bt_device *device = test_device();
    const int64_t count = args->batch * args->m * args->ldd;
    const size_t size_bytes = (size_t)count * bt_dtype_size(args->d_dtype);
    const size_t row_bytes = (size_t)args->n * bt_dtype_size(args->d_dtype);
    void *remade = NULL;
    ASSERT_OK(device->backend->memory_alloc(device, size_bytes, &remade));
    const bt_unary_args unary = {.function = BT_UNARY_GELU,
                                 .x = args->aux,
                                 .y = remade,
                                 .count = count,
                                 .dtype = args->d_dtype,
                                 .as_epilogue = true};
    const bt_kernel *row = NULL;
    ASSERT_OK(bt_kernel_find(device, BT_KERNEL_UNARY, args->d_dtype, &unary, &row));
    const bt_launch launch = {.device = device};
    ASSERT_OK(row->launch(&launch, &unary));
    char *expected = read_back(args->d, size_bytes), *actual = read_back(remade, size_bytes);
    for (int64_t i = 0; i < args->batch * args->m; ++i) {
        const size_t at = (size_t)(i * args->ldd) * bt_dtype_size(args->d_dtype);
        if (memcmp(expected + at, actual + at, row_bytes) != 0) {
            fail_msg("%s: row %lld of gelu(aux) has other bits when made again", name,
                     (long long)i);
        }
    }
    free(expected);
    free(actual);
    device->backend->memory_free(device, remade);
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
    // GELU and its slope from the hardware's approximate tanh, good to 2^-10.
    double approximate = gelu || dgelu ? 0x1p-10 : 0;
    bool first = true;
    int rows = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        if (serves(row, BT_KERNEL_GEMM, with->ab, &args[TEST_NEAR])) {
            test_run_row(row, first ? &args[TEST_HOST] : NULL, &args[TEST_NEAR]);
            test_twin_check(d, bound_of(with, shape), bt_dtype_epsilon(with->d) + approximate,
                            row->name);
            if (gelu) {
                test_twin_check(aux, bound_of(with, shape), bt_dtype_epsilon(with->d), "aux");
                check_remade(&args[TEST_NEAR], row->name);
            }
            ours += strstr(row->name, "_sm") != NULL;
            first = false;
        }
    }
    refused += first;
    test_twins_release();
}

// op(A) transposed, op(B) not, in place where beta is not 0; returns the twin of d.
static test_twin *weight_gradient(const precision *with, const product *shape, uint64_t seed,
                                  bt_gemm_args *host, bt_gemm_args *near)
{
    const int64_t lda = shape->m + shape->pad, ldb = shape->n + shape->pad;
    test_twin *a = test_twin_random(with->ab, lda * shape->k * shape->batch, seed, -1, 1);
    test_twin *b = test_twin_random(with->ab, ldb * shape->k * shape->batch, seed + 1, -1, 1);
    test_twin *d = test_twin_inout(with->d, ldb * shape->m * shape->batch, seed + 2, -1, 1);
    bt_gemm_args *both[TEST_SIDES] = {[TEST_HOST] = host, [TEST_NEAR] = near};
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        *both[side] =
            (bt_gemm_args){.m = shape->m,
                           .n = shape->n,
                           .k = shape->k,
                           .trans_a = true,
                           .a = test_at(a, side),
                           .b = test_at(b, side),
                           .c = test_at(d, side),
                           .d = test_at(d, side),
                           .lda = lda,
                           .ldb = ldb,
                           .ldc = ldb,
                           .ldd = ldb,
                           .batch = shape->batch,
                           .stride_a = lda * shape->k,
                           .stride_b = ldb * shape->k,
                           .stride_c = ldb * shape->m,
                           .stride_d = ldb * shape->m,
                           .alpha = shape->alpha,
                           .beta = shape->beta,
                           .ab_dtype = test_type(with->ab, side),
                           .d_dtype = test_type(with->d, side),
                           .compute = side == TEST_HOST ? BT_COMPUTE_NATIVE : with->compute};
    }
    return d;
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
                                     {24, 64, 40, 1, 8, 1, 0, false},
                                     {300, 200, 136, 2, 8, 0.5, 0, false}};
    static const product residual = {200, 200, 72, 2, 0, 1, 1, false};
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; ++p) {
        refused = 0;
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
            test_case_name("%s -> %s, compute %d, layer %d", bt_dtype_name(precisions[p].ab),
                           bt_dtype_name(precisions[p].d), (int)precisions[p].compute, (int)i);
            run_product(&precisions[p], &layers[i], false, true, BT_EPILOGUE_BIAS);
            run_product(&precisions[p], &layers[i], false, true, BT_EPILOGUE_BIAS_GELU);
            run_product(&precisions[p], &layers[i], false, false, BT_EPILOGUE_DGELU);
        }
        run_product(&precisions[p], &residual, false, true, BT_EPILOGUE_BIAS);
        print_message("%s -> %s, compute %d: %d of 13 epilogue calls refused\n",
                      bt_dtype_name(precisions[p].ab), bt_dtype_name(precisions[p].d),
                      (int)precisions[p].compute, refused);
    }
}

enum { PLANS_MOST = 96 };

// Every plan of every row for a weight gradient; returns their number.
static int run_plans(const precision *with, const product *shape)
{
    const bt_backend *backend = test_device()->backend;
    bt_gemm_args host, near;
    test_twin *d = weight_gradient(with, shape, 11, &host, &near);
    int launched = 0, rows = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        bt_kernel_plan plans[PLANS_MOST];
        const int count = serves(row, BT_KERNEL_GEMM, with->ab, &near)
                              ? backend->plans(test_device(), row, &near, plans, PLANS_MOST)
                              : 0;
        for (int j = 0; j < count; ++j) {
            test_case_name("%lldx%lldx%lld by %s %s", (long long)shape->m, (long long)shape->n,
                           (long long)shape->k, row->name, plans[j].name);
            test_run_plan(row, &plans[j], launched == 0 ? &host : NULL, &near);
            test_twin_check(d, bound_of(with, shape), bt_dtype_epsilon(BT_F32), plans[j].name);
            ++launched;
        }
    }
    test_twins_release();
    return launched;
}

// Not only the plan that its row would take: weight gradients, whose K may be split, of tiles that
// are full, cut off, and empty in some of their columns.
static void every_plan(void **state)
{
    (void)state;
    static const product shapes[] = {{264, 392, 1032, 2, 8, 0.5, 1, true},
                                     {200, 40, 1500, 1, 8, 1, 0, false},
                                     {24, 584, 520, 3, 0, 1, 1, true},
                                     {520, 200, 333, 1, 8, 1, 0, false}};
    static const precision both[] = {{BT_BF16, BT_F32, BT_COMPUTE_NATIVE},
                                     {BT_F32, BT_F32, BT_COMPUTE_TF32}};
    for (int with = 0; with < 2; ++with) {
        int launched = 0;
        for (size_t i = 0; test_device()->backend->plans && i < sizeof shapes / sizeof shapes[0];
             ++i) {
            launched += run_plans(&both[with], &shapes[i]);
        }
        print_message("%s: %d plans\n", with ? "tf32" : "bf16", launched);
        assert_true(test_device()->info.arch != 90 || launched > 30);
    }
}

// Weight gradients of shapes of their own in one call: of one depth and of several, more than one
// launch takes, a product that is smaller than a tile, one that is added to.
static void grouped(void **state)
{
    (void)state;
    enum { MOST = 10 };
    static const product groups[][MOST] = {
        {{768, 768, 520, 1, 0, 1, 1, true}},
        {{768, 768, 256, 1, 0, 1, 1, true},
         {1536, 768, 256, 1, 0, 1, 1, true},
         {768, 1544, 256, 1, 8, 1, 1, true}},
        {{8, 8, 8, 1, 0, 1, 0, false},
         {264, 392, 1032, 2, 8, 0.5, 1, true},
         {136, 1000, 64, 1, 0, 1, 0, false},
         {1000, 24, 3000, 1, 8, 1, 1, true}},
        {{8, 8, 100, 1, 0, 1, 0, false},
         {16, 8, 100, 1, 0, 1, 1, true},
         {24, 8, 100, 1, 0, 1, 0, false},
         {136, 8, 100, 1, 0, 1, 0, false},
         {264, 16, 100, 1, 0, 1, 0, false},
         {8, 200, 100, 1, 0, 1, 0, false},
         {8, 400, 100, 1, 0, 1, 1, true},
         {8, 8, 700, 1, 0, 1, 0, false},
         {40, 48, 9, 3, 8, 1, 0, false},
         {8, 8, 1, 1, 0, 1, 0, false}},
    };
    static const precision with = {BT_BF16, BT_F32, BT_COMPUTE_NATIVE};
    int served = 0, rows = 0;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; ++g) {
        bt_gemm_args args[TEST_SIDES][MOST];
        test_twin *d[MOST];
        int count = 0;
        test_case_name("group %d", (int)g);
        for (; count < MOST && groups[g][count].batch > 0; ++count) {
            const uint64_t seed = (uint64_t)count * 3;
            d[count] = weight_gradient(&with, &groups[g][count], seed, &args[TEST_HOST][count],
                                       &args[TEST_NEAR][count]);
        }
        const bt_gemm_grouped_args host = {args[TEST_HOST], count};
        const bt_gemm_grouped_args near = {args[TEST_NEAR], count};
        const bt_kernel *table = bt_kernel_table(test_device(), &rows);
        for (const bt_kernel *row = table; row < table + rows; ++row) {
            if (serves(row, BT_KERNEL_GEMM_GROUPED, BT_BF16, &near)) {
                test_run_row(row, &host, &near);
                for (int i = 0; i < count; ++i) {
                    test_twin_check(d[i], bound_of(&with, &groups[g][i]), bt_dtype_epsilon(BT_F32),
                                    row->name);
                }
                ++served;
            }
        }
        test_twins_release();
    }
    if (test_device()->info.arch == 90) {
        assert_int_equal(served, sizeof groups / sizeof groups[0]);
    }
}

// Columns of D are summed where GELU's slope is multiplied on: the bias gradient of a GPT-2 layer.
// The sums are of D as stored, which is compared with them here, on the GPU's side.
static void run_sums(const product *shape, bt_dtype d_dtype, bool accumulate)
{
    const int64_t ldd = shape->n + shape->pad;
    test_twin *a = test_twin_random(BT_BF16, shape->m * shape->k, 1, -1, 1);
    test_twin *b = test_twin_random(BT_BF16, shape->k * shape->n, 2, -1, 1);
    test_twin *aux = test_twin_random(BT_BF16, shape->m * ldd, 6, -2, 2);
    test_twin *d = test_twin_inout(BT_BF16, shape->m * ldd, 4, -1, 1);
    test_twin *dbias = test_twin_inout(d_dtype, shape->n, 7, -1, 1);
    bt_gemm_args args = {.m = shape->m,
                         .n = shape->n,
                         .k = shape->k,
                         .a = test_at(a, TEST_NEAR),
                         .b = test_at(b, TEST_NEAR),
                         .d = test_at(d, TEST_NEAR),
                         .lda = shape->k,
                         .ldb = shape->n,
                         .ldc = ldd,
                         .ldd = ldd,
                         .batch = 1,
                         .alpha = shape->alpha,
                         .epilogue = BT_EPILOGUE_DGELU,
                         .aux = test_at(aux, TEST_NEAR),
                         .ab_dtype = BT_BF16,
                         .d_dtype = BT_BF16,
                         .dbias = test_at(dbias, TEST_NEAR),
                         .dbias_dtype = d_dtype,
                         .dbias_accumulate = accumulate};
    int rows = 0, served = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        if (!serves(row, BT_KERNEL_GEMM, BT_BF16, &args)) {
            continue;
        }
        ++served;
        test_run_row(row, NULL, &args);
        for (int64_t col = 0; col < shape->n; ++col) {
            double sum = accumulate ? test_twin_get(dbias, TEST_HOST, col) : 0, size = fabs(sum);
            for (int64_t r = 0; r < shape->m; ++r) {
                const double value = test_twin_get(d, TEST_NEAR, r * ldd + col);
                sum += value;
                size += fabs(value);
            }
            const double got = test_twin_get(dbias, TEST_NEAR, col);
            const double bound =
                (double)(shape->m + 1) * EPSILON * size + bt_dtype_epsilon(d_dtype) * fabs(sum);
            if (!(fabs(got - sum) <= bound)) {
                fail_msg("%s: dbias[%lld] is %g, the column sums to %g +- %g", row->name,
                         (long long)col, got, sum, bound);
            }
        }
    }
    assert_int_equal(served, test_device()->info.arch == 90 ? 1 : 0);
    test_twins_release();
}

static void column_sums(void **state)
{
    (void)state;
    static const product layers[] = {{512, 3072, 768, 1, 0, 1, 0, false},
                                     {300, 200, 136, 1, 8, 0.5, 0, false},
                                     {1, 8, 8, 1, 0, 1, 0, false},
                                     {129, 264, 40, 1, 8, 1, 0, false}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
        test_case_name("column sums, layer %d", (int)i);
        run_sums(&layers[i], BT_F32, false);
        run_sums(&layers[i], BT_F32, true);
        run_sums(&layers[i], BT_BF16, true);
    }
}

static void check_sums_of_a(const product *shape, const test_twin *a, const test_twin *dbias,
                            bool accumulate, const char *by)
{
    const int64_t lda = shape->m + shape->pad;
    for (int64_t col = 0; col < shape->m; ++col) {
        double sum = accumulate ? test_twin_get(dbias, TEST_HOST, col) : 0, size = fabs(sum);
        for (int64_t r = 0; r < shape->k; ++r) {
            const double value = test_twin_get(a, TEST_HOST, r * lda + col);
            sum += value;
            size += fabs(value);
        }
        const double got = test_twin_get(dbias, TEST_NEAR, col);
        const double bound =
            (double)(shape->k + 1) * EPSILON * size + bt_dtype_epsilon(dbias->dtype) * fabs(sum);
        if (!(fabs(got - sum) <= bound)) {
            fail_msg("%s: dbias[%lld] is %g, A's column sums to %g +- %g", by, (long long)col, got,
                     sum, bound);
        }
    }
}

// The bias gradient beside a weight gradient: the sums of A's columns, of values that no row
// rounds. D equals that of the call without sums with the same plan, bit for bit. By each row's own
// choice, and, `every`, by all its plans.
static void run_sums_of_a(const product *shape, const precision *with, bt_dtype sums,
                          bool accumulate, bool every)
{
    const int64_t lda = shape->m + shape->pad, ldb = shape->n + shape->pad;
    test_twin *a = test_twin_random(with->ab, shape->k * lda, 1, -1, 1);
    test_twin *b = test_twin_random(with->ab, shape->k * ldb, 2, -1, 1);
    test_twin *d = test_twin_inout(BT_F32, shape->m * shape->n, 4, -1, 1);
    test_twin *dbias = test_twin_inout(sums, shape->m, 7, -1, 1);
    const int64_t count = shape->m * shape->n;
    double *plain = test_doubles(count);
    bt_gemm_args args = {.m = shape->m,
                         .n = shape->n,
                         .k = shape->k,
                         .trans_a = true,
                         .a = test_at(a, TEST_NEAR),
                         .b = test_at(b, TEST_NEAR),
                         .lda = lda,
                         .ldb = ldb,
                         .ldc = shape->n,
                         .ldd = shape->n,
                         .batch = 1,
                         .alpha = shape->alpha,
                         .beta = shape->beta,
                         .ab_dtype = with->ab,
                         .d_dtype = BT_F32,
                         .compute = with->compute,
                         .dbias = test_at(dbias, TEST_NEAR),
                         .dbias_dtype = sums,
                         .dbias_accumulate = accumulate,
                         .dbias_of_a = true};
    args.c = args.d = test_at(d, TEST_NEAR);
    bt_gemm_args without = args;
    without.dbias = NULL;
    int rows = 0, served = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        bt_kernel_plan plans[PLANS_MOST];
        const bool serving = serves(row, BT_KERNEL_GEMM, with->ab, &args);
        const int ways = serving && every ? test_device()->backend->plans(test_device(), row, &args,
                                                                          plans, PLANS_MOST)
                                          : 0;
        served += serving;
        for (int i = serving ? -1 : 0; i < ways; ++i) {
            const bt_kernel_plan *plan = i < 0 ? NULL : &plans[i];
            // each run begins with what all twins held at first
            test_run_plan(row, plan, NULL, &without);
            for (int64_t at = 0; at < count; ++at) {
                plain[at] = test_twin_get(d, TEST_NEAR, at);
            }
            test_run_plan(row, plan, NULL, &args);
            for (int64_t at = 0; at < count; ++at) {
                assert_true(test_twin_get(d, TEST_NEAR, at) == plain[at]);
            }
            check_sums_of_a(shape, a, dbias, accumulate, plan ? plan->name : row->name);
        }
    }
    assert_int_equal(served, test_device()->info.arch == 90 ? 1 : 0);
    free(plain);
    test_twins_release();
}

static void column_sums_of_a(void **state)
{
    (void)state;
    static const precision both[] = {{BT_BF16, BT_F32, BT_COMPUTE_NATIVE},
                                     {BT_F32, BT_F32, BT_COMPUTE_TF32}};
    // A block's four at few tokens and at many, which cluster or split; less than a tile; edges.
    static const product layers[] = {
        {768, 768, 1024, 1, 0, 1, 1, true},  {2304, 768, 2048, 1, 0, 1, 0, true},
        {768, 3072, 1500, 1, 0, 1, 1, true}, {3072, 768, 520, 1, 0, 0.5, 0, true},
        {8, 8, 1, 1, 0, 1, 0, true},         {136, 200, 300, 1, 8, 1, 1, true},
        {200, 1032, 70, 1, 8, 1, 0, true},   {768, 768, 16384, 1, 0, 1, 1, true},
    };
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
        for (size_t with = 0; with < 2; ++with) {
            test_case_name("sums of A, layer %d, %s", (int)i, with ? "tf32" : "bf16");
            const bool small = layers[i].m * layers[i].n * layers[i].k < 1 << 25;
            run_sums_of_a(&layers[i], &both[with], BT_F32, false, small);
            run_sums_of_a(&layers[i], &both[with], with ? BT_F32 : BT_BF16, true, false);
        }
    }
}

// A row whose operand is infinite makes its own sums so, rows that are not there none.
static void column_sums_end_with_the_matrix(void **state)
{
    (void)state;
    enum { M = 3, N = 64, K = 16 };
    test_twin *a = test_twin_random(BT_BF16, M * K, 1, 1, 2);
    test_twin *b = test_twin_random(BT_BF16, K * N, 2, 1, 2);
    test_twin *aux = test_twin_random(BT_BF16, M * N, 6, 0, 2);
    test_twin *d = test_twin_output(BT_BF16, M * N);
    test_twin *dbias = test_twin_output(BT_F32, N);
    test_twin_set(b, 5, (double)INFINITY); // times the zeros that stand in for rows past M: NaN
    bt_gemm_args args = {.m = M, .n = N, .k = K, .batch = 1, .alpha = 1};
    args.a = test_at(a, TEST_NEAR);
    args.b = test_at(b, TEST_NEAR);
    args.d = test_at(d, TEST_NEAR);
    args.aux = test_at(aux, TEST_NEAR);
    args.dbias = test_at(dbias, TEST_NEAR);
    args.lda = K;
    args.ldb = args.ldc = args.ldd = N;
    args.epilogue = BT_EPILOGUE_DGELU;
    args.ab_dtype = args.d_dtype = BT_BF16;
    args.dbias_dtype = BT_F32;
    test_case_name("column sums of an infinite column");
    int rows = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        if (serves(row, BT_KERNEL_GEMM, BT_BF16, &args)) {
            test_run_row(row, NULL, &args);
            for (int64_t col = 0; col < N; ++col) {
                const double got = test_twin_get(dbias, TEST_NEAR, col);
                assert_true(col == 5 ? isinf(got) && got > 0 : isfinite(got));
            }
        }
    }
    test_twins_release();
}

// What cuBLASLt has no kernel for, f32 from bf16 with a bias, `auto` computes on any GPU.
static void serves_what_the_library_lacks(void **state)
{
    (void)state;
    bt_device other;
    static const int64_t odd = 33;
    bt_gemm_args args = {.m = odd, .n = odd, .k = odd, .batch = 1, .alpha = 1, .trans_b = true};
    void *block = NULL;
    assert_int_equal(setenv("BT_GEMM", "auto", 1), 0);
    ASSERT_OK(bt_device_open("cuda", 0, &other));
    ASSERT_OK(other.backend->memory_alloc(&other, (size_t)(16 * odd * odd), &block));
    args.a = args.b = args.bias = args.c = args.d = block; // requested, not run
    args.lda = args.ldb = args.ldc = args.ldd = odd;
    args.epilogue = BT_EPILOGUE_BIAS;
    args.ab_dtype = BT_BF16;
    args.d_dtype = BT_F32;
    const bt_kernel *row = NULL;
    ASSERT_OK(bt_kernel_find(&other, BT_KERNEL_GEMM, BT_BF16, &args, &row));
    other.backend->memory_free(&other, block);
    bt_device_close(&other);
    assert_int_equal(setenv("BT_GEMM", "own", 1), 0);
}

// The calls of this file have reached our own kernels.
static void reaches_ours(void **state)
{
    (void)state;
    print_message("%d calls served by kernels of ours\n", ours);
    assert_true(ours > 20);
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
    args.beta = 0; // f32: the library's GELU is approximate, and ours needs memory for aux
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "no gemm kernel",
                 bt_kernel_find(test_device(), BT_KERNEL_GEMM, BT_F32, &args, &row));
    args.epilogue = BT_EPILOGUE_NONE;
    args.d_dtype = BT_BF16;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "gemm_cublaslt_f32",
                 bt_kernel_find(test_device(), BT_KERNEL_GEMM, BT_F32, &args, &row));
}

static void names_its_choices(void **state)
{
    (void)state;
    bt_device other;
    assert_int_equal(setenv("BT_GEMM", "fast", 1), 0);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "\"fast\"; allowed: auto, own, cublaslt, cublaslt-best, sm80",
                 bt_device_open("cuda", 0, &other));
    assert_int_equal(setenv("BT_GEMM", "own", 1), 0);
}

// An argument names the tests to run, for compute-sanitizer.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(epilogues),
        cmocka_unit_test(every_plan),
        cmocka_unit_test(grouped),
        cmocka_unit_test(column_sums),
        cmocka_unit_test(column_sums_of_a),
        cmocka_unit_test(column_sums_end_with_the_matrix),
        cmocka_unit_test(serves_what_the_library_lacks),
        cmocka_unit_test(reaches_ours),
        cmocka_unit_test(refuses),
        cmocka_unit_test(names_its_choices),
    };
    if (setenv("BT_GEMM", "own", 1) != 0 || !test_device_open()) {
        return test_skip("no CUDA device");
    }
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
