// Products in pieces of their rows (GEMM_PIECES) on CUDA against the CPU in double, by our own rows
// (BT_GEMM=own): every epilogue, with the pieces in every order, and rows elsewhere; words and
// counts at the end; and a product that is launched before its rows are there.
#include <math.h>
#include <stdlib.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

typedef struct product {
    int64_t m, n, k, pieces;
    bool trans_b;
    bt_epilogue epilogue;
} product;

static const product products[] = {
    {512, 192, 128, 4, true, BT_EPILOGUE_NONE},
    {512, 320, 72, 2, true, BT_EPILOGUE_BIAS},
    {768, 128, 64, 6, true, BT_EPILOGUE_BIAS},
    {512, 448, 192, 4, true, BT_EPILOGUE_BIAS_GELU},
    {512, 192, 256, 4, false, BT_EPILOGUE_NONE},
    {1024, 136, 136, 4, false, BT_EPILOGUE_DGELU},
    {4096, 768, 768, 4, true, BT_EPILOGUE_BIAS},
    {2048, 1536, 384, 2, true, BT_EPILOGUE_BIAS_GELU},
    {4096, 1536, 320, 8, false, BT_EPILOGUE_DGELU},
};

enum { PIECES_MOST = 8 };

typedef struct operands {
    test_twin *a, *own, *b, *bias, *aux, *d, *ready, *done, *count;
} operands;

static test_twin *words(int64_t count, double value)
{
    double values[PIECES_MOST + 1];
    for (int64_t i = 0; i < count; ++i) {
        values[i] = value;
    }
    test_twin *twin = test_twin_values(BT_I32, values, count);
    twin->output = true; // the call changes them
    return twin;
}

static operands operands_make(const product *p, int64_t own_count)
{
    const bool gelu = p->epilogue == BT_EPILOGUE_BIAS_GELU;
    const bool slope = p->epilogue == BT_EPILOGUE_DGELU;
    const bool biased = p->epilogue == BT_EPILOGUE_BIAS || gelu;
    return (operands){
        .a = test_twin_random(BT_BF16, p->m * p->k, 1, -1, 1),
        .own = own_count ? test_twin_random(BT_BF16, own_count * p->m / p->pieces * p->k, 2, -1, 1)
                         : NULL,
        .b = test_twin_random(BT_BF16, p->n * p->k, 3, -1, 1),
        .bias = biased ? test_twin_random(BT_BF16, p->n, 4, -1, 1) : NULL,
        .aux = gelu    ? test_twin_output(BT_BF16, p->m * p->n)
               : slope ? test_twin_random(BT_BF16, p->m * p->n, 5, -3, 3)
                       : NULL,
        .d = test_twin_output(BT_BF16, p->m * p->n),
        .ready = words(p->pieces, 1),
        .done = words(p->pieces, 0),
        .count = words(p->pieces + 1, 0)};
}

static bt_gemm_pieces_args args_of(const product *p, const operands *at, int64_t first,
                                   int64_t own_first, int64_t own_count, test_side side)
{
    const bt_dtype type = test_type(BT_BF16, side);
    return (bt_gemm_pieces_args){.product = {.m = p->m,
                                             .n = p->n,
                                             .k = p->k,
                                             .trans_b = p->trans_b,
                                             .a = test_at(at->a, side),
                                             .b = test_at(at->b, side),
                                             .d = test_at(at->d, side),
                                             .lda = p->k,
                                             .ldb = p->trans_b ? p->k : p->n,
                                             .ldd = p->n,
                                             .batch = 1,
                                             .alpha = 1,
                                             .epilogue = p->epilogue,
                                             .bias = test_at(at->bias, side),
                                             .aux = test_at(at->aux, side),
                                             .ab_dtype = type,
                                             .d_dtype = type,
                                             .compute = BT_COMPUTE_NATIVE},
                                 .pieces = p->pieces,
                                 .first = first,
                                 .own = test_at(at->own, side),
                                 .own_first = own_first,
                                 .own_count = own_count,
                                 .ready = test_at(at->ready, side),
                                 .done = test_at(at->done, side),
                                 .count = test_at(at->count, side)};
}

static void check(const product *p, const operands *at, int64_t own_first, int64_t own_count)
{
    const double steps = (double)p->k * 0x1p-23;
    test_twin_check(at->d, 4 * steps + 0x1p-8, 0x1p-7, "d");
    if (p->epilogue == BT_EPILOGUE_BIAS_GELU) {
        test_twin_check(at->aux, 4 * steps + 0x1p-8, 0x1p-7, "aux");
    }
    test_twin_check(at->ready, 0, 0, "ready");
    test_twin_check(at->done, 0, 0, "done");
    test_twin_check(at->count, 0, 0, "count");
    for (int64_t i = 0; i < p->pieces; ++i) {
        assert_true(test_twin_get(at->ready, TEST_NEAR, i) == 0);
        const bool own = i >= own_first && i < own_first + own_count;
        assert_true(test_twin_get(at->done, TEST_NEAR, i) == (own ? 0 : 1));
    }
}

