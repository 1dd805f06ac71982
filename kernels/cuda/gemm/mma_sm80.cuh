// kernels/cuda/gemm/mma_sm80.cuh - the GEMM on tensor cores of any GPU from sm_80 on: its pipeline
//   D = epilogue(alpha op(A) op(B)) + beta C, sums in f32; bf16, or f32 operands rounded to tf32
//
// A block of four warps has a tile of 128 x 128, a warp a quarter of 64 x 64 of it; two blocks
// share an SM, and one's epilogue overlaps the other's multiplication.
//
//   global --cp.async--> ring of STAGES stages in shared memory --ldmatrix--> registers -->
//   mma.sync block i:  wait for stage i, barrier | start loading stage i + STAGES - 1 | multiply
//   stage i
//
// A stage holds, of either operand, 128 rows of M or N by DEPTH values of K: as 128 rows of 128
// bytes (K-major), or as DEPTH rows of 128 values (MN-major). 16-byte chunks of a row are permuted
// (swizzle) so that what is read together lies in different banks.
//
// Fragments  bf16: ldmatrix, with transposition where MN-major. tf32: a word takes the place of two
//            bf16 values, so K-major is the same; MN-major is read word by word. tf32 is rounded
//            in registers, to nearest (ties to even from sm_90 on, away from zero before).
// Invariants
//   1. Unit u belongs to block u % gridDim.x. Sums are in ascending k within a split, splits add
//      ascending: bits depend on shape and plan alone.
//   2. Stage s is loaded again after the barrier that follows its last reading.
// Edges      values outside of A and B are zeros; matrices at other addresses than multiples of 16
//            bytes are copied value by value
// Source     PTX ISA, "Warp Level Matrix Instructions"; fragments as in
// kernels/cuda/attention/mma.cuh
#ifndef BT_KERNELS_CUDA_GEMM_MMA_SM80_CUH
#define BT_KERNELS_CUDA_GEMM_MMA_SM80_CUH

#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/gemm/endings_sm80.cuh"

