// tests/unit/test_loader.c - sequences, order, epochs, ranks, cursors, bad shards
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/data/loader.h"
#include "framework/data/shard.h"
#include "tests/support/scratch.h"

// Two shards of counting tokens: 0..22 and 100..118. With T = 4 they hold 5 + 4 sequences.
enum { T = 4, SEQUENCES = 9, FIRST_COUNT = 23, SECOND_COUNT = 19, LARGEST = 118 };

static const char *paths[2];

static void write_counting(const char *path, uint16_t start, int64_t count)
{
    uint16_t tokens[64];
    for (int64_t i = 0; i < count; ++i) {
        tokens[i] = (uint16_t)(start + i);
    }
    ASSERT_OK(bt_shard_write(path, tokens, count));
}

static int setup(void **state)
{
    (void)state;
    (void)test_scratch_make();
    static char first[64];
    static char second[64];
    strncpy(first, test_scratch_path("a.bin"), sizeof first - 1);
    strncpy(second, test_scratch_path("b.bin"), sizeof second - 1);
    write_counting(first, 0, FIRST_COUNT);
    write_counting(second, 100, SECOND_COUNT);
    paths[0] = first;
    paths[1] = second;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : -1;
}

static bt_loader_options base_options(void)
{
    return (bt_loader_options){
        .shards = paths, .shard_count = 2, .micro_batch = 2, .sequence = T, .vocab = 50304};
}

static bt_loader *open_loader(bt_loader_options options)
{
    bt_loader *loader = NULL;
    ASSERT_OK(bt_loader_create(&options, &loader));
    return loader;
}

// The first token of sequence i, as the shards lie.
static int32_t first_token(int64_t i) { return (int32_t)(i < 5 ? i * T : 100 + (i - 5) * T); }

// Fetches `rows` sequences in batches of `micro_batch`; checks each and notes its first token.
static void collect(bt_loader *loader, int64_t micro_batch, int64_t rows, int32_t *firsts)
{
    int32_t inputs[64];
    int32_t targets[64];
    for (int64_t row = 0; row < rows; ++row) {
        if (row % micro_batch == 0) {
            ASSERT_OK(bt_loader_next(loader, inputs, targets));
        }
        for (int64_t t = 0; t < T; ++t) {
            int64_t at = row % micro_batch * T + t;
            assert_int_equal(inputs[at], inputs[row % micro_batch * T] + t);
            assert_int_equal(targets[at], inputs[at] + 1);
        }
        firsts[row] = inputs[row % micro_batch * T];
    }
}

static void sequential_order_wraps(void **state)
{
    (void)state;
    bt_loader *loader = open_loader(base_options());
    assert_int_equal(bt_loader_tokens(loader), FIRST_COUNT + SECOND_COUNT);
    assert_int_equal(bt_loader_batches(loader), 4);
    int32_t firsts[12];
    collect(loader, 2, 12, firsts);
    for (int i = 0; i < 12; ++i) {
        assert_int_equal(firsts[i], first_token(i % SEQUENCES));
    }
    bt_loader_cursor cursor = bt_loader_cursor_get(loader);
    assert_int_equal(cursor.epoch, 1);
    assert_int_equal(cursor.position, 3);
    bt_loader_destroy(loader);
    bt_loader_destroy(NULL);
}

enum { ROWS = 5 * SEQUENCES + 2 }; // five epochs and more

// The order of a run on several ranks: each fills its places of it.
static void collect_ranks(bt_loader_options options, int32_t got[ROWS])
{
    const int64_t batch = options.micro_batch * options.turn, all = batch * options.world;
    for (int64_t rank = 0; rank < options.world; ++rank) {
        int32_t mine[3 * ROWS];
        const int64_t turns = (ROWS + all - 1) / all;
        options.rank = rank;
        bt_loader *loader = open_loader(options);
        collect(loader, options.micro_batch, turns * batch, mine);
        assert_int_equal(bt_loader_cursor_get(loader).within, 0);
        for (int64_t i = 0; i < turns * batch; ++i) {
            const int64_t place = i / batch * all + rank * batch + i % batch;
            if (place < ROWS) {
                got[place] = mine[i];
            }
        }
        bt_loader_destroy(loader);
    }
}

