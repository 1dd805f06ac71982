// Sums of columns that a matrix product makes beside D on CUDA: of D, and of A, by every row that
// serves the call and by every plan of it, our own rows alone (BT_GEMM=own).
#include <math.h>
#include <stdlib.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const double EPSILON = 0x1p-23;

typedef struct product {
    int64_t m, n, k;
    int64_t pad; // added to every row stride
    double alpha, beta;
} product;

typedef struct precision {
    bt_dtype ab;
    bt_compute compute;
} precision;

enum { PLANS_MOST = 96 };

static bool serves(const bt_kernel *row, bt_dtype dtype, const void *args)
{
    return row->op == BT_KERNEL_GEMM && row->dtype == dtype &&
           row->min_arch <= test_device()->info.arch &&
           (!row->accepts || row->accepts(test_device(), args));
}

// Every plan of a row for a call; returns how many.
static int plans_of(const bt_kernel *row, const void *args, bt_kernel_plan plans[PLANS_MOST])
{
    return test_device()->backend->plans(test_device(), row, args, plans, PLANS_MOST);
}

// dbias holds the sums of the columns of a matrix as the GPU has it, plus what it held before.
static void check_sums(const test_twin *matrix, int64_t rows, int64_t cols, int64_t stride,
                       const test_twin *dbias, bool accumulate, const char *by)
{
    for (int64_t col = 0; col < cols; ++col) {
        double sum = accumulate ? test_twin_get(dbias, TEST_HOST, col) : 0, size = fabs(sum);
        for (int64_t r = 0; r < rows; ++r) {
            const double value = test_twin_get(matrix, TEST_NEAR, r * stride + col);
            sum += value;
            size += fabs(value);
        }
        const double got = test_twin_get(dbias, TEST_NEAR, col);
        const double bound =
            (double)(rows + 1) * EPSILON * size + bt_dtype_epsilon(dbias->dtype) * fabs(sum);
        if (!(fabs(got - sum) <= bound)) {
            fail_msg("%s: dbias[%lld] is %g, the column sums to %g +- %g", by, (long long)col, got,
                     sum, bound);
        }
    }
}

// Columns of D are summed where GELU's slope is multiplied on: the bias gradient of a GPT-2 layer.
// The sums are of D as stored.
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
        if (!serves(row, BT_BF16, &args)) {
            continue;
        }
        ++served;
        bt_kernel_plan plans[PLANS_MOST];
        const int ways = plans_of(row, &args, plans);
        for (int way = -1; way < ways; ++way) {
            test_run_plan(row, way < 0 ? NULL : &plans[way], NULL, &args);
            check_sums(d, shape->m, shape->n, ldd, dbias, accumulate,
                       way < 0 ? row->name : plans[way].name);
        }
    }
    assert_int_equal(served, test_device()->info.arch == 90 ? 1 : 0);
    test_twins_release();
}

static void column_sums(void **state)
{
    (void)state;
    static const product layers[] = {{512, 3072, 768, 0, 1, 0},
                                     {300, 200, 136, 8, 0.5, 0},
                                     {1, 8, 8, 0, 1, 0},
                                     {129, 264, 40, 8, 1, 0}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
        test_case_name("column sums, layer %d", (int)i);
        run_sums(&layers[i], BT_F32, false);
        run_sums(&layers[i], BT_F32, true);
        run_sums(&layers[i], BT_BF16, true);
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
        const bool serving = serves(row, with->ab, &args);
        const int ways = serving && every ? plans_of(row, &args, plans) : 0;
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
            check_sums(a, shape->k, shape->m, lda, dbias, accumulate,
                       plan ? plan->name : row->name);
        }
    }
    assert_int_equal(served, test_device()->info.arch == 90 ? 1 : 0);
    free(plain);
    test_twins_release();
}

static void column_sums_of_a(void **state)
{
    (void)state;
    static const precision both[] = {{BT_BF16, BT_COMPUTE_NATIVE}, {BT_F32, BT_COMPUTE_TF32}};
    // A block's four at few tokens and at many, which cluster or split; less than a tile; edges.
    static const product layers[] = {
        {768, 768, 1024, 0, 1, 1},   {2304, 768, 2048, 0, 1, 0}, {768, 3072, 1500, 0, 1, 1},
        {3072, 768, 520, 0, 0.5, 0}, {8, 8, 1, 0, 1, 0},         {136, 200, 300, 8, 1, 1},
        {200, 1032, 70, 8, 1, 0},    {768, 768, 16384, 0, 1, 1},
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
        if (serves(row, BT_BF16, &args)) {
            test_run_row(row, NULL, &args);
            for (int64_t col = 0; col < N; ++col) {
                const double got = test_twin_get(dbias, TEST_NEAR, col);
                assert_true(col == 5 ? isinf(got) && got > 0 : isfinite(got));
            }
        }
    }
    test_twins_release();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_sums),
        cmocka_unit_test(column_sums_of_a),
        cmocka_unit_test(column_sums_end_with_the_matrix),
    };
    if (setenv("BT_GEMM", "own", 0) != 0 || !test_device_open()) {
        return test_skip("no CUDA device");
    }
    test_device_arguments(argc, argv);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
