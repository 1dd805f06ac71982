// The CUDA backend as a backend: its messages without a GPU, and with one memory, copies, streams,
// events and a captured graph.
#include <string.h>

#include "framework/base/mem.h"
#include "framework/device/device.h"
#include "kernels/kernels.h"
#include "tests/support/test.h"

enum { COUNT = 1 << 20 };

static bt_device device;
static bool usable;

// Without a plugin, a driver or a GPU: a reason, and no crash.
static void answers_without_a_gpu(void **state)
{
    (void)state;
    int count = -1;
    bt_status status = bt_device_count("cuda", &count);
    if (status == BT_OK) {
        assert_true(count > 0);
        return;
    }
    assert_int_equal(status, BT_STATUS_UNAVAILABLE);
    assert_int_equal(count, 0);
    assert_true(strlen(bt_error_message()) > 10);
    bt_device none;
    assert_int_equal(bt_device_open("cuda", 0, &none), BT_STATUS_UNAVAILABLE);
    assert_null(none.backend);
}

static void tells_about_itself(void **state)
{
    (void)state;
    if (!usable) {
        skip();
    }
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    ASSERT_OK(device.backend->memory_info(&device, &free_bytes, &total_bytes));
    assert_true(free_bytes > 0 && free_bytes <= total_bytes);
    assert_true(device.info.arch >= 80 && device.info.processor_count > 0);
    assert_true(strlen(device.info.uuid) == 40 && strlen(device.info.driver) > 0);
    bt_device none;
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "no cuda device 99", bt_device_open("cuda", 99, &none));
}

static void allocates_and_runs_out(void **state)
{
    (void)state;
    if (!usable) {
        skip();
    }
    void *block = NULL;
    ASSERT_OK(device.backend->memory_alloc(&device, 0, &block));
    assert_true(((uintptr_t)block & 255) == 0);
    device.backend->memory_free(&device, block);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "bytes on",
                 device.backend->memory_alloc(&device, (size_t)1 << 50, &block));
    assert_null(block);
    // The failure leaves the device as it was.
    ASSERT_OK(device.backend->memory_alloc(&device, 4096, &block));
    device.backend->memory_free(&device, block);
}

// There and back through page-locked memory, on a second stream ordered by an event.
static void copies_in_order(void **state)
{
    (void)state;
    if (!usable) {
        skip();
    }
    const bt_backend *backend = device.backend;
    bt_stream side = NULL;
    bt_event there = NULL;
    bt_event back = NULL;
    void *host = NULL;
    void *near = NULL;
    int64_t time_ns = 0;
    ASSERT_OK(backend->stream_create(&device, true, &side));
    ASSERT_OK(backend->event_create(&device, &there));
    ASSERT_OK(backend->event_create(&device, &back));
    ASSERT_OK(backend->pinned_alloc(&device, 2 * COUNT, &host));
    ASSERT_OK(backend->memory_alloc(&device, COUNT, &near));
    unsigned char *bytes = host;
    for (int i = 0; i < COUNT; ++i) {
        bytes[i] = (unsigned char)(i * 7 + i / 256);
        bytes[COUNT + i] = 0;
    }
    ASSERT_OK(backend->event_record(&device, there, NULL));
    ASSERT_OK(backend->copy(&device, near, host, COUNT, BT_COPY_HOST_TO_DEVICE, NULL));
    ASSERT_OK(backend->fill(&device, near, 0x5a, 100, NULL));
    ASSERT_OK(backend->event_record(&device, back, NULL));
    ASSERT_OK(backend->event_wait(&device, back, side));
    ASSERT_OK(backend->copy(&device, bytes + COUNT, near, COUNT, BT_COPY_DEVICE_TO_HOST, side));
    ASSERT_OK(backend->stream_synchronize(&device, side));
    ASSERT_OK(backend->event_synchronize(&device, back));
    ASSERT_OK(backend->event_elapsed(&device, there, back, &time_ns));
    assert_true(time_ns > 0);
    for (int i = 0; i < COUNT; ++i) {
        assert_int_equal(bytes[COUNT + i], i < 100 ? 0x5a : bytes[i]);
    }
    backend->memory_free(&device, near);
    backend->pinned_free(&device, host);
    backend->event_destroy(&device, there);
    backend->event_destroy(&device, back);
    backend->stream_destroy(&device, side);
}