static void order_does_not_depend_on_batch_or_world(void **state)
{
    (void)state;
    int32_t expected[ROWS];
    int32_t got[ROWS];
    for (int shuffle = 0; shuffle < 2; ++shuffle) {
        bt_loader_options options = base_options();
        options.shuffle = shuffle;
        options.seed = 1337;
        options.micro_batch = 1;
        options.turn = 1;
        bt_loader *loader = open_loader(options);
        collect(loader, 1, ROWS, expected);
        bt_loader_destroy(loader);
        for (int64_t world = 1; world <= 4; ++world) {
            for (int64_t batch = 1; batch * world <= SEQUENCES; ++batch) {
                options.micro_batch = batch;
                options.world = world;
                for (options.turn = 1; options.turn <= 3; ++options.turn) {
                    collect_ranks(options, got);
                    assert_memory_equal(got, expected, sizeof got);
                }
            }
        }
    }
}

static void shuffle_is_a_permutation_per_epoch_and_seed(void **state)
{
    (void)state;
    bt_loader_options options = base_options();
    options.shuffle = true;
    options.micro_batch = 3;
    int32_t epochs[3][SEQUENCES];
    bt_loader *loader = open_loader(options);
    for (int epoch = 0; epoch < 3; ++epoch) {
        collect(loader, 3, SEQUENCES, epochs[epoch]);
        for (int64_t i = 0; i < SEQUENCES; ++i) {
            int seen = 0;
            for (int j = 0; j < SEQUENCES; ++j) {
                seen += epochs[epoch][j] == first_token(i);
            }
            assert_int_equal(seen, 1);
        }
    }
    bt_loader_destroy(loader);
    assert_memory_not_equal(epochs[0], epochs[1], sizeof epochs[0]);
    assert_memory_not_equal(epochs[1], epochs[2], sizeof epochs[0]);
    int32_t other[SEQUENCES];
    options.seed = 1;
    loader = open_loader(options);
    collect(loader, 3, SEQUENCES, other);
    assert_memory_not_equal(other, epochs[0], sizeof other);
    bt_loader_destroy(loader);
}

// Over many epochs each sequence comes first about equally often.
static void shuffle_is_even(void **state)
{
    (void)state;
    enum { EPOCHS = 9000 };
    bt_loader_options options = base_options();
    options.shuffle = true;
    options.micro_batch = 1;
    bt_loader *loader = open_loader(options);
    int64_t counts[LARGEST + 1] = {0};
    for (int64_t epoch = 0; epoch < EPOCHS; ++epoch) {
        ASSERT_OK(bt_loader_cursor_set(loader, (bt_loader_cursor){epoch, 4, 0}));
        int32_t first = 0;
        collect(loader, 1, 1, &first);
        ++counts[first];
    }
    double chi_square = 0;
    for (int64_t i = 0; i < SEQUENCES; ++i) {
        double off = (double)counts[first_token(i)] - EPOCHS / (double)SEQUENCES;
        chi_square += off * off / (EPOCHS / (double)SEQUENCES);
    }
    assert_true(chi_square <= 26.1); // 99.9 % of chi-square with 8 degrees of freedom
    bt_loader_destroy(loader);
}

static void ranks_share_the_order(void **state)
{
    (void)state;
    int32_t expected[8];
    bt_loader_options options = base_options();
    options.shuffle = true;
    options.micro_batch = 4;
    bt_loader *single = open_loader(options);
    collect(single, 4, 8, expected);
    bt_loader_destroy(single);
    options.micro_batch = 2;
    options.world = 2;
    for (int64_t rank = 0; rank < 2; ++rank) {
        int32_t got[4];
        options.rank = rank;
        bt_loader *loader = open_loader(options);
        assert_int_equal(bt_loader_batches(loader), 2);
        collect(loader, 2, 4, got);
        assert_memory_equal(got, expected + rank * 2, 2 * sizeof *got);
        assert_memory_equal(got + 2, expected + 4 + rank * 2, 2 * sizeof *got);
        bt_loader_destroy(loader);
    }
}

static void cursor_resumes(void **state)
{
    (void)state;
    bt_loader_options options = base_options();
    options.shuffle = true;
    options.turn = 3; // the cursor stands within one
    bt_loader *loader = open_loader(options);
    int32_t firsts[24];
    collect(loader, 2, 10, firsts);
    bt_loader_cursor cursor = bt_loader_cursor_get(loader);
    collect(loader, 2, 14, firsts);
    bt_loader *resumed = open_loader(options);
    ASSERT_OK(bt_loader_cursor_set(resumed, cursor));
    int32_t again[14];
    collect(resumed, 2, 14, again);
    assert_memory_equal(again, firsts, sizeof again);
    const bt_loader_cursor bad[] = {{-1, 0, 0},        {0, -1, 0},        {0, SEQUENCES + 1, 0},
                                    {INT64_MAX, 0, 0}, {0, INT64_MAX, 0}, {0, 0, -1},
                                    {0, 0, 3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "cursor", bt_loader_cursor_set(resumed, bad[i]));
    }
    ASSERT_OK(bt_loader_cursor_set(resumed, (bt_loader_cursor){0, SEQUENCES, 0}));
    bt_loader_destroy(loader);
    bt_loader_destroy(resumed);
}

