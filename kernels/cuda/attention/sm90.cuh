// kernels/cuda/attention/sm90.cuh - device code shared by the Hopper kernels
//
// A tile is 64 tokens of one head in rows of 128 bytes, swizzled by TMA; tokens past the last and
// columns past head_dim are zero. In bf16 a tile is 64 columns wide and takes TILE bytes, in f32 it
// is two halves of 32 columns, TILE bytes each. One descriptor serves a tile as K-major operand and
// (bf16) as MN-major one, since 64 columns are a single chunk.
//
// Rules for code of Hopper kernels, each found by a loss of speed or a hang:
//   1. No branch on the lane or thread in a consumer: ptxas then keeps wgmma's descriptors in
//      ordinary registers (R2UR before each product, spills). Predicate inside the asm
//      (mbarrier_arrive_if, store_if); the fourth warpgroup issues TMA stores. IEEE division and
//      logf contain branches, too.
//   2. Values that a kernel reads often are not in one struct with tensor maps.
//   3. A tile with a single place in the ring has invariant descriptors: hide that from the
//   compiler
//      (wide_tf32_sm90.cuh), or they move to ordinary registers as well.
//   4. A consumer that skips tiles while it holds a stage may skip fewer than the ring has stages.
//   5. A TMA store wholly before the tensor is an illegal instruction; past the end it stores
//      nothing.
//   6. `ptxas -v` must show no warning C7512, C7514 or C7520 (products serialized) and no spills;
//      the general kernels spill up to 44 bytes an item, outside of their loops.
#ifndef BT_KERNELS_CUDA_ATTENTION_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_SM90_CUH

#include "kernels/cuda/attention/sm90.h"
#include "kernels/cuda/ptx_sm90.cuh"

namespace bt_attention_sm90
{

constexpr int TILE = BLOCK * 128, TILE_STEP = TILE / 16; // bytes; in a descriptor

// Position of a warp in a ring of stages. A producer starts with phase 1: the first wait for an
// empty stage returns at once.
template <int STAGES> struct ring_place {
    int stage = 0, phase = 0;
    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

struct item {
    int batch, head, index, part; // index: of the head over the batch
};

// The key/value head of an item of queries; the same over the batch.
__device__ __forceinline__ int kv_head_of(const work &w, const item &t)
{
    return (int)w.by_q_per_kv.quotient((uint32_t)t.head);
}
__device__ __forceinline__ int kv_index_of(const work &w, const item &t)
{
    return (int)w.by_q_per_kv.quotient((uint32_t)t.index);
}

__device__ __forceinline__ int item_index(int round, int worker, int workers)
{
    return round * workers + (round & 1 ? workers - 1 - worker : worker);
}

__device__ __forceinline__ item item_at(const work &w, int index)
{
    item t;
    const int group = (int)w.per_group.quotient((uint32_t)index);
    const int rest = index - group * (int)w.per_group.by;
    const bool last = (group + 1) * w.group > w.heads;
    t.part = (int)(last ? w.by_last.quotient((uint32_t)rest) : w.by_group.quotient((uint32_t)rest));
    t.index = group * w.group + rest - t.part * (int)(last ? w.by_last.by : w.by_group.by);
    t.batch = (int)w.by_heads.quotient((uint32_t)t.index);
    t.head = t.index - t.batch * (int)w.by_heads.by;
    return t;
}

// Which role a thread has; `warp` is the same for all lanes, and the compiler is told so.
struct place {
    int warp, group, thread, lane; // group: of 4 warps; thread: within it
};

__device__ __forceinline__ place place_make()
{
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
    return {warp, warp >> 2, (int)threadIdx.x & 127, (int)threadIdx.x & 31};
}

// The row of a thread's sums d[4j], d[4j+1] within the tile, and the column of d[0]; d[4j+2],
// d[4j+3] are 8 rows below (ptx_sm90.cuh).
__device__ __forceinline__ int row_of(const place &at)
{
    return (at.thread >> 5) * 16 + (at.lane >> 2);
}
__device__ __forceinline__ int column_of(const place &at) { return 2 * (at.lane & 3); }

// Sums of the four lanes that share rows, in a fixed order; their largest.
__device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ uint64_t operand(uint32_t address)
{
    return wgmma_operand<false>(address, 0);
}

// ---- products of 64 x 64 x 64 -----------------------------------------------------------------

// d = A B^T in bf16, both in shared memory.
__device__ __forceinline__ void multiply_bf16(float (&d)[32], uint64_t a, uint64_t b)
{
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        constexpr int STEP = WGMMA_K_STEP<false>;
        wgmma_bf16<64, false, false>::multiply(d, a + k * STEP, b + k * STEP, k > 0);
    }
}
// d (+)= A B in bf16, A in registers (a k-step of 16 is 4 words), rows of B are of the sum.
__device__ __forceinline__ void multiply_bf16(float (&d)[32], const uint32_t (&a)[16], uint64_t b,
                                              bool adds)
{
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        wgmma_bf16_registers<true>(d, a + 4 * k, b + k * WGMMA_K_STEP<true>, k > 0 || adds);
    }
}
// The step, in a descriptor, to the k-th 8 columns of a tile of f32.
__device__ __forceinline__ constexpr int tf32_step(int k)
{
    return (k >> 2) * TILE_STEP + (k & 3) * 2;
}
// A tile of f32 as A fragments, a k-step of 8 is 4 words.
__device__ __forceinline__ void load_fragments(uint32_t (&a)[32], uint32_t tile, const place &at)
{
    const int row = row_of(at);
    const uint32_t from = tile + (uint32_t)(row * 128 + (at.lane & 3) * 4), turn = row & 7;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const uint32_t half = from + (uint32_t)(k >> 2) * TILE, chunk = (uint32_t)(k & 3) * 2;
        const uint32_t near = half + ((chunk ^ turn) << 4),
                       far = half + (((chunk + 1) ^ turn) << 4);
        a[4 * k] = load_word(near);
        a[4 * k + 1] = load_word(near + 1024);
        a[4 * k + 2] = load_word(far);
        a[4 * k + 3] = load_word(far + 1024);
    }
}
// d (+)= A B^T in tf32, A in registers.
__device__ __forceinline__ void multiply_tf32(float (&d)[32], const uint32_t (&a)[32], uint64_t b,
                                              bool adds)
{
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const uint32_t(&left)[4] = *(const uint32_t(*)[4])(a + 4 * k);
        wgmma_tf32<64>::multiply(d, left, b + tf32_step(k), k > 0 || adds);
    }
}

