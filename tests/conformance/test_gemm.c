// Matrix products on CUDA against the CPU in double: transpositions, row strides, batches, alpha
// and beta, epilogues, precisions. Every row that accepts a call is run, not only the one that
// would win, and our own kernels accept whatever they can do (BT_GEMM=own). A combination that all
// rows refuse is counted, not failed, except for those that training needs. With the argument
// `wide` every plan of every row computes every layout and epilogue in every odd shape.
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
    int64_t pad; // added to every row stride; ALIGNED: see stride_of
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

enum { PLANS_MOST = 96, ALIGNED = -1 };

static int refused, ours;

// Does the row serve calls like this one, as bt_kernel_find asks it?
static bool serves(const bt_kernel *row, bt_kernel_op op, bt_dtype dtype, const void *args)
{
    return row->op == op && row->dtype == dtype && row->min_arch <= test_device()->info.arch &&
           (!row->accepts || row->accepts(test_device(), args));
}

// Every plan of a row for a call; returns how many.
static int plans_of(const bt_kernel *row, const void *args, bt_kernel_plan plans[PLANS_MOST])
{
    const bt_device *device = test_device();
    return device->backend->plans ? device->backend->plans(device, row, args, plans, PLANS_MOST)
                                  : 0;
}

// The stride of rows with padding after them; ALIGNED: whose first elements are aligned to 16
// bytes, for any length.
static int64_t stride_of(int64_t length, int64_t pad)
{
    return pad == ALIGNED ? (length + 15) / 8 * 8 : length + pad;
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

// Operands of a call on both sides, and what it writes.
typedef struct call {
    bt_gemm_args args[TEST_SIDES];
    test_twin *d, *aux;
} call;

static call make_call(const precision *with, const product *shape, bool trans_a, bool trans_b,
                      bt_epilogue epilogue, bool biased)
{
    int64_t lda = stride_of(trans_a ? shape->m : shape->k, shape->pad);
    int64_t ldb = stride_of(trans_b ? shape->k : shape->n, shape->pad);
    int64_t ldd = stride_of(shape->n, shape->pad);
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
    call made = {.d = d, .aux = aux};
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        made.args[side] =
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
                           .bias = biased ? test_at(bias, side) : NULL,
                           .aux = test_at(aux, side),
                           .ab_dtype = test_type(with->ab, side),
                           .d_dtype = test_type(with->d, side),
                           .compute = side == TEST_HOST ? BT_COMPUTE_NATIVE : with->compute};
    }
    return made;
}

// By one of the row's plans, or by its own choice; on_host: the CPU computes the call, too.
static void run_call(const precision *with, const product *shape, const call *made,
                     const bt_kernel *row, const bt_kernel_plan *plan, bool on_host)
{
    const bt_gemm_args *near = &made->args[TEST_NEAR];
    const bool gelu = near->epilogue == BT_EPILOGUE_BIAS_GELU;
    // GELU and its slope from the hardware's approximate tanh, good to 2^-10.
    const double approximate = gelu || near->epilogue == BT_EPILOGUE_DGELU ? 0x1p-10 : 0;
    test_run_plan(row, plan, on_host ? &made->args[TEST_HOST] : NULL, near);
    test_twin_check(made->d, bound_of(with, shape), bt_dtype_epsilon(with->d) + approximate,
                    row->name);
    if (gelu) {
        test_twin_check(made->aux, bound_of(with, shape), bt_dtype_epsilon(with->d), "aux");
        check_remade(near, row->name);
    }
}

