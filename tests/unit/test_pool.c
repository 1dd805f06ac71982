// tests/unit/test_pool.c - the caching allocator on the CPU backend
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "framework/memory/address_map.h"
#include "framework/memory/pool.h"
#include "tests/support/lazy_device.h"

static const size_t MIB = (size_t)1 << 20;

static bt_device device;
static bt_pool *pool;

static int open_pool(void **state)
{
    (void)state;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    ASSERT_OK(bt_pool_create(&device, 0, &pool));
    return 0;
}

static int close_pool(void **state)
{
    (void)state;
    bt_pool_destroy(pool);
    bt_device_close(&device);
    assert_int_equal(bt_mem_live_count(), 0);
    return 0;
}

static void *take(size_t size_bytes, const char *tag)
{
    void *block = NULL;
    ASSERT_OK(bt_pool_alloc(pool, size_bytes, NULL, tag, &block));
    ASSERT_OK(bt_pool_check(pool));
    return block;
}

static void give(void *block)
{
    bt_pool_free(pool, block);
    ASSERT_OK(bt_pool_check(pool));
}

static bt_pool_stats stats(void)
{
    bt_pool_stats read;
    bt_pool_stats_read(pool, &read);
    return read;
}

static void test_sizes_and_alignment(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 255, 256, 257, MIB - 1, MIB, MIB + 1, 3 * MIB, 40 * MIB + 7};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *blocks[COUNT];
    size_t requested = 0;
    for (int i = 0; i < COUNT; ++i) {
        blocks[i] = take(sizes[i], "sized");
        requested += sizes[i];
        assert_int_equal((uintptr_t)blocks[i] % 256, 0);
        memset(blocks[i], i, sizes[i]);
        assert_int_equal(stats().requested_bytes, requested);
        assert_true(stats().allocated_bytes >= requested);
        assert_int_equal(stats().live_blocks, i + 1);
    }
    for (int i = 0; i < COUNT; ++i) {
        const unsigned char *bytes = blocks[i];
        for (size_t at = 0; at < sizes[i]; at += 97) {
            assert_int_equal(bytes[at], i);
        }
        give(blocks[i]);
    }
    assert_int_equal(stats().allocated_bytes, 0);
    assert_int_equal(stats().requested_bytes, 0);
    bt_pool_free(pool, NULL);
}

static void test_reuse_split_and_merge(void **state)
{
    (void)state;
    char *whole = take(8 * MIB, "whole");
    give(whole);
    uint64_t reserved = stats().reserved_bytes;
    char *left = take(2 * MIB, "left");
    char *middle = take(2 * MIB, "middle");
    char *right = take(2 * MIB, "right");
    assert_ptr_equal(left, whole);
    assert_ptr_equal(middle, left + 2 * MIB);
    assert_ptr_equal(right, middle + 2 * MIB);
    give(left);
    give(right);
    give(middle); // merges on both sides
    assert_ptr_equal(take(8 * MIB, "again"), whole);
    assert_int_equal(stats().reserved_bytes, reserved);
    assert_int_equal(stats().segments, 1);
    give(whole);
}

static void test_best_fit_prefers_the_tightest_then_the_lowest(void **state)
{
    (void)state;
    char *block[7];
    // 16 MiB in steps of 1/16: one segment, full
    const size_t sizes[7] = {4 * MIB, MIB + 1, 2 * MIB, MIB + 1, 2 * MIB, MIB + 1, MIB / 16 * 77};
    for (int i = 0; i < 7; ++i) {
        block[i] = take(sizes[i], "row");
    }
    give(block[0]);
    give(block[4]);
    give(block[2]); // freed last, but of the two of 2 MiB it lies lower
    assert_ptr_equal(take(2 * MIB - 5, "tight"), block[2]);
    assert_ptr_equal(take(2 * MIB - 5, "tight"), block[4]);
    assert_ptr_equal(take(2 * MIB - 5, "split of the first"), block[0]);
    for (int i = 0; i < 7; ++i) {
        give(block[i]);
    }
}

static void test_streams_do_not_share(void **state)
{
    (void)state;
    int first_place, second_place; // the pool only compares streams; the CPU ignores them
    bt_stream first = (bt_stream)(void *)&first_place, second = (bt_stream)(void *)&second_place;
    void *mine = NULL, *other = NULL;
    ASSERT_OK(bt_pool_alloc(pool, 1000, first, "mine", &mine));
    bt_pool_free(pool, mine);
    ASSERT_OK(bt_pool_alloc(pool, 1000, second, "other", &other));
    assert_ptr_not_equal(mine, other);
    assert_int_equal(stats().segments, 2);
    void *again = NULL;
    ASSERT_OK(bt_pool_alloc(pool, 1000, first, "again", &again));
    assert_ptr_equal(again, mine);
    bt_pool_free(pool, again);
    ASSERT_OK(bt_pool_release_cached(pool));
    assert_int_equal(stats().reserved_bytes, 2 * MIB); // the other stream's, which is live
    bt_pool_free(pool, other);
}

