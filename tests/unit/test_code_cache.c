// tests/unit/test_code_cache.c - kept code: found again, damaged, full disk, shared, bounded
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/compiler/code_cache.h"
#include "tests/support/fake_disk.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const char key[] = "0123456789abcdef0123456789abcdef";

static bt_code_cache opened(const bt_file_ops *ops, const char *folder, int64_t limit_bytes)
{
    bt_code_cache cache;
    ASSERT_OK(bt_code_cache_open(ops, folder, limit_bytes, &cache));
    return cache;
}

static bool finds(bt_code_cache *cache, const char *at, const char *text)
{
    bt_code code;
    bool found = false;
    ASSERT_OK(bt_code_cache_find(cache, at, &code, &found));
    if (found) {
        assert_string_equal(code.bytes, text);
        assert_int_equal(code.size_bytes, strlen(text));
    }
    bt_code_release(&code);
    return found;
}

static void put(bt_code_cache *cache, const char *at, const char *text)
{
    ASSERT_OK(bt_code_cache_add(cache, at, text, strlen(text)));
}

static void test_keeps(void **state)
{
    (void)state;
    bt_code_cache cache = opened(&bt_file_ops_system, test_scratch_path("a/b"), 1 << 20);
    assert_false(finds(&cache, key, ""));
    put(&cache, key, "code");
    put(&cache, "ff", "");
    assert_true(finds(&cache, key, "code"));
    assert_true(finds(&cache, "ff", ""));
    put(&cache, key, "code");                       // again
    assert_int_equal(test_scratch_count("a/b"), 2); // no temporary file is left
    assert_int_equal(cache.hits, 2);
    assert_int_equal(cache.misses, 1);
    assert_int_equal(cache.damaged, 0);
    bt_code_cache_close(&cache);
}

static void test_without_a_folder(void **state)
{
    (void)state;
    bt_code_cache cache = opened(&bt_file_ops_system, NULL, 1 << 20);
    put(&cache, key, "code");
    assert_false(finds(&cache, key, ""));
    bt_code_cache_close(&cache);
}

// Every byte of an entry is checked: changed, it is as if it were not there, and can be made again.
static void test_damage(void **state)
{
    (void)state;
    fake_disk *disk = fake_disk_make();
    bt_code_cache cache = opened(fake_disk_ops(disk), "/cache", 1 << 20);
    put(&cache, key, "some code");
    size_t size = 0, whole = 0;
    char path[64];
    (void)snprintf(path, sizeof path, "/cache/%s", key);
    (void)fake_disk_bytes(disk, path, &whole);
    int damaged = 0;
    for (size_t i = 0; i < whole; ++i) {
        unsigned char *bytes = fake_disk_bytes(disk, path, &size);
        assert_non_null(bytes);
        bytes[i] ^= 1;
        if (finds(&cache, key, "some code")) { // padding of the head
            bytes[i] ^= 1;
            continue;
        }
        assert_int_equal(cache.damaged, ++damaged);
        assert_null(fake_disk_bytes(disk, path, &size)); // removed
        put(&cache, key, "some code");
    }
    assert_true(damaged >= 8 + 8 + 32 + 32 + 9);
    bt_code_cache_close(&cache);
    fake_disk_free(disk);
}

// An entry under another's name is not taken for it.
static void test_renamed(void **state)
{
    (void)state;
    fake_disk *disk = fake_disk_make();
    const bt_file_ops *ops = fake_disk_ops(disk);
    bt_code_cache cache = opened(ops, "/cache", 1 << 20);
    put(&cache, "aa", "code of a");
    assert_int_equal(ops->rename(ops->self, "/cache/aa", "/cache/bb"), 0);
    assert_false(finds(&cache, "bb", ""));
    assert_int_equal(cache.damaged, 1);
    bt_code_cache_close(&cache);
    fake_disk_free(disk);
}

// Whatever operation fails, and however full the disk is: an error, what was there is whole or
// gone, no temporary file, no open file, no memory.
static void test_failing_disk(void **state)
{
    (void)state;
    const int64_t live = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        fake_disk *disk = fake_disk_make();
        bt_code_cache cache = opened(fake_disk_ops(disk), "/cache", 1 << 20);
        fake_disk_fail(disk, n, EIO, false);
        const bt_status status = bt_code_cache_add(&cache, key, "some code", 9);
        const bool failed = fake_disk_failed(disk) != NULL;
        fake_disk_fail(disk, 0, 0, false);
        assert_int_equal(cache.unwritten, status == BT_OK ? 0 : 1);
        assert_true(finds(&cache, key, "some code") || status != BT_OK);
        assert_int_equal(fake_disk_open_count(disk), 0);
        bt_code_cache_close(&cache);
        fake_disk_free(disk);
        if (!failed) {
            assert_true(n > 4);
            break;
        }
    }
    for (int64_t room = 0; room < 200; room += 9) {
        fake_disk *disk = fake_disk_make();
        bt_code_cache cache = opened(fake_disk_ops(disk), "/cache", 1 << 20);
        fake_disk_room(disk, room);
        const bt_status status = bt_code_cache_add(&cache, key, "some code", 9);
        if (status != BT_OK) {
            ASSERT_FAILS(BT_STATUS_IO, "No space left", status);
            bt_io_names names = {0};
            ASSERT_OK(bt_io_list(fake_disk_ops(disk), "/cache", &names));
            assert_int_equal(names.count, 0);
            bt_io_names_release(&names);
        }
        assert_int_equal(finds(&cache, key, "some code"), status == BT_OK);
        bt_code_cache_close(&cache);
        fake_disk_free(disk);
    }
    assert_int_equal(bt_mem_live_count(), live);
}

