// kernels/cuda/layernorm_backward.cuh - what the files of LayerNorm backward share
#ifndef BT_KERNELS_CUDA_LAYERNORM_BACKWARD_CUH
#define BT_KERNELS_CUDA_LAYERNORM_BACKWARD_CUH

#include "kernels/cuda/parts.cuh"

template <typename T, typename P> struct layernorm_backward_operands {
    const T *dy, *s;
    const P *gamma;
    const float *mean, *rstd;
    T *dx;
    float *partials; // [blocks, 2, cols]
    int64_t rows, cols;
    bool accumulate;
};

// Rows by way of shared memory (layernorm_backward_wide.cu). Answers the number of blocks
// that leave their column sums in `partials`, at most one per SM; 0: no block of this device can
// hold a row, nothing was launched.
template <typename T, typename P>
int layernorm_backward_wide(const bt_launch *launch,
                            const layernorm_backward_operands<T, P> &operands);

// Rows by bulk copies (layernorm_backward_bulk.cu), where the device has them: answers the same.
template <typename T, typename P>
int layernorm_backward_bulk(const bt_launch *launch,
                            const layernorm_backward_operands<T, P> &operands);

#endif
