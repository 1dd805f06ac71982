// framework/device/device.h - a place where memory lives and kernels run
//
// A backend is one struct of function pointers; the CPU is a backend like the others. The CUDA
// backend is a plugin (libbt_cuda.so next to libblutrain.so), opened when it is first asked for:
// without a plugin or without a GPU the answer is UNAVAILABLE with the reason, never a crash.
//
// Invariants
//   1. Work given to one stream runs in the order it was given. The NULL stream of a device is an
//      ordinary stream of that device.
//   2. Copies, fills and kernels are asynchronous to the host; only *_synchronize waits.
//      On the CPU everything is done when the call returns.
//   3. An asynchronous fault surfaces at the next synchronisation point, whose message says so.
#ifndef BT_DEVICE_DEVICE_H
#define BT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bt_device_kind { BT_DEVICE_CPU, BT_DEVICE_CUDA, BT_DEVICE_KIND_COUNT } bt_device_kind;

typedef struct bt_stream_impl *bt_stream; // NULL: the device's own stream
typedef struct bt_event_impl *bt_event;
typedef struct bt_graph_impl *bt_graph;

typedef struct bt_device_info {
    char name[128];      // as the vendor spells it
    char uuid[48];       // "" on the CPU
    char driver[64];     // driver version, "" on the CPU
    char runtime[64];    // CUDA runtime and cuBLASLt versions, "" on the CPU
    int arch;            // compute capability x10 (90), 0 on the CPU
    int processor_count; // SMs or cores
    uint64_t memory_bytes;
    uint64_t l2_bytes;
    uint64_t shared_bytes; // shared memory a block may opt in to
} bt_device_info;

struct bt_kernel;      // kernels/kernels.h
struct bt_kernel_plan; // likewise

typedef struct bt_device {
    const struct bt_backend *backend; // unowned, lives as long as the process
    int ordinal;
    bt_device_info info;
    void *impl;     // owned by the backend
    char note[160]; // what opening it had to correct, for the log; "" when nothing
} bt_device;

typedef enum bt_copy_kind {
    BT_COPY_HOST_TO_DEVICE,
    BT_COPY_DEVICE_TO_HOST,
    BT_COPY_DEVICE_TO_DEVICE
} bt_copy_kind;

// Rows of bytes in device memory, pitch_bytes apart.
typedef struct bt_byte_rows {
    const void *data;
    int64_t rows, row_bytes, pitch_bytes; // pitch_bytes >= row_bytes
} bt_byte_rows;

static inline bt_byte_rows bt_byte_block(const void *data, int64_t size_bytes)
{
    const bt_byte_rows block = {data, 1, size_bytes, size_bytes};
    return block;
}

// Whether the rows are one block of so many bytes.
static inline bool bt_byte_rows_are_block(const bt_byte_rows *rows, int64_t size_bytes)
{
    return (rows->rows == 1 || rows->pitch_bytes == rows->row_bytes) &&
           rows->rows * rows->row_bytes == size_bytes;
}

