// kernels/cuda/gemm/fp32_sm80.cu - the row gemm_fp32_sm80: D = epilogue(alpha op(A) op(B)) + beta C
//   in IEEE f32: a thread's sums are fused multiply-adds in ascending k. Any GPU from sm_80 on.
//
// Where an SM issues one FFMA a cycle and quarter, every other instruction costs an FFMA its place:
// what counts is how few there are. A thread has ROWS x 8 sums; for each k it reads ROWS + 8 values
// from shared memory in 16-byte loads, ROWS = 16: 6 loads for 128 FFMAs.
//
//   global -> registers -> shared memory (turned to [k][row], two buffers) -> registers -> FFMA
//   block i:   | load block i + 1 into registers | DEPTH steps on buffer i % 2 ...
//              of the last steps each puts a value into buffer (i + 1) % 2; a barrier in the last
// The steps are unrolled: the compiler reads the values of a step while those before it multiply.
//
// Invariants
//   1. Unit u belongs to block u % gridDim.x.
//   2. A buffer is written after the barrier that ended its last reading: all of a block's values
//      are in registers before the barrier in its last step.
//   3. Sums are in ascending k, splits add ascending: bits depend on shape and plan alone.
//
// Shapes   any; any alignment and stride (16-byte loads where everything is a multiple of 16 bytes)
// Edges    what lies outside of A and B counts as 0; only what lies inside of D is written
// NaN      of an operand makes its row or column of D NaN
// Errors   accepts() is false for tf32 and, unless BT_GEMM=own, for small products: the row above
//          serves
// Oracle   the product in float64, tests/conformance/test_gemm.c
#include "kernels/cuda/gemm/endings_sm80.cuh"

namespace bt_gemm_sm80
{

constexpr int FP32_THREADS = 256, FP32_TILE_N = 128;

// Rows of a thread, depth of a k-block.
template <int R, int D> struct fp32_config {
    static constexpr int ROWS = R, DEPTH = D, TILE_M = 16 * R;
    static constexpr int BLOCKS_PER_SM = R == 16 ? 1 : 2;
};

// A thread's part of the k-blocks of an operand, on its way through registers. SPAN: rows of M or N
// of the tile. Value i is 4 values of k of a row (K-major), or of 4 rows at a k (MN-major).
template <bool MN_MAJOR, int SPAN, int DEPTH> struct fp32_slice {
    static constexpr int COUNT = SPAN * DEPTH / 4 / FP32_THREADS;
    static constexpr int ACROSS = MN_MAJOR ? SPAN / 4 : DEPTH / 4; // threads side by side
    static constexpr int STEP = FP32_THREADS / ACROSS;             // of k or row, from i to i + 1
    static constexpr int PITCH = SPAN + 4; // K-major stores: two to a bank, not eight
    const float *from;                     // value 0 of the next k-block
    int64_t ld;
    int place;  // of value 0 in a buffer, floats
    int inside; // rows of the tile that are inside
    bool whole; // all of them, and everything is aligned
    bool wide;
    float4 v[COUNT];

    static __device__ __forceinline__ int row()
    {
        return (int)threadIdx.x % ACROSS * 4 * MN_MAJOR + (int)threadIdx.x / ACROSS * !MN_MAJOR;
    }
    static __device__ __forceinline__ int depth()
    {
        return (int)threadIdx.x % ACROSS * 4 * !MN_MAJOR + (int)threadIdx.x / ACROSS * MN_MAJOR;
    }
    __device__ __forceinline__ fp32_slice(const float *matrix, int64_t row_stride, int64_t first,
                                          int64_t end, int64_t k, bool is_wide)
        : ld(row_stride), place(depth() * PITCH + row()),
          inside((int)min((int64_t)SPAN, end - first)), whole(is_wide && first + SPAN <= end),
          wide(is_wide)
    {
        from = MN_MAJOR ? matrix + (k + depth()) * ld + first + row()
                        : matrix + (first + row()) * ld + k + depth();
    }
    __device__ __forceinline__ void load_edge(int left)
    {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int rows = inside - row(), deep = left - depth();
            const int count =
                MN_MAJOR ? (deep > i * STEP ? rows : 0) : (rows > i * STEP ? deep : 0);
            const float *at = from + i * STEP * ld;
            v[i] = make_float4(0, 0, 0, 0);
            if (wide && count >= 4) {
                v[i] = __ldg((const float4 *)at);
            } else if (count > 0) {
                v[i].x = at[0];
                v[i].y = count > 1 ? at[1] : 0.0f;
                v[i].z = count > 2 ? at[2] : 0.0f;
                v[i].w = count > 3 ? at[3] : 0.0f;
            }
        }
    }
    // The next k-block, of which `left` values of k lie inside.
    __device__ __forceinline__ void load(int left)
    {
        if (whole && left >= DEPTH) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                v[i] = __ldg((const float4 *)(from + i * STEP * ld));
            }
        } else {
            load_edge(left);
        }
        from += MN_MAJOR ? DEPTH * ld : DEPTH;
    }
    __device__ __forceinline__ void put(float (&to)[DEPTH][PITCH], int i) const
    {
        float *at = &to[0][0] + place + i * STEP * (MN_MAJOR ? PITCH : 1);
        if constexpr (MN_MAJOR) {
            *(float4 *)at = v[i];
        } else {
            at[0] = v[i].x;
            at[PITCH] = v[i].y;
            at[2 * PITCH] = v[i].z;
            at[3 * PITCH] = v[i].w;
        }
    }
};

