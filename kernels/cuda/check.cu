// kernels/cuda/check.cu - what every call of CUDA needs: the result as a status, the stream
#include "kernels/cuda/cuda.h"

static bt_status status_of(cudaError_t result)
{
    switch (result) {
    case cudaErrorMemoryAllocation:
        return BT_STATUS_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return BT_STATUS_UNAVAILABLE;
    default:
        return BT_STATUS_INTERNAL;
    }
}

bt_status bt_cuda_check(cudaError_t result, const char *what)
{
    if (result == cudaSuccess) {
        return BT_OK;
    }
    (void)cudaGetLastError(); // clears a non-sticky error, which the next launch would report
    return bt_error(status_of(result), "%s: %s (CUDA error %d, %s)", what,
                    cudaGetErrorString(result), (int)result, cudaGetErrorName(result));
}

bt_status bt_cuda_launched(const char *kernel)
{
    cudaError_t result = cudaGetLastError();
    if (result == cudaSuccess) {
        return BT_OK;
    }
    return bt_error_context(bt_cuda_check(result, kernel), "launch");
}

cudaStream_t bt_cuda_stream_of(const bt_device *device, bt_stream stream)
{
    // A failure shows as the failure of the call that follows.
    (void)cudaSetDevice(device->ordinal);
    return stream ? (cudaStream_t)stream : ((bt_cuda_device *)device->impl)->stream;
}
