// kernels/cuda/attention/tiles_sm90.cuh - a tile of 64 tokens in each format of the Hopper kernels
//
// A format says how TMA moves a tile, how tiles are multiplied and how sums leave. COLUMN_TILES is
// the number of 64-wide column tiles that hold head_dim; columns past it are zero. Members:
//   scores      d = A B^T, B in shared memory, A as `left` gives it: there, or in registers (tf32
//   up
//               to 64 columns, for which shared memory is too slow); the sum runs over columns
//   accumulate  d (+)= P B with P a fragment; the sum runs over B's tokens
//   pack        sums to a fragment: C layout to A layout, rounded
//   store       sums, rows times f0 and (8 below) f1, into a tile from which `send` takes them
// TRANSPOSES: B of `accumulate` must be transposed (transpose_tf32_sm90.cuh): wgmma reads it by
// token.
#ifndef BT_KERNELS_CUDA_ATTENTION_TILES_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_TILES_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// A tile in registers, as A fragments.
struct held {
    uint32_t a[32];
};

template <int N> struct bf16_tiles {
    static constexpr int COLUMN_TILES = N, FRAGMENT = 16, PIECES = N; // pieces of 128 bytes a row
    static constexpr int TILE_BYTES = PIECES * TILE, STEP = PIECES * TILE_STEP;
    static constexpr int PIECE_COLUMNS = 64;
    static constexpr bool TRANSPOSES = false;
    static constexpr CUtensorMapDataType LOADED = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, STORED = LOADED;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ uint64_t left(uint64_t tile, uint32_t, const place &)
    {
        return tile;
    }
    static __device__ __forceinline__ void scores(float (&d)[32], uint64_t a, uint64_t b)
    {
#pragma unroll
        for (int k = 0; k < 4 * N; ++k) {
            const int step = (k >> 2) * TILE_STEP + (k & 3) * WGMMA_K_STEP<false>;
            wgmma_bf16<64, false, false>::multiply(d, a + step, b + step, k > 0);
        }
    }
    static __device__ __forceinline__ void accumulate(float (&d)[N][32], const uint32_t (&p)[16],
                                                      uint64_t b, bool adds)
    {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            multiply_bf16(d[n], p, b + n * TILE_STEP, adds);
        }
    }
    static __device__ __forceinline__ void pack(uint32_t (&p)[16], const float (&d)[32])
    {
        pack_tile(p, d);
    }
    static __device__ __forceinline__ void store(uint32_t tile, const float (&d)[N][32], float f0,
                                                 float f1, const place &at)
    {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            store_bf16(tile + n * TILE, d[n], f0, f1, at);
        }
    }
#endif
};

// f32 in memory. Fragments are in the order of transpose_tf32_sm90.cuh.
template <int N> struct tf32_tiles {
    static constexpr int COLUMN_TILES = N, FRAGMENT = 32, PIECES = 2 * N;
    static constexpr int TILE_BYTES = PIECES * TILE, STEP = PIECES * TILE_STEP;
    static constexpr int PIECE_COLUMNS = 32;
    static constexpr bool TRANSPOSES = true;
    static constexpr CUtensorMapDataType LOADED = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
                                         STORED = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    // The descriptor and the address of the same tile, whose place is free afterwards if it is
    // held.
    static __device__ __forceinline__ auto left(uint64_t tile, uint32_t address, const place &at)
    {
        if constexpr (N == 1) {
            held h;
            load_fragments(h.a, address, at);
            __syncwarp();
            return h;
        } else {
            return tile;
        }
    }
    static __device__ __forceinline__ void scores(float (&d)[32], const held &a, uint64_t b)
    {
        multiply_tf32(d, a.a, b, false);
    }
    static __device__ __forceinline__ void scores(float (&d)[32], uint64_t a, uint64_t b)
    {
#pragma unroll
        for (int k = 0; k < 8 * N; ++k) {
            wgmma_tf32_shared(d, a + tf32_step(k), b + tf32_step(k), k > 0);
        }
    }
    // With A's first HELD k-steps of 8 in registers.
    template <int HELD>
    static __device__ __forceinline__ void
    scores_partly_held(float (&d)[32], const uint32_t (&held)[32], uint64_t a, uint64_t b)
    {
#pragma unroll
        for (int k = 0; k < 8 * N; ++k) {
            if (k < HELD) {
                const uint32_t(&left)[4] = *(const uint32_t(*)[4])(held + 4 * k);
                wgmma_tf32<64>::multiply(d, left, b + tf32_step(k), k > 0);
            } else {
                wgmma_tf32_shared(d, a + tf32_step(k), b + tf32_step(k), k > 0);
            }
        }
    }
    static __device__ __forceinline__ void accumulate(float (&d)[N][32], const uint32_t (&p)[32],
                                                      uint64_t b, bool adds)
    {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            multiply_tf32(d[n], p, b + n * 2 * TILE_STEP, adds);
        }
    }
    static __device__ __forceinline__ void pack(uint32_t (&p)[32], const float (&d)[32])
    {
        round_tile(p, d);
    }
    static __device__ __forceinline__ void store(uint32_t tile, const float (&d)[N][32], float f0,
                                                 float f1, const place &at)
    {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            store_f32(tile + n * 2 * TILE, d[n], f0, f1, at);
        }
    }
#endif
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class F>
__device__ __forceinline__ void load(uint32_t to, const CUtensorMap *map, int tile, int head,
                                     int batch, uint32_t barrier)
{
#pragma unroll
    for (int i = 0; i < F::PIECES; ++i) {
        tma_load(to + i * TILE, map, i * F::PIECE_COLUMNS, tile * BLOCK, head, batch, barrier);
    }
}
template <class F>
__device__ __forceinline__ void send(const CUtensorMap *map, uint32_t from, int tile, int head,
                                     int batch)
{
#pragma unroll
    for (int i = 0; i < F::PIECES; ++i) {
        tma_store(map, from + i * TILE, i * F::PIECE_COLUMNS, tile * BLOCK, head, batch);
    }
}
// Adds the tile to what is there, in the type of the memory.
template <class F>
__device__ __forceinline__ void send_added(const CUtensorMap *map, uint32_t from, int tile,
                                           int head, int batch)
{
#pragma unroll
    for (int i = 0; i < F::PIECES; ++i) {
        tma_add(map, from + i * TILE, i * F::PIECE_COLUMNS, tile * BLOCK, head, batch);
    }
}
template <int N> __device__ __forceinline__ void settle(float (&d)[N][32])
{
#pragma unroll
    for (int n = 0; n < N; ++n) {
        wgmma_settle(d[n]);
    }
}

#endif

} // namespace
} // namespace bt_attention_sm90
#endif
