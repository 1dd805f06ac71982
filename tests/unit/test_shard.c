// tests/unit/test_shard.c - the shard format: round trips, every kind of damage, failing disks
#include "tests/support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/shard.h"
#include "tests/support/scratch.h"

enum { MANY = 70001 }; // more than the writer's buffer, and odd

typedef struct image {
    int32_t header[256];
    uint16_t tokens[4];
} image;

static image sound_image(void)
{
    return (image){.header = {BT_SHARD_MAGIC, BT_SHARD_VERSION, 4}, .tokens = {50256, 1, 2, 65535}};
}

static int setup(void **state)
{
    (void)state;
    return test_scratch_make() ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : -1;
}

static void round_trip(void **state)
{
    (void)state;
    uint16_t *tokens = test_calloc(MANY, sizeof *tokens);
    for (int i = 0; i < MANY; ++i) {
        tokens[i] = (uint16_t)(i * 7919);
    }
    const int64_t counts[] = {0, 1, 2, 65535, 65536, 65537, MANY};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        const char *path = test_scratch_path("round.bin");
        ASSERT_OK(bt_shard_write(path, tokens, counts[i]));
        uint64_t size = 0;
        ASSERT_OK(bt_file_size(path, &size));
        assert_int_equal(size, 1024 + 2 * counts[i]);
        bt_shard shard;
        ASSERT_OK(bt_shard_open(path, &shard));
        assert_int_equal(shard.count, counts[i]);
        assert_memory_equal(shard.tokens, tokens, (size_t)counts[i] * 2);
        bt_shard_close(&shard);
        bt_shard_close(&shard);
    }
    assert_int_equal(test_scratch_count(""), 1);
    test_free(tokens);
}

static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    const uint16_t tokens[] = {50256, 258};
    const char *path = test_scratch_path("bytes.bin");
    ASSERT_OK(bt_shard_write(path, tokens, 2));
    void *bytes = NULL;
    size_t size = 0;
    ASSERT_OK(bt_file_read(path, &bytes, &size));
    const unsigned char head[12] = {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 2, 0, 0, 0};
    const unsigned char tail[4] = {0x50, 0xc4, 0x02, 0x01};
    assert_int_equal(size, 1028);
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal((char *)bytes + 1024, tail, sizeof tail);
    bt_mem_free(bytes);
}

static void damage_is_named(void **state)
{
    (void)state;
    const struct {
        int word;      // of the header that is changed
        int32_t value; //
        size_t size;   // of the file
        const char *words;
    } rows[] = {
        {0, BT_SHARD_MAGIC, 0, "truncated at byte 0"},
        {0, BT_SHARD_MAGIC, 1023, "truncated at byte 1023"},
        {0, 20240521, 1032, "expected magic 20240520 at byte 0, got 20240521"},
        {1, 2, 1032, "expected shard version 1 at byte 4, got 2"},
        {2, -1, 1032, "at byte 8, got -1"},
        {2, 4, 1031,
         "truncated: its header declares 4 tokens (byte 8), so expected 1032 bytes, got 1031"},
        {2, 5, 1032, "expected 1034 bytes, got 1032"},
        {2, 3, 1032, "too long: its header declares 3 tokens"},
        {2, INT32_MAX, 1032, "expected 4294968318 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        image bad = sound_image();
        bad.header[rows[i].word] = rows[i].value;
        const char *path = test_scratch_write("bad.bin", &bad, rows[i].size);
        bt_shard shard;
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, rows[i].words, bt_shard_open(path, &shard));
        assert_non_null(strstr(bt_error_message(), path));
    }
    bt_shard shard;
    ASSERT_FAILS(BT_STATUS_IO, "missing.bin: No such file",
                 bt_shard_open(test_scratch_path("missing.bin"), &shard));
    ASSERT_FAILS(BT_STATUS_IO, "not a regular file", bt_shard_open(test_scratch_path(""), &shard));
}

static void scan_finds_the_first_bad_token(void **state)
{
    (void)state;
    uint16_t *tokens = test_calloc(MANY, sizeof *tokens);
    tokens[66000] = 50257;
    tokens[MANY - 1] = 60000;
    const char *path = test_scratch_path("scan.bin");
    ASSERT_OK(bt_shard_write(path, tokens, MANY));
    bt_shard shard;
    ASSERT_OK(bt_shard_open(path, &shard));
    ASSERT_FAILS(
        BT_STATUS_CORRUPT_DATA,
        "token id 50257 at byte 133024 (token 66000) is outside of the vocabulary of 50257",
        bt_shard_scan(&shard, 50257));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "token id 60000", bt_shard_scan(&shard, 60000));
    ASSERT_OK(bt_shard_scan(&shard, 60001));
    ASSERT_OK(bt_shard_scan(&shard, 100000));
    bt_shard_close(&shard);
    test_free(tokens);
}

static void abort_and_overflow_leave_nothing(void **state)
{
    (void)state;
    const uint16_t old[] = {7};
    const char *path = test_scratch_path("kept.bin");
    ASSERT_OK(bt_shard_write(path, old, 1));
    bt_shard_writer *writer = NULL;
    ASSERT_OK(bt_shard_writer_open(path, &writer));
    ASSERT_OK(bt_shard_writer_append(writer, old, 1));
    assert_int_equal(bt_shard_writer_count(writer), 1);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "do not fit into one shard",
                 bt_shard_writer_append(writer, old, INT32_MAX));
    bt_shard_writer_abort(writer);
    bt_shard_writer_abort(NULL);
    assert_int_equal(test_scratch_count(""), 1);
    bt_shard shard;
    ASSERT_OK(bt_shard_open(path, &shard));
    assert_int_equal(shard.count, 1);
    bt_shard_close(&shard);
    ASSERT_FAILS(BT_STATUS_IO, "cannot create", bt_shard_write("/nonexistent/x.bin", old, 1));
}

// A file size limit stands for a full disk: write() fails in the middle.
static void full_disk(void **state)
{
    (void)state;
    uint16_t *tokens = test_calloc(MANY, sizeof *tokens);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    const struct rlimit small = {.rlim_cur = 20000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bt_status status = bt_shard_write(test_scratch_path("full.bin"), tokens, MANY);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
    ASSERT_FAILS(BT_STATUS_IO, "cannot write", status);
    assert_int_equal(test_scratch_count(""), 0);
    test_free(tokens);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const uint16_t tokens[] = {1, 2, 3};
    const char *path = test_scratch_path("fault.bin");
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK; ++n) {
        assert_true(n < 20);
        bt_mem_fail_at(n);
        status = bt_shard_write(path, tokens, 3);
        bt_shard shard = {0};
        if (status == BT_OK) {
            status = bt_shard_open(path, &shard);
        }
        bt_mem_fail_at(0);
        bt_shard_close(&shard);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_are_those_of_the_format, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(scan_finds_the_first_bad_token, setup, teardown),
        cmocka_unit_test_setup_teardown(abort_and_overflow_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
