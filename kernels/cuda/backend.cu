// kernels/cuda/backend.cu - the CUDA backend: devices, memory, profiler ranges, and the entry point
//
// Opened by framework/device/device.c with dlopen. Without a driver or a GPU every call returns
// UNAVAILABLE with CUDA's own reason. The runtime is linked statically; NVML, the only source of
// the driver's version, is opened if present.
//
// The struct of functions is filled by code: CUDA C++ has no designated initialisers before C++20.
#include <cublasLt.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/environment.h"
#include "framework/base/mem.h"
#include "kernels/cuda/cuda.h"

static const bt_kernel rows[] = {
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)                              \
    {BT_KERNEL_##op, BT_DEVICE_CUDA, BT_##dtype, min_arch, #name, accepts, workspace, bt_##name},
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA
};

static bt_status device_count(int *count)
{
    int version = 0;
    *count = 0;
    bt_status status = bt_cuda_check(cudaGetDeviceCount(count), "looking for CUDA devices");
    if (status != BT_OK) {
        *count = 0;
        bool driver = cudaDriverGetVersion(&version) == cudaSuccess && version > 0;
        return bt_error_context(status, driver ? "CUDA %d.%d driver" : "no NVIDIA driver",
                                version / 1000, version % 1000 / 10);
    }
    return *count > 0 ? BT_OK : bt_error(BT_STATUS_UNAVAILABLE, "there is no CUDA device");
}

// The driver's version from NVML; without it, the CUDA version that the driver supports.
static void read_driver(char *text, size_t capacity)
{
    typedef int (*init_fn)(void);
    typedef int (*version_fn)(char *, unsigned);
    int version = 0;
    (void)cudaDriverGetVersion(&version);
    (void)snprintf(text, capacity, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return;
    }
    init_fn init = (init_fn)dlsym(library, "nvmlInit_v2");
    init_fn shutdown = (init_fn)dlsym(library, "nvmlShutdown");
    version_fn driver = (version_fn)dlsym(library, "nvmlSystemGetDriverVersion");
    char name[64] = "";
    if (init && shutdown && driver && init() == 0) {
        if (driver(name, sizeof name) == 0) {
            (void)snprintf(text, capacity, "%s", name);
        }
        (void)shutdown();
    }
    (void)dlclose(library);
}

static void read_info(const cudaDeviceProp *properties, bt_device_info *info)
{
    const unsigned char *id = (const unsigned char *)properties->uuid.bytes;
    (void)snprintf(info->name, sizeof info->name, "%.120s", properties->name);
    (void)snprintf(info->uuid, sizeof info->uuid,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10],
                   id[11], id[12], id[13], id[14], id[15]);
    read_driver(info->driver, sizeof info->driver);
    size_t blas = cublasLtGetVersion();
    (void)snprintf(info->runtime, sizeof info->runtime, "CUDA %d.%d, cuBLASLt %zu.%zu.%zu",
                   CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, blas / 10000,
                   blas % 10000 / 100, blas % 100);
    info->arch = properties->major * 10 + properties->minor;
    info->processor_count = properties->multiProcessorCount;
    info->memory_bytes = properties->totalGlobalMem;
    info->l2_bytes = (uint64_t)properties->l2CacheSize;
    info->shared_bytes = properties->sharedMemPerBlockOptin;
}

// Whether this build contains machine code, or PTX, that the device can run.
static __global__ void probe_kernel(void) {}

static bt_status read_gemm_choice(bt_cuda_gemm_choice *choice)
{
    static const char *const names[] = {"auto", "own", "cublaslt", "cublaslt-best", "sm80"};
    const char *text = bt_environment(BT_VARIABLE_GEMM);
    *choice = BT_CUDA_GEMM_AUTO;
    for (int i = 0; text && i < 5; ++i) {
        if (strcmp(text, names[i]) == 0) {
            *choice = (bt_cuda_gemm_choice)i;
            return BT_OK;
        }
    }
    return !text ? BT_OK
                 : bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "BT_GEMM is \"%s\"; allowed: auto, own, cublaslt, "
                            "cublaslt-best, sm80",
                            text);
}

static bt_status open_impl(bt_cuda_device *impl)
{
    cudaFuncAttributes attributes;
    BT_TRY(read_gemm_choice(&impl->gemm_choice));
    BT_TRY(bt_cuda_check(cudaFuncGetAttributes(&attributes, (const void *)probe_kernel),
                         "loading this build's kernels"));
    BT_TRY(bt_cuda_check(cudaStreamCreateWithFlags(&impl->stream, cudaStreamNonBlocking),
                         "creating the device's stream"));
    return bt_cuda_gemm_create(&impl->gemm);
}

static void close_impl(bt_cuda_device *impl)
{
    bt_cuda_gemm_destroy(impl->gemm);
    if (impl->stream) {
        (void)cudaStreamDestroy(impl->stream);
    }
    bt_mem_free(impl);
}

