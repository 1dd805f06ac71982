// tests/fault/test_pool.c - the caching allocator when host, device or limit refuse
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/memory/pool.h"

static const size_t MIB = (size_t)1 << 20;

// A CPU whose memory is bounded and whose streams can break.
static bt_backend small_backend;
static bt_device small_device;
static size_t device_room_bytes;
static size_t device_blocks;
static bool stream_broken, allocation_broken;

static bt_status small_alloc(bt_device *device, size_t size_bytes, void **out)
{
    *out = NULL;
    if (allocation_broken) {
        return bt_error(BT_STATUS_INTERNAL, "the device fell off the bus");
    }
    if (size_bytes > device_room_bytes) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "the device is full");
    }
    // A header remembers the size, so that freeing makes room again.
    char *block = NULL;
    BT_TRY(bt_cpu_backend.memory_alloc(device, size_bytes + 256, (void **)&block));
    memcpy(block, &size_bytes, sizeof size_bytes);
    device_room_bytes -= size_bytes;
    ++device_blocks;
    *out = block + 256;
    return BT_OK;
}

static void small_free(bt_device *device, void *address)
{
    size_t size_bytes;
    char *block = (char *)address - 256;
    memcpy(&size_bytes, block, sizeof size_bytes);
    device_room_bytes += size_bytes;
    --device_blocks;
    bt_cpu_backend.memory_free(device, block);
}

static bt_status small_synchronize(bt_device *device, bt_stream stream)
{
    (void)device, (void)stream;
    return stream_broken ? bt_error(BT_STATUS_INTERNAL, "asynchronous fault") : BT_OK;
}

static int setup(void **state)
{
    (void)state;
    small_backend = bt_cpu_backend;
    small_backend.name = "small";
    small_backend.memory_alloc = small_alloc;
    small_backend.memory_free = small_free;
    small_backend.stream_synchronize = small_synchronize;
    small_device.backend = &small_backend;
    device_room_bytes = 64 * MIB;
    device_blocks = 0;
    stream_broken = allocation_broken = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bt_mem_fail_at(0);
    assert_int_equal(device_blocks, 0);
    assert_int_equal(bt_mem_live_count(), 0);
    return 0;
}

static void test_limit_ends_in_a_report(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    void *logits = NULL, *small = NULL, *none = &none;
    ASSERT_OK(bt_pool_create(&small_device, 32 * MIB, &pool));
    ASSERT_OK(bt_pool_alloc(pool, 20 * MIB, NULL, "logits", &logits));
    ASSERT_OK(bt_pool_alloc(pool, 100, NULL, "small", &small));
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "logits (1 block)",
                 bt_pool_alloc(pool, 11 * MIB, NULL, "attention.out", &none));
    assert_null(none);
    assert_non_null(strstr(bt_error_message(), "requested 11.0 MiB (11534336 bytes)"));
    assert_non_null(strstr(bt_error_message(), "attention.out"));
    assert_non_null(strstr(bt_error_message(), "limit 32.0 MiB"));
    ASSERT_OK(bt_pool_check(pool));
    // Not the usual 16 MiB segment, but what is left suffices for the block itself.
    void *fits = NULL;
    ASSERT_OK(bt_pool_alloc(pool, 10 * MIB, NULL, "fits", &fits));
    bt_pool_stats stats;
    bt_pool_stats_read(pool, &stats);
    assert_int_equal(stats.reserved_bytes, 32 * MIB);
    bt_pool_free(pool, fits);
    bt_pool_free(pool, small);
    bt_pool_free(pool, logits);
    bt_pool_destroy(pool);
}

static void test_cached_segments_make_room(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    void *block = NULL;
    ASSERT_OK(bt_pool_create(&small_device, 0, &pool));
    ASSERT_OK(bt_pool_alloc(pool, 40 * MIB, NULL, "first", &block));
    bt_pool_free(pool, block);
    ASSERT_OK(bt_pool_alloc(pool, 50 * MIB, NULL, "second", &block)); // the device has 64 MiB
    ASSERT_OK(bt_pool_check(pool));
    bt_pool_free(pool, block);
    // A fault that surfaces while waiting is not taken for a lack of memory.
    stream_broken = true;
    ASSERT_FAILS(BT_STATUS_INTERNAL, "asynchronous fault",
                 bt_pool_alloc(pool, 60 * MIB, NULL, "third", &block));
    stream_broken = false;
    ASSERT_OK(bt_pool_check(pool));
    allocation_broken = true;
    ASSERT_FAILS(BT_STATUS_INTERNAL, "fell off the bus",
                 bt_pool_alloc(pool, 60 * MIB, NULL, "third", &block));
    allocation_broken = false;
    ASSERT_OK(bt_pool_check(pool));
    bt_pool_destroy(pool);
}

