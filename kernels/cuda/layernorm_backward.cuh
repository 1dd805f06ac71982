// kernels/cuda/layernorm_backward.cuh - declarations shared by the files of LayerNorm backward
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

// Rows through shared memory (layernorm_backward_wide.cu). Returns the number of blocks that write
// column sums to `partials`, at most one per SM; 0: a row does not fit a block of this device, and
// nothing was launched.
template <typename T, typename P>
int layernorm_backward_wide(const bt_launch *launch,
                            const layernorm_backward_operands<T, P> &operands);

// Rows by bulk copies (layernorm_backward_bulk.cu), where the device has them. Returns the same.
template <typename T, typename P>
int layernorm_backward_bulk(const bt_launch *launch,
                            const layernorm_backward_operands<T, P> &operands);

#endif
