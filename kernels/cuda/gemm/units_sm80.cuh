// kernels/cuda/gemm/units_sm80.cuh - the sequence of units that a block of the sm_80 GEMMs computes
//   (stream-K)
//
// The k-blocks of the first `cut` tiles are concatenated and divided into equal ranges, one for
// each block. Of the other tiles block b computes every gridDim.x-th. A unit is a whole tile, or
// the part of a cut tile within a block's range. The block with a cut tile's first k-blocks writes
// the tile; the others store their sums in the workspace. Each block stores at most one part,
// because only the first unit of a range can begin within a tile.
//
// Invariants
//   1. Parts are added in ascending k: bits depend only on shape, plan and number of SMs.
//   2. A block waits only for other blocks' first units, which wait for nothing, and all blocks are
//      resident (cooperative launch), so there is no deadlock.
// Source   Osama et al. 2023, arXiv:2301.03598 (stream-K)
#ifndef BT_KERNELS_CUDA_GEMM_UNITS_SM80_CUH
#define BT_KERNELS_CUDA_GEMM_UNITS_SM80_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/sm80.h"

namespace bt_gemm_sm80
{

// Waits until the results of earlier launches are visible, and lets later launches start.
// Source  PTX ISA, griddepcontrol
static __device__ __forceinline__ void follow_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// x / d, 0 <= x < 2^31. Source  Granlund & Montgomery 1994, division by invariant integers
static __device__ __forceinline__ int quotient(int x, const divisor &d)
{
    return (int)(__umulhi(2 * (unsigned)x, d.factor) >> d.shift);
}

struct unit {
    int m, n;           // first row and column of the tile
    int k_begin, k_end; // values
    int batch;
};

// Of tile number `tile`, k-blocks from `first` on, `count` of them.
template <int TILE_M, int TILE_N, int DEPTH>
static __device__ __forceinline__ unit unit_of(const problem &p, int tile, int first, int count)
{
    unit t;
    t.batch = quotient(tile, p.per_batch);
    int at = tile - t.batch * p.per_batch.by;
    const int group = quotient(at, p.per_group);
    const divisor &rows = group < p.whole_groups ? p.group_rows : p.last_rows;
    at -= group * p.per_group.by;
    const int across = quotient(at, rows);
    t.m = (group * p.group_rows.by + at - across * rows.by) * TILE_M;
    t.n = across * TILE_N;
    t.k_begin = first * DEPTH;
    t.k_end = min((first + count) * DEPTH, (int)p.call.k);
    return t;
}

// Number of k-blocks of cut tiles in a block's range.
static __device__ __forceinline__ int share_of(const problem &p, int block)
{
    return p.share + (block < p.larger ? 1 : 0);
}

// The units of this block.
template <class C> struct course {
    int tile;        // the next one
    int first, left; // its first k-block; k-blocks left of the block's share of cut tiles

    __device__ __forceinline__ course(const problem &p)
        : tile(p.cut + (int)blockIdx.x), first(0), left(share_of(p, (int)blockIdx.x))
    {
        if (left > 0) {
            const int block = (int)blockIdx.x;
            const int64_t begin = (int64_t)block * p.share + min(block, p.larger);
            tile = (int)(begin / p.depth_blocks);
            first = (int)(begin - (int64_t)tile * p.depth_blocks);
        }
    }
    __device__ __forceinline__ bool next(const problem &p, unit &t)
    {
        const bool in_share = left > 0;
        const int count = in_share ? min(left, p.depth_blocks - first) : p.depth_blocks;
        if (tile >= p.tiles) {
            return false;
        }
        t = unit_of<C::TILE_M, C::TILE_N, C::DEPTH>(p, tile, first, count);
        first = 0;
        left -= in_share ? count : 0;
        tile = left > 0 ? tile + 1 : in_share ? p.cut + (int)blockIdx.x : tile + (int)gridDim.x;
        return true;
    }
};

// Sums of a thread.
template <class C> constexpr int SUMS = C::TILE_M *C::TILE_N / C::THREADS;

// Stores this block's sums of a part for the block that writes the tile. They are stored one by
// one: wider stores would force them into neighbouring registers (fp32_sm80.cu).
template <class C>
static __device__ __forceinline__ void leave_part(const problem &p, const float *sums)
{
    float *to = p.parts + ((int64_t)blockIdx.x * C::TILE_M * C::TILE_N + threadIdx.x);
#pragma unroll
    for (int i = 0; i < SUMS<C>; ++i) {
        __stcg(to + i * C::THREADS, sums[i]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(p.left_parts + blockIdx.x)
                     : "memory");
    }
}

// Adds the other blocks' parts of the tile to this one, which begins it.
template <class C>
static __device__ __forceinline__ void add_parts(const problem &p, const unit &t, float *sums)
{
    int done = (t.k_end + C::DEPTH - 1) / C::DEPTH;
    for (int block = (int)blockIdx.x + 1; done < p.depth_blocks; ++block) {
        const float *from = p.parts + ((int64_t)block * C::TILE_M * C::TILE_N + threadIdx.x);
        int there = 0;
        while (threadIdx.x == 0 && !there) {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                         : "=r"(there)
                         : "l"(p.left_parts + block)
                         : "memory");
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SUMS<C>; ++i) {
            sums[i] += __ldcg(from + i * C::THREADS);
        }
        done += share_of(p, block);
    }
}

} // namespace bt_gemm_sm80

#endif
