// kernels/cuda/embedding_group.cuh - rows of the same id brought together, in one launch
//
// Block b of GROUP_OWNERS owns the ids with id % GROUP_OWNERS == b. It reads all ids twice: first
// it counts its own, by warp (a warp takes a contiguous share of the rows) and by id, and those of
// the owners before it, which is where its part of the output begins; then it puts each of its rows
// where the counts say. So no block waits for another, and the order is fixed: by owner, by id, by
// row ascending. Counts are added by integer atomics in shared memory, whose order doesn't matter.
// Limits: GROUP_MOST_ROWS (every block reads every id), and counts that fit 48 KB.
#ifndef BT_KERNELS_CUDA_EMBEDDING_GROUP_CUH
#define BT_KERNELS_CUDA_EMBEDDING_GROUP_CUH

#include "kernels/cuda/cuda.cuh"

constexpr int GROUP_OWNERS = 128;
constexpr int GROUP_WARPS = 16;
constexpr int GROUP_THREADS = GROUP_WARPS * WARP;
constexpr int GROUP_LOADS = 16; // ids in flight per thread
constexpr int64_t GROUP_MOST_ROWS = 131072;
constexpr size_t GROUP_MOST_BYTES = 40 << 10; // of dynamic shared memory

// Bytes of dynamic shared memory: a count per warp and id of an owner.
static size_t group_shared_bytes(int64_t vocab)
{
    return (size_t)(bt_div_up(vocab, GROUP_OWNERS) * GROUP_WARPS) * sizeof(uint32_t);
}

static bool group_fits(int64_t rows, int64_t vocab)
{
    return rows <= GROUP_MOST_ROWS && vocab <= (int64_t)GROUP_MOST_BYTES * GROUP_OWNERS &&
           group_shared_bytes(vocab) <= GROUP_MOST_BYTES;
}

// Calls f(row, id, inside) for the warp's rows, all lanes together; `inside` is false past the end.
template <typename F>
static __device__ __forceinline__ void group_scan(const int32_t *ids, int rows, F f)
{
    const int share = (rows + GROUP_THREADS - 1) / GROUP_THREADS * WARP;
    const int start = (int)threadIdx.x / WARP * share;
    const int end = min(start + share, rows);
    for (int first = start; first < end; first += WARP * GROUP_LOADS) {
        const int row = first + (int)threadIdx.x % WARP;
        int32_t id[GROUP_LOADS];
#pragma unroll
        for (int i = 0; i < GROUP_LOADS; ++i) {
            id[i] = row + i * WARP < end ? ids[row + i * WARP] : 0;
        }
#pragma unroll
        for (int i = 0; i < GROUP_LOADS; ++i) {
            f(row + i * WARP, id[i], row + i * WARP < end);
        }
    }
}

// Exclusive sum over the threads of the block, in order; `total` is the sum of all.
static __device__ __forceinline__ uint32_t group_prefix(uint32_t value, uint32_t *shared,
                                                        uint32_t &total)
{
    const int lane = (int)threadIdx.x % WARP;
    const int warp = (int)threadIdx.x / WARP;
    uint32_t sum = value;
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        const uint32_t before = __shfl_up_sync(ALL_LANES, sum, step);
        sum += lane >= step ? before : 0;
    }
    if (lane == WARP - 1) {
        shared[warp] = sum;
    }
    __syncthreads();
    uint32_t before = 0;
    total = 0;
    for (int i = 0; i < GROUP_WARPS; ++i) {
        before += i < warp ? shared[i] : 0;
        total += shared[i];
    }
    __syncthreads();
    return before + sum - value;
}

// By a block of GROUP_THREADS threads. `counts` [GROUP_WARPS, bins] is shared memory.
static __device__ void group_rows(const int32_t *ids, int rows, int vocab, int owner,
                                  uint32_t *counts, int32_t *out_ids, int32_t *out_rows)
{
    __shared__ uint32_t shared[GROUP_WARPS];
    const int bins = (vocab + GROUP_OWNERS - 1) / GROUP_OWNERS;
    uint32_t *mine = counts + (int)threadIdx.x / WARP * bins;
    for (int i = (int)threadIdx.x; i < bins * GROUP_WARPS; i += GROUP_THREADS) {
        counts[i] = 0;
    }
    __syncthreads();
    uint32_t lower = 0; // rows of the owners before
    group_scan(ids, rows, [&](int, int32_t id, bool inside) {
        const int of = id % GROUP_OWNERS;
        lower += inside && of < owner;
        if (inside && of == owner) {
            atomicAdd(&mine[id / GROUP_OWNERS], 1u);
        }
    });
    uint32_t base = 0;
    (void)group_prefix(lower, shared, base); // a barrier as well
    // Each count becomes the place of the first such row.
    for (int first = 0; first < bins; first += GROUP_THREADS) {
        const int bin = first + (int)threadIdx.x;
        uint32_t sum = 0;
        uint32_t total = 0;
        for (int warp = 0; warp < GROUP_WARPS && bin < bins; ++warp) {
            sum += counts[warp * bins + bin];
        }
        uint32_t at = base + group_prefix(sum, shared, total);
        for (int warp = 0; warp < GROUP_WARPS && bin < bins; ++warp) {
            const uint32_t count = counts[warp * bins + bin];
            counts[warp * bins + bin] = at;
            at += count;
        }
        base += total;
    }
    __syncthreads();
    const uint32_t below = (1u << (threadIdx.x % WARP)) - 1;
    group_scan(ids, rows, [&](int row, int32_t id, bool inside) {
        const bool own = inside && id % GROUP_OWNERS == owner;
        const unsigned owned = __ballot_sync(ALL_LANES, own);
        if (owned == 0) {
            return;
        }
        const int bin = id / GROUP_OWNERS;
        uint32_t at = 0;
        unsigned same = 0;
        if (own) {
            same = __match_any_sync(owned, bin);
            at = mine[bin] + __popc(same & below);
            out_ids[at] = id;
            out_rows[at] = row;
        }
        __syncwarp();
        if (own && (same & ~below) == (1u << (threadIdx.x % WARP))) { // the last of them
            mine[bin] = at + 1;
        }
        __syncwarp();
    });
}

#endif
