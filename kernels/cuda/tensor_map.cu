// kernels/cuda/tensor_map.cu - creates tensor maps through the driver, without linking against it
#include "kernels/cuda/tensor_map.h"

#include <cudaTypedefs.h>

static PFN_cuTensorMapEncodeTiled_v12000 find_encoder()
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t result = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                          12000, cudaEnableDefault, &found);
    return result == cudaSuccess && found == cudaDriverEntryPointSuccess
               ? (PFN_cuTensorMapEncodeTiled_v12000)function
               : NULL;
}

bt_status bt_tensor_map_make(const void *base, const bt_tensor_map_shape *shape, CUtensorMap *map)
{
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
    static const cuuint32_t step[BT_TENSOR_MAP_RANK_MOST] = {1, 1, 1, 1, 1};
    if (!encode) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "the CUDA driver lacks cuTensorMapEncodeTiled: update the driver");
    }
    CUresult result =
        encode(map, shape->type, (cuuint32_t)shape->rank, (void *)base, shape->size,
               shape->stride_bytes, shape->box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, shape->swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL,
                          "tensor map of rank %d, [%llu,%llu] innermost, rows of %llu bytes: CUDA "
                          "error %d",
                          shape->rank, (unsigned long long)shape->size[1],
                          (unsigned long long)shape->size[0],
                          (unsigned long long)shape->stride_bytes[0], (int)result);
}