typedef struct bt_backend {
    const char *name; // "cpu", "cuda"
    bt_device_kind kind;
    int abi; // BT_BACKEND_ABI of the build; another one is refused

    // Errors  UNAVAILABLE when there is none, with the reason
    bt_status (*device_count)(int *count);
    bt_status (*device_open)(int ordinal, bt_device *device);
    void (*device_close)(bt_device *device);

    bt_status (*memory_info)(bt_device *device, uint64_t *free_bytes, uint64_t *total_bytes);
    // Aligned to 256 bytes, contents undefined. Errors  OUT_OF_MEMORY
    bt_status (*memory_alloc)(bt_device *device, size_t size_bytes, void **out);
    void (*memory_free)(bt_device *device, void *block);
    // Page-locked host memory, for copies that overlap.
    bt_status (*pinned_alloc)(bt_device *device, size_t size_bytes, void **out);
    void (*pinned_free)(bt_device *device, void *block);
    bt_status (*copy)(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream);
    // Copies rows to rows `pitch_bytes` apart, at least source->row_bytes, within device memory; no
    // overlap.
    bt_status (*copy_rows)(bt_device *device, void *target, int64_t pitch_bytes,
                           const bt_byte_rows *source, bt_stream stream);
    bt_status (*fill)(bt_device *device, void *target, uint8_t byte, size_t size_bytes,
                      bt_stream stream);

    bt_status (*stream_create)(bt_device *device, bool high_priority, bt_stream *out);
    void (*stream_destroy)(bt_device *device, bt_stream stream);
    bt_status (*stream_synchronize)(bt_device *device, bt_stream stream);
    bt_status (*event_create)(bt_device *device, bt_event *out);
    void (*event_destroy)(bt_device *device, bt_event event);
    bt_status (*event_record)(bt_device *device, bt_event event, bt_stream stream);
    bt_status (*event_wait)(bt_device *device, bt_event event, bt_stream stream);
    bt_status (*event_synchronize)(bt_device *device, bt_event event);
    // Between two recorded events of one stream; the second must have been synchronised.
    bt_status (*event_elapsed)(bt_device *device, bt_event start, bt_event stop, int64_t *time_ns);

    // Around timed regions (region.h). Lines of the L2 cache that persist become ordinary lines.
    bt_status (*cache_reset)(bt_device *device);
    // Waits for everything that this process has given the device, on any stream; for how long.
    bt_status (*join)(bt_device *device, int64_t *waited_ns);

    // Whole-step capture; NULL where the backend cannot.
    bt_status (*graph_begin)(bt_device *device, bt_stream stream);
    bt_status (*graph_end)(bt_device *device, bt_stream stream, bt_graph *out);
    bt_status (*graph_launch)(bt_device *device, bt_graph graph, bt_stream stream);
    void (*graph_destroy)(bt_device *device, bt_graph graph);
    bool (*graph_capturing)(bt_device *device, bt_stream stream);

    // Named ranges for an outside profiler (NVTX); no effect without one.
    void (*range_push)(const char *name);
    void (*range_pop)(void);

    const struct bt_kernel *kernels; // this backend's rows of kernels/kernels.inl; the CPU's: NULL
    int kernel_count;
    // Ways in which a row can compute a call, whether or not it would be chosen: the best by its
    // own model first, at most `most`; returns how many. 0: the row cannot, or is not to be
    // considered. NULL: rows have one way each.
    int (*plans)(const bt_device *device, const struct bt_kernel *kernel, const void *args,
                 struct bt_kernel_plan *plans, int most);
} bt_backend;

#define BT_BACKEND_ABI 5
// The one symbol that a plugin exports.
#define BT_BACKEND_ENTRY "bt_backend_entry"
typedef const bt_backend *(*bt_backend_entry_fn)(void);

// Opens device `ordinal` of a backend ("cpu", "cuda").
// Owns    the caller, until bt_device_close
// Errors  INVALID_ARGUMENT (no such backend), UNAVAILABLE (no plugin, no driver, no such device)
BT_CHECKED bt_status bt_device_open(const char *backend, int ordinal, bt_device *out);
void bt_device_close(bt_device *device);
// The backend of that name, without looking for devices. Errors  as bt_device_open
BT_CHECKED bt_status bt_device_backend(const char *name, const bt_backend **out);
// Whether a backend is part of this installation; opens nothing.
bool bt_device_is_built(const char *name);
// Adds a backend that the program brings itself, under its own name; it is found before an older
// one of the same name. Borrowed for the rest of the process. Call it before threads use devices.
// Errors  INVALID_ARGUMENT (another interface version, more than four)
BT_CHECKED bt_status bt_device_add(const bt_backend *backend);
// The number of devices of a backend; UNAVAILABLE with the reason when it has none.
BT_CHECKED bt_status bt_device_count(const char *backend, int *count);

// The CPU backend, always there. Defined in framework/device/cpu.c.
extern const bt_backend bt_cpu_backend;

#ifdef __cplusplus
}
#endif
#endif
