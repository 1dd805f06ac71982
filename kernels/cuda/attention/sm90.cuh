// kernels/cuda/attention/sm90.cuh - what the Hopper kernels share on the device
//
// A tile is 64 tokens of one head in rows of 128 bytes, swizzled by TMA; tokens past the last and
// columns past head_dim are zero. In bf16 a tile is 64 columns wide and takes TILE bytes, in f32 it
// is two halves of 32 columns, TILE bytes each. One descriptor serves a tile as K-major operand and
// (bf16) as MN-major one, since 64 columns are a single chunk.
#ifndef BT_KERNELS_CUDA_ATTENTION_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_SM90_CUH

#include "kernels/cuda/attention/sm90.h"
#include "kernels/cuda/ptx_sm90.cuh"

namespace bt_attention_sm90
{

constexpr int TILE = BLOCK * 128, TILE_STEP = TILE / 16; // bytes; in a descriptor

// Where a warp stands in a ring of stages. A producer starts with phase 1: the first wait for an
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

// ---- items of N tiles, one for each of N warpgroups, that take turns since the first has
// the most to do. Tiles of queries count from the end and may be negative, tiles of keys count from
// the beginning and may be past the end, where a head's tiles are no multiple of N: those work
// on the zeros that TMA loads there, and nothing of them is stored. A warpgroup may hold a stage
// while it passes over tiles that it does not see: that they are two at most, less than a ring has,
// is what makes it safe.
template <int N = 3> __device__ __forceinline__ int turn_of(int group, int round)
{
    return (group + round) % N;
}
template <int N = 3>
__device__ __forceinline__ int query_block(const work &w, const item &t, int turn)
{
    return w.tiles - 1 - t.part * N - turn;
}
template <int N = 3> __device__ __forceinline__ int key_block(const item &t, int turn)
{
    return t.part * N + turn;
}
// The keys that an item's queries begin with, downwards to 0, and those of one of its tiles.
template <int N = 3> __device__ __forceinline__ int top_key_tile(const work &w, const item &t)
{
    return w.causal ? w.tiles - 1 - t.part * N : w.tiles - 1;
}
__device__ __forceinline__ int first_key_tile(const work &w, int block)
{
    return w.causal ? max(block, 0) : w.tiles - 1;
}
// The queries that an item's keys begin with, upwards to the last, and those of one of its tiles.
template <int N = 3> __device__ __forceinline__ int bottom_query_tile(const work &w, const item &t)
{
    return w.causal ? t.part * N : 0;
}
__device__ __forceinline__ int first_query_tile(const work &w, int block)
{
    return w.causal ? min(block, w.tiles - 1) : 0;
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

// d[4j + e], columns past `last0` (of the row) and `last1` (of the row 8 below), become `value`.
// Both count from the thread's own first column.
__device__ __forceinline__ void mask_after(float (&d)[32], int last0, int last1, float value)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            d[4 * i + e] = 8 * i + e > last0 ? value : d[4 * i + e];
            d[4 * i + 2 + e] = 8 * i + e > last1 ? value : d[4 * i + 2 + e];
        }
    }
}
__device__ __forceinline__ void mask_before(float (&d)[32], int first0, int first1, float value)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            d[4 * i + e] = 8 * i + e < first0 ? value : d[4 * i + e];
            d[4 * i + 2 + e] = 8 * i + e < first1 ? value : d[4 * i + 2 + e];
        }
    }
}

// The last column, counted from the thread's first, that its row sees in the first tile of keys;
// the row 8 below sees `step` more.
struct sight {
    int last, step;
};
__device__ __forceinline__ sight sight_of(const work &w, int first_tile, const place &at)
{
    return w.causal ? sight{row_of(at) - column_of(at), 8}
                    : sight{w.tokens - 1 - first_tile * BLOCK - column_of(at), 0};
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
// The same of wide tiles, two of 64 columns: d = A B^T, and d (+)= A B with d as wide.
__device__ __forceinline__ void multiply_wide(float (&d)[32], uint64_t a, uint64_t b)
{
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int step = (k >> 2) * TILE_STEP + (k & 3) * WGMMA_K_STEP<false>;
        wgmma_bf16<64, false, false>::multiply(d, a + step, b + step, k > 0);
    }
}
__device__ __forceinline__ void multiply_wide(float (&d)[2][32], const uint32_t (&a)[16],
                                              uint64_t b, bool adds)
{
    multiply_bf16(d[0], a, b, adds);
    multiply_bf16(d[1], a, b + TILE_STEP, adds);
}
// The step, in a descriptor, to the k-th 8 columns of a tile of f32.
__device__ __forceinline__ constexpr int tf32_step(int k)
{
    return (k >> 2) * TILE_STEP + (k & 3) * 2;
}
// d = A B^T in tf32, both in shared memory.
__device__ __forceinline__ void multiply_tf32(float (&d)[32], uint64_t a, uint64_t b)
{
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        wgmma_tf32_shared(d, a + tf32_step(k), b + tf32_step(k), k > 0);
    }
}
// d (+)= A B^T in tf32, A in registers, in the order of tokens_tf32_sm90.cu.
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
// Tiles of f32 by TMA, both halves.
__device__ __forceinline__ void load_f32(uint32_t to, const CUtensorMap *map, int token, int head,
                                         int batch, uint32_t barrier)
{
    tma_load(to, map, 0, token, head, batch, barrier);
    tma_load(to + TILE, map, 32, token, head, batch, barrier);
}
// Wide tiles of bf16 by TMA, both halves.
__device__ __forceinline__ void load_wide(uint32_t to, const CUtensorMap *map, int token, int head,
                                          int batch, uint32_t barrier)
{
    tma_load(to, map, 0, token, head, batch, barrier);
    tma_load(to + TILE, map, 64, token, head, batch, barrier);
}
__device__ __forceinline__ void send_wide(const CUtensorMap *map, uint32_t from, int token,
                                          int head, int batch)
{
    tma_store(map, from, 0, token, head, batch);
    tma_store(map, from + TILE, 64, token, head, batch);
}
__device__ __forceinline__ void send_f32(const CUtensorMap *map, uint32_t from, int token, int head,
                                         int batch)
{
    tma_store(map, from, 0, token, head, batch);
    tma_store(map, from + TILE, 32, token, head, batch);
}

#endif

} // namespace bt_attention_sm90
#endif
