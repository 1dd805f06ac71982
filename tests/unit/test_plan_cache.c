// tests/unit/test_plan_cache.c - the file of measured choices: kept, damaged, of others, shared
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/linalg/plan_cache.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const bt_planned tiles = {"gemm_a", "128x192x64 split 4", 12345};
static const bt_planned library = {"gemm_b", "", 9};

static bt_plan_cache *open_as(const char *path, const char *build, const char *device)
{
    bt_plan_cache *cache = NULL;
    ASSERT_OK(bt_plan_cache_open(path, build, device, &cache));
    return cache;
}

static bool has(const bt_plan_cache *cache, const char *key, const bt_planned *like)
{
    bt_planned got;
    return bt_plan_cache_find(cache, key, &got) && strcmp(got.kernel, like->kernel) == 0 &&
           strcmp(got.plan, like->plan) == 0 && got.time_ns == like->time_ns;
}

static const char *write_two(void)
{
    const char *path = test_scratch_path("plans.json");
    bt_plan_cache *cache = open_as(path, "build", "device");
    assert_string_equal(bt_plan_cache_warning(cache), ""); // a missing file is not an error
    ASSERT_OK(bt_plan_cache_add(cache, "nn 1x2x3", &tiles));
    ASSERT_OK(bt_plan_cache_add(cache, "a \"key\" \\ of any text", &library));
    bt_plan_cache_close(cache);
    return path;
}

static void test_keeps(void **state)
{
    (void)state;
    const char *path = write_two();
    bt_plan_cache *cache = open_as(path, "build", "device");
    assert_string_equal(bt_plan_cache_warning(cache), "");
    assert_true(has(cache, "nn 1x2x3", &tiles));
    assert_true(has(cache, "a \"key\" \\ of any text", &library));
    assert_false(has(cache, "nn 1x2x4", &tiles));
    ASSERT_OK(bt_plan_cache_add(cache, "nn 1x2x3", &library)); // a choice made anew
    bt_plan_cache_close(cache);
    cache = open_as(path, "build", "device");
    assert_true(has(cache, "nn 1x2x3", &library));
    bt_plan_cache_close(cache);
    assert_int_equal(test_scratch_count(""), 1); // no temporary file is left
    assert_int_equal(remove(path), 0);
}

static void test_without_a_file(void **state)
{
    (void)state;
    bt_plan_cache *cache = open_as(NULL, "build", "device");
    ASSERT_OK(bt_plan_cache_add(cache, "key", &tiles));
    assert_true(has(cache, "key", &tiles));
    assert_string_equal(bt_plan_cache_warning(cache), "");
    bt_plan_cache_close(cache);
}

// A file of others is left alone until there is something to write.
static void test_of_another_build_or_device(void **state)
{
    (void)state;
    const char *others[][3] = {{"other", "device", "another build"},
                               {"build", "other", "another device"}};
    for (int i = 0; i < 2; ++i) {
        const char *path = write_two();
        bt_plan_cache *cache = open_as(path, others[i][0], others[i][1]);
        assert_non_null(strstr(bt_plan_cache_warning(cache), others[i][2]));
        assert_non_null(strstr(bt_plan_cache_warning(cache), path));
        assert_false(has(cache, "nn 1x2x3", &tiles));
        bt_plan_cache *still = open_as(path, "build", "device");
        assert_true(has(still, "nn 1x2x3", &tiles));
        bt_plan_cache_close(still);
        ASSERT_OK(bt_plan_cache_add(cache, "nn 1x2x3", &library));
        bt_plan_cache_close(cache);
        cache = open_as(path, others[i][0], others[i][1]);
        assert_string_equal(bt_plan_cache_warning(cache), "");
        assert_true(has(cache, "nn 1x2x3", &library));
        assert_false(has(cache, "a \"key\" \\ of any text", &library));
        bt_plan_cache_close(cache);
        assert_int_equal(remove(path), 0);
    }
}

