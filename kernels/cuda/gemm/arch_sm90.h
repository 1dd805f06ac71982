// kernels/cuda/gemm/arch_sm90.h - whether the Hopper kernels can run on a device
//
// Their bodies are compiled only for 9.0a and are empty for every other target. A build whose
// BT_CUDA_ARCHS lacks 90a also runs on Hopper, from PTX of an older target, and must not choose
// them: the decision needs the build as well as the device.
#ifndef BT_KERNELS_CUDA_GEMM_ARCH_SM90_H
#define BT_KERNELS_CUDA_GEMM_ARCH_SM90_H

#include <stdbool.h>

#ifndef BT_CUDA_SM90A // 1 when BT_CUDA_ARCHS has 90a; set by kernels/CMakeLists.txt
#define BT_CUDA_SM90A 0
#endif

// arch: of the device, compute capability times ten. built: BT_CUDA_SM90A.
static inline bool bt_sm90_code_runs(int arch, bool built) { return arch == 90 && built; }

#endif
