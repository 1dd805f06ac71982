// kernels/cuda/gemm/mma_sm80.cuh - the tensor-core GEMM for any GPU from sm_80 on: its pipeline
//   D = epilogue(alpha op(A) op(B)) + beta C, sums in f32; bf16, or f32 operands rounded to tf32
//
// A warp has 64 x 64 of a block's tile. Four warps have a tile of 128 x 128, and two blocks share
// an SM: one's epilogue overlaps the other's multiplication. Eight have 128 x 256, which reads a
// quarter fewer bytes per FLOP and leaves memory for one more stage.
//
//   global --cp.async--> ring of stages in shared memory (loads_sm80.cuh) --ldmatrix--> registers
//   --> mma.sync
//   k-block i:  steps 0 ..: multiply, load the next step's fragments, start copying
//               i + STAGES - 1 | last step: wait for i + 1, barrier, load its first fragments,
//               multiply
//
// A line of a stage (128 bytes K-major) consists of chunks of 16 bytes, permuted (swizzle) so that
// one read has no bank conflicts.
//
// Fragments  bf16: ldmatrix, with transposition where MN-major. tf32, K-major: the same, with a
//            word in place of two bf16 values. tf32, MN-major: of A, two rows at one k are read as
//            a pair, so rows 2 g and 2 g + 1 of 16 become the fragment's rows g and g + 8, and the
//            epilogue reverses that; of B, single words. tf32 is rounded in registers, to nearest
//            (ties to even from sm_90 on, away from zero before).
// Invariants  those of units_sm80.cuh and loads_sm80.cuh. Sums are in ascending k
// Source     PTX ISA, "Warp Level Matrix Instructions"; fragments as in
//            kernels/cuda/attention/mma.cuh
#ifndef BT_KERNELS_CUDA_GEMM_MMA_SM80_CUH
#define BT_KERNELS_CUDA_GEMM_MMA_SM80_CUH

#include "kernels/cuda/gemm/epilogue_sm80.cuh"
#include "kernels/cuda/gemm/loads_sm80.cuh"

namespace bt_gemm_sm80
{

// An operand's part of a stage.
template <typename IN, bool MN, int ROWS> struct mma_layout {
    using VALUE = IN;
    static constexpr bool MN_MAJOR = MN;
    static constexpr bool WORDS = MN && sizeof(IN) == 4; // ldmatrix cannot transpose them
    static constexpr int CHUNK = 16 / (int)sizeof(IN), PER = 1;
    static constexpr int SPAN = ROWS, DEPTH = 8 * CHUNK, BYTES = SPAN * 128;

    static constexpr __host__ __device__ int at(int line, int chunk)
    {
        // One read covers eight lines, or four lines and chunks of eight neighbours of each.
        const int swizzle = WORDS ? (line & 3) << 1 : line & 7;
        return line * (MN ? SPAN * (int)sizeof(IN) : 128) + ((chunk ^ swizzle) << 4);
    }
};

// One kernel: types of operands and output, layouts, columns of the tile.
template <typename IN, typename T, bool A_MN, bool B_MN, int COLS> struct mma_config {
    using VALUE = IN;
    using RESULT = T;
    using A = mma_layout<IN, A_MN, 128>;
    using B = mma_layout<IN, B_MN, COLS>;
    static constexpr int TILE_M = A::SPAN, TILE_N = B::SPAN, DEPTH = A::DEPTH;
    static constexpr int THREADS = COLS, BLOCKS_PER_SM = 256 / COLS, STAGES = COLS == 128 ? 3 : 4;
    static constexpr int STAGE_BYTES = A::BYTES + B::BYTES, SHARED_BYTES = STAGES * STAGE_BYTES;
    static constexpr int STEPS = 4; // of a k-block: 16 values of K in bf16, 8 in tf32
    static_assert(STAGE_BYTES >= THREADS / 32 * STAGED_BYTES,
                  "the epilogue reuses one stage: it must be large enough");
};

// The fragments of 64 rows of M (A) or columns of N (B) for a step: A four of 16 rows, words
// a0 .. a3; B four pairs of 8 columns, words b0, b1 of the one and of the other.
using mma_fragments = uint32_t[4][4];

template <int COUNT>
static __device__ __forceinline__ void load_words(uint32_t *words, uint32_t from)
{
    if constexpr (COUNT == 2) {
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                     : "=r"(words[0]), "=r"(words[1])
                     : "r"(from)
                     : "memory");
    } else {
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(words[0]) : "r"(from) : "memory");
    }
}