static void run_product(const precision *with, const product *shape, bool trans_a, bool trans_b,
                        bt_epilogue epilogue)
{
    const call made = make_call(with, shape, trans_a, trans_b, epilogue, true);
    bool first = true;
    int rows = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        if (serves(row, BT_KERNEL_GEMM, with->ab, &made.args[TEST_NEAR])) {
            run_call(with, shape, &made, row, NULL, first);
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
    const int64_t lda = stride_of(shape->m, shape->pad), ldb = stride_of(shape->n, shape->pad);
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

// Every plan of every row for a weight gradient; returns their number.
static int run_plans(const precision *with, const product *shape)
{
    bt_gemm_args host, near;
    test_twin *d = weight_gradient(with, shape, 11, &host, &near);
    int launched = 0, rows = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        bt_kernel_plan plans[PLANS_MOST];
        const int count =
            serves(row, BT_KERNEL_GEMM, with->ab, &near) ? plans_of(row, &near, plans) : 0;
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

static char selected_rows[16]; // what BT_GEMM selects for this program: own, unless it is given

static bool has_hopper_rows(void)
{
    return test_device()->info.arch == 90 && strcmp(selected_rows, "sm80") != 0;
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
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
            launched += run_plans(&both[with], &shapes[i]);
        }
        print_message("%s: %d plans\n", with ? "tf32" : "bf16", launched);
        assert_true(!has_hopper_rows() || launched > 30);
    }
}

// Every plan of every row that serves the call; returns how many. Where blocks wait for each other
// some more launches, with other work beside them.
static int run_product_by_plans(const precision *with, const product *shape, const call *made)
{
    int launched = 0, rows = 0;
    const bt_kernel *table = bt_kernel_table(test_device(), &rows);
    for (const bt_kernel *row = table; row < table + rows; ++row) {
        const bt_gemm_args *near = &made->args[TEST_NEAR];
        bt_kernel_plan plans[PLANS_MOST];
        const int count =
            serves(row, BT_KERNEL_GEMM, with->ab, near) ? plans_of(row, near, plans) : 0;
        for (int i = 0; i < count; ++i) {
            const bool waits = strstr(plans[i].name, "split") || strstr(plans[i].name, "cluster");
            test_case_name("%s -> %s, compute %d, %c%c epilogue %d, %lldx%lldx%lld by %s %s",
                           bt_dtype_name(with->ab), bt_dtype_name(with->d), (int)with->compute,
                           near->trans_a ? 't' : 'n', near->trans_b ? 't' : 'n',
                           (int)near->epilogue, (long long)shape->m, (long long)shape->n,
                           (long long)shape->k, row->name, plans[i].name);
            test_device_launches(test_is_wide() ? (waits ? 20 : 4) : 3, test_is_wide());
            run_call(with, shape, made, row, &plans[i], launched == 0);
            ++launched;
        }
    }
    test_device_launches(3, false);
    test_twins_release();
    return launched;
}

// Runs a function with rows that BT_GEMM selects.
static void with_rows(const char *selected, void (*run)(void))
{
    assert_int_equal(setenv("BT_GEMM", selected, 1), 0);
    test_device_close();
    assert_true(test_device_open());
    run();
    assert_int_equal(setenv("BT_GEMM", selected_rows, 1), 0);
    test_device_close();
    assert_true(test_device_open());
}

static void run_odd_shapes(void)
{
    static const struct {
        bool trans_a, trans_b;
        bt_epilogue epilogue;
        double beta;
        bool in_place, biased;
    } kinds[] = {
        {false, true, BT_EPILOGUE_NONE, 0, false, false},
        {false, true, BT_EPILOGUE_BIAS, 0, false, true},
        {false, true, BT_EPILOGUE_BIAS, 1, false, true},
        {false, true, BT_EPILOGUE_NONE, -0.5, false, false},
        {false, true, BT_EPILOGUE_BIAS_GELU, 0, false, true},
        {false, true, BT_EPILOGUE_BIAS_GELU, 0, false, false},
        {false, false, BT_EPILOGUE_NONE, 0, false, false},
        {false, false, BT_EPILOGUE_NONE, 1, false, false},
        {false, false, BT_EPILOGUE_DGELU, 0, false, false},
        {true, false, BT_EPILOGUE_NONE, 0, false, false},
        {true, false, BT_EPILOGUE_NONE, 1, true, false},
        {true, true, BT_EPILOGUE_NONE, 0, false, false},
    };
    static const int64_t sizes[][3] = {
        {1, 8, 1},      {64, 64, 64},    {130, 200, 65},   {33, 17, 129},    {7, 129, 2},
        {1, 1, 1},      {257, 96, 200},  {128, 192, 4096}, {1008, 776, 840}, {1000, 1544, 72},
        {513, 260, 33}, {200, 40, 1500}, {577, 392, 2060}, {9, 2056, 1111},
    };
    enum { KINDS = sizeof kinds / sizeof kinds[0], SIZES = sizeof sizes / sizeof sizes[0] };
    enum { BATCHES = 4, SMALL = 5, CALLS = KINDS * 4 * SIZES * BATCHES };
    int launched = 0;
    for (int i = 0; i < CALLS; ++i) {
        const int kind = i / BATCHES / SIZES % KINDS, size = i / BATCHES % SIZES;
        const int with = i / BATCHES / SIZES / KINDS, batch = i % BATCHES;
        // Otherwise one small shape of each kind, in turn, aligned and not.
        if (!test_is_wide() && (size != (kind + with) % SMALL || batch != (kind + size) % 2)) {
            continue;
        }
        const product shape = {sizes[size][0],   sizes[size][1],          sizes[size][2],
                               batch / 2 + 1,    batch % 2 ? 1 : ALIGNED, batch == 0 ? 1 : 0.75,
                               kinds[kind].beta, kinds[kind].in_place};
        const call made = make_call(&precisions[with], &shape, kinds[kind].trans_a,
                                    kinds[kind].trans_b, kinds[kind].epilogue, kinds[kind].biased);
        launched += run_product_by_plans(&precisions[with], &shape, &made);
    }
    print_message("%d plans of odd shapes\n", launched);
    assert_true(launched > KINDS);
}

static void every_plan_of_odd_shapes(void **state)
{
    (void)state;
    run_odd_shapes();
    with_rows("sm80", run_odd_shapes); // `own` takes those for Hopper where there are any
}

// Weight gradients of shapes of their own in one call, by every plan: of one depth and of several,
// more than one launch takes, a product that is smaller than a tile, one that is added to.
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
        {{130, 200, 640, 1, ALIGNED, 0.75, 0, false},
         {768, 384, 640, 2, ALIGNED, 0.75, 1, true},
         {8, 8, 640, 1, ALIGNED, 0.75, 0, false},
         {264, 1032, 640, 2, ALIGNED, 0.75, 1, true},
         {128, 192, 640, 1, ALIGNED, 0.75, 0, false}},
        {{1024, 3072, 512, 1, ALIGNED, 0.75, 0, false},
         {256, 1024, 64, 2, ALIGNED, 0.75, 1, true},
         {520, 136, 4096, 1, ALIGNED, 0.75, 0, false},
         {1000, 40, 8, 2, ALIGNED, 0.75, 1, true},
         {768, 768, 1000, 1, ALIGNED, 0.75, 0, false}},
    };
    enum { GROUPS = sizeof groups / sizeof groups[0], WIDE = 4 }; // groups from there on are wide
    static const precision with = {BT_BF16, BT_F32, BT_COMPUTE_NATIVE};
    int served = 0, rows = 0, launched = 0;
    const int group_count = test_is_wide() ? GROUPS : WIDE;
    test_device_launches(test_is_wide() ? 20 : 3, test_is_wide());
    for (int g = 0; g < group_count; ++g) {
        bt_gemm_args args[TEST_SIDES][MOST];
        test_twin *d[MOST];
        int count = 0;
        for (; count < MOST && groups[g][count].batch > 0; ++count) {
            const uint64_t seed = (uint64_t)count * 3;
            d[count] = weight_gradient(&with, &groups[g][count], seed, &args[TEST_HOST][count],
                                       &args[TEST_NEAR][count]);
        }
        const bt_gemm_grouped_args host = {args[TEST_HOST], count};
        const bt_gemm_grouped_args near = {args[TEST_NEAR], count};
        const bt_kernel *table = bt_kernel_table(test_device(), &rows);
        for (const bt_kernel *row = table; row < table + rows; ++row) {
            bt_kernel_plan plans[PLANS_MOST];
            const bool serving = serves(row, BT_KERNEL_GEMM_GROUPED, BT_BF16, &near);
            const int ways = serving ? plans_of(row, &near, plans) : 0;
            for (int way = serving ? -1 : 0; way < ways; ++way) {
                const bt_kernel_plan *plan = way < 0 ? NULL : &plans[way];
                test_case_name("group %d by %s %s", g, row->name, plan ? plan->name : "");
                test_run_plan(row, plan, way < 0 ? &host : NULL, &near);
                for (int i = 0; i < count; ++i) {
                    test_twin_check(d[i], bound_of(&with, &groups[g][i]), bt_dtype_epsilon(BT_F32),
                                    row->name);
                }
            }
            served += serving;
            launched += ways;
        }
        test_twins_release();
    }
    if (has_hopper_rows()) {
        assert_int_equal(served, group_count);
        assert_true(launched > 2 * WIDE);
    }
    test_device_launches(3, false);
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
    assert_int_equal(setenv("BT_GEMM", selected_rows, 1), 0);
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
    assert_int_equal(setenv("BT_GEMM", selected_rows, 1), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(epilogues),
        cmocka_unit_test(every_plan),
        cmocka_unit_test(every_plan_of_odd_shapes),
        cmocka_unit_test(grouped),
        cmocka_unit_test(serves_what_the_library_lacks),
        cmocka_unit_test(reaches_ours),
        cmocka_unit_test(refuses),
        cmocka_unit_test(names_its_choices),
    };
    if (!getenv("BT_GEMM")) {
        (void)setenv("BT_GEMM", "own", 1);
    }
    (void)snprintf(selected_rows, sizeof selected_rows, "%s", getenv("BT_GEMM"));
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    test_device_arguments(argc, argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
