// tests/harness/test_bundle_damage.c - the container: flips, cuts, hostile archives, bombs
#include <archive.h>
#include <archive_entry.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "tests/harness/sample_bundle.h"
#include "tests/support/test.h"

static void assert_holds(const void *bytes, size_t size_bytes)
{
    bt_bundle_check check;
    ASSERT_OK(bt_bundle_verify_bytes("b", bytes, size_bytes, NULL, &check));
    if (check.finding_count) {
        fail_msg("%s", bt_str_text(&check.findings));
    }
    bt_bundle_check_release(&check);
}

static void assert_damaged(const void *bytes, size_t size_bytes, const char *words)
{
    bt_bundle_check check;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, words,
                 bt_bundle_verify_bytes("b", bytes, size_bytes, NULL, &check));
}

static void any_flipped_byte_is_found(void **state)
{
    (void)state;
    unsigned char *bytes = malloc(sample_training.size_bytes);
    assert_non_null(bytes);
    memcpy(bytes, sample_training.bytes, sample_training.size_bytes);
    for (size_t i = 0; i < sample_training.size_bytes; i++) {
        bt_bundle_check check;
        bytes[i] ^= (unsigned char)(1U << i % 8);
        if (bt_bundle_verify_bytes("b", bytes, sample_training.size_bytes, NULL, &check) !=
            BT_STATUS_CORRUPT_DATA) {
            fail_msg("byte %zu flipped, and verify says nothing", i);
        }
        bytes[i] ^= (unsigned char)(1U << i % 8);
    }
    assert_holds(bytes, sample_training.size_bytes);
    free(bytes);
}

static void any_missing_end_is_found(void **state)
{
    (void)state;
    for (size_t size = 0; size < sample_training.size_bytes; size++) {
        bt_bundle_check check;
        if (bt_bundle_verify_bytes("b", sample_training.bytes, size, NULL, &check) !=
            BT_STATUS_CORRUPT_DATA) {
            fail_msg("%zu of %zu bytes, and verify says nothing", size, sample_training.size_bytes);
        }
    }
    char *longer = calloc(1, sample_training.size_bytes + 1);
    assert_non_null(longer);
    memcpy(longer, sample_training.bytes, sample_training.size_bytes);
    assert_damaged(longer, sample_training.size_bytes + 1, "the digest at its end is missing");
    free(longer);
}

// Bytes of a tar, compressed and with the digest at the end, as bt_files_pack does it.
static void *seal(const void *tar, size_t tar_bytes, bool with_size, size_t *size_bytes)
{
    static const unsigned char head[8] = {0x5b, 0x2a, 0x4d, 0x18, 32, 0, 0, 0};
    size_t capacity = ZSTD_compressBound(tar_bytes);
    unsigned char *out = malloc(capacity + 40);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(out);
    assert_non_null(context);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1)));
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, with_size)));
    *size_bytes = ZSTD_compress2(context, out, capacity, tar, tar_bytes);
    assert_false(ZSTD_isError(*size_bytes));
    ZSTD_freeCCtx(context);
    memcpy(out + *size_bytes, head, sizeof head);
    crypto_hash_sha256(out + *size_bytes + sizeof head, out, *size_bytes);
    *size_bytes += 40;
    return out;
}

typedef struct entry {
    const char *name;
    __LA_MODE_T type;
    const char *link; // symbolic; "=x" hard
} entry;

static size_t make_tar(const entry *entries, size_t count, char *tar, size_t capacity)
{
    struct archive *writer = archive_write_new();
    size_t used = 0;
    archive_write_set_format_pax_restricted(writer);
    assert_int_equal(archive_write_open_memory(writer, tar, capacity, &used), ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *item = archive_entry_new();
        archive_entry_set_pathname(item, entries[i].name);
        archive_entry_set_filetype(item, entries[i].type);
        archive_entry_set_perm(item, 0644);
        if (entries[i].link && entries[i].link[0] == '=') {
            archive_entry_set_hardlink(item, entries[i].link + 1);
        } else if (entries[i].link) {
            archive_entry_set_symlink(item, entries[i].link);
        } else if (entries[i].type == AE_IFREG) {
            archive_entry_set_size(item, 3);
        }
        assert_int_equal(archive_write_header(writer, item), ARCHIVE_OK);
        if (!entries[i].link && entries[i].type == AE_IFREG) {
            assert_int_equal(archive_write_data(writer, "abc", 3), 3);
        }
        archive_entry_free(item);
    }
    assert_int_equal(archive_write_close(writer), ARCHIVE_OK);
    archive_write_free(writer);
    return used;
}

