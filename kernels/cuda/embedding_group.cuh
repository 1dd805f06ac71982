// kernels/cuda/embedding_group.cuh - groups rows by id in one launch
//
// Block b of GROUP_OWNERS owns the ids with id % GROUP_OWNERS == b. It reads all ids. It counts its
// own, per warp (each warp has a contiguous range of rows) and per id, and records which rows they
// are. It also counts those of lower-numbered owners, which gives the offset of its output. Then it
// writes each of its rows to the position given by the counts. A range with more own rows than a
// warp can record is read again. No block waits for another, and the order is fixed: by owner, by
// id, by row ascending. Counts are added by integer atomics in shared memory, in any order.
// Limits: GROUP_MOST_ROWS (every block reads every id), and an id of an owner per thread.
#ifndef BT_KERNELS_CUDA_EMBEDDING_GROUP_CUH
#define BT_KERNELS_CUDA_EMBEDDING_GROUP_CUH

#include "kernels/cuda/cuda.cuh"

constexpr int GROUP_OWNERS = 128;
constexpr int GROUP_WARPS = 16;
constexpr int GROUP_THREADS = GROUP_WARPS * WARP;
constexpr int GROUP_LOADS = 16;  // ids in flight per thread
constexpr int GROUP_NOTES = 384; // rows that a warp can record: 3 to 6 % of its range
constexpr int64_t GROUP_MOST_ROWS = 131072;

// Bytes of dynamic shared memory: a count per warp and id of an owner.
static size_t group_shared_bytes(int64_t vocab)
{
    return (size_t)(bt_div_up(vocab, GROUP_OWNERS) * GROUP_WARPS) * sizeof(uint32_t);
}

static bool group_fits(int64_t rows, int64_t vocab)
{
    return rows <= GROUP_MOST_ROWS && vocab <= GROUP_OWNERS * GROUP_THREADS;
}

constexpr int32_t GROUP_NONE = -1; // no id: past the end

// The owner of an id; of GROUP_NONE a number that is above all owners.
static __device__ __forceinline__ uint32_t group_owner(int32_t id)
{
    static_assert(
        (GROUP_OWNERS & (GROUP_OWNERS - 1)) == 0,
        "the number of owners must be a power of two: the low bits of an id select its owner");
    return (uint32_t)id & (0x80000000u | (GROUP_OWNERS - 1));
}

// Calls f(row, id) for `count` rows, all lanes of the warp together, row_of(i) being the i-th; id
// is GROUP_NONE past the end.
template <typename R, typename F>
static __device__ __forceinline__ void group_scan(const int32_t *ids, int count, R row_of, F f)
{
    constexpr int BATCH = WARP * GROUP_LOADS;
    const int lane = (int)threadIdx.x % WARP;
    for (int first = 0; first < count; first += BATCH) {
        int32_t id[GROUP_LOADS];
        if (first + BATCH <= count) {
#pragma unroll
            for (int i = 0; i < GROUP_LOADS; ++i) {
                id[i] = ids[row_of(first + i * WARP + lane)];
            }
        } else {
#pragma unroll
            for (int i = 0; i < GROUP_LOADS; ++i) {
                const int at = first + i * WARP + lane;
                id[i] = at < count ? ids[row_of(at)] : GROUP_NONE;
            }
        }
#pragma unroll
        for (int i = 0; i < GROUP_LOADS; ++i) {
            f(first + i * WARP + lane, id[i]);
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

// Called by a block of GROUP_THREADS threads. `counts` [GROUP_WARPS, bins] is shared memory.
// Returns to all lanes of a warp which of its 32 ids have no row: bit i is id (warp * WARP + i) *
// GROUP_OWNERS + owner.
static __device__ unsigned group_rows(const int32_t *ids, int rows, int vocab, int owner,
                                      uint32_t *counts, int32_t *out_ids, int32_t *out_rows)
{
    __shared__ uint32_t shared[GROUP_WARPS];
    __shared__ uint16_t notes[GROUP_WARPS][GROUP_NOTES];
    const int bins = (vocab + GROUP_OWNERS - 1) / GROUP_OWNERS;
    const int warp = (int)threadIdx.x / WARP;
    const uint32_t below = (1u << (threadIdx.x % WARP)) - 1;
    // Blocks start at different offsets, so that they do not all wait for the same cache lines.
    const int turn = (warp + owner) % GROUP_WARPS;
    const int share = (rows + GROUP_THREADS - 1) / GROUP_THREADS * WARP;
    const int start = turn * share;
    const int count = max(0, min(share, rows - start));
    uint32_t *mine = counts + turn * bins;
    for (int i = (int)threadIdx.x; i < bins * GROUP_WARPS; i += GROUP_THREADS) {
        counts[i] = 0;
    }
    __syncthreads();
    uint32_t lower = 0; // rows of the owners before
    int noted = 0;      // of the warp
    const auto any = [&](int i) { return start + i; };
    group_scan(ids, count, any, [&](int i, int32_t id) {
        const bool own = group_owner(id) == (uint32_t)owner;
        const unsigned owned = __ballot_sync(ALL_LANES, own);
        lower += group_owner(id) < (uint32_t)owner;
        if (owned == 0) {
            return;
        }
        const int place = noted + __popc(owned & below);
        if (own) {
            atomicAdd(&mine[id / GROUP_OWNERS], 1u);
        }
        if (own && place < GROUP_NOTES) {
            notes[warp][place] = (uint16_t)i;
        }
        noted += __popc(owned);
    });
    uint32_t base = 0;
    uint32_t unused = 0;
    (void)group_prefix(lower, shared, base); // a barrier as well
    // Turns each count into the position of its first row; a thread handles one id.
    const int bin = (int)threadIdx.x;
    uint32_t sum = 0;
    for (int other = 0; other < GROUP_WARPS && bin < bins; ++other) {
        sum += counts[other * bins + bin];
    }
    uint32_t at = base + group_prefix(sum, shared, unused);
    for (int other = 0; other < GROUP_WARPS && bin < bins; ++other) {
        const uint32_t more = counts[other * bins + bin];
        counts[other * bins + bin] = at;
        at += more;
    }
    __syncthreads();
    const auto place = [&](int row, int32_t id) {
        const bool own = group_owner(id) == (uint32_t)owner;
        const unsigned owned = __ballot_sync(ALL_LANES, own);
        if (owned == 0) {
            return;
        }
        const int to = id / GROUP_OWNERS;
        uint32_t first = 0;
        unsigned same = 0;
        if (own) {
            same = __match_any_sync(owned, to);
            first = mine[to] + __popc(same & below);
            out_ids[first] = id;
            out_rows[first] = row;
        }
        __syncwarp();
        if (own && (same & ~below) == (1u << (threadIdx.x % WARP))) { // the last of them
            mine[to] = first + 1;
        }
        __syncwarp();
    };
    const auto from_notes = [&](int i) { return start + notes[warp][i]; };
    if (noted <= GROUP_NOTES) {
        group_scan(ids, noted, from_notes,
                   [&](int i, int32_t id) { place(id == GROUP_NONE ? 0 : from_notes(i), id); });
    } else {
        group_scan(ids, count, any, [&](int i, int32_t id) { place(start + i, id); });
    }
    const bool known = (int64_t)bin * GROUP_OWNERS + owner < vocab;
    return __ballot_sync(ALL_LANES, known && sum == 0);
}

#endif
