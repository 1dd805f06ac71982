// GPT-2 whose ranks exchange rows in chunks beside the products (ops/row_chunks.h): one rank's loss
// and gradients at every degree; the bits of sequence parallel without chunks, where a row of a
// product does not depend on the number of rows; the same bits in every run, with late ranks and
// with every mode of recomputation.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/linalg/gemm.h"
#include "tests/dist/gpt_ranks.h"
#include "tests/dist/slow.h"
#include "tests/support/test.h"

static const bt_dtype types[][2] = {{BT_F64, BT_F64}, {BT_F32, BT_F32}, {BT_F32, BT_BF16}};

enum { TYPES = sizeof types / sizeof *types };

static bt_status same(const gpt *one, const gpt *other)
{
    if (memcmp(bt_tensor_data(one->loss), bt_tensor_data(other->loss),
               bt_tensor_bytes(one->loss)) != 0) {
        return bt_error(BT_STATUS_INTERNAL, "the loss has other bits");
    }
    for (int64_t i = 0; i < one->params.count; ++i) {
        const bt_param *param = &one->params.items[i];
        const bt_tensor *a = param->value->grad, *b = other->params.items[i].value->grad;
        if (memcmp(bt_tensor_data(a), bt_tensor_data(b), bt_tensor_bytes(a)) != 0) {
            return bt_error(BT_STATUS_INTERNAL, "the gradient of %s has other bits", param->name);
        }
    }
    return bt_row_chunks_bytes(one->chunks) > 0
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "nothing was exchanged in chunks");
}

// Both run on this rank: the plan with chunks first, then the other, with a slow transport if it
// has a seed.
static bt_status compare(bt_group *group, const how *with, const how *other)
{
    gpt first = {.loss = NULL}, second = {.loss = NULL};
    omp_set_num_threads(1);
    bt_status status = gpt_open(&first, with, group);
    status = status ? status : gpt_open(&second, other, group);
    status = status ? status : gpt_run(&first);
    if (other->slow_seed) {
        slow_transport(group, other->slow_seed);
    }
    status = status ? status : gpt_run(&second);
    status = status ? status : same(&first, &second);
    gpt_close(&first);
    gpt_close(&second);
    return status;
}

static bt_status beside_whole_rows(bt_group *group, void *argument, rank_result *result)
{
    how whole = *(const how *)argument;
    (void)result;
    whole.row_chunks = false;
    return compare(group, argument, &whole);
}

static bt_status beside_late_ranks(bt_group *group, void *argument, rank_result *result)
{
    how prompt = *(const how *)argument;
    (void)result;
    prompt.slow_seed = 0;
    prompt.recompute = BT_RECOMPUTE_NONE;
    return compare(group, &prompt, argument);
}

static void expect_by(ranks_kind kind, rank_body body, how with, int ranks)
{
    rank_result results[RANKS_MAX];
    run_ranks(kind, ranks, gpt_timeout_ns, body, &with, results);
    for (int rank = 0; rank < ranks; ++rank) {
        if (results[rank].ended || results[rank].status != BT_OK) {
            fail_msg("%lld heads, mode %d, type %s, rank %d of %d: %s", (long long)with.heads,
                     (int)with.recompute, bt_dtype_name(with.compute), rank, ranks,
                     results[rank].message);
        }
    }
}

static void expect(rank_body body, how with, int ranks)
{
    expect_by(RANKS_THREADS, body, with, ranks);
}

static how chunks_of(size_t type)
{
    return (how){.heads = 12,
                 .width = 48,
                 .tokens = GPT_CONTEXT,
                 .master = types[type][0],
                 .compute = types[type][1],
                 .sequence_parallel = true,
                 .row_chunks = true};
}

// OpenBLAS' kernels for AVX-512 compute a row of a small product differently if there are more
// rows. Where the processor can, the program starts again with those for AVX2, which do not.
static void choose_kernels(char **arguments)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        !getenv("OPENBLAS_CORETYPE") && setenv("OPENBLAS_CORETYPE", "Haswell", 1) == 0) {
        (void)execv("/proc/self/exe", arguments);
    }
#else
    (void)arguments;
#endif
}

