// tests/support/fake_graph.c - a list of calls, each with a copy of what it was given
#include "tests/support/fake_graph.h"

#include <string.h>

#include "framework/base/mem.h"
#include "kernels/operands.h"
#include "tests/support/test.h"

typedef struct call {
    fake_graph_row run; // NULL: a copy, or a fill when source is NULL
    int row;
    bt_launch launch;
    void *args, *items; // owned
    void *target;
    const void *source;
    uint8_t byte;
    size_t size_bytes;
} call;

struct bt_graph_impl {
    call *calls; // owned
    int64_t count, capacity;
};

static struct {
    bt_backend own;     // as it was before
    const char *broken; // what the open capture was broken by
    bool break_next;
    int64_t captures, launches, live;
} fake;

// A thread's own, as with CUDA's thread-local mode of capture: what other threads do meanwhile,
// such as the one that writes checkpoints, is neither captured nor forbidden.
static _Thread_local bt_graph open_graph;

// ---- the list ----------------------------------------------------------------------------------

static call *add(void)
{
    bt_graph graph = open_graph;
    if (graph->count == graph->capacity) {
        void *calls = graph->calls;
        graph->capacity = graph->capacity ? 2 * graph->capacity : 256;
        ASSERT_OK(bt_mem_resize(&calls, (size_t)graph->capacity, sizeof(call)));
        graph->calls = calls;
    }
    call *added = &graph->calls[graph->count++];
    *added = (call){0};
    return added;
}

static void *duplicate(const void *source, size_t size_bytes)
{
    void *copy = NULL;
    ASSERT_OK(bt_mem_alloc(1, size_bytes, &copy));
    memcpy(copy, source, size_bytes);
    return copy;
}

// Bytes of an item of an op that takes a list in host memory; pointer and count begin its struct.
static size_t item_bytes(bt_kernel_op op)
{
    static const struct {
        bt_kernel_op op;
        size_t size_bytes;
    } lists[] = {{BT_KERNEL_GEMM_GROUPED, sizeof(bt_gemm_args)},
                 {BT_KERNEL_GRAD_NORM, sizeof(bt_grad_norm_item)},
                 {BT_KERNEL_SUM_SQUARES, sizeof(bt_sum_squares_item)},
                 {BT_KERNEL_SUM_PARTS, sizeof(bt_sum_parts_item)},
                 {BT_KERNEL_ADAMW, sizeof(bt_adamw_item)}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; ++i) {
        if (lists[i].op == op) {
            return lists[i].size_bytes;
        }
    }
    assert_false(bt_kernel_operands_has_items(op));
    return 0;
}

bool fake_graph_capturing(void) { return open_graph != NULL; }

bt_status fake_graph_kernel(fake_graph_row run, int row, bt_kernel_op op, const bt_launch *launch,
                            const void *args)
{
    call *added = add();
    const size_t each = item_bytes(op);
    added->run = run;
    added->row = row;
    added->launch = *launch;
    added->args = duplicate(args, bt_kernel_operands_struct_bytes(op));
    if (each) {
        const void *items = NULL;
        memcpy(&items, args, sizeof items);
        added->items = duplicate(items, each * (size_t)bt_kernel_operands_item_count(op, args));
        memcpy(added->args, &added->items, sizeof added->items);
    }
    return BT_OK;
}

static bt_status run_call(bt_device *device, const call *it)
{
    if (it->run) {
        return it->run(it->row, &it->launch, it->args);
    }
    return it->source ? fake.own.copy(device, it->target, it->source, it->size_bytes,
                                      BT_COPY_DEVICE_TO_DEVICE, NULL)
                      : fake.own.fill(device, it->target, it->byte, it->size_bytes, NULL);
}

// ---- what a capture does to other functions ----------------------------------------------------

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    if (!open_graph) {
        return fake.own.copy(device, target, source, size_bytes, kind, stream);
    }
    call *added = add();
    added->target = target;
    added->source = source;
    added->size_bytes = size_bytes;
    return BT_OK;
}

