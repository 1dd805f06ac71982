// kernels/cuda/generated.cu - code that was generated at run time: assembled, loaded, launched
//
// Source  CUDA driver API, "Module Management" and "Execution Control"
#include <cstring>

#include "framework/base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/generated.h"

#define DRIVER_LIST(X)                                                                             \
    X(cuGetErrorString)                                                                            \
    X(cuLinkCreate)                                                                                \
    X(cuLinkAddData)                                                                               \
    X(cuLinkComplete)                                                                              \
    X(cuLinkDestroy)                                                                               \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuModuleUnload)                                                                              \
    X(cuLaunchKernelEx)

#include "kernels/cuda/driver.cuh"

namespace
{

bt_status check(CUresult result, const char *what)
{
    return driver_check(result, BT_STATUS_INTERNAL, what);
}

bt_status open_on(const bt_device *device)
{
    (void)bt_cuda_stream_of(device, NULL); // makes the device current
    return driver().complete ? BT_OK
                             : bt_error(BT_STATUS_UNAVAILABLE,
                                        "the CUDA driver lacks a function that loads code");
}

int driver_version()
{
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

bt_status copy_code(const void *bytes, size_t size_bytes, void **code)
{
    BT_TRY(bt_mem_alloc(1, size_bytes, code));
    memcpy(*code, bytes, size_bytes);
    return BT_OK;
}

bt_status assemble(const bt_device *device, const char *ptx, void **code, size_t *size_bytes)
{
    char log[2048] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CUlinkState state = NULL;
    void *bytes = NULL;
    *code = NULL;
    *size_bytes = 0;
    BT_TRY(open_on(device));
    BT_TRY(check(driver().cuLinkCreate_(2, options, values, &state), "assembling"));
    bt_status status =
        check(driver().cuLinkAddData_(state, CU_JIT_INPUT_PTX, const_cast<char *>(ptx),
                                      strlen(ptx) + 1, "kernel", 0, NULL, NULL),
              "assembling");
    if (status == BT_OK) {
        status = check(driver().cuLinkComplete_(state, &bytes, size_bytes), "linking");
    }
    status = status == BT_OK ? copy_code(bytes, *size_bytes, code)
                             : bt_error_context(status, "%.400s", log);
    (void)driver().cuLinkDestroy_(state); // the bytes are its own
    return status;
}

void unload(bt_generated *generated)
{
    if (generated->module) {
        (void)driver().cuModuleUnload_((CUmodule)generated->module);
    }
    *generated = {};
}

bt_status load(const bt_device *device, const void *code, const char *name, bt_generated *out)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    *out = {};
    BT_TRY(open_on(device));
    BT_TRY(check(driver().cuModuleLoadData_(&module, code), "loading generated code"));
    out->module = module;
    bt_status status = check(driver().cuModuleGetFunction_(&function, module, name), name);
    out->function = function;
    if (status != BT_OK) {
        unload(out);
    }
    return status;
}

bt_status launch(const bt_device *device, const bt_generated *generated, int64_t blocks,
                 int threads, bool is_early, void **parameters, bt_stream stream)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    if (blocks <= 0) {
        return BT_OK;
    }
    if (blocks > INT32_MAX) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a launch of %lld blocks", (long long)blocks);
    }
    CUlaunchAttribute early = {}; // overlap.h: the code must wait, which is_early says
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {};
    config.gridDimX = (unsigned)blocks;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = (unsigned)threads;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = on;
    config.attrs = &early;
    config.numAttrs = is_early;
    return check(
        driver().cuLaunchKernelEx_(&config, (CUfunction)generated->function, parameters, NULL),
        "launching generated code");
}

} // namespace

extern "C" __attribute__((visibility("default"))) const bt_generated_table *bt_generated_entry(void)
{
    static const bt_generated_table table = {BT_GENERATED_ABI, driver_version, assemble, load,
                                             unload,           launch};
    return &table;
}