namespace bt_gemm_sm80
{

// One kernel: types of operands and output, layouts.
template <typename IN, typename T, bool A_MN_MAJOR, bool B_MN_MAJOR> struct mma_config {
    using VALUE = IN;
    using RESULT = T;
    static constexpr bool A_MN = A_MN_MAJOR, B_MN = B_MN_MAJOR;
    static constexpr int TILE = 128, WARP_TILE = 64, THREADS = 128, STAGES = 3;
    static constexpr int CHUNK = 16 / (int)sizeof(IN); // values of 16 bytes
    static constexpr int DEPTH = 8 * CHUNK;
    static constexpr int OPERAND_BYTES = TILE * 128, STAGE_BYTES = 2 * OPERAND_BYTES;
    static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES, BLOCKS_PER_SM = 2;
    static constexpr int STEPS = 4; // of a stage: 16 values of K in bf16, 8 in tf32
};

// `count` of the 16 bytes; zeros for the rest. Source  PTX ISA, cp.async with src-size
static __device__ __forceinline__ void copy_part(uint32_t to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

// Where chunk `chunk` of row `row` lies in an operand's part of a stage.
template <typename IN, bool MN_MAJOR>
static __device__ __forceinline__ uint32_t chunk_at(int row, int chunk)
{
    if constexpr (!MN_MAJOR) {
        return row * 128 + ((chunk ^ (row & 7)) << 4);
    } else if constexpr (sizeof(IN) == 2) {
        return row * 256 + ((chunk ^ (row & 7)) << 4);
    } else { // words of four rows are read together, of eight columns
        return row * 512 + ((chunk ^ (row & 3) << 1) << 4);
    }
}

// How a thread copies an operand's part of a k-block.
template <class C, bool MN_MAJOR> struct mma_source {
    using IN = typename C::VALUE;
    static constexpr int ACROSS = MN_MAJOR ? C::TILE / C::CHUNK : 8; // chunks of a row
    static constexpr int STEP = C::THREADS / ACROSS, COUNT = C::OPERAND_BYTES / 16 / C::THREADS;
    const IN *from; // this thread's first chunk of the next k-block
    int64_t ld;
    int inside; // rows of M or N of the tile that are inside
    bool wide;

    static __device__ __forceinline__ int chunk() { return (int)threadIdx.x % ACROSS; }
    static __device__ __forceinline__ int row(int i)
    {
        return (int)threadIdx.x / ACROSS + i * STEP;
    }
    __device__ __forceinline__ mma_source(const void *matrix, int64_t offset, int64_t row_stride,
                                          int64_t first, int64_t end, int64_t k, bool is_wide)
        : ld(row_stride), inside((int)min((int64_t)C::TILE, end - first)), wide(is_wide)
    {
        from = (const IN *)matrix + offset + ((MN_MAJOR ? k : first) + row(0)) * ld +
               (MN_MAJOR ? first : k) + chunk() * C::CHUNK;
    }
    // Starts copying the next k-block, of which `left` values of K are inside.
    __device__ __forceinline__ void copy(uint32_t to, unsigned char *memory, uint32_t base,
                                         int left)
    {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int rows = MN_MAJOR ? left : inside, values = MN_MAJOR ? inside : left;
            const int count = row(i) < rows ? values - chunk() * C::CHUNK : 0;
            const uint32_t at = to + chunk_at<IN, MN_MAJOR>(row(i), chunk());
            const IN *source = from + i * STEP * ld;
            if (wide) {
                copy_part(at, count > 0 ? source : from,
                          max(0, min(count, C::CHUNK)) * (int)sizeof(IN));
            } else {
                IN *target = (IN *)(memory + (at - base));
                for (int e = 0; e < C::CHUNK; ++e) {
                    target[e] = e < count ? source[e] : from_float<IN>(0.0f);
                }
            }
        }
        from += MN_MAJOR ? C::DEPTH * ld : C::DEPTH;
    }
};

// The fragments of 64 rows of M (A) or columns of N (B) for a step: A four of 16 rows, words
// a0 .. a3; B four pairs of 8 columns, words b0, b1 of the one and of the other.
using mma_fragments = uint32_t[4][4];

static __device__ __forceinline__ uint32_t load_word(uint32_t from)
{
    uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

template <class C, bool MN_MAJOR, bool IS_A>
static __device__ __forceinline__ void load_fragments(mma_fragments &f, uint32_t operand, int first,
                                                      int step)
{
    using IN = typename C::VALUE;
    const int lane = (int)threadIdx.x % 32, matrix = lane / 8;
    // Of the four 8 x 8 matrices (8 x 4 words) of a fragment: the second half of the rows, of K.
    const int row_half = IS_A ? matrix % 2 : matrix / 2,
              depth_half = IS_A ? matrix / 2 : matrix % 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = first + 16 * i;
        if constexpr (!MN_MAJOR) {
            ldmatrix(f[i], operand + chunk_at<IN, false>(row + row_half * 8 + lane % 8,
                                                         2 * step + depth_half));
        } else if constexpr (sizeof(IN) == 2) {
            ldmatrix_trans(f[i], operand + chunk_at<IN, true>(16 * step + depth_half * 8 + lane % 8,
                                                              row / 8 + row_half));
        } else {
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                const int r = row + (IS_A ? word % 2 : word / 2) * 8 + lane / 4;
                const int k = 8 * step + (IS_A ? word / 2 : word % 2) * 4 + lane % 4;
                f[i][word] = load_word(operand + chunk_at<IN, true>(k, r / 4) + r % 4 * 4);
            }
        }
    }
    if constexpr (sizeof(IN) == 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                f[i][word] = __float_as_uint(round_tf32(__uint_as_float(f[i][word])));
            }
        }
    }
}

using mma_sums = float[4][8][4]; // [16 rows][8 columns][c0 .. c3]