static void bad_options(void **state)
{
    (void)state;
    bt_loader *loader = NULL;
    bt_loader_options options = base_options();
    options.micro_batch = 0;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "micro_batch is 0, allowed: 1 to",
                 bt_loader_create(&options, &loader));
    options = base_options();
    options.shard_count = 0;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "shard_count", bt_loader_create(&options, &loader));
    options = base_options();
    options.world = 2;
    options.rank = 2;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "rank is 2, allowed: 0 to 1",
                 bt_loader_create(&options, &loader));
    options = base_options();
    options.micro_batch = 5;
    options.world = 2;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                 "too few tokens: 42 tokens give 9 sequences of 4 + 1 tokens, one batch needs 10",
                 bt_loader_create(&options, &loader));
    options = base_options();
    options.sequence = FIRST_COUNT;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "give 0 sequences",
                 bt_loader_create(&options, &loader));
    assert_null(loader);
}

static void exact_fit(void **state)
{
    (void)state;
    bt_loader_options options = base_options();
    options.shard_count = 1;
    options.micro_batch = 1;
    options.sequence = FIRST_COUNT - 1;
    bt_loader *loader = open_loader(options);
    int32_t inputs[FIRST_COUNT - 1];
    int32_t targets[FIRST_COUNT - 1];
    ASSERT_OK(bt_loader_next(loader, inputs, targets));
    ASSERT_OK(bt_loader_next(loader, inputs, targets));
    assert_int_equal(inputs[0], 0);
    assert_int_equal(targets[FIRST_COUNT - 2], FIRST_COUNT - 1);
    bt_loader_destroy(loader);
}

static void token_beyond_the_vocabulary(void **state)
{
    (void)state;
    int32_t inputs[2 * T];
    int32_t targets[2 * T];
    bt_loader_options options = base_options();
    options.vocab = 102; // token 2 of the second shard, a target of sequence 5
    bt_loader *loader = open_loader(options);
    ASSERT_OK(bt_loader_next(loader, inputs, targets));
    ASSERT_OK(bt_loader_next(loader, inputs, targets));
    for (int again = 0; again < 2; ++again) {
        ASSERT_FAILS(
            BT_STATUS_CORRUPT_DATA,
            "b.bin: token id 102 at byte 1028 (token 2) is outside of the vocabulary of 102",
            bt_loader_next(loader, inputs, targets));
        assert_int_equal(bt_loader_cursor_get(loader).position, 4);
    }
    bt_loader_destroy(loader);
    options.vocab = 116; // only the last target of all
    options.micro_batch = 1;
    loader = open_loader(options);
    for (int i = 0; i < 8; ++i) {
        ASSERT_OK(bt_loader_next(loader, inputs, targets));
    }
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "token id 116", bt_loader_next(loader, inputs, targets));
    bt_loader_destroy(loader);
}

static void broken_shard_and_failing_memory(void **state)
{
    (void)state;
    bt_loader_options options = base_options();
    const char *broken[2] = {paths[0], test_scratch_write("c.bin", "tiny", 4)};
    options.shards = broken;
    bt_loader *loader = NULL;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "c.bin: truncated at byte 4",
                 bt_loader_create(&options, &loader));
    options = base_options();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK; ++n) {
        assert_true(n < 20);
        bt_mem_fail_at(n);
        status = bt_loader_create(&options, &loader);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK ? loader != NULL : status == BT_STATUS_OUT_OF_MEMORY);
        assert_true(status == BT_OK || bt_mem_live_count() == 0);
    }
    int64_t live = bt_mem_live_count();
    int32_t inputs[2 * T];
    int32_t targets[2 * T];
    ASSERT_OK(bt_loader_next(loader, inputs, targets));
    assert_int_equal(bt_mem_live_count(), live);
    bt_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sequential_order_wraps, setup, teardown),
        cmocka_unit_test_setup_teardown(order_does_not_depend_on_batch_or_world, setup, teardown),
        cmocka_unit_test_setup_teardown(shuffle_is_a_permutation_per_epoch_and_seed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(shuffle_is_even, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_share_the_order, setup, teardown),
        cmocka_unit_test_setup_teardown(cursor_resumes, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_options, setup, teardown),
        cmocka_unit_test_setup_teardown(exact_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(token_beyond_the_vocabulary, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_shard_and_failing_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