template <class C> struct fp32_buffers {
    float a[2][C::DEPTH][C::TILE_M + 4], b[2][C::DEPTH][FP32_TILE_N + 4];
};

// Warps are 4 x 2, lanes (r, c) 4 x 8. A thread's rows are runs of 4, 16 apart, its columns two
// runs of 4, 32 apart. r is made of lane bits 1 and 4, so that half of the lanes of neighbouring
// quarter warps read the same 16 bytes.
template <class C> struct fp32_place {
    int row, col;
    __device__ __forceinline__ fp32_place()
    {
        const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        row = warp / 2 * 4 * C::ROWS + ((lane >> 1 & 1) | (lane >> 4) << 1) * 4;
        col = warp % 2 * 64 + ((lane & 1) | (lane >> 2 & 3) << 1) * 4;
    }
};

template <class C> struct fp32_values { // of one k
    float a[C::ROWS], b[8];
    __device__ __forceinline__ void load(const fp32_buffers<C> &from, int buffer, int k,
                                         const fp32_place<C> &at)
    {
#pragma unroll
        for (int i = 0; i < C::ROWS; i += 4) {
            *(float4 *)&a[i] = *(const float4 *)&from.a[buffer][k][at.row + 4 * i];
        }
        *(float4 *)&b[0] = *(const float4 *)&from.b[buffer][k][at.col];
        *(float4 *)&b[4] = *(const float4 *)&from.b[buffer][k][at.col + 32];
    }
};

template <class C> using fp32_sums = float[C::ROWS][8];

template <class C>
static __device__ __forceinline__ void add_products(fp32_sums<C> &sums, const fp32_values<C> &x)
{
#pragma unroll
    for (int i = 0; i < C::ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int turned = i & 1 ? 7 - j : j; // a neighbour's operand is at hand
            sums[i][turned] = fmaf(x.a[i], x.b[turned], sums[i][turned]);
        }
    }
}