static bt_status fill(bt_device *device, void *target, uint8_t byte, size_t size_bytes,
                      bt_stream stream)
{
    if (!open_graph) {
        return fake.own.fill(device, target, byte, size_bytes, stream);
    }
    call *added = add();
    added->target = target;
    added->byte = byte;
    added->size_bytes = size_bytes;
    return BT_OK;
}

static bt_status forbidden(const char *what)
{
    if (open_graph) {
        fake.broken = what;
        return bt_error(BT_STATUS_INTERNAL, "%s in a capture", what);
    }
    return BT_OK;
}

static bt_status memory_alloc(bt_device *device, size_t size_bytes, void **out)
{
    *out = NULL;
    BT_TRY(forbidden("device memory is allocated"));
    return fake.own.memory_alloc(device, size_bytes, out);
}

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    BT_TRY(forbidden("a stream is waited for"));
    return fake.own.stream_synchronize(device, stream);
}

static bt_status event_record(bt_device *device, bt_event event, bt_stream stream)
{
    BT_TRY(forbidden("an event is recorded"));
    return fake.own.event_record(device, event, stream);
}

static bt_status event_wait(bt_device *device, bt_event event, bt_stream stream)
{
    BT_TRY(forbidden("a stream waits for an event"));
    return fake.own.event_wait(device, event, stream);
}

static bt_status event_synchronize(bt_device *device, bt_event event)
{
    BT_TRY(forbidden("an event is waited for"));
    return fake.own.event_synchronize(device, event);
}

// ---- graphs ------------------------------------------------------------------------------------

static void graph_destroy(bt_device *device, bt_graph graph)
{
    (void)device;
    if (!graph) {
        return;
    }
    for (int64_t i = 0; i < graph->count; ++i) {
        bt_mem_free(graph->calls[i].args);
        bt_mem_free(graph->calls[i].items);
    }
    bt_mem_free(graph->calls);
    bt_mem_free(graph);
    --fake.live;
}

static bt_status graph_begin(bt_device *device, bt_stream stream)
{
    void *fresh = NULL;
    (void)device;
    (void)stream;
    assert_null(open_graph);
    BT_TRY(bt_mem_alloc(1, sizeof *open_graph, &fresh));
    open_graph = fresh;
    fake.broken = fake.break_next ? "a test breaks it" : NULL;
    fake.break_next = false;
    ++fake.live;
    return BT_OK;
}

static bt_status graph_end(bt_device *device, bt_stream stream, bt_graph *out)
{
    (void)stream;
    assert_non_null(open_graph);
    *out = open_graph;
    open_graph = NULL;
    if (fake.broken) {
        graph_destroy(device, *out);
        *out = NULL;
        return bt_error(BT_STATUS_INTERNAL, "the capture was broken: %s", fake.broken);
    }
    ++fake.captures;
    return BT_OK;
}

static bt_status graph_launch(bt_device *device, bt_graph graph, bt_stream stream)
{
    (void)stream;
    assert_null(open_graph);
    ++fake.launches;
    for (int64_t i = 0; i < graph->count; ++i) {
        BT_TRY(run_call(device, &graph->calls[i]));
    }
    return BT_OK;
}

static bool graph_capturing(bt_device *device, bt_stream stream)
{
    (void)device;
    (void)stream;
    return fake_graph_capturing();
}

void fake_graph_install(bt_backend *backend)
{
    fake.own = *backend;
    backend->copy = copy;
    backend->fill = fill;
    backend->memory_alloc = memory_alloc;
    backend->stream_synchronize = stream_synchronize;
    backend->event_record = event_record;
    backend->event_wait = event_wait;
    backend->event_synchronize = event_synchronize;
    backend->graph_begin = graph_begin;
    backend->graph_end = graph_end;
    backend->graph_launch = graph_launch;
    backend->graph_destroy = graph_destroy;
    backend->graph_capturing = graph_capturing;
}

void fake_graph_break_next(void) { fake.break_next = true; }
int64_t fake_graph_captures(void) { return fake.captures; }
int64_t fake_graph_launches(void) { return fake.launches; }
int64_t fake_graph_live(void) { return fake.live; }
