// kernels/cuda/gemm/bf16_sm90.cu - the row gemm_bf16_sm90: D = epilogue(alpha op(A) op(B)) + beta C
//   The pipeline is explained in bf16_sm90.cuh, the endings in endings_*.cuh, the choice of tile
//   and splits in plan.cu, what a call must fulfil and the launch in launch_sm90.cu.
// Types    bf16 operands and bias; d, c, aux bf16, or d f32 (beta 0, or 1 and c is d; bias but for
//          weight gradients); dbias bf16 or f32, with GELU's slope alone; sums f32
// Bitwise  every sum's order is fixed by shape, plan and number of SMs; splits add in turn
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false on anything but compute capability 9.0 and, unless BT_GEMM=own, where
//          the model of plan.cu expects little of the kernel: the row above serves
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/endings_bf16_sm90.cuh"
#include "kernels/cuda/gemm/endings_f32_sm90.cuh"

namespace bt_gemm_sm90
{

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class C>
static __device__ __forceinline__ void consume(const problem &p, const shared_map<C> &shared,
                                               unsigned char *memory, int index)
{
    const consumer me(index);
    const uint32_t boxes = shared.boxes(index);
    float *bias = shared.bias(memory, index);
    int position = 0, turn = 0, used = 0;
    tile_sums<C> sums;
    if (C::ENDING == ENDING_DGELU && me.thread < 4) {
        bias[me.thread] = 0.0f;
    }
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C>(p, u);
        const int begin = position;
        position += t.k_end - t.k_begin;
        if ((turn++ & 1) != index) {
            continue;
        }
        if (turn > 1) {
            barrier_sync(ORDER + index, CONSUMERS * GROUP_THREADS);
        }
        if constexpr (C::ENDING == ENDING_ADD || C::ENDING == ENDING_DGELU) {
            begin_boxes<C>(p, t, me, shared, used);
        }
        if (C::BIASED) {
            load_bias<C>(p, t, me, bias);
        }
        const bool last = u + (int)gridDim.x >= p.units;
        multiply<C>(sums, shared, begin, t.k_end - t.k_begin, 1 - index, !last);
        if constexpr (C::ENDING == ENDING_F32) {
            finish_f32<C>(p, t, me, sums, bias, boxes, used);
        } else if constexpr (C::ENDING == ENDING_ADD || C::ENDING == ENDING_DGELU) {
            finish_with_input<C>(p, t, me, sums, bias, shared, used);
        } else {
            finish_store<C>(p, t, me, sums, bias, boxes, used);
        }
    }
    if (me.leads()) {
        tma_store_wait<0>(); // shared memory must outlive its reading
    }
}
#endif

template <class C>
static __global__ void __launch_bounds__(THREADS, 1) gemm_kernel(const __grid_constant__ problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const shared_map<C> shared(memory);
    // The role, the same for the whole warp: ptxas must see that it is.
    const int role = __shfl_sync(ALL_LANES, (int)threadIdx.x / GROUP_THREADS, 0);
    if (threadIdx.x == 0) {
        for (int i = 0; i < C::STAGES; ++i) {
            mbarrier_init(shared.full(i), 1);
            mbarrier_init(shared.empty(i), 1);
        }
        for (int i = 0; i < CONSUMERS * C::BOXES; ++i) {
            mbarrier_init(shared.loaded(0, i), 1);
        }
        mbarrier_init_fence();
        tma_prefetch(&p.a);
        tma_prefetch(&p.b);
    }
    __syncthreads();
    wait_for_predecessor();
    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x == 0) {
            produce<C>(p, shared);
        }
    } else {
        registers_take<232>();
        consume<C>(p, shared, memory, role - 1);
    }
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
static const variant variants[] = {
    BOTH_WIDTHS(false, true, ENDING_STORE), BOTH_WIDTHS(false, true, ENDING_ADD),
    BOTH_WIDTHS(false, true, ENDING_GELU),  BOTH_WIDTHS(false, false, ENDING_STORE),
    BOTH_WIDTHS(false, false, ENDING_ADD),  BOTH_WIDTHS(false, false, ENDING_DGELU),
    BOTH_WIDTHS(true, false, ENDING_F32),   BOTH_WIDTHS(false, true, ENDING_F32),
    BOTH_WIDTHS(false, false, ENDING_F32),
};

const family family_bf16 = {"gemm_bf16_sm90",
                            BT_BF16,
                            BT_COMPUTE_NATIVE,
                            64,
                            true,
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
