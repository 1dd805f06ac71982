// tests/fault/test_shard.c - every bit of a dataset's shards counts
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/dataset.h"
#include "framework/data/shard.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { TOKENS = 96, VOCAB = 256 };

// A folder with one training shard, its digest in the manifest.
static const char *make_dataset(void)
{
    static char folder[256];
    uint16_t tokens[TOKENS];
    bt_dataset dataset = {.vocab = VOCAB};
    bt_digest digest;
    char path[300];
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path("set"));
    (void)snprintf(path, sizeof path, "%s/t_train_000000.bin", folder);
    for (int i = 0; i < TOKENS; ++i) {
        tokens[i] = (uint16_t)(i * 7 % VOCAB);
    }
    ASSERT_OK(bt_dir_make(folder));
    ASSERT_OK(bt_shard_write(path, tokens, TOKENS));
    ASSERT_OK(bt_digest_file(path, &digest));
    ASSERT_OK(bt_mem_strdup("t", &dataset.name));
    ASSERT_OK(bt_dataset_add_shard(&dataset, false, "t_train_000000.bin", TOKENS, &digest));
    dataset.train.documents = dataset.val.documents = -1;
    ASSERT_OK(bt_dataset_write(&dataset, folder));
    bt_dataset_release(&dataset);
    return folder;
}

static bt_status check(const char *folder)
{
    bt_dataset dataset = {0};
    bt_status status = bt_dataset_open(folder, &dataset);
    status = status == BT_OK ? bt_dataset_verify(&dataset) : status;
    bt_dataset_release(&dataset);
    return status;
}

static void every_bit_counts(void **state)
{
    (void)state;
    const char *folder = make_dataset();
    char path[300];
    void *block = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s/t_train_000000.bin", folder);
    ASSERT_OK(check(folder));
    ASSERT_OK(bt_file_read(path, &block, &size_bytes));
    assert_int_equal(size_bytes, BT_SHARD_HEADER_BYTES + 2 * TOKENS);
    unsigned char *bytes = block;
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    for (size_t bit = 0; bit < 8 * size_bytes; ++bit) {
        const unsigned char flipped = bytes[bit / 8] ^ (unsigned char)(1U << bit % 8);
        assert_int_equal(fseek(file, (long)(bit / 8), SEEK_SET), 0);
        assert_int_equal(fputc(flipped, file), flipped);
        assert_int_equal(fflush(file), 0);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "t_train_000000.bin", check(folder));
        assert_int_equal(fseek(file, (long)(bit / 8), SEEK_SET), 0);
        assert_int_equal(fputc(bytes[bit / 8], file), bytes[bit / 8]);
        assert_int_equal(fflush(file), 0);
    }
    assert_int_equal(fclose(file), 0);
    ASSERT_OK(check(folder));
    bt_mem_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_bit_counts)};
    return cmocka_run_group_tests_name("shards", tests, test_scratch_setup, test_scratch_teardown);
}