// A lane's address in an operand's part of a stage: that of its first fragment in step 0. Other
// fragments are some lines below, or some chunks aside. Chunk offsets change address bits into
// which neither lane nor swizzle carries, so an exclusive or with a constant gives the address.
template <class L, bool IS_A> static __device__ __forceinline__ uint32_t fragment_place(int first)
{
    const int lane = (int)threadIdx.x % 32, matrix = lane / 8;
    // Of the four 8 x 8 matrices (8 x 4 words) of a fragment: the second half of the rows, of K.
    const int row_half = IS_A ? matrix % 2 : matrix / 2,
              depth_half = IS_A ? matrix / 2 : matrix % 2;
    if constexpr (L::WORDS) {
        const int across = lane / 4 * (IS_A ? 2 : 1);
        return L::at(lane % 4, (first + across) / 4) + across % 4 * 4;
    } else if constexpr (L::MN_MAJOR) {
        return L::at(depth_half * 8 + lane % 8, first / 8 + row_half);
    } else {
        return L::at(first + row_half * 8 + lane % 8, depth_half);
    }
}

template <class L, bool IS_A>
static __device__ __forceinline__ void load_fragments(mma_fragments &f, uint32_t operand,
                                                      uint32_t place, int step)
{
    constexpr int LINE = L::MN_MAJOR ? L::SPAN * (int)sizeof(typename L::VALUE) : 128; // bytes
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (L::WORDS) {
            constexpr int COUNT = IS_A ? 2 : 1;
#pragma unroll
            for (int word = 0; word < 4; word += COUNT) {
                const int row_half = IS_A ? 0 : word / 2, depth_half = IS_A ? word / 2 : word % 2;
                load_words<COUNT>(&f[i][word],
                                  operand + (place ^ ((i % 2 * 4 + row_half * 2) << 4)) +
                                      (i / 2 * 8 << 4) + (8 * step + 4 * depth_half) * LINE);
            }
        } else if constexpr (L::MN_MAJOR) {
            ldmatrix_trans(f[i], operand + (place ^ (2 * i << 4)) + 16 * step * LINE);
        } else {
            ldmatrix(f[i], operand + (place ^ (2 * step << 4)) + 16 * i * LINE);
        }
    }
}

static __device__ __forceinline__ void round_fragments(mma_fragments &f)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            f[i][word] = __float_as_uint(round_tf32(__uint_as_float(f[i][word])));
        }
    }
}

using mma_sums = float[4][8][4]; // [16 rows][8 columns][c0 .. c3]

// Both operands' fragments for a step.
template <class C> struct mma_step {
    mma_fragments a, b;

    __device__ __forceinline__ void load(uint32_t stage, uint32_t place_a, uint32_t place_b,
                                         int step)
    {
        load_fragments<typename C::A, true>(a, stage, place_a, step);
        load_fragments<typename C::B, false>(b, stage + C::A::BYTES, place_b, step);
    }
    __device__ __forceinline__ void multiply(mma_sums &sums)
    {
        constexpr bool TF32 = sizeof(typename C::VALUE) == 4;
        if constexpr (TF32) {
            round_fragments(a);
            round_fragments(b);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int turn = 0; turn < 8; ++turn) {
                const int j = i & 1 ? 7 - turn : turn; // reuses the fragment of the mma before
                const uint32_t b0 = b[j / 2][j % 2 * 2], b1 = b[j / 2][j % 2 * 2 + 1];
                if constexpr (TF32) {
                    mma_tf32(sums[i][j], a[i], b0, b1);
                } else {
                    mma_bf16(sums[i][j], a[i], b0, b1);
                }
            }
        }
    }
};