static void hostile_archives_are_refused(void **state)
{
    (void)state;
    static const struct {
        entry entries[2];
        size_t count;
        const char *words;
    } rows[] = {
        {{{"../x", AE_IFREG, NULL}}, 1, "is not a valid file name in a bundle"},
        {{{"a/../../x", AE_IFREG, NULL}}, 1, "is not a valid file name"},
        {{{"/etc/passwd", AE_IFREG, NULL}}, 1, "is not a valid file name"},
        {{{".hidden", AE_IFREG, NULL}}, 1, "is not a valid file name"},
        {{{"a b", AE_IFREG, NULL}}, 1, "is not a valid file name"},
        {{{"a", AE_IFLNK, "/etc/passwd"}}, 1, "is not a regular file"},
        {{{"a", AE_IFREG, NULL}, {"b", AE_IFREG, "=a"}}, 2, "is not a regular file"},
        {{{"a", AE_IFDIR, NULL}}, 1, "is no"},
        {{{"a", AE_IFIFO, NULL}}, 1, "is not a regular file"},
        {{{"a", AE_IFREG, NULL}, {"a", AE_IFREG, NULL}}, 2, "a occurs twice"},
        {{{"b", AE_IFREG, NULL}, {"a", AE_IFREG, NULL}}, 2, "a is not in order"},
    };
    char *tar = malloc(1 << 20);
    assert_non_null(tar);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = 0, used = make_tar(rows[i].entries, rows[i].count, tar, 1 << 20);
        void *bytes = seal(tar, used, true, &size);
        assert_damaged(bytes, size, rows[i].words);
        free(bytes);
    }
    // A valid tar of ours, in which a header has a value that ours never have.
    bt_files files;
    size_t size = 0;
    sample_bundle_unpack(&sample_training, &files);
    size_t used = make_tar((const entry[]){{"a", AE_IFREG, NULL}}, 1, tar, 1 << 20);
    memcpy(tar + 265, "ada", 3); // owner's name
    unsigned sum = 8 * ' ';
    for (int i = 0; i < 512; i++) {
        sum += i >= 148 && i < 156 ? 0 : (unsigned char)tar[i];
    }
    (void)snprintf(tar + 148, 8, "%06o", sum);
    void *bytes = seal(tar, used, true, &size);
    assert_damaged(bytes, size, "tar headers differ from those that bt-bench writes");
    free(bytes);
    bytes = seal("no tar at all", 13, true, &size);
    assert_damaged(bytes, size, "");
    free(bytes);
    bt_files_release(&files);
    free(tar);
}

static void bombs_are_not_unpacked(void **state)
{
    (void)state;
    enum { BOMB = 320 << 20 };
    size_t size = 0, twice = 0;
    char *zeros = calloc(1, BOMB);
    assert_non_null(zeros);
    void *bytes = seal(zeros, BOMB, true, &size);
    assert_damaged(bytes, size, "it declares 335544320 bytes unpacked");
    free(bytes);
    bytes = seal(zeros, 1 << 20, false, &size);
    assert_damaged(bytes, size, "does not declare its size");
    free(bytes);
    // Two frames, one after the other.
    void *half = seal(zeros, 1024, true, &size);
    unsigned char *both = malloc(2 * size);
    assert_non_null(both);
    memcpy(both, half, size - 40);
    memcpy(both + size - 40, half, size);
    twice = 2 * size - 40;
    crypto_hash_sha256(both + twice - 32, both, twice - 40);
    assert_damaged(both, twice, "not one zstd frame");
    free(both);
    free(half);
    // A member whose stated size is larger than its data.
    size_t used = make_tar((const entry[]){{"a", AE_IFREG, NULL}}, 1, zeros, 1 << 20);
    memcpy(zeros + 124, "77777777777", 11);
    unsigned sum = 8 * ' ';
    for (int i = 0; i < 512; i++) {
        sum += i >= 148 && i < 156 ? 0 : (unsigned char)zeros[i];
    }
    (void)snprintf(zeros + 148, 8, "%06o", sum);
    bytes = seal(zeros, used, true, &size);
    assert_damaged(bytes, size, "more than the whole archive");
    free(bytes);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_flipped_byte_is_found),
        cmocka_unit_test(any_missing_end_is_found),
        cmocka_unit_test(hostile_archives_are_refused),
        cmocka_unit_test(bombs_are_not_unpacked),
    };
    return cmocka_run_group_tests(tests, sample_bundles_make, sample_bundles_remove);
}
