// kernels/cuda/collective/window.cu - memory that other processes map, and waits of streams
//
// A window is virtual memory of the driver, exported as a POSIX file descriptor and mapped by the
// importing processes. Unicast only: nothing here creates a multicast object.
#include <string.h>

#include "kernels/cuda/collective/collective.h"
#include "kernels/cuda/collective/wait.cuh"

#define DRIVER_LIST(X)                                                                             \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemSetAccess)                                                                              \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemExportToShareableHandle)                                                                \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuModuleGetLoadingMode)                                                                      \
    X(cuStreamBatchMemOp)                                                                          \
    X(cuGetErrorString)

#include "kernels/cuda/driver.cuh"

namespace
{

bt_status check(CUresult result, const char *what)
{
    return driver_check(result, BT_STATUS_UNAVAILABLE, what);
}

bt_status p2p_ready(bt_device *device)
{
    (void)bt_cuda_stream_of(device, NULL);
    CUmoduleLoadingMode mode = CU_MODULE_LAZY_LOADING;
    if (!driver().complete) {
        return bt_error(
            BT_STATUS_UNAVAILABLE,
            "the CUDA driver lacks functions for memory shared by processes: update the "
            "driver");
    }
    BT_TRY(check(driver().cuModuleGetLoadingMode_(&mode), "reading how kernels are loaded"));
    return mode == CU_MODULE_EAGER_LOADING
               ? BT_OK
               : bt_error(BT_STATUS_UNAVAILABLE,
                          "kernels are loaded lazily, which can deadlock with a stream that waits "
                          "for another rank; start the process with CUDA_MODULE_LOADING=EAGER");
}

void unmap(CUdeviceptr base, size_t size_bytes, bool mapped)
{
    if (mapped) {
        (void)driver().cuMemUnmap_(base, size_bytes);
    }
    (void)driver().cuMemAddressFree_(base, size_bytes);
}

// Maps the handle; takes ownership of it, also on failure.
bt_status map(const bt_device *device, CUmemGenericAllocationHandle handle, size_t size_bytes,
              bt_window *out)
{
    CUdeviceptr base = 0;
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device->ordinal;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    bt_status status =
        check(driver().cuMemAddressReserve_(&base, size_bytes, (size_t)2 << 20, 0, 0),
              "reserving addresses for a window");
    bool mapped = false;
    if (status == BT_OK) {
        status = check(driver().cuMemMap_(base, size_bytes, 0, handle, 0), "mapping a window");
        mapped = status == BT_OK;
        status = mapped ? check(driver().cuMemSetAccess_(base, size_bytes, &access, 1),
                                "setting access to a window")
                        : status;
        if (status != BT_OK) {
            unmap(base, size_bytes, mapped);
        }
    }
    if (status != BT_OK) {
        (void)driver().cuMemRelease_(handle);
        return status;
    }
    out->base = (void *)base;
    out->size_bytes = size_bytes;
    out->handle = (uint64_t)handle;
    return BT_OK;
}

void window_destroy(bt_device *device, bt_window *window)
{
    (void)bt_cuda_stream_of(device, NULL);
    if (window->base != NULL) {
        unmap((CUdeviceptr)window->base, window->size_bytes, true);
        (void)driver().cuMemRelease_((CUmemGenericAllocationHandle)window->handle);
    }
    memset(window, 0, sizeof *window);
}

bt_status window_create(bt_device *device, size_t size_bytes, bt_window *out, int *fd)
{
    CUmemAllocationProp kind = {};
    CUmemGenericAllocationHandle handle = 0;
    size_t grain = 0;
    memset(out, 0, sizeof *out);
    *fd = -1;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind.location.id = device->ordinal;
    cudaStream_t stream = bt_cuda_stream_of(device, NULL);
    BT_TRY(check(driver().cuMemGetAllocationGranularity_(&grain, &kind,
                                                         CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "reading the granularity of windows"));
    size_bytes = (size_bytes + grain - 1) / grain * grain;
    BT_TRY(check(driver().cuMemCreate_(&handle, size_bytes, &kind, 0), "allocating a window"));
    BT_TRY(map(device, handle, size_bytes, out));
    bt_status status = check(driver().cuMemExportToShareableHandle_(
                                 fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                             "exporting a window");
    if (status == BT_OK) {
        status = bt_cuda_check(cudaMemsetAsync(out->base, 0, size_bytes, stream), "window");
    }
    if (status == BT_OK) {
        status = bt_cuda_check(cudaStreamSynchronize(stream), "window");
    }
    if (status != BT_OK) {
        window_destroy(device, out);
    }
    return status;
}

bt_status window_import(bt_device *device, int fd, size_t size_bytes, bt_window *out)
{
    CUmemGenericAllocationHandle handle = 0;
    memset(out, 0, sizeof *out);
    (void)bt_cuda_stream_of(device, NULL);
    BT_TRY(check(driver().cuMemImportFromShareableHandle_(&handle, (void *)(intptr_t)fd,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                 "importing a window"));
    return map(device, handle, size_bytes, out);
}

// ---- handshakes --------------------------------------------------------------------------------

enum { HANDSHAKE_OPS = 3 * BT_P2P_RANKS_MAX, RELEASE_OPS = 2 * BT_P2P_RANKS_MAX + BT_P2P_WORDS };
static_assert(RELEASE_OPS <= 256, "the driver takes 256 operations at a time");

CUstreamBatchMemOpParams write_op(const uint32_t *flag, uint32_t value)
{
    CUstreamBatchMemOpParams op = {};
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = (CUdeviceptr)flag;
    op.writeValue.value = value;
    return op;
}

CUstreamBatchMemOpParams wait_op(const uint32_t *flag)
{
    CUstreamBatchMemOpParams op = {};
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = (CUdeviceptr)flag;
    op.waitValue.value = 1;
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    return op;
}

uint32_t *ready_flag(const bt_p2p_view *view, int at, int phase, int from)
{
    bt_collective::head *head = (bt_collective::head *)view->window[at];
    return &head->ready[phase][from];
}

// Each rank sets its flag in every other window, then awaits and clears those in its own. Clearing
// is safe: a peer sets a flag again only after the other phase's flag of ours, which we set after
// clearing. So nothing counts, and a captured handshake may be replayed.
bt_status handshake(bt_device *device, bt_stream stream, const bt_p2p_view *view, int phase)
{
    CUstreamBatchMemOpParams ops[HANDSHAKE_OPS];
    unsigned count = 0;
    for (int peer = 0; peer < view->size; ++peer) {
        if (peer != view->rank) {
            ops[count++] = write_op(ready_flag(view, peer, phase, view->rank), 1);
        }
    }
    for (int peer = 0; peer < view->size; ++peer) {
        if (peer != view->rank) {
            ops[count++] = wait_op(ready_flag(view, view->rank, phase, peer));
            ops[count++] = write_op(ready_flag(view, view->rank, phase, peer), 0);
        }
    }
    CUstream on = (CUstream)bt_cuda_stream_of(device, stream);
    return check(driver().cuStreamBatchMemOp_(on, count, ops, 0),
                 "submitting the handshake of a collective");
}

bt_status mark(bt_device *device, bt_stream stream, uint32_t *word, uint32_t value)
{
    CUstreamBatchMemOpParams op = write_op(word, value);
    CUstream on = (CUstream)bt_cuda_stream_of(device, stream);
    return check(driver().cuStreamBatchMemOp_(on, 1, &op, 0), "submitting a flag to a stream");
}

bt_status await_mark(bt_device *device, bt_stream stream, uint32_t *word)
{
    CUstreamBatchMemOpParams ops[] = {wait_op(word), write_op(word, 0)};
    CUstream on = (CUstream)bt_cuda_stream_of(device, stream);
    return check(driver().cuStreamBatchMemOp_(on, 2, ops, 0), "submitting a wait for a flag");
}

void handshake_release(bt_device *device, bt_stream stream, const bt_p2p_view *view)
{
    const uint32_t *words = (const uint32_t *)(view->window[view->rank] + BT_P2P_WORDS_OFFSET);
    CUstreamBatchMemOpParams ops[RELEASE_OPS];
    unsigned count = 0;
    for (int i = 0; i < BT_P2P_WORDS; ++i) {
        ops[count++] = write_op(&words[i], 1);
    }
    for (int phase = 0; phase < 2; ++phase) {
        for (int peer = 0; peer < view->size; ++peer) {
            if (peer != view->rank) {
                ops[count++] = write_op(ready_flag(view, view->rank, phase, peer), 1);
            }
        }
    }
    CUstream on = (CUstream)bt_cuda_stream_of(device, stream);
    (void)driver().cuStreamBatchMemOp_(on, count, ops, 0);
}

} // namespace

void bt_collective_window_table(bt_device_collectives *table)
{
    table->p2p_ready = p2p_ready;
    table->window_create = window_create;
    table->window_import = window_import;
    table->window_destroy = window_destroy;
    table->handshake = handshake;
    table->mark = mark;
    table->await_mark = await_mark;
    table->handshake_release = handshake_release;
}
