// kernels/cuda/gemm/arch_sm90.h - may the kernels for Hopper serve on a device?
//
// Their bodies are compiled for 9.0a alone; in code of any other target they are empty. A build
// whose BT_CUDA_ARCHS lacks 90a runs on Hopper as well, from PTX of an older target, and must not
// choose them: it is not the device alone that decides.
#ifndef BT_KERNELS_CUDA_GEMM_ARCH_SM90_H
#define BT_KERNELS_CUDA_GEMM_ARCH_SM90_H

#include <stdbool.h>

#ifndef BT_CUDA_SM90A // 1 when BT_CUDA_ARCHS has 90a; set by kernels/CMakeLists.txt
#define BT_CUDA_SM90A 0
#endif

// arch: of the device, compute capability times ten. built: BT_CUDA_SM90A.
static inline bool bt_sm90_code_runs(int arch, bool built) { return arch == 90 && built; }

#endif
