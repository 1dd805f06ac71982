// kernels/cuda/gemm/fp32_sm80.cu - the row gemm_fp32_sm80: D = epilogue(alpha op(A) op(B)) + beta C
//   in IEEE f32: a thread's sums are fused multiply-adds in ascending k. Any GPU from sm_80 on.
//
// The kernel is bound by instruction issue, so every instruction that is not an FFMA costs time. A
// block of four warps has a tile of 128 x 128, a warp 64 x 64 of it, a thread 16 x 8 sums: 24 loads
// of 16 bytes serve the 512 FFMAs of four values of k. Two blocks share an SM: while one waits at a
// barrier or runs its epilogue, the other multiplies.
//
//   global --cp.async--> ring of stages in shared memory (loads_sm80.cuh) --> registers --> FFMA
//   k-block i:  wait for it, barrier | multiply it and start loading i + STAGES - 1
//
// In shared memory an operand is [k][row]. K-major operands are transposed by copying value by
// value. This costs 24 more copies per 2,048 FFMAs, but lets the compiler keep a sum and its factor
// in different register banks: an FFMA reads each bank once a cycle, and its third operand must be
// reused from the FFMA before.
//
// Lanes are (r, c), 4 x 8. A thread's rows are runs of 4, 16 apart, its columns two runs of 4, 32
// apart. r is made of lane bits 1 and 4: half of the lanes of neighbouring quarter warps read the
// same 16 bytes, so a load takes two shared-memory wavefronts instead of four.
//
// Invariants  those of units_sm80.cuh and loads_sm80.cuh. Sums are in ascending k
// Shapes   any; any alignment and stride (fast where everything is a multiple of 16 bytes)
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false for tf32 and, unless BT_GEMM=own or sm80, where cuBLASLt is faster:
//          launch_sm80.cu
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/gemm/epilogue_sm80.cuh"
#include "kernels/cuda/gemm/loads_sm80.cuh"

namespace bt_gemm_sm80
{

// An operand's part of a stage: [k][SPAN], padded by four values so that copies of single values
// have no bank conflicts. A warp copies four rows by eight k of a K-major operand at once.
template <bool MN> struct fp32_layout {
    using VALUE = float;
    static constexpr bool MN_MAJOR = MN;
    static constexpr int SPAN = 128, DEPTH = 16, PITCH = SPAN + 4, BYTES = DEPTH * PITCH * 4;
    static constexpr int CHUNK = MN ? 4 : 1, PER = MN ? 1 : 2;

    static constexpr __host__ __device__ int at(int line, int chunk)
    {
        return 4 * (MN ? line * PITCH + 4 * chunk : chunk * PITCH + line);
    }
};

constexpr int STEP_K = 4; // values of k of a step

template <bool A_MN, bool B_MN> struct fp32_config {
    using A = fp32_layout<A_MN>;
    using B = fp32_layout<B_MN>;
    static constexpr int TILE_M = A::SPAN, TILE_N = B::SPAN, DEPTH = A::DEPTH,
                         STEPS = DEPTH / STEP_K;
    static constexpr int THREADS = 128, STAGES = 3, BLOCKS_PER_SM = 2;
    // Unrolled steps. Four of them, 35 KB, exceed the innermost instruction cache; the faster
    // choice per layout was measured.
    static constexpr int UNROLLED = A_MN ? 4 : 2;
    static constexpr int STAGE_BYTES = A::BYTES + B::BYTES, SHARED_BYTES = STAGES * STAGE_BYTES;
    static_assert(STAGE_BYTES >= THREADS / 32 * STAGED_BYTES,
                  "the epilogue reuses one stage: it must be large enough");
};

using fp32_sums = float[16][8];

// A lane's place among the 4 x 8 of its warp.
struct fp32_lane {
    int r, c;
    __device__ __forceinline__ fp32_lane()
    {
        const int lane = (int)threadIdx.x % 32;
        r = (lane >> 1 & 1) | (lane >> 4) << 1;
        c = (lane & 1) | (lane >> 2 & 3) << 1;
    }
};

template <class C>
static __device__ __forceinline__ void multiply_step(fp32_sums &sums, const float *a,
                                                     const float *b)
{
#pragma unroll
    for (int k = 0; k < STEP_K; ++k) {
        float x[16], y[8];
#pragma unroll
        for (int i = 0; i < 16; i += 4) {
            *(float4 *)&x[i] = *(const float4 *)(a + k * C::A::PITCH + 4 * i);
        }
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            *(float4 *)&y[i] = *(const float4 *)(b + k * C::B::PITCH + 8 * i);
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int turned = i & 1 ? 7 - j : j; // reuses the factor of the FFMA before
                sums[i][turned] = fmaf(x[i], y[turned], sums[i][turned]);
            }
        }
    }
}