// ---- accumulators to operands and to memory ---------------------------------------------------

__device__ __forceinline__ void pack_tile(uint32_t (&a)[16], const float (&d)[32])
{
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        a[i] = pack_bf16(d[2 * i], d[2 * i + 1]);
    }
}
__device__ __forceinline__ uint32_t tf32_of(float x) { return round_tf32(__float_as_uint(x)); }
// Columns 2c and 2c + 1 of a C fragment stand for columns c and c + 4 of the A fragment.
__device__ __forceinline__ void round_tile(uint32_t (&a)[32], const float (&d)[32])
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        a[4 * i] = tf32_of(d[4 * i]);
        a[4 * i + 1] = tf32_of(d[4 * i + 2]);
        a[4 * i + 2] = tf32_of(d[4 * i + 1]);
        a[4 * i + 3] = tf32_of(d[4 * i + 3]);
    }
}

// The warpgroup's sums, rows times f0 and (8 below) f1, into a swizzled tile of bf16.
__device__ __forceinline__ void store_bf16(uint32_t tile, const float (&d)[32], float f0, float f1,
                                           const place &at)
{
    const int row = (at.thread >> 5) * 16 + (at.lane & 15), chunk = at.lane >> 4;
    const uint32_t to = tile + (uint32_t)row * 128, turn = (uint32_t)row & 7;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        const uint32_t v[4] = {
            pack_bf16(d[4 * j] * f0, d[4 * j + 1] * f0),
            pack_bf16(d[4 * j + 2] * f1, d[4 * j + 3] * f1),
            pack_bf16(d[4 * j + 4] * f0, d[4 * j + 5] * f0),
            pack_bf16(d[4 * j + 6] * f1, d[4 * j + 7] * f1),
        };
        store_matrices(to + (((uint32_t)(j + chunk) ^ turn) << 4), v);
    }
}
// The same into a tile of f32.
__device__ __forceinline__ void store_f32(uint32_t tile, const float (&d)[32], float f0, float f1,
                                          const place &at)
{
    const int row = row_of(at), quad = at.lane & 3;
    const uint32_t from = tile + (uint32_t)(row * 128 + (quad & 1) * 8), turn = (uint32_t)row & 7;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t chunk = (uint32_t)((i & 3) * 2 + (quad >> 1));
        const uint32_t to = from + (uint32_t)(i >> 2) * TILE + ((chunk ^ turn) << 4);
        store_pair(to, d[4 * i] * f0, d[4 * i + 1] * f0);
        store_pair(to + 1024, d[4 * i + 2] * f1, d[4 * i + 3] * f1);
    }
}
#endif

} // namespace bt_attention_sm90
#endif
