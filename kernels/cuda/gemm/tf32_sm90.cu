// kernels/cuda/gemm/tf32_sm90.cu - the row gemm_tf32_sm90: D = epilogue(alpha op(A) op(B)) + beta C
//   Pipelines: tf32_rounded_sm90.cuh (K-major A: forward, input gradients) and tf32_sm90.cuh
//   (MN-major A: weight gradients). Epilogues: epilogue_f32_sm90.cuh. Choice of tile and splits:
//   plan.cu. Conditions and launch: launch_sm90.cu.
// Types    all matrices f32; operands rounded to tf32 (nearest, ties to even); sums f32; dbias of
//          A's columns in weight gradients, unrounded, f32 or bf16
// Bitwise  every sum's order is fixed by shape, plan and number of SMs; splits add in turn
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false on anything but compute capability 9.0 and, unless BT_GEMM=own, where
//          the cost model of plan.cu predicts a low rate: the row above serves
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/epilogue_f32_sm90.cuh"
#include "kernels/cuda/gemm/tf32_rounded_sm90.cuh"

namespace bt_gemm_sm90
{

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Prefetches this thread's part of the tile's bias before the multiplication, and writes it to
// shared memory after it. Zeros without a bias and for splits after the first.
template <class C> struct tile_bias {
    static constexpr int COUNT = C::TILE_N / GROUP_THREADS;
    float value[COUNT];

    __device__ __forceinline__ tile_bias(const problem &p, const unit &t, const consumer &me)
    {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int n = t.n + me.thread + i * GROUP_THREADS;
            const bool there = p.bias && n < p.n && t.split == 0;
            value[i] = there ? ((const float *)p.bias)[n] : 0.0f;
        }
    }
    __device__ __forceinline__ void put(float *to, const consumer &me) const
    {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            to[me.thread + i * GROUP_THREADS] = value[i];
        }
    }
};

// Zeros for none and for splits after the first. Visible after the next sync().
template <class C>
static __device__ __forceinline__ void load_tile_bias(const problem &p, const unit &t,
                                                      const consumer &me, float *to)
{
    for (int i = me.thread; i < C::TILE_N; i += GROUP_THREADS) {
        const bool there = p.bias && t.n + i < p.n && t.split == 0;
        to[i] = there ? ((const float *)p.bias)[t.n + i] : 0.0f;
    }
}

template <class C>
static __device__ __forceinline__ void consume_tf32(const problem &p, const shared_map<C> &shared,
                                                    unsigned char *memory, int index)
{
    const consumer me(index);
    const a_places<C> places(index);
    float *bias = shared.bias(memory, index);
    ring<C> from = {0, 0};
    int used = 0;
    tile_sums<C> sums;
    row_sums<C> rows;
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C>(p, u);
        const tile_bias<C> fetched(p, t, me);
        multiply_tf32<C>(sums, rows, shared, places, from, t.k_end - t.k_begin);
        put_row_sums<C>(p, t, index, rows);
        fetched.put(bias, me);
        finish_f32<C>(p, t, me, sums, bias, shared.boxes(index), used);
    }
    if (me.leads()) {
        tma_store_wait<0>(); // shared memory must stay valid until the stores have read it
    }
}

template <class C>
static __device__ __forceinline__ void
consume_rounded(const problem &p, const shared_map<C> &shared, unsigned char *memory, int index)
{
    constexpr bool WITH_INPUT = C::EPILOGUE == EPILOGUE_ADD || C::EPILOGUE == EPILOGUE_DGELU;
    const consumer me(index);
    float *bias = shared.bias(memory, index);
    const word_places<C> places(me);
    int position = 0, turn = 0, used = 0;
    tile_sums<C> sums;
    row_sums<C> rows;
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C>(p, u);
        const int begin = position;
        position += t.k_end - t.k_begin;
        if (!C::SHARED_TILE && (turn++ & 1) != index) {
            continue;
        }
        if constexpr (C::BIASED) {
            load_tile_bias<C>(p, t, me, bias); // while the other consumer multiplies
        }
        if (!C::SHARED_TILE && turn > 1) {
            barrier_sync(ORDER + index, CONSUMERS * GROUP_THREADS);
        }
        if constexpr (WITH_INPUT) {
            begin_f32_boxes<C>(p, t, me, shared, used);
        }
        const bool tell = !C::SHARED_TILE && u + (int)gridDim.x < p.units;
        multiply_rounded<C>(sums, rows, shared, me, places, begin, t.k_end - t.k_begin, tell);
        if constexpr (C::A_MN && !C::EXCHANGED) {
            put_row_sums<C>(p, t, index, rows);
        }
        if constexpr (WITH_INPUT) {
            finish_f32_with_input<C>(p, t, me, sums, bias, shared, used);
        } else if constexpr (C::EXCHANGED) {
            finish_turned<C>(p, t, me, sums, shared.boxes(index));
        } else {
            finish_f32<C>(p, t, me, sums, bias, shared.boxes(index), used);
        }
    }
    if (me.leads()) {
        tma_store_wait<0>(); // shared memory must stay valid until the stores have read it
    }
}
#endif

