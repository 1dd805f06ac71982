// kernels/cuda/gemm/bf16_sm90.cu - the row gemm_bf16_sm90: D = epilogue(alpha op(A) op(B)) + beta C
//   Pipeline: bf16_sm90.cuh. Epilogues: epilogue_*.cuh. Weight gradients in clusters:
//   cluster_sm90.cuh. Choice of tile and splits: plan.cu. Conditions and launch: launch_sm90.cu.
// Types    bf16 operands and bias; d, c, aux bf16, or d f32 (beta 0, or 1 and c is d; bias but for
//          weight gradients); dbias bf16 or f32, of D with GELU's slope alone, of A in
//          weight gradients; sums f32
// Bitwise  every sum's order is fixed by shape, plan and number of SMs; splits add in turn, in a
//          cluster from each owner on
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false on anything but compute capability 9.0 and, unless BT_GEMM=own, where
//          the cost model of plan.cu predicts a low rate: the row above serves
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/gemm/bf16_block_sm90.cuh"
#include "kernels/cuda/gemm/cluster_sm90.cuh"

namespace bt_gemm_sm90
{

template <class C>
static __global__ void __launch_bounds__(THREADS, 1) gemm_kernel(const __grid_constant__ problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    run_block<C>(whole_units<C>(p));
#endif
}

template <class C>
static __global__ void __launch_bounds__(C::THREADS, 1)
    cluster_kernel(const __grid_constant__ problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    run_in_cluster<C>(p);
#endif
}

#define VARIANT(n, trans_a, trans_b, kind)                                                         \
    {                                                                                              \
        config<n, trans_a, !(trans_b), kind>::TILE_M, n, trans_a, trans_b, kind,                   \
            gemm_kernel<config<n, trans_a, !(trans_b), kind>>,                                     \
            config<n, trans_a, !(trans_b), kind>::SHARED_BYTES, THREADS                            \
    }
#define BOTH_WIDTHS(trans_a, trans_b, kind)                                                        \
    VARIANT(128, trans_a, trans_b, kind), VARIANT(192, trans_a, trans_b, kind)
#define CLUSTER(warpgroups, n, size)                                                               \
    {                                                                                              \
        cluster_config<warpgroups, n, size>::TILE_M, n, true, false, EPILOGUE_F32,                 \
            cluster_kernel<cluster_config<warpgroups, n, size>>,                                   \
            cluster_config<warpgroups, n, size>::SHARED_BYTES,                                     \
            cluster_config<warpgroups, n, size>::THREADS, false, false, size                       \
    }
#define IN_CLUSTERS CLUSTER(3, 192, 1), CLUSTER(3, 192, 2), CLUSTER(2, 128, 2), CLUSTER(2, 128, 3)
static const variant variants[] = {
    BOTH_WIDTHS(false, true, EPILOGUE_STORE), BOTH_WIDTHS(false, true, EPILOGUE_ADD),
    BOTH_WIDTHS(false, true, EPILOGUE_GELU),  BOTH_WIDTHS(false, false, EPILOGUE_STORE),
    BOTH_WIDTHS(false, false, EPILOGUE_ADD),  BOTH_WIDTHS(false, false, EPILOGUE_DGELU),
    BOTH_WIDTHS(true, false, EPILOGUE_F32),   BOTH_WIDTHS(false, true, EPILOGUE_F32),
    BOTH_WIDTHS(false, false, EPILOGUE_F32),  IN_CLUSTERS,
    BOTH_WIDTHS(false, true, EPILOGUE_EXP),
};

const family family_bf16 = {"gemm_bf16_sm90",
                            BT_BF16,
                            BT_COMPUTE_NATIVE,
                            64,
                            4096,
                            variants,
                            (int)(sizeof variants / sizeof variants[0])};

} // namespace bt_gemm_sm90

bool bt_gemm_bf16_sm90_accepts(const bt_device *device, const void *args)
{
    return bt_gemm_sm90::accepts(bt_gemm_sm90::family_bf16, device, (const bt_gemm_args *)args);
}

size_t bt_gemm_bf16_sm90_workspace(const bt_device *device, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    return bt_gemm_sm90::workspace_of(
        args, bt_gemm_sm90::plan_of(bt_gemm_sm90::family_bf16, args, device->info.processor_count));
}

bt_status bt_gemm_bf16_sm90(const bt_launch *launch, const void *args)
{
    return bt_gemm_sm90::run(bt_gemm_sm90::family_bf16, launch, (const bt_gemm_args *)args);
}
