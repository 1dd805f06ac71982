// kernels/cuda/tensor_map.h - creates TMA tensor maps on the host
#ifndef BT_KERNELS_CUDA_TENSOR_MAP_H
#define BT_KERNELS_CUDA_TENSOR_MAP_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

constexpr int BT_TENSOR_MAP_RANK_MOST = 5;

// A tensor that TMA moves in boxes. Sizes and strides are listed innermost first; the stride of the
// innermost dimension is one element, so strides[i] belongs to dimension i + 1.
typedef struct bt_tensor_map_shape {
    CUtensorMapDataType type;
    CUtensorMapSwizzle swizzle;
    int rank;
    cuuint64_t size[BT_TENSOR_MAP_RANK_MOST];             // elements, 1 at least
    cuuint64_t stride_bytes[BT_TENSOR_MAP_RANK_MOST - 1]; // multiples of 16, below 2^40
    cuuint32_t box[BT_TENSOR_MAP_RANK_MOST];              // elements, 256 at most
} bt_tensor_map_shape;

// Errors   UNAVAILABLE when the driver has no TMA, INTERNAL when it rejects the shape
BT_CHECKED bt_status bt_tensor_map_make(const void *base, const bt_tensor_map_shape *shape,
                                        CUtensorMap *map);

#endif