// Copies the sums of 16 rows to the warp's staging buffer.
template <class C>
static __device__ __forceinline__ void stage_sums(const float (&sums)[8][4], float *staged)
{
    const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = C::A::WORDS ? 2 * g + half : g + 8 * half;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            *(float2 *)staged_at(staged, row, 8 * j + 2 * t) =
                make_float2(sums[j][2 * half], sums[j][2 * half + 1]);
        }
    }
}

template <class C>
static __global__ void __launch_bounds__(C::THREADS, C::BLOCKS_PER_SM)
    mma_kernel(const __grid_constant__ problem p)
{
    extern __shared__ __align__(128) unsigned char memory[];
    constexpr int WARPS_N = C::TILE_N / 64;
    const int warp = (int)threadIdx.x / 32;
    const int row = warp / WARPS_N * 64, col = warp % WARPS_N * 64;
    const uint32_t place_a = fragment_place<typename C::A, true>(row);
    const uint32_t place_b = fragment_place<typename C::B, false>(col);
    const uint32_t ring = shared_address(memory);
    feed<C> next(p);
    course<C> units(p);
    unit t;
    int stage = 0;
    follow_predecessor();
    next.start(p, memory);
    while (units.next(p, t)) {
        mma_sums sums = {};
        mma_step<C> steps[2]; // one is multiplied while the other is loaded
        cp_async_wait<C::STAGES - 2>();
        __syncthreads();
        steps[0].load(ring + stage, place_a, place_b, 0);
        int used = 0; // the last stage
        for (int left = t.k_end - t.k_begin; left > 0; left -= C::DEPTH) {
            next.begin(p, memory);
            used = stage;
            stage = stage + C::STAGE_BYTES == C::SHARED_BYTES ? 0 : stage + C::STAGE_BYTES;
#pragma unroll
            for (int step = 0; step < C::STEPS; ++step) {
                if (step + 1 < C::STEPS) {
                    steps[(step + 1) % 2].load(ring + used, place_a, place_b, step + 1);
                    next.template copy<C::STEPS - 1>(ring, step);
                } else {
                    next.end();
                    if (left > C::DEPTH) {
                        cp_async_wait<C::STAGES - 2>();
                        __syncthreads();
                        steps[0].load(ring + stage, place_a, place_b, 0);
                    }
                }
                steps[step % 2].multiply(sums);
            }
        }
        if (t.k_begin > 0) {
            leave_part<C>(p, &sums[0][0][0]);
        } else {
            add_parts<C>(p, t, &sums[0][0][0]);
            __syncthreads();
            float *staged = (float *)(memory + used + warp * STAGED_BYTES);
            write_sums<typename C::VALUE, typename C::RESULT>(
                p, t, t.m + row, t.n + col, staged, [&](int i) { stage_sums<C>(sums[i], staged); });
        }
    }
}

} // namespace bt_gemm_sm80

// A row of a family's table of variants.
#define BT_MMA_VARIANT(in, out, d_dtype, trans_a, trans_b, cols, efficiency)                       \
    {                                                                                              \
        128, cols, bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b), cols>::DEPTH, trans_a,   \
            trans_b, d_dtype,                                                                      \
            bt_gemm_sm80::mma_kernel<                                                              \
                bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b), cols>>,                     \
            bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b), cols>::THREADS,                 \
            bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b), cols>::SHARED_BYTES,            \
            bt_gemm_sm80::mma_config<in, out, trans_a, !(trans_b), cols>::BLOCKS_PER_SM,           \
            efficiency                                                                             \
    }

#endif