static void test_device_full(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    void *block = NULL;
    ASSERT_OK(bt_pool_create(&small_device, 0, &pool));
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "the device is full",
                 bt_pool_alloc(pool, 65 * MIB, NULL, "huge", &block));
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "huge",
                 bt_pool_alloc(pool, SIZE_MAX - 5, NULL, "huge", &block));
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "huge",
                 bt_pool_alloc(pool, SIZE_MAX / 2, NULL, "huge", &block));
    ASSERT_OK(bt_pool_check(pool));
    bt_pool_destroy(pool);
}

static void test_injected_failure(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    void *first = NULL, *second = NULL, *third = NULL;
    ASSERT_OK(bt_pool_create(&small_device, 0, &pool));
    bt_pool_fail_at(pool, 2);
    ASSERT_OK(bt_pool_alloc(pool, 10, NULL, "first", &first));
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "injected",
                 bt_pool_alloc(pool, 10, NULL, "second", &second));
    ASSERT_OK(bt_pool_alloc(pool, 10, NULL, "third", &third));
    bt_pool_fail_at(pool, 1);
    bt_pool_fail_at(pool, 0);
    ASSERT_OK(bt_pool_alloc(pool, 10, NULL, "second", &second));
    bt_pool_free(pool, first);
    bt_pool_free(pool, second);
    bt_pool_free(pool, third);
    bt_pool_destroy(pool);
}

// A history that makes heaps, segments, splits and a grown map; ends at the first refusal.
static bt_status use_pool(bt_pool **pool, void **blocks, int count)
{
    BT_TRY(bt_pool_create(&small_device, 0, pool));
    for (int i = 0; i < count; ++i) {
        size_t size_bytes = i % 3 == 0 ? MIB + (size_t)i : (size_t)i * 100;
        BT_TRY(bt_pool_alloc(*pool, size_bytes, NULL, "history", &blocks[i]));
        BT_TRY(bt_pool_check(*pool));
    }
    return BT_OK;
}

static void test_every_host_allocation_may_fail(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    int64_t n = 0;
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    while (status != BT_OK) {
        bt_pool *pool = NULL;
        void *blocks[COUNT] = {0};
        bt_mem_fail_at(++n);
        status = use_pool(&pool, blocks, COUNT);
        bt_mem_fail_at(0);
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
            assert_non_null(strstr(bt_error_message(), "host memory"));
        }
        if (pool) {
            ASSERT_OK(bt_pool_check(pool));
        }
        for (int i = 0; i < COUNT && pool; ++i) {
            bt_pool_free(pool, blocks[i]);
        }
        bt_pool_destroy(pool);
        assert_int_equal(bt_mem_live_count(), 0);
        assert_int_equal(device_blocks, 0);
        assert_true(n < 1000);
    }
    assert_true(n > 10); // the injection did bite
}

static void test_report_without_host_memory(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    void *block = NULL, *none = NULL;
    ASSERT_OK(bt_pool_create(&small_device, 0, &pool));
    ASSERT_OK(bt_pool_alloc(pool, 20 * MIB, NULL, "block", &block));
    bt_pool_fail_at(pool, 1);
    bt_mem_fail_at(1);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "no host memory",
                 bt_pool_alloc(pool, 10, NULL, "none", &none));
    bt_pool_free(pool, block);
    bt_pool_destroy(pool);
}

int main(void)
{
#define FAULT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_limit_ends_in_a_report),
        FAULT_TEST(test_cached_segments_make_room),
        FAULT_TEST(test_device_full),
        FAULT_TEST(test_injected_failure),
        FAULT_TEST(test_every_host_allocation_may_fail),
        FAULT_TEST(test_report_without_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