// Rows of device memory to rows without gaps and with some, of odd places and sizes, of none and of
// one byte.
static void copies_rows(void **state)
{
    (void)state;
    static const bt_byte_rows shapes[] = {{.rows = 7, .row_bytes = 96, .pitch_bytes = 160},
                                          {.rows = 1000, .row_bytes = 64, .pitch_bytes = 64},
                                          {.rows = 33, .row_bytes = 1, .pitch_bytes = 3},
                                          {.rows = 5, .row_bytes = 1537, .pitch_bytes = 4609},
                                          {.rows = 0, .row_bytes = 16, .pitch_bytes = 16},
                                          {.rows = 4, .row_bytes = 0, .pitch_bytes = 8}};
    enum { OFFSET = 3 };
    const bt_backend *backend = device.backend;
    if (!usable) {
        skip();
    }
    void *near = NULL, *packed = NULL;
    unsigned char *bytes = NULL, *got = NULL;
    ASSERT_OK(backend->memory_alloc(&device, COUNT, &near));
    ASSERT_OK(backend->memory_alloc(&device, COUNT, &packed));
    ASSERT_OK(bt_mem_alloc(COUNT, 1, (void **)&bytes));
    ASSERT_OK(bt_mem_alloc(COUNT, 1, (void **)&got));
    for (int i = 0; i < COUNT; ++i) {
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    }
    ASSERT_OK(backend->copy(&device, near, bytes, COUNT, BT_COPY_HOST_TO_DEVICE, NULL));
    for (size_t s = 0; s < 2 * sizeof shapes / sizeof *shapes; ++s) {
        bt_byte_rows rows = shapes[s / 2];
        const int64_t pitch = rows.row_bytes + (s % 2 ? 5 : 0);
        rows.data = (char *)near + OFFSET;
        ASSERT_OK(backend->fill(&device, packed, 0xa5, COUNT, NULL));
        ASSERT_OK(backend->copy_rows(&device, (char *)packed + OFFSET, pitch, &rows, NULL));
        ASSERT_OK(backend->copy(&device, got, packed, COUNT, BT_COPY_DEVICE_TO_HOST, NULL));
        ASSERT_OK(backend->stream_synchronize(&device, NULL));
        for (int64_t i = 0; i < COUNT; ++i) {
            const int64_t at = i - OFFSET;
            const bool copied = at >= 0 && at < rows.rows * pitch && at % pitch < rows.row_bytes;
            assert_int_equal(
                got[i], copied ? bytes[OFFSET + at / pitch * rows.pitch_bytes + at % pitch] : 0xa5);
        }
    }
    bt_mem_free(bytes);
    bt_mem_free(got);
    backend->memory_free(&device, near);
    backend->memory_free(&device, packed);
}

// A captured fill and kernel do nothing until the graph is launched, then the same each time.
static void captures_a_graph(void **state)
{
    (void)state;
    if (!usable) {
        skip();
    }
    const bt_backend *backend = device.backend;
    bt_graph graph = NULL;
    void *near = NULL;
    float host[256];
    const bt_kernel *row = NULL;
    ASSERT_OK(backend->memory_alloc(&device, sizeof host, &near));
    ASSERT_OK(backend->fill(&device, near, 0, sizeof host, NULL));
    bt_fill_args args = {.y = near, .count = 128, .dtype = BT_F32, .value = 2.5};
    bt_launch launch = {.device = &device};
    ASSERT_OK(bt_kernel_find(&device, BT_KERNEL_FILL, BT_F32, &args, &row));
    ASSERT_OK(backend->graph_begin(&device, NULL));
    ASSERT_OK(row->launch(&launch, &args));
    ASSERT_OK(backend->graph_end(&device, NULL, &graph));
    for (int round = 0; round < 3; ++round) {
        ASSERT_OK(backend->copy(&device, host, near, sizeof host, BT_COPY_DEVICE_TO_HOST, NULL));
        ASSERT_OK(backend->stream_synchronize(&device, NULL));
        float expected = round ? 2.5F : 0.0F;
        assert_true(host[0] <= expected && host[0] >= expected);
        assert_true(host[255] <= 0.0F && host[255] >= 0.0F);
        ASSERT_OK(backend->graph_launch(&device, graph, NULL));
    }
    ASSERT_OK(backend->stream_synchronize(&device, NULL));
    backend->graph_destroy(&device, graph);
    backend->memory_free(&device, near);
}

// Host memory that runs out while a device is opened leaves nothing behind.
static void opens_without_leaks(void **state)
{
    (void)state;
    if (!usable) {
        skip();
    }
    const int64_t live = bt_mem_live_count();
    for (int64_t n = 1; n <= 2; ++n) {
        bt_device other;
        bt_mem_fail_at(n);
        assert_int_equal(bt_device_open("cuda", 0, &other), BT_STATUS_OUT_OF_MEMORY);
        bt_mem_fail_at(0);
        assert_null(other.backend);
        assert_int_equal(bt_mem_live_count(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_without_a_gpu),
        cmocka_unit_test(tells_about_itself),
        cmocka_unit_test(allocates_and_runs_out),
        cmocka_unit_test(copies_in_order),
        cmocka_unit_test(copies_rows),
        cmocka_unit_test(captures_a_graph),
        cmocka_unit_test(opens_without_leaks),
    };
    usable = bt_device_open("cuda", 0, &device) == BT_OK;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bt_device_close(&device);
    return failed;
}
