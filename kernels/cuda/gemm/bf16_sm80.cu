// kernels/cuda/gemm/bf16_sm80.cu - the row gemm_bf16_sm80: D = epilogue(alpha op(A) op(B)) + beta C
//   Pipeline: mma_sm80.cuh. Epilogue: epilogue_sm80.cuh. Plans and launch: launch_sm80.cu.
// Shapes   any; any alignment and stride (fast where everything is a multiple of 16 bytes)
// Types    bf16 operands and bias; c, d, aux bf16 or f32; sums f32
// Bitwise  every sum's order is fixed by shape, plan and number of SMs
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false for k = 0, for GELU with beta and, unless BT_GEMM=own or sm80, where
//          cuBLASLt serves: launch_sm80.cu
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/gemm/mma_sm80.cuh"

namespace bt_gemm_sm80
{

// 128 x 256 only where both operands are K-major. Elsewhere 128 x 128 is faster, and it also fits
// GPUs with less shared memory.
#define LAYOUTS(out, d_dtype)                                                                      \
    BT_MMA_VARIANT(bf16, out, d_dtype, false, true, 128, 0.34),                                    \
        BT_MMA_VARIANT(bf16, out, d_dtype, false, false, 128, 0.44),                               \
        BT_MMA_VARIANT(bf16, out, d_dtype, true, false, 128, 0.44),                                \
        BT_MMA_VARIANT(bf16, out, d_dtype, true, true, 128, 0.44)
static const variant variants[] = {LAYOUTS(bf16, BT_BF16), LAYOUTS(float, BT_F32),
                                   BT_MMA_VARIANT(bf16, bf16, BT_BF16, false, true, 256, 0.55)};

const family family_bf16 = {"gemm_bf16_sm80",  BT_BF16,
                            BT_COMPUTE_NATIVE, 4096,
                            variants,          (int)(sizeof variants / sizeof variants[0])};

} // namespace bt_gemm_sm80

bool bt_gemm_bf16_sm80_accepts(const bt_device *device, const void *args)
{
    return bt_gemm_sm80::accepts(bt_gemm_sm80::family_bf16, device, (const bt_gemm_args *)args);
}

size_t bt_gemm_bf16_sm80_workspace(const bt_device *device, const void *args)
{
    return bt_gemm_sm80::workspace(bt_gemm_sm80::family_bf16, device, (const bt_gemm_args *)args);
}

bt_status bt_gemm_bf16_sm80(const bt_launch *launch, const void *args)
{
    return bt_gemm_sm80::run(bt_gemm_sm80::family_bf16, launch, (const bt_gemm_args *)args);
}
