// tests/conformance/test_early_launch.c - generated kernels that are launched before the previous
// one has ended
//
//   conformance_early_launch_test            runs
//   conformance_early_launch_test sm_90      compiles the group into the code cache, without a GPU
// Two buffers change roles from call to call, and all calls add to the same sums through the same
// workspace: a kernel that runs beside its predecessor reads old values, or overwrites what is
// still read. Under capture the graph must have the same early launches. Without a compiler the
// code must be in the cache.
#include <dlfcn.h>
#include <stdio.h>

#include "framework/base/mem.h"
#include "framework/compiler/run.h"
#include "tests/support/test.h"
#include "tests/unit/compiled_group.h"

enum { COLS = 1024, CALLS = 200, KERNELS = 2 }; // of a call: the sums of chunks, their sum

typedef struct call_memory {
    void *ends[2], *weight, *total, *workspace; // device memory
    int64_t rows;
} call_memory;

static bt_device device;
static bt_stream stream;
static bt_code_cache cache;
static bt_compiled *compiled;

static bt_fused column_group(void)
{
    bt_fused group = group_column(BT_F32, 64, COLS, BT_F32);
    group.dynamic_rows = true;
    return group;
}

// ---- memory -------------------------------------------------------------------------------------

static void *make(size_t count, float first, float step)
{
    void *host = NULL, *near = NULL;
    ASSERT_OK(bt_mem_alloc(count, sizeof(float), &host));
    for (size_t i = 0; i < count; ++i) {
        ((float *)host)[i] = first + step * (float)(i * 7919 % 1009);
    }
    ASSERT_OK(device.backend->memory_alloc(&device, count * sizeof(float), &near));
    ASSERT_OK(device.backend->copy(&device, near, host, count * sizeof(float),
                                   BT_COPY_HOST_TO_DEVICE, stream));
    ASSERT_OK(device.backend->stream_synchronize(&device, stream));
    bt_mem_free(host);
    return near;
}

static call_memory make_memory(int64_t rows)
{
    const size_t count = (size_t)rows * COLS;
    return (call_memory){.ends = {make(count, -1, 0.002F), make(count, 0, 0)},
                         .weight = make(COLS, 0.999F, 1e-6F),
                         .total = make(COLS, 0, 0),
                         .workspace =
                             make((size_t)bt_compiled_workspace_bytes(compiled, rows) / 4, 0, 0),
                         .rows = rows};
}

static void release_memory(call_memory *m)
{
    void *all[] = {m->ends[0], m->ends[1], m->weight, m->total, m->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        device.backend->memory_free(&device, all[i]);
    }
}

static void *fetch(const void *near, size_t count)
{
    void *host = NULL;
    ASSERT_OK(bt_mem_alloc(count, sizeof(float), &host));
    ASSERT_OK(device.backend->copy(&device, host, near, count * sizeof(float),
                                   BT_COPY_DEVICE_TO_HOST, stream));
    ASSERT_OK(device.backend->stream_synchronize(&device, stream));
    return host;
}

static void expect_same(const void *a, const void *b, size_t count, const char *what)
{
    void *left = fetch(a, count), *right = fetch(b, count);
    if (memcmp(left, right, count * sizeof(float)) != 0) {
        fail_msg("%s: launched one after the other and one by one differ", what);
    }
    bt_mem_free(left);
    bt_mem_free(right);
}

// ---- runs ---------------------------------------------------------------------------------------

static void run(const call_memory *m, int calls, bool one_by_one)
{
    for (int i = 0; i < calls; ++i) {
        void *const operands[] = {m->ends[i & 1], m->weight, m->ends[1 - (i & 1)], m->total};
        ASSERT_OK(bt_compiled_run(compiled, stream, m->rows, operands, m->workspace));
        if (one_by_one) {
            ASSERT_OK(device.backend->stream_synchronize(&device, stream));
        }
    }
    ASSERT_OK(device.backend->stream_synchronize(&device, stream));
}