// Copies 16 rows of the warp's sums to its staging buffer, value by value: wider stores would force
// them into neighbouring registers.
static __device__ __forceinline__ void stage_sums(const fp32_sums &sums, int i, float *staged)
{
    const fp32_lane at;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        float *to = staged_at(staged, 4 * at.r + j % 4, j / 4 * 32 + 4 * at.c);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            ((volatile float *)to)[e] = sums[4 * i + j % 4][j / 4 * 4 + e];
        }
    }
}

template <class C>
static __global__ void __launch_bounds__(C::THREADS, C::BLOCKS_PER_SM)
    fp32_kernel(const __grid_constant__ problem p)
{
    extern __shared__ __align__(16) unsigned char memory[];
    const int warp = (int)threadIdx.x / 32;
    const fp32_lane at;
    const int row = warp / 2 * 64, col = warp % 2 * 64; // of the warp in the tile
    feed<C> next(p);
    course<C> units(p);
    unit t;
    int stage = 0;
    follow_predecessor();
    next.start(p, memory);
    while (units.next(p, t)) {
        fp32_sums sums = {};
        int used = 0; // the last stage
        for (int left = t.k_end - t.k_begin; left > 0; left -= C::DEPTH) {
            cp_async_wait<C::STAGES - 2>();
            __syncthreads();
            next.begin(p, memory);
#pragma unroll C::UNROLLED
            for (int step = 0; step < C::STEPS; ++step) {
                const float *a = (const float *)(memory + stage) + step * STEP_K * C::A::PITCH;
                const float *b =
                    (const float *)(memory + stage + C::A::BYTES) + step * STEP_K * C::B::PITCH;
                multiply_step<C>(sums, a + row + 4 * at.r, b + col + 4 * at.c);
                next.template copy<C::STEPS>(shared_address(memory), step);
            }
            next.end();
            used = stage;
            stage = stage + C::STAGE_BYTES == C::SHARED_BYTES ? 0 : stage + C::STAGE_BYTES;
        }
        if (t.k_begin > 0) {
            leave_part<C>(p, &sums[0][0]);
        } else {
            add_parts<C>(p, t, &sums[0][0]);
            __syncthreads();
            float *staged = (float *)(memory + used + warp * STAGED_BYTES);
            write_sums<float, float>(p, t, t.m + row, t.n + col, staged,
                                     [&](int i) { stage_sums(sums, i, staged); });
        }
    }
}

#define VARIANT(trans_a, trans_b)                                                                  \
    {                                                                                              \
        fp32_config<trans_a, !(trans_b)>::TILE_M, fp32_config<trans_a, !(trans_b)>::TILE_N,        \
            fp32_config<trans_a, !(trans_b)>::DEPTH, trans_a, trans_b, BT_F32,                     \
            fp32_kernel<fp32_config<trans_a, !(trans_b)>>,                                         \
            fp32_config<trans_a, !(trans_b)>::THREADS,                                             \
            fp32_config<trans_a, !(trans_b)>::SHARED_BYTES,                                        \
            fp32_config<trans_a, !(trans_b)>::BLOCKS_PER_SM, 0.75                                  \
    }
static const variant variants[] = {VARIANT(false, true), VARIANT(false, false),
                                   VARIANT(true, false), VARIANT(true, true)};

const family family_fp32 = {"gemm_fp32_sm80",  BT_F32,
                            BT_COMPUTE_NATIVE, 256,
                            variants,          (int)(sizeof variants / sizeof variants[0])};

} // namespace bt_gemm_sm80

bool bt_gemm_fp32_sm80_accepts(const bt_device *device, const void *args)
{
    return bt_gemm_sm80::accepts(bt_gemm_sm80::family_fp32, device, (const bt_gemm_args *)args);
}

size_t bt_gemm_fp32_sm80_workspace(const bt_device *device, const void *args)
{
    return bt_gemm_sm80::workspace(bt_gemm_sm80::family_fp32, device, (const bt_gemm_args *)args);
}

bt_status bt_gemm_fp32_sm80(const bt_launch *launch, const void *args)
{
    return bt_gemm_sm80::run(bt_gemm_sm80::family_fp32, launch, (const bt_gemm_args *)args);
}