// Every beginning of a file, and every byte of it changed: a warning, or a file that still says
// what it must; never a choice without its kernel.
static void test_damaged(void **state)
{
    (void)state;
    void *whole = NULL;
    size_t size = 0;
    int warned = 0;
    ASSERT_OK(bt_file_read(write_two(), &whole, &size));
    for (size_t at = 0; at < 2 * size; ++at) {
        char *bytes = whole;
        const bool cut = at < size;
        char *byte = &bytes[cut ? at : at - size];
        const char kept = *byte;
        *byte = cut ? kept : (char)(kept ^ 0x15);
        const char *path = test_scratch_write("plans.json", bytes, cut ? at : size);
        *byte = kept;
        bt_plan_cache *cache = open_as(path, "build", "device");
        bt_planned got = {0};
        warned += *bt_plan_cache_warning(cache) != '\0';
        if (bt_plan_cache_find(cache, "nn 1x2x3", &got)) {
            assert_true(got.kernel && got.plan && got.time_ns >= 0);
        }
        bt_plan_cache_close(cache);
    }
    assert_true(warned >= (int)size);
    bt_plan_cache *cache = open_as(test_scratch_write("plans.json", "{]", 2), "build", "device");
    assert_non_null(strstr(bt_plan_cache_warning(cache), "is damaged"));
    ASSERT_OK(bt_plan_cache_add(cache, "key", &tiles)); // written anew
    bt_plan_cache_close(cache);
    cache = open_as(test_scratch_path("plans.json"), "build", "device");
    assert_string_equal(bt_plan_cache_warning(cache), "");
    assert_true(has(cache, "key", &tiles));
    bt_plan_cache_close(cache);
    bt_mem_free(whole);
    assert_int_equal(remove(test_scratch_path("plans.json")), 0);
}

enum { WRITERS = 4, KEYS = 40 };

static int write_many(const char *path, int writer)
{
    bt_plan_cache *cache = NULL;
    bt_status status = bt_plan_cache_open(path, "build", "device", &cache);
    for (int i = 0; i < KEYS && status == BT_OK; ++i) {
        char key[32];
        (void)snprintf(key, sizeof key, "%d of %d", i, writer);
        status = bt_plan_cache_add(cache, key, &tiles);
    }
    const int fine = status == BT_OK && *bt_plan_cache_warning(cache) == '\0';
    bt_plan_cache_close(cache);
    return fine ? 0 : 1;
}

// Processes that write at once may lose a choice of each other's, never the file.
static void test_many_processes(void **state)
{
    (void)state;
    const char *path = test_scratch_path("plans.json");
    pid_t writers[WRITERS];
    int running = WRITERS, reads = 0;
    for (int i = 0; i < WRITERS; ++i) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0) {
            _exit(write_many(path, i));
        }
    }
    while (running > 0) {
        int result = 0;
        bt_plan_cache *cache = open_as(path, "build", "device");
        assert_string_equal(bt_plan_cache_warning(cache), "");
        bt_plan_cache_close(cache);
        ++reads;
        for (int i = 0; i < WRITERS; ++i) {
            if (writers[i] && waitpid(writers[i], &result, WNOHANG) == writers[i]) {
                assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
                writers[i] = 0;
                --running;
            }
        }
    }
    bt_plan_cache *cache = open_as(path, "build", "device");
    int kept = 0;
    for (int i = 0; i < WRITERS * KEYS; ++i) {
        char key[32];
        (void)snprintf(key, sizeof key, "%d of %d", i % KEYS, i / KEYS);
        kept += has(cache, key, &tiles);
    }
    assert_true(kept >= KEYS && reads > 0);
    bt_plan_cache_close(cache);
    assert_int_equal(test_scratch_count(""), 1);
    assert_int_equal(remove(path), 0);
}

static void test_cannot_write(void **state)
{
    (void)state;
    bt_plan_cache *cache =
        open_as(test_scratch_path("no_such_folder/plans.json"), "build", "device");
    ASSERT_OK(bt_plan_cache_add(cache, "key", &tiles));
    assert_non_null(strstr(bt_plan_cache_warning(cache), "were not saved"));
    assert_true(has(cache, "key", &tiles));
    bt_plan_cache_close(cache);
}

// The n-th allocation fails, for every n: a clear status, nothing leaks.
static void test_no_memory(void **state)
{
    (void)state;
    const char *path = write_two();
    const int64_t before = bt_mem_live_count();
    bool failed = true;
    for (int64_t n = 1; failed && n < 1000; ++n) {
        bt_plan_cache *cache = NULL;
        bt_mem_fail_at(n);
        bt_status status = bt_plan_cache_open(path, "build", "device", &cache);
        if (status == BT_OK) {
            status = bt_plan_cache_add(cache, "key", &tiles);
        }
        // What only the file needs may fail as a warning.
        failed = status != BT_OK || *bt_plan_cache_warning(cache);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        bt_plan_cache_close(cache);
        bt_mem_fail_at(0);
        assert_int_equal(bt_mem_live_count(), before);
    }
    assert_false(failed);
    assert_int_equal(remove(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps),
        cmocka_unit_test(test_without_a_file),
        cmocka_unit_test(test_of_another_build_or_device),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_many_processes),
        cmocka_unit_test(test_cannot_write),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