template <class C>
static __device__ __forceinline__ void multiply_stage(mma_sums &sums, uint32_t stage, int row,
                                                      int col)
{
#pragma unroll
    for (int step = 0; step < C::STEPS; ++step) {
        mma_fragments a, b;
        load_fragments<C, C::A_MN, true>(a, stage, row, step);
        load_fragments<C, C::B_MN, false>(b, stage + C::OPERAND_BYTES, col, step);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const uint32_t b0 = b[j / 2][j % 2 * 2], b1 = b[j / 2][j % 2 * 2 + 1];
                if constexpr (sizeof(typename C::VALUE) == 2) {
                    mma_bf16(sums[i][j], a[i], b0, b1);
                } else {
                    mma_tf32(sums[i][j], a[i], b0, b1);
                }
            }
        }
    }
}

template <class C>
static __device__ __forceinline__ void multiply_mma(mma_sums &sums, const problem &p, const unit &t,
                                                    unsigned char *memory, int row, int col)
{
    const bt_gemm_args &call = p.call;
    const uint32_t base = shared_address(memory);
    mma_source<C, C::A_MN> a(call.a, t.batch * call.stride_a, call.lda, t.m, call.m, t.k_begin,
                             p.wide_a);
    mma_source<C, C::B_MN> b(call.b, t.batch * call.stride_b, call.ldb, t.n, call.n, t.k_begin,
                             p.wide_b);
    int ahead = (int)(t.k_end - t.k_begin), left = ahead, next = 0, stage = 0;
    __syncthreads(); // the unit before has read its last values
    for (int i = 0; i < C::STAGES - 1; ++i, ahead -= C::DEPTH) {
        if (ahead > 0) {
            a.copy(base + next * C::STAGE_BYTES, memory, base, ahead);
            b.copy(base + next * C::STAGE_BYTES + C::OPERAND_BYTES, memory, base, ahead);
        }
        cp_async_commit();
        next = next + 1 == C::STAGES ? 0 : next + 1;
    }
    for (; left > 0; left -= C::DEPTH, ahead -= C::DEPTH) {
        cp_async_wait<C::STAGES - 2>();
        __syncthreads();
        if (ahead > 0) {
            a.copy(base + next * C::STAGE_BYTES, memory, base, ahead);
            b.copy(base + next * C::STAGE_BYTES + C::OPERAND_BYTES, memory, base, ahead);
        }
        cp_async_commit();
        next = next + 1 == C::STAGES ? 0 : next + 1;
        multiply_stage<C>(sums, base + stage * C::STAGE_BYTES, row, col);
        stage = stage + 1 == C::STAGES ? 0 : stage + 1;
    }
    cp_async_wait<0>();
}

template <class C>
static __global__ void __launch_bounds__(C::THREADS, C::BLOCKS_PER_SM)
    mma_kernel(const __grid_constant__ problem p)
{
    extern __shared__ __align__(128) unsigned char memory[];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int row = warp / 2 * C::WARP_TILE, col = warp % 2 * C::WARP_TILE;
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C::TILE, C::TILE, C::DEPTH>(p, u);
        mma_sums sums = {};
        multiply_mma<C>(sums, p, t, memory, row, col);
        await_turn(p, t);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float run[2] = {sums[i][j][2 * half], sums[i][j][2 * half + 1]};
                    finish_run<typename C::VALUE, typename C::RESULT, 2>(
                        p, t, t.m + row + 16 * i + 8 * half + lane / 4,
                        t.n + col + 8 * j + lane % 4 * 2, run);
                }
            }
        }
        pass_turn(p, t);
    }
}

} // namespace bt_gemm_sm80

// A row of a family's table of variants.
#define BT_MMA_VARIANT(in, out, d_dtype, trans_a, trans_b, efficiency)                             \
    {                                                                                              \
        128, 128, bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b)>::DEPTH, trans_a, trans_b, \
            d_dtype,                                                                               \
            bt_gemm_sm80::mma_kernel<bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b)>>, 128, \
            bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b)>::SHARED_BYTES, 2, efficiency    \
    }

#endif
