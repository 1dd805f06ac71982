// kernels/cuda/overlap.h - whether a kernel may be launched before its predecessor has finished
//
// Programmatic dependent launch starts a kernel early; the kernel itself must then wait for its
// predecessor before it touches memory (griddepcontrol.wait, cudaGridDependencySynchronize). Those
// waits exist only in code compiled for compute capability 9.0 and later: the sources guard them
// with __CUDA_ARCH__ >= 900. A device of capability 9.0 or later may still run code without them,
// because the driver compiles the plugin's PTX of capability 8.x for it (BT_CUDA_ARCHS ends in 8.9;
// Blackwell runs that). Such a launch would race. So the target of the loaded code decides, not the
// device, and every launch with the attribute must check here.
#ifndef BT_KERNELS_CUDA_OVERLAP_H
#define BT_KERNELS_CUDA_OVERLAP_H

#include <stdbool.h>

// arch: of the device. ptx_version: what the source was compiled for, which decides __CUDA_ARCH__.
// binary_version: of the machine code that runs. All are the compute capability times ten, as in
// cudaFuncAttributes.
static inline bool bt_overlap_is_safe(int arch, int ptx_version, int binary_version)
{
    return arch >= 90 && ptx_version >= 90 && binary_version >= 90;
}

#ifdef __CUDACC__
#include "kernels/cuda/cuda.h"

// The same for a loaded kernel, which is asked once per thread. False where the runtime does not
// know the kernel: then the launch itself reports the error.
bool bt_cuda_may_overlap(const bt_device *device, const void *kernel);

// Appends the attribute to config->attrs, which has room for one more, where that is safe.
static inline void bt_cuda_overlap(const bt_device *device, const void *kernel,
                                   cudaLaunchConfig_t *config)
{
    if (bt_cuda_may_overlap(device, kernel)) {
        cudaLaunchAttribute *attribute = &config->attrs[config->numAttrs++];
        attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute->val.programmaticStreamSerializationAllowed = 1;
    }
}
#endif

#endif
