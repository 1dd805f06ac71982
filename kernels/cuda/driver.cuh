// kernels/cuda/driver.cuh - functions of the driver, looked up by name
//
// The plugin does not link libcuda. A file lists what it uses before it includes this:
// #define DRIVER_LIST(X) X(cuMemMap) X(cuGetErrorString); driver().cuMemMap_ is then that function,
// where driver().complete. cuGetErrorString must be in the list.
// Source  CUDA driver API, "Driver Entry Point Access"
#ifndef BT_KERNELS_CUDA_DRIVER_CUH
#define BT_KERNELS_CUDA_DRIVER_CUH

#include <cuda.h>

#include "framework/base/status.h"
#include "kernels/cuda/cuda.h"

#ifndef DRIVER_LIST
#error "define DRIVER_LIST before this is included"
#endif

namespace
{

struct driver_table {
    bool complete;
#define DRIVER_FIELD(name) decltype(&::name) name##_;
    DRIVER_LIST(DRIVER_FIELD)
#undef DRIVER_FIELD
};

bool find_function(const char *name, void **out)
{
    cudaDriverEntryPointQueryResult found;
    // 12.0: the version whose prototypes cuda.h has; names mean their newest form by it.
    return cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableDefault, &found) ==
               cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
}

driver_table find_driver()
{
    driver_table table = {};
    table.complete = true;
#define DRIVER_FIND(name)                                                                          \
    table.complete = find_function(#name, (void **)&table.name##_) && table.complete;
    DRIVER_LIST(DRIVER_FIND)
#undef DRIVER_FIND
    return table;
}

const driver_table &driver()
{
    static const driver_table table = find_driver();
    return table;
}

// Errors  OUT_OF_MEMORY for out of memory, else `otherwise`; with the driver's message
bt_status driver_check(CUresult result, bt_status otherwise, const char *what)
{
    const char *words = NULL;
    if (result == CUDA_SUCCESS) {
        return BT_OK;
    }
    (void)driver().cuGetErrorString_(result, &words);
    return bt_error(result == CUDA_ERROR_OUT_OF_MEMORY ? BT_STATUS_OUT_OF_MEMORY : otherwise,
                    "%s: %s (CUDA driver error %d)", what, words ? words : "unknown", (int)result);
}

} // namespace

#endif