static void check_pieces(const product *p, int64_t first, int64_t own_first, int64_t own_count)
{
    const operands at = operands_make(p, own_count);
    const bt_gemm_pieces_args host = args_of(p, &at, first, own_first, own_count, TEST_HOST);
    const bt_gemm_pieces_args near = args_of(p, &at, first, own_first, own_count, TEST_NEAR);
    test_case_name("[%d, %d] by %d, epilogue %d, %d pieces from %d, own %d + %d", (int)p->m,
                   (int)p->n, (int)p->k, (int)p->epilogue, (int)p->pieces, (int)first,
                   (int)own_first, (int)own_count);
    test_run(BT_KERNEL_GEMM_PIECES, BT_BF16, &host, &near);
    check(p, &at, own_first, own_count);
    test_twins_release();
}

static void pieces_in_every_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof *products; ++i) {
        const product *p = &products[i];
        for (int64_t first = 0; first < p->pieces; ++first) {
            check_pieces(p, first, 0, 0);
            check_pieces(p, first, first, 1);
        }
        check_pieces(p, 0, p->pieces / 2, p->pieces / 2);
        check_pieces(p, 0, 0, p->pieces);
    }
}

// A's rows are NaN until another stream brings them, piece by piece, after the launch.
static void rows_that_arrive_later(void **state)
{
    (void)state;
    bt_device *device = test_device();
    const bt_backend *backend = device->backend;
    const product *p = &products[6];
    const size_t bytes = (size_t)(p->m / p->pieces * p->k) * sizeof(uint16_t);
    operands at = operands_make(p, 0);
    const bt_gemm_pieces_args host = args_of(p, &at, 0, 0, 0, TEST_HOST);
    const bt_gemm_pieces_args near = args_of(p, &at, 0, 0, 0, TEST_NEAR);
    test_run(BT_KERNEL_GEMM_PIECES, BT_BF16, &host, &near);
    const bt_kernel *row = NULL;
    ASSERT_OK(bt_kernel_find(device, BT_KERNEL_GEMM_PIECES, BT_BF16, &near, &row));
    uint16_t *a = malloc(bytes * (size_t)p->pieces), *d = malloc(at.d->size_bytes);
    assert_non_null(a);
    assert_non_null(d);
    bt_stream other = NULL;
    ASSERT_OK(backend->stream_create(device, true, &other));
    ASSERT_OK(backend->copy(device, a, near.product.a, bytes * (size_t)p->pieces,
                            BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(backend->fill(device, (void *)(uintptr_t)near.product.a, 0xff,
                            bytes * (size_t)p->pieces, NULL));
    ASSERT_OK(backend->fill(device, near.product.d, 0, at.d->size_bytes, NULL));
    ASSERT_OK(backend->fill(device, near.ready, 0, (size_t)p->pieces * 4, NULL));
    ASSERT_OK(backend->stream_synchronize(device, NULL));
    ASSERT_OK(row->launch(&(bt_launch){.device = device}, &near));
    for (int64_t piece = 0; piece < p->pieces; ++piece) {
        const uint32_t one = 1;
        char *to = (char *)(uintptr_t)near.product.a + piece * (int64_t)bytes;
        ASSERT_OK(backend->copy(device, to, (char *)a + piece * (int64_t)bytes, bytes,
                                BT_COPY_HOST_TO_DEVICE, other));
        ASSERT_OK(backend->copy(device, near.ready + piece, &one, sizeof one,
                                BT_COPY_HOST_TO_DEVICE, other));
        ASSERT_OK(backend->stream_synchronize(device, other));
    }
    ASSERT_OK(backend->stream_synchronize(device, NULL));
    ASSERT_OK(
        backend->copy(device, d, near.product.d, at.d->size_bytes, BT_COPY_DEVICE_TO_HOST, NULL));
    ASSERT_OK(backend->stream_synchronize(device, NULL));
    assert_memory_equal(d, at.d->result + at.d->begin_bytes, at.d->size_bytes);
    backend->stream_destroy(device, other);
    free(a);
    free(d);
    test_twins_release();
}

static void refuses_other_pieces(void **state)
{
    (void)state;
    const product uneven = {500, 192, 128, 4, true, BT_EPILOGUE_NONE}; // 125 rows
    const operands at = operands_make(&uneven, 0);
    const bt_gemm_pieces_args near = args_of(&uneven, &at, 0, 0, 0, TEST_NEAR);
    assert_null(bt_kernel_lookup(test_device(), BT_KERNEL_GEMM_PIECES, BT_BF16, &near));
    test_twins_release();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_in_every_order),
        cmocka_unit_test(rows_that_arrive_later),
        cmocka_unit_test(refuses_other_pieces),
    };
    if (setenv("BT_GEMM", "own", 0) != 0 || !test_device_open()) {
        return test_skip("no CUDA device");
    }
    test_device_arguments(argc, argv);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
