// kernels/cuda/gemm/tf32_sm80.cu - the row gemm_tf32_sm80: D = epilogue(alpha op(A) op(B)) + beta C
//   Pipeline: mma_sm80.cuh. Epilogue: epilogue_sm80.cuh. Plans and launch: launch_sm80.cu.
// Shapes   any; any alignment and stride (fast where everything is a multiple of 16 bytes)
// Types    all matrices f32; operands rounded to tf32; sums f32
// Bitwise  every sum's order is fixed by shape, plan and number of SMs
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false for k = 0, for GELU with beta and, unless BT_GEMM=own or sm80, where
//          cuBLASLt serves: launch_sm80.cu
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/gemm/mma_sm80.cuh"

namespace bt_gemm_sm80
{

static const variant variants[] = {BT_MMA_VARIANT(float, float, BT_F32, false, true, 128, 0.385),
                                   BT_MMA_VARIANT(float, float, BT_F32, false, false, 128, 0.385),
                                   BT_MMA_VARIANT(float, float, BT_F32, true, false, 128, 0.385),
                                   BT_MMA_VARIANT(float, float, BT_F32, true, true, 128, 0.385)};

const family family_tf32 = {"gemm_tf32_sm80", BT_F32,
                            BT_COMPUTE_TF32,  2048,
                            variants,         (int)(sizeof variants / sizeof variants[0])};

} // namespace bt_gemm_sm80

bool bt_gemm_tf32_sm80_accepts(const bt_device *device, const void *args)
{
    return bt_gemm_sm80::accepts(bt_gemm_sm80::family_tf32, device, (const bt_gemm_args *)args);
}

size_t bt_gemm_tf32_sm80_workspace(const bt_device *device, const void *args)
{
    return bt_gemm_sm80::workspace(bt_gemm_sm80::family_tf32, device, (const bt_gemm_args *)args);
}

bt_status bt_gemm_tf32_sm80(const bt_launch *launch, const void *args)
{
    return bt_gemm_sm80::run(bt_gemm_sm80::family_tf32, launch, (const bt_gemm_args *)args);
}
