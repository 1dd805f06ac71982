// kernels/cuda/layernorm_forward.cuh - what the two files of LayerNorm forward share
#ifndef BT_KERNELS_CUDA_LAYERNORM_FORWARD_CUH
#define BT_KERNELS_CUDA_LAYERNORM_FORWARD_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/overlap.cuh"

template <typename T, typename P> struct layernorm_forward_operands {
    const T *x, *residual;
    T *sum, *y;
    const P *gamma, *beta;
    float *mean, *rstd;
    int64_t rows, cols;
    float epsilon;

    // Rows first.. of it.
    layernorm_forward_operands part(int64_t first, int64_t count) const
    {
        layernorm_forward_operands out = *this;
        out.x += first * cols;
        out.residual = residual ? residual + first * cols : nullptr;
        out.sum = sum ? sum + first * cols : nullptr;
        out.y += first * cols;
        out.mean += first;
        out.rstd += first;
        out.rows = count;
        return out;
    }
};

// A warp a row (layernorm_warps.cu), operands aligned to 16 bytes and cols a multiple of a pack.
// False: not for this call; nothing was launched.
template <typename T, typename P>
bool layernorm_forward_warps(const bt_launch *launch,
                             const layernorm_forward_operands<T, P> &operands);

#endif
