// framework/device/cpu.c - the CPU backend: all work is complete when a call returns
//
// Streams have no effect; events are points in time.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/device/device.h"

enum { ALIGNMENT = 256, HUGE_PAGE = 2 << 20 };

struct bt_event_impl {
    int64_t time_ns;
};

static bt_status device_count(int *count)
{
    *count = 1;
    return BT_OK;
}

static void read_model_name(char *name, size_t capacity)
{
    char line[256];
    (void)snprintf(name, capacity, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            (void)snprintf(name, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file) {
        (void)fclose(file);
    }
}

static bt_status device_open(int ordinal, bt_device *device)
{
    (void)ordinal;
    bt_device_info *info = &device->info;
    if (omp_get_dynamic()) {
        omp_set_dynamic(0);
        (void)snprintf(device->note, sizeof device->note,
                       "OMP_DYNAMIC is on: it was switched off, because a varying number of "
                       "threads makes times incomparable");
    }
    read_model_name(info->name, sizeof info->name);
    info->processor_count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return BT_OK;
}

static void device_close(bt_device *device) { (void)device; }

static bt_status memory_info(bt_device *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    *total_bytes = device->info.memory_bytes;
    *free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return BT_OK;
}

// Requests huge pages for large blocks: they reduce the cost of page faults on first touch. A
// system without them refuses, which is no error.
static bt_status memory_alloc(bt_device *device, size_t size_bytes, void **out)
{
    (void)device;
    const size_t alignment = size_bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
    *out = rounded < size_bytes ? NULL : aligned_alloc(alignment, rounded ? rounded : alignment);
#ifdef MADV_HUGEPAGE
    if (*out && alignment == HUGE_PAGE) {
        (void)madvise(*out, rounded, MADV_HUGEPAGE);
    }
#endif
    return *out ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory: %zu bytes", size_bytes);
}

static void memory_free(bt_device *device, void *block)
{
    (void)device;
    free(block);
}

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    (void)device, (void)kind, (void)stream;
    if (size_bytes) {
        memmove(target, source, size_bytes);
    }
    return BT_OK;
}

static bt_status copy_rows(bt_device *device, void *target, int64_t pitch_bytes,
                           const bt_byte_rows *source, bt_stream stream)
{
    (void)device, (void)stream;
    for (int64_t row = 0; row < source->rows && source->row_bytes > 0; ++row) {
        memcpy((char *)target + row * pitch_bytes,
               (const char *)source->data + row * source->pitch_bytes, (size_t)source->row_bytes);
    }
    return BT_OK;
}

static bt_status fill(bt_device *device, void *target, uint8_t byte, size_t size_bytes,
                      bt_stream stream)
{
    (void)device, (void)stream;
    if (size_bytes) {
        memset(target, byte, size_bytes);
    }
    return BT_OK;
}

static bt_status stream_create(bt_device *device, bool high_priority, bt_stream *out)
{
    (void)device, (void)high_priority;
    *out = NULL;
    return BT_OK;
}

static void stream_destroy(bt_device *device, bt_stream stream) { (void)device, (void)stream; }

static bt_status stream_synchronize(bt_device *device, bt_stream stream)
{
    (void)device, (void)stream;
    return BT_OK;
}

static bt_status event_create(bt_device *device, bt_event *out)
{
    (void)device;
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(struct bt_event_impl), &block));
    *out = block;
    return BT_OK;
}

static void event_destroy(bt_device *device, bt_event event)
{
    (void)device;
    bt_mem_free(event);
}

static bt_status event_record(bt_device *device, bt_event event, bt_stream stream)
{
    (void)device, (void)stream;
    event->time_ns = bt_clock_ns();
    return BT_OK;
}

static bt_status event_wait(bt_device *device, bt_event event, bt_stream stream)
{
    (void)device, (void)event, (void)stream;
    return BT_OK;
}

static bt_status event_synchronize(bt_device *device, bt_event event)
{
    (void)device, (void)event;
    return BT_OK;
}

static bt_status event_elapsed(bt_device *device, bt_event start, bt_event stop, int64_t *time_ns)
{
    (void)device;
    *time_ns = stop->time_ns - start->time_ns;
    return BT_OK;
}

static bt_status cache_reset(bt_device *device)
{
    (void)device; // no control over its caches
    return BT_OK;
}

static bt_status join(bt_device *device, int64_t *waited_ns)
{
    (void)device;
    *waited_ns = 0;
    return BT_OK;
}

static void range_push(const char *name) { (void)name; }

static void range_pop(void) {}

const bt_backend bt_cpu_backend = {
    .name = "cpu",
    .kind = BT_DEVICE_CPU,
    .abi = BT_BACKEND_ABI,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .memory_info = memory_info,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .pinned_alloc = memory_alloc,
    .pinned_free = memory_free,
    .copy = copy,
    .copy_rows = copy_rows,
    .fill = fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .cache_reset = cache_reset,
    .join = join,
    .range_push = range_push,
    .range_pop = range_pop,
};