static void test_bounded(void **state)
{
    (void)state;
    enum { SIZE = 1000, LIMIT = 5000 };
    fake_disk *disk = fake_disk_make();
    bt_code_cache cache = opened(fake_disk_ops(disk), "/cache", LIMIT);
    char code[SIZE] = "x";
    for (int i = 0; i < 40; ++i) {
        char at[BT_CODE_KEY_BYTES];
        bt_io_names names = {0};
        int64_t total = 0;
        (void)snprintf(at, sizeof at, "%08x", (unsigned)i * 2654435761U);
        ASSERT_OK(bt_code_cache_add(&cache, at, code, SIZE));
        ASSERT_OK(bt_io_list(fake_disk_ops(disk), "/cache", &names));
        bool newest = false;
        for (int64_t n = 0; n < names.count; ++n) {
            size_t size = 0;
            char path[64];
            (void)snprintf(path, sizeof path, "/cache/%s", names.items[n]);
            (void)fake_disk_bytes(disk, path, &size);
            total += (int64_t)size;
            newest = newest || strcmp(names.items[n], at) == 0;
        }
        bt_io_names_release(&names);
        assert_true(total <= LIMIT);
        assert_true(newest);
    }
    bt_code_cache_close(&cache);
    fake_disk_free(disk);
}

static const bt_file_ops *counted; // whose listings count_lists counts
static int lists;

static int count_lists(void *self, const char *path, void *target,
                       void (*entry)(void *target, const char *name))
{
    ++lists;
    return counted->list(self, path, target, entry);
}

// Adds entries of one size with names of their own.
static void add_some(bt_code_cache *cache, int count, char name)
{
    const char code[1000] = "x";
    char at[BT_CODE_KEY_BYTES];
    for (int i = 0; i < count; ++i) {
        (void)snprintf(at, sizeof at, "%c%07d", name, i);
        ASSERT_OK(bt_code_cache_add(cache, at, code, sizeof code));
    }
}

// The folder, which may have many entries, is listed at the first addition and then when the limit
// is reached, which finds what another process has added in between.
static void test_lists_rarely(void **state)
{
    (void)state;
    enum { ROOM = 32, FIRST = 20 };
    fake_disk *disk = fake_disk_make();
    bt_io_names names = {0};
    size_t entry_bytes = 0;
    counted = fake_disk_ops(disk);
    bt_file_ops ops = *counted;
    ops.list = count_lists;
    lists = 0;
    bt_code_cache other = opened(counted, "/cache", 1 << 20);
    add_some(&other, 1, 'a');
    (void)fake_disk_bytes(disk, "/cache/a0000000", &entry_bytes);
    bt_code_cache cache = opened(&ops, "/cache", (int64_t)entry_bytes * ROOM);
    add_some(&cache, FIRST, 'b');
    assert_int_equal(lists, 1);
    add_some(&other, ROOM - 1 - FIRST, 'c'); // now it is full
    add_some(&cache, ROOM - 1 - FIRST, 'd'); // as far as this process knows, there was room
    assert_int_equal(lists, 1);
    add_some(&cache, 1, 'e');
    assert_int_equal(lists, 2);
    ASSERT_OK(bt_io_list(counted, "/cache", &names));
    assert_int_equal(names.count, ROOM / 4 * 3);
    add_some(&cache, ROOM / 4, 'f');
    assert_int_equal(lists, 2);
    bt_io_names_release(&names);
    bt_code_cache_close(&cache);
    bt_code_cache_close(&other);
    fake_disk_free(disk);
}

// Processes that add and read the same few entries never see a part of one.
static void test_shared(void **state)
{
    (void)state;
    enum { PROCESSES = 4, ROUNDS = 200 };
    const char *folder = test_scratch_path("shared");
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; ++p) {
        children[p] = fork();
        if (children[p] == 0) {
            bt_code_cache cache;
            int wrong = bt_code_cache_open(&bt_file_ops_system, folder, 3000, &cache) != BT_OK;
            for (int i = 0; i < ROUNDS && !wrong; ++i) {
                char at[BT_CODE_KEY_BYTES], code[600];
                bt_code got;
                bool found = false;
                (void)snprintf(at, sizeof at, "%08x", i % 7);
                memset(code, 'a' + i % 7, sizeof code);
                (void)!bt_code_cache_add(&cache, at, code, sizeof code);
                wrong = bt_code_cache_find(&cache, at, &got, &found) != BT_OK ||
                        (found && (got.size_bytes != sizeof code ||
                                   memcmp(got.bytes, code, sizeof code) != 0));
                bt_code_release(&got);
            }
            wrong = wrong || cache.damaged;
            bt_code_cache_close(&cache);
            _exit(wrong);
        }
    }
    for (int p = 0; p < PROCESSES; ++p) {
        int status = 0;
        assert_int_equal(waitpid(children[p], &status, 0), children[p]);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps),        cmocka_unit_test(test_without_a_folder),
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_renamed),
        cmocka_unit_test(test_failing_disk), cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_shared),       cmocka_unit_test(test_lists_rarely),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