// A stream that runs late still reads a block that was freed; who gets the memory next must not
// write before. Without the wait the bytes are the next owner's.
static void test_a_block_is_freed_behind_another_streams_use(void **state)
{
    (void)state;
    bt_device lazy;
    bt_pool *own = NULL;
    bt_stream late = NULL;
    bt_event used = NULL;
    void *block = NULL, *next = NULL, *copy = NULL;
    lazy_device_open(&lazy);
    const bt_backend *backend = lazy.backend;
    ASSERT_OK(bt_pool_create(&lazy, 0, &own));
    ASSERT_OK(backend->stream_create(&lazy, false, &late));
    ASSERT_OK(backend->event_create(&lazy, &used));
    ASSERT_OK(bt_pool_alloc(own, 256, NULL, "block", &block));
    ASSERT_OK(bt_pool_alloc(own, 256, NULL, "copy", &copy));
    ASSERT_OK(backend->fill(&lazy, block, 1, 256, NULL));
    ASSERT_OK(backend->stream_synchronize(&lazy, NULL));
    ASSERT_OK(backend->copy(&lazy, copy, block, 256, BT_COPY_DEVICE_TO_DEVICE, late));
    ASSERT_OK(backend->event_record(&lazy, used, late));
    ASSERT_OK(bt_pool_free_behind(own, block, used));
    ASSERT_OK(bt_pool_free_behind(own, NULL, used));
    ASSERT_OK(bt_pool_alloc(own, 256, NULL, "next", &next));
    assert_ptr_equal(next, block);
    ASSERT_OK(backend->fill(&lazy, next, 2, 256, NULL));
    ASSERT_OK(backend->stream_synchronize(&lazy, NULL));
    ASSERT_OK(backend->stream_synchronize(&lazy, late));
    assert_int_equal(*(unsigned char *)copy, 1);
    bt_pool_free(own, next);
    bt_pool_free(own, copy);
    backend->event_destroy(&lazy, used);
    ASSERT_OK(bt_pool_retire_stream(own, late));
    backend->stream_destroy(&lazy, late);
    bt_pool_destroy(own);
    lazy_device_close(&lazy);
}

static void test_release_cached_and_peaks(void **state)
{
    (void)state;
    void *kept = take(100, "kept");
    void *gone = take(20 * MIB, "gone");
    give(gone);
    assert_int_equal(stats().peak_allocated_bytes, 20 * MIB + 256);
    assert_int_equal(stats().reserved_bytes, 22 * MIB);
    ASSERT_OK(bt_pool_release_cached(pool));
    ASSERT_OK(bt_pool_check(pool));
    assert_int_equal(stats().reserved_bytes, 2 * MIB);
    assert_int_equal(stats().peak_reserved_bytes, 22 * MIB);
    bt_pool_reset_peak(pool);
    assert_int_equal(stats().peak_reserved_bytes, 2 * MIB);
    assert_int_equal(stats().peak_allocated_bytes, 256);
    give(kept);
}

// A backend that knows which streams exist.
static struct {
    bt_backend table;
    bool exists[4]; // streams 1, 2 and 3
    int waits[4];
} fake;

static bt_stream stream_of(uintptr_t number) { return (bt_stream)number; }

static bt_status wait_for(bt_device *on, bt_stream stream)
{
    (void)on;
    const uintptr_t number = (uintptr_t)stream;
    ++fake.waits[number];
    return number == 0 || fake.exists[number]
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "waited for a stream that was destroyed");
}

static void test_a_retired_stream_is_not_waited_for(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.table = *device.backend;
    fake.table.stream_synchronize = wait_for;
    device.backend = &fake.table;
    fake.exists[1] = fake.exists[2] = true;
    void *blocks[4] = {NULL}; // small and large of each stream
    for (uintptr_t i = 0; i < 4; ++i) {
        ASSERT_OK(
            bt_pool_alloc(pool, i % 2 ? 3 * MIB : 300, stream_of(1 + i / 2), "x", &blocks[i]));
    }
    void *kept = NULL; // live when its stream goes
    ASSERT_OK(bt_pool_alloc(pool, 2 * MIB, stream_of(1), "kept", &kept));
    for (int i = 0; i < 4; ++i) {
        give(blocks[i]);
    }
    ASSERT_OK(bt_pool_retire_stream(pool, stream_of(1)));
    assert_int_equal(fake.waits[1], 1);
    fake.exists[1] = false;
    ASSERT_OK(bt_pool_check(pool));
    void *again = take(3 * MIB, "on the default stream");
    assert_ptr_equal(again, blocks[1]); // what was cached serves the default stream
    give(again);
    give(kept);
    ASSERT_OK(bt_pool_release_cached(pool));
    assert_int_equal(fake.waits[1], 1);
    assert_true(fake.waits[2] > 0);
    assert_int_equal(stats().reserved_bytes, 0);
    ASSERT_OK(bt_pool_retire_stream(pool, stream_of(3))); // a stream without memory: no wait
    assert_int_equal(fake.waits[3], 0);
    ASSERT_OK(bt_pool_retire_stream(pool, stream_of(2)));
    fake.exists[2] = false;
}