static bt_status device_open(int ordinal, bt_device *device)
{
    cudaDeviceProp properties;
    void *block = NULL;
    BT_TRY(bt_cuda_check(cudaSetDevice(ordinal), "opening the CUDA device"));
    BT_TRY(bt_cuda_check(cudaGetDeviceProperties(&properties, ordinal), "reading the CUDA device"));
    read_info(&properties, &device->info);
    BT_TRY(bt_mem_alloc(1, sizeof(bt_cuda_device), &block));
    bt_status status = open_impl((bt_cuda_device *)block);
    if (status != BT_OK) {
        close_impl((bt_cuda_device *)block);
        return bt_error_context(status, "%s", device->info.name);
    }
    device->impl = block;
    return BT_OK;
}

static void device_close(bt_device *device)
{
    (void)bt_cuda_stream_of(device, NULL);
    (void)cudaDeviceSynchronize();
    close_impl((bt_cuda_device *)device->impl);
    device->impl = NULL;
}

static bt_status memory_info(bt_device *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    size_t free_size = 0;
    size_t total_size = 0;
    (void)bt_cuda_stream_of(device, NULL);
    BT_TRY(bt_cuda_check(cudaMemGetInfo(&free_size, &total_size), "reading the free memory"));
    *free_bytes = free_size;
    *total_bytes = total_size;
    return BT_OK;
}

static bt_status memory_alloc(bt_device *device, size_t size_bytes, void **out)
{
    *out = NULL;
    (void)bt_cuda_stream_of(device, NULL);
    bt_status status = bt_cuda_check(cudaMalloc(out, size_bytes ? size_bytes : 1), "cudaMalloc");
    return bt_error_context(status, "%zu bytes on %s", size_bytes, device->info.name);
}

static void memory_free(bt_device *device, void *block)
{
    (void)bt_cuda_stream_of(device, NULL);
    (void)cudaFree(block);
}

static bt_status pinned_alloc(bt_device *device, size_t size_bytes, void **out)
{
    *out = NULL;
    (void)bt_cuda_stream_of(device, NULL);
    bt_status status = bt_cuda_check(cudaMallocHost(out, size_bytes ? size_bytes : 1),
                                     "allocating page-locked memory");
    return bt_error_context(status, "%zu bytes", size_bytes);
}

static void pinned_free(bt_device *device, void *block)
{
    (void)bt_cuda_stream_of(device, NULL);
    (void)cudaFreeHost(block);
}

static bt_status copy(bt_device *device, void *target, const void *source, size_t size_bytes,
                      bt_copy_kind kind, bt_stream stream)
{
    static const cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                           cudaMemcpyDeviceToDevice};
    if (size_bytes == 0) {
        return BT_OK;
    }
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return bt_cuda_check(cudaMemcpyAsync(target, source, size_bytes, kinds[kind], on), "copy");
}

static bt_status copy_rows(bt_device *device, void *target, int64_t pitch_bytes,
                           const bt_byte_rows *source, bt_stream stream)
{
    if (source->rows == 0 || source->row_bytes == 0) {
        return BT_OK;
    }
    const size_t width = (size_t)source->row_bytes;
    const int64_t size_bytes = source->rows * source->row_bytes;
    // A block may be larger than a pitch.
    if (bt_byte_rows_are_block(source, size_bytes) &&
        (source->rows == 1 || pitch_bytes == source->row_bytes)) {
        return copy(device, target, source->data, (size_t)size_bytes, BT_COPY_DEVICE_TO_DEVICE,
                    stream);
    }
    return bt_cuda_check(cudaMemcpy2DAsync(target, (size_t)pitch_bytes, source->data,
                                           (size_t)source->pitch_bytes, width, (size_t)source->rows,
                                           cudaMemcpyDeviceToDevice,
                                           bt_cuda_stream_of(device, stream)),
                         "copy of rows");
}

static bt_status fill(bt_device *device, void *target, uint8_t byte, size_t size_bytes,
                      bt_stream stream)
{
    if (size_bytes == 0) {
        return BT_OK;
    }
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return bt_cuda_check(cudaMemsetAsync(target, byte, size_bytes, on), "fill");
}

static void range_push(const char *name) { (void)nvtxRangePushA(name); }

static void range_pop(void) { (void)nvtxRangePop(); }

static bt_backend make_backend(void)
{
    bt_backend backend;
    memset(&backend, 0, sizeof backend);
    backend.name = "cuda";
    backend.kind = BT_DEVICE_CUDA;
    backend.abi = BT_BACKEND_ABI;
    backend.device_count = device_count;
    backend.device_open = device_open;
    backend.device_close = device_close;
    backend.memory_info = memory_info;
    backend.memory_alloc = memory_alloc;
    backend.memory_free = memory_free;
    backend.pinned_alloc = pinned_alloc;
    backend.pinned_free = pinned_free;
    backend.copy = copy;
    backend.copy_rows = copy_rows;
    backend.fill = fill;
    bt_cuda_stream_table(&backend);
    backend.range_push = range_push;
    backend.range_pop = range_pop;
    backend.kernels = rows;
    backend.kernel_count = (int)(sizeof rows / sizeof rows[0]);
    backend.plans = bt_cuda_gemm_plans;
    return backend;
}

extern "C" __attribute__((visibility("default"))) const bt_backend *bt_backend_entry(void)
{
    static const bt_backend backend = make_backend();
    return &backend;
}