// BLAS may compute a row by one kernel or another, depending on where it is and how many there are.
static bool rows_are_independent(void)
{
    enum { ROWS = 64, COLS = 30, DEPTH = 48 };
    double a[ROWS * DEPTH], b[COLS * DEPTH], whole[ROWS * COLS], cut[ROWS * COLS];
    const void *const both[] = {whole, cut}; // bits are compared
    bt_session session;
    bool same_bits = true;
    assert_int_equal(bt_session_open("cpu", 0, 0, &session), BT_OK);
    for (int i = 0; i < ROWS * DEPTH; ++i) {
        a[i] = 1.0 / (1 + i % 97);
    }
    for (int i = 0; i < COLS * DEPTH; ++i) {
        b[i] = 1.0 / (3 + i % 89);
    }
    for (int rows = 2; rows <= ROWS; rows *= 2) {
        for (int transposed = 0; transposed < 2; ++transposed) {
            for (int at = 0; at < ROWS; at += rows) {
                bt_gemm_args args = {.m = ROWS,
                                     .n = COLS,
                                     .k = DEPTH,
                                     .trans_b = transposed,
                                     .a = a,
                                     .b = b,
                                     .d = whole,
                                     .lda = DEPTH,
                                     .ldb = transposed ? DEPTH : COLS,
                                     .ldc = COLS,
                                     .ldd = COLS,
                                     .batch = 1,
                                     .alpha = 1,
                                     .ab_dtype = BT_F64,
                                     .d_dtype = BT_F64};
                assert_int_equal(bt_gemm(&session.context, &args), BT_OK);
                args.m = rows;
                args.a = a + at * DEPTH;
                args.d = cut + at * COLS;
                assert_int_equal(bt_gemm(&session.context, &args), BT_OK);
            }
            same_bits = same_bits && memcmp(both[0], both[1], sizeof whole) == 0;
        }
    }
    bt_session_close(&session);
    return same_bits;
}

static void every_degree_has_the_bits_of_sequence_parallel(void **state)
{
    (void)state;
    how with = chunks_of(0);
    if (!rows_are_independent()) {
        print_message("rows of f64 products depend on the number of rows: bits are not compared\n");
        skip();
    }
    for (int ranks = 1; ranks <= 8; ranks *= 2) { // 12 heads on 8 ranks
        expect(beside_whole_rows, with, ranks);
    }
    with.sequences = 8; // chunks are whole sequences at every degree
    for (int ranks = 4; ranks <= 8; ranks *= 2) {
        expect(beside_whole_rows, with, ranks);
    }
    with.sequences = 0;
    with.heads = 4;
    with.tokens = 6; // chunks of four rows, of which one is from both sequences
    expect(beside_whole_rows, with, 3);
}

static void every_degree_agrees_with_one_rank(void **state)
{
    (void)state;
    for (size_t type = 0; type < 2; ++type) {
        how with = chunks_of(type);
        for (int ranks = 1; ranks <= 8; ranks *= 2) {
            gpt_expect_one_rank(with, ranks);
        }
        with.sequences = 8;
        gpt_expect_one_rank(with, 4);
        with.sequences = 0;
        with.heads = 4;
        with.tokens = 6;
        gpt_expect_one_rank(with, 3);
    }
    how with = chunks_of(2);
    with.heads = 4;
    with.width = 64;
    gpt_expect_one_rank(with, 2);
}

// Shared memory, and two hosts.
static void processes_have_the_same_bits(void **state)
{
    (void)state;
    how with = chunks_of(1);
    with.slow_seed = 9;
    expect_by(RANKS_MEMORY, beside_late_ranks, with, 2);
    expect_by(RANKS_MIXED, beside_late_ranks, with, 4);
}

static void late_ranks_and_recomputation_change_no_bit(void **state)
{
    (void)state;
    for (size_t type = 0; type < TYPES; ++type) {
        for (int mode = BT_RECOMPUTE_NONE; mode <= BT_RECOMPUTE_BLOCK; ++mode) {
            how with = chunks_of(type);
            with.slow_seed = (unsigned)mode + 1;
            with.recompute = (bt_recompute_mode)mode;
            expect(beside_late_ranks, with, 4);
            with.sequences = 4; // two ranks compute attention of whole sequences in turn
            expect(beside_late_ranks, with, 2);
        }
    }
}

int main(int count, char **arguments)
{
    (void)count;
    choose_kernels(arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_degree_has_the_bits_of_sequence_parallel),
        cmocka_unit_test(every_degree_agrees_with_one_rank),
        cmocka_unit_test(processes_have_the_same_bits),
        cmocka_unit_test(late_ranks_and_recomputation_change_no_bit),
    };
    return cmocka_run_group_tests_name("dist.row_chunks", tests, NULL, NULL);
}