static void same_bits_as_one_by_one(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 130, 2048, 16384};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        const size_t count = (size_t)sizes[i] * COLS;
        call_memory fast = make_memory(sizes[i]), slow = make_memory(sizes[i]);
        run(&fast, CALLS, false);
        run(&slow, CALLS, true);
        expect_same(fast.ends[0], slow.ends[0], count, "the last result");
        expect_same(fast.ends[1], slow.ends[1], count, "the result before");
        expect_same(fast.total, slow.total, COLS, "the sums");
        release_memory(&fast);
        release_memory(&slow);
    }
}

// The driver's, from libcuda.so.1: the tests are built without its header.
typedef struct driver_edge {
    unsigned char from_port, to_port, type, reserved[5]; // CUgraphEdgeData
} driver_edge;
enum { EDGE_PROGRAMMATIC = 1, CAPTURE_THREAD_LOCAL = 1 };
typedef int (*begin_fn)(void *stream, int mode);
typedef int (*end_fn)(void *stream, void **graph);
typedef int (*edges_fn)(void *graph, void **from, void **to, driver_edge *edges, size_t *count);
typedef int (*destroy_fn)(void *graph);

static void find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        print_message("skipped: the driver has no %s\n", name);
        skip();
    }
    memcpy(out, &symbol, sizeof symbol); // as in device.c: POSIX says the copy works
}

static void capture_keeps_early_launches(void **state)
{
    (void)state;
    enum { CAPTURED = 3, EDGES = CAPTURED * KERNELS - 1 };
    begin_fn begin = NULL;
    end_fn end = NULL;
    edges_fn edges_of = NULL;
    destroy_fn destroy = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *graph = NULL;
    assert_non_null(driver);
    find(driver, "cuStreamBeginCapture_v2", (void *)&begin);
    find(driver, "cuStreamEndCapture", (void *)&end);
    find(driver, "cuGraphGetEdges_v2", (void *)&edges_of);
    find(driver, "cuGraphDestroy", (void *)&destroy);
    call_memory m = make_memory(256);
    assert_int_equal(begin(stream, CAPTURE_THREAD_LOCAL), 0);
    for (int i = 0; i < CAPTURED; ++i) {
        void *const operands[] = {m.ends[i & 1], m.weight, m.ends[1 - (i & 1)], m.total};
        ASSERT_OK(bt_compiled_run(compiled, stream, m.rows, operands, m.workspace));
    }
    assert_int_equal(end(stream, &graph), 0);
    void *from[EDGES + 1], *to[EDGES + 1];
    driver_edge edges[EDGES + 1];
    size_t count = EDGES + 1;
    assert_int_equal(edges_of(graph, from, to, edges, &count), 0);
    assert_int_equal(count, EDGES);
    for (size_t i = 0; i < count; ++i) {
        assert_int_equal(edges[i].type, device.info.arch >= 90 ? EDGE_PROGRAMMATIC : 0);
    }
    assert_int_equal(destroy(graph), 0);
    release_memory(&m);
    (void)dlclose(driver);
}

// ---- code ---------------------------------------------------------------------------------------

static const char *target_name;

static void compile_ahead(void **state)
{
    bt_target target;
    (void)state;
    const bt_fused group = column_group();
    ASSERT_OK(bt_target_parse(target_name, &target));
    ASSERT_OK(bt_code_cache_from_environment(&cache));
    ASSERT_OK(bt_compile_ahead(&target, &group, &cache));
    bt_code_cache_close(&cache);
}

static int run_on_device(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_one_by_one),
        cmocka_unit_test(capture_keeps_early_launches),
    };
    const bt_fused group = column_group();
    bt_status status = bt_device_open("cuda", 0, &device);
    status = status ? status : bt_code_cache_from_environment(&cache);
    status = status ? status : bt_compile_for(&device, &group, &cache, &compiled);
    status = status ? status : device.backend->stream_create(&device, false, &stream);
    if (status == BT_STATUS_UNAVAILABLE) {
        return test_skip(bt_error_message());
    }
    if (status) {
        print_message("%s\n", bt_error_message());
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device.backend->stream_destroy(&device, stream);
    bt_compiled_release(compiled);
    bt_code_cache_close(&cache);
    bt_device_close(&device);
    return failed;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest ahead[] = {cmocka_unit_test(compile_ahead)};
    target_name = count > 1 ? arguments[1] : NULL;
    return target_name ? cmocka_run_group_tests(ahead, NULL, NULL) : run_on_device();
}