static void test_report_adds_up_by_tag(void **state)
{
    (void)state;
    void *blocks[] = {take(3 * MIB, "logits"), take(2 * MIB, "attention.out"),
                      take(2 * MIB, "attention.out"), take(10, NULL)};
    bt_str text = {0};
    bt_pool_report(pool, 2, &text);
    assert_string_equal(bt_str_text(&text), "     4.0 MiB  attention.out (2 blocks)\n"
                                            "     3.0 MiB  logits (1 block)\n");
    bt_str_clear(&text);
    bt_pool_report(pool, 10, &text);
    assert_non_null(strstr(bt_str_text(&text), "untagged"));
    bt_str_release(&text);
    for (int i = 0; i < 4; ++i) {
        give(blocks[i]);
    }
}

// One random history; every address is recorded, 0 where a block was freed.
static void random_history(uint64_t seed, uintptr_t *addresses, int steps)
{
    enum { SLOTS = 64 };
    char *live[SLOTS] = {0};
    size_t sizes[SLOTS] = {0};
    bt_rng rng = {seed, 1};
    memset(addresses, 0, (size_t)steps * sizeof *addresses);
    for (int i = 0; i < steps; ++i) {
        uint64_t slot = bt_rng_below(rng, (uint64_t)(3 * i), SLOTS);
        if (live[slot]) {
            for (size_t at = 0; at < sizes[slot]; at += 4093) {
                assert_int_equal((unsigned char)live[slot][at], slot);
            }
            give(live[slot]);
            live[slot] = NULL;
            continue;
        }
        uint64_t shift = bt_rng_below(rng, (uint64_t)(3 * i + 1), 22);
        sizes[slot] = bt_rng_below(rng, (uint64_t)(3 * i + 2), (uint64_t)2 << shift);
        live[slot] = take(sizes[slot], "random");
        memset(live[slot], (int)slot, sizes[slot]);
        addresses[i] = (uintptr_t)live[slot];
    }
    for (int i = 0; i < SLOTS; ++i) {
        give(live[i]);
    }
    assert_int_equal(stats().live_blocks, 0);
}

static void test_random_histories(void **state)
{
    (void)state;
    enum { STEPS = 1500 };
    static uintptr_t first[STEPS], second[STEPS];
    for (uint64_t seed = 1; seed <= 3; ++seed) {
        random_history(seed, first, STEPS);
    }
    // The same calls on the same free blocks give the same addresses.
    ASSERT_OK(bt_pool_release_cached(pool));
    assert_int_equal(stats().reserved_bytes, 0);
    random_history(9, first, STEPS);
    uint64_t reserved = stats().reserved_bytes;
    random_history(9, first, STEPS);
    random_history(9, second, STEPS);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(stats().reserved_bytes, reserved);
}

static void test_address_map(void **state)
{
    (void)state;
    static char places[1000][256];
    bt_address_map map = {0};
    assert_null(bt_address_map_find(&map, places));
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 1000; ++i) {
            ASSERT_OK(bt_address_map_reserve(&map, map.count + 1));
            bt_address_map_insert(&map, places[i], &places[i][1]);
        }
        for (int i = round; i < 1000; i += 2) {
            assert_ptr_equal(bt_address_map_remove(&map, places[i]), &places[i][1]);
        }
        for (int i = 0; i < 1000; ++i) {
            bool gone = i >= round && (i - round) % 2 == 0;
            assert_ptr_equal(bt_address_map_find(&map, places[i]), gone ? NULL : &places[i][1]);
        }
        for (int i = 0; i < 1000; ++i) {
            (void)bt_address_map_remove(&map, places[i]);
        }
        assert_int_equal(map.count, 0);
    }
    bt_address_map_release(&map);
}

int main(void)
{
#define POOL_TEST(name) cmocka_unit_test_setup_teardown(name, open_pool, close_pool)
    const struct CMUnitTest tests[] = {
        POOL_TEST(test_sizes_and_alignment),
        POOL_TEST(test_reuse_split_and_merge),
        POOL_TEST(test_best_fit_prefers_the_tightest_then_the_lowest),
        POOL_TEST(test_streams_do_not_share),
        POOL_TEST(test_release_cached_and_peaks),
        POOL_TEST(test_a_retired_stream_is_not_waited_for),
        POOL_TEST(test_report_adds_up_by_tag),
        POOL_TEST(test_random_histories),
        cmocka_unit_test(test_a_block_is_freed_behind_another_streams_use),
        cmocka_unit_test(test_address_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