template <class C>
static __global__ void __launch_bounds__(TF32_THREADS, 1)
    tf32_kernel(const __grid_constant__ problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const shared_map<C> shared(memory);
    // The role, the same for the whole warp: ptxas must see that it is.
    const int role = __shfl_sync(ALL_LANES, (int)threadIdx.x / GROUP_THREADS, 0);
    if (threadIdx.x == 0) {
        init_barriers<C>(shared, 1 + PRODUCER_WARPS, CONSUMER_WARPS);
        tma_prefetch(&p.a);
    }
    __syncthreads();
    wait_for_predecessor();
    if (role < PRODUCER_WARPS * 32 / GROUP_THREADS) {
        registers_give<64>();
        produce_tf32<C>(p, shared);
    } else {
        registers_take<192>();
        consume_tf32<C>(p, shared, memory, role - PRODUCER_WARPS * 32 / GROUP_THREADS);
    }
#endif
}

template <class C>
static __global__ void __launch_bounds__(THREADS, 1)
    rounded_kernel(const __grid_constant__ problem p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const shared_map<C> shared(memory);
    const int role = __shfl_sync(ALL_LANES, (int)threadIdx.x / GROUP_THREADS, 0);
    if (threadIdx.x == 0) {
        init_barriers<C>(shared, 1, (C::SHARED_TILE ? CONSUMERS : 1) * (GROUP_THREADS / 32));
        tma_prefetch(&p.a);
        tma_prefetch(&p.b);
    }
    __syncthreads();
    wait_for_predecessor();
    if (role == 0) {
        registers_give<24>();
        if (threadIdx.x == 0) {
            produce_rounded<C>(p, shared);
        }
    } else {
        registers_take<240>();
        consume_rounded<C>(p, shared, memory, role - 1);
    }
#endif
}

#define DIRECT(parts, n, trans_b)                                                                  \
    {                                                                                              \
        tf32_config<parts, n, !(trans_b)>::TILE_M, n, true, trans_b, EPILOGUE_F32,                 \
            tf32_kernel<tf32_config<parts, n, !(trans_b)>>,                                        \
            tf32_config<parts, n, !(trans_b)>::SHARED_BYTES, TF32_THREADS, false, false            \
    }
#define ROUNDED(n, together, trans_b, kind)                                                        \
    {                                                                                              \
        rounded_config<n, together, kind>::TILE_M, n, false, trans_b, kind,                        \
            rounded_kernel<rounded_config<n, together, kind>>,                                     \
            rounded_config<n, together, kind>::SHARED_BYTES, THREADS, !(together), true            \
    }
// Weight gradients; tiles are D's.
template <bool EXCHANGED>
using gradient_config = rounded_config<192, true, EPILOGUE_F32, true, EXCHANGED>;
#define GRADIENT(exchanged)                                                                        \
    {                                                                                              \
        (exchanged) ? 192 : 256, (exchanged) ? 256 : 192, true, false, EPILOGUE_F32,               \
            rounded_kernel<gradient_config<exchanged>>, gradient_config<exchanged>::SHARED_BYTES,  \
            THREADS, false, true, 0, exchanged                                                     \
    }
#define BOTH_HEIGHTS(trans_b) DIRECT(2, 128, trans_b), DIRECT(1, 128, trans_b)
#define BOTH_WIDTHS(trans_b, kind)                                                                 \
    ROUNDED(192, false, trans_b, kind), ROUNDED(128, false, trans_b, kind)
static const variant variants[] = {
    BOTH_WIDTHS(true, EPILOGUE_F32),
    ROUNDED(128, true, true, EPILOGUE_F32),
    BOTH_WIDTHS(true, EPILOGUE_ADD),
    BOTH_WIDTHS(true, EPILOGUE_GELU),
    BOTH_WIDTHS(false, EPILOGUE_F32),
    ROUNDED(128, true, false, EPILOGUE_F32),
    BOTH_WIDTHS(false, EPILOGUE_DGELU),
    GRADIENT(false),
    GRADIENT(true),
    BOTH_HEIGHTS(false),
    BOTH_HEIGHTS(true),
};

const family family_tf32 = {"gemm_tf32_sm90",
                            BT_F32,
                            BT_COMPUTE_TF32,
                            32,
                            2048,
                            variants,
                            (int)(sizeof variants / sizeof variants[0])};

} // namespace bt_gemm_sm90

bool bt_gemm_tf32_sm90_accepts(const bt_device *device, const void *args)
{
    return bt_gemm_sm90::accepts(bt_gemm_sm90::family_tf32, device, (const bt_gemm_args *)args);
}

size_t bt_gemm_tf32_sm90_workspace(const bt_device *device, const void *call)
{
    const bt_gemm_args *args = (const bt_gemm_args *)call;
    return bt_gemm_sm90::workspace_of(
        args, bt_gemm_sm90::plan_of(bt_gemm_sm90::family_tf32, args, device->info.processor_count));
}

bt_status bt_gemm_tf32_sm90(const bt_launch *launch, const void *args)
{
    return bt_gemm_sm90::run(bt_gemm_sm90::family_tf32, launch, (const bt_gemm_args *)args);
}