template <class C, bool A_MN, bool B_MN>
static __device__ __forceinline__ void multiply_fp32(fp32_sums<C> &sums, const problem &p,
                                                     const unit &t, fp32_buffers<C> &shared,
                                                     const fp32_place<C> &at)
{
    using slice_a = fp32_slice<A_MN, C::TILE_M, C::DEPTH>;
    using slice_b = fp32_slice<B_MN, FP32_TILE_N, C::DEPTH>;
    // Steps, the last ones but one, after which a value goes to shared memory.
    constexpr int PUTS = slice_a::COUNT + slice_b::COUNT, PUT_STEP = C::DEPTH - 1 - PUTS;
    static_assert(PUT_STEP >= 0, "a step for each value");
    const bt_gemm_args &call = p.call;
    slice_a next_a((const float *)call.a + t.batch * call.stride_a, call.lda, t.m, call.m,
                   t.k_begin, p.wide_a);
    slice_b next_b((const float *)call.b + t.batch * call.stride_b, call.ldb, t.n, call.n,
                   t.k_begin, p.wide_b);
    fp32_values<C> x;
    int buffer = 0, left = (int)(t.k_end - t.k_begin);
    next_a.load(left);
    next_b.load(left);
    __syncthreads(); // the unit before has read its last values
#pragma unroll
    for (int i = 0; i < slice_a::COUNT; ++i) {
        next_a.put(shared.a[0], i);
    }
#pragma unroll
    for (int i = 0; i < slice_b::COUNT; ++i) {
        next_b.put(shared.b[0], i);
    }
    __syncthreads();
    x.load(shared, 0, 0, at);
    for (; left > 0; left -= C::DEPTH) {
        const bool more = left > C::DEPTH;
        if (more) {
            next_a.load(left - C::DEPTH);
            next_b.load(left - C::DEPTH);
        }
#pragma unroll
        for (int step = 0; step < C::DEPTH; ++step) {
            if (step > 0) {
                x.load(shared, buffer, step, at);
            }
            if (step == C::DEPTH - 1 && more) {
                __syncthreads();
            }
            add_products<C>(sums, x);
            const int put = step - PUT_STEP;
            if (more && put >= 0 && put < slice_a::COUNT) {
                next_a.put(shared.a[buffer ^ 1], put);
            } else if (more && put >= slice_a::COUNT && put < PUTS) {
                next_b.put(shared.b[buffer ^ 1], put - slice_a::COUNT);
            }
        }
        buffer ^= 1;
        if (more) {
            x.load(shared, buffer, 0, at);
        }
    }
}

template <class C, bool A_MN, bool B_MN>
static __global__ void __launch_bounds__(FP32_THREADS, C::BLOCKS_PER_SM)
    fp32_kernel(const __grid_constant__ problem p)
{
    extern __shared__ __align__(16) unsigned char memory[];
    fp32_buffers<C> &shared = *(fp32_buffers<C> *)memory;
    const fp32_place<C> at;
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C::TILE_M, FP32_TILE_N, C::DEPTH>(p, u);
        fp32_sums<C> sums = {};
        multiply_fp32<C, A_MN, B_MN>(sums, p, t, shared, at);
        await_turn(p, t);
#pragma unroll
        for (int i = 0; i < C::ROWS; ++i) {
            const int64_t row = t.m + at.row + i / 4 * 16 + i % 4;
#pragma unroll
            for (int j = 0; j < 8; j += 4) {
                float run[4] = {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
                finish_run<float, float, 4>(p, t, row, t.n + at.col + 8 * j, run);
            }
        }
        pass_turn(p, t);
    }
}

#define VARIANT(rows, depth, trans_a, trans_b, efficiency)                                         \
    {                                                                                              \
        fp32_config<rows, depth>::TILE_M, FP32_TILE_N, depth, trans_a, trans_b, BT_F32,            \
            fp32_kernel<fp32_config<rows, depth>, trans_a, !(trans_b)>, FP32_THREADS,              \
            (int)sizeof(fp32_buffers<fp32_config<rows, depth>>),                                   \
            fp32_config<rows, depth>::BLOCKS_PER_SM, efficiency                                    \
    }
#define LAYOUTS(rows, depth, efficiency)                                                           \
    VARIANT(rows, depth, false, true, efficiency), VARIANT(rows, depth, false, false, efficiency), \
        VARIANT(rows, depth, true, false, efficiency),                                             \
        VARIANT(rows, depth, true, true, efficiency)
static const variant variants[] = {LAYOUTS(16, 8, 0.7), LAYOUTS(8, 16, 0.7)};

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
