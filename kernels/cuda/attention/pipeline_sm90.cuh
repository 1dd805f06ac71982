// kernels/cuda/attention/pipeline_sm90.cuh - pipeline of the Hopper kernels around their arithmetic
//
// A kernel K has one persistent block per SM: GROUPS warpgroups that multiply, and one whose warps
// load tiles by TMA (warp 0) and store results (a warp for each group). Where K::TRANSPOSED is not
// NONE, warp 1 stores the results of all groups, and warps 2 and 3 transpose tiles of each stage
// (K::transpose). Shared memory, in this order:
//   own     BUFFERS times GROUPS times PART_BYTES: the tiles of a group's block, then its results
//   ring    STAGES times STAGE_BYTES: tiles of the other side; then SHARED_BYTES, the place of part
//           SHARED_PART of all stages
//   rows    STAGES times ROW_BYTES: statistics with them
//   barriers of the ring, SPLIT for a stage, full and empty; of own tiles full, empty, results full
// Lifetime: own tiles full (TMA) -> consumed -> results full (warps of the group) -> stored ->
// empty. K::item_span gives the range of tiles that the ring loads for an item, ascending or
// descending, and K::members how often (query heads of a key/value head). Nothing here branches on
// a consumer's thread: see mbarrier_arrive_if.
// The last part of a stage is full when it is transposed, from tiles of part 0:
//   BESIDE  part 0 has a tile for it, or a tile that scores do not read. Consumers release part 0
//           when they have read the last part
//   COPY    it has a place and a barrier `empty` of its own, which transposers wait for; part 0 is
//           empty when they have read it, too
//   AFTER   it takes the place of part 0 when consumers have released that; TMA loads part 0 when
//           they have released the last part
#ifndef BT_KERNELS_CUDA_ATTENTION_PIPELINE_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_PIPELINE_SM90_CUH

#include "kernels/cuda/attention/mask_sm90.cuh"
#include "kernels/cuda/attention/tiles_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

enum transposition { NONE, BESIDE, COPY, AFTER };

// Of kernels whose operands are all multiplied as TMA loads them, each in a place of its stage.
struct plain_ring {
    static constexpr transposition TRANSPOSED = NONE;
    static constexpr int SHARED_BYTES = 0, SHARED_PART = -1;
};
constexpr int TRANSPOSERS = 2; // warps

// Registers of a thread, of consumers and of the other warps. Transposers need more than warps that
// move data alone. All together may be those that a block starts with, or setmaxnreg waits forever.
template <class K>
constexpr int CONSUMER_REGISTERS = (K::GROUPS == 3 ? 160 : 232) - (K::TRANSPOSED != NONE ? 8 : 0);
template <class K>
constexpr int OTHER_REGISTERS = K::TRANSPOSED != NONE ? 56
                                : K::GROUPS == 3      ? 32
                                                      : 40;

template <class K> struct layout {
    static constexpr int THREADS = 128 * (K::GROUPS + 1), OWNS = K::BUFFERS * K::GROUPS;
    static constexpr int RING = OWNS * K::PART_BYTES;
    static constexpr int ROWS = RING + K::STAGES * K::STAGE_BYTES + K::SHARED_BYTES;
    static constexpr int BARRIERS = ROWS + K::STAGES * K::ROW_BYTES;
    static constexpr int SHARED = BARRIERS + 8 * (2 * K::STAGES * K::SPLIT + 3 * OWNS);
    static_assert(SHARED <= SHARED_BYTES_MOST, "more shared memory than a block may use");
    static constexpr int REGISTERS = 65536 / THREADS / 8 * 8; // of a thread at the start
    static_assert(K::GROUPS * CONSUMER_REGISTERS<K> + OTHER_REGISTERS<K> <=
                      (K::GROUPS + 1) * REGISTERS,
                  "the warpgroups use more registers than a block has");
};

// Which of the workers that share a kernel's items a block is: blocks of the grid, or of a part.
struct whole_grid {
    static constexpr bool WHOLE = true;
    __device__ __forceinline__ int worker() const { return (int)blockIdx.x; }
    __device__ __forceinline__ int workers() const { return (int)gridDim.x; }
};
struct part_of_grid {
    static constexpr bool WHOLE = false;
    int block, blocks;
    __device__ __forceinline__ int worker() const { return block; }
    __device__ __forceinline__ int workers() const { return blocks; }
};
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class K, class = void> struct grid_of {
    using type = whole_grid;
};
template <class K> struct grid_of<K, decltype((void)sizeof(typename K::grid))> {
    using type = typename K::grid;
};

template <class K> struct memory : grid_of<K>::type {
    using at = layout<K>;
    static constexpr int FULL = at::BARRIERS, EMPTY = FULL + 8 * K::STAGES * K::SPLIT;
    static constexpr int OWN_FULL = EMPTY + 8 * K::STAGES * K::SPLIT;
    uint32_t base;

    __device__ __forceinline__ uint32_t stage(int i) const
    {
        return base + at::RING + i * K::STAGE_BYTES;
    }
    __device__ __forceinline__ uint32_t shared() const { return stage(K::STAGES); }
    __device__ __forceinline__ uint32_t rows(int i) const
    {
        return base + at::ROWS + i * K::ROW_BYTES;
    }
    __device__ __forceinline__ uint32_t full(int i) const { return base + FULL + 8 * i; }
    __device__ __forceinline__ uint32_t empty(int i) const { return base + EMPTY + 8 * i; }
    // `i` = place_of(round, group)
    __device__ __forceinline__ uint32_t own(int i) const { return base + i * K::PART_BYTES; }
    __device__ __forceinline__ uint32_t own_full(int i) const { return base + OWN_FULL + 8 * i; }
    __device__ __forceinline__ uint32_t own_empty(int i) const
    {
        return own_full(i) + 8 * at::OWNS;
    }
    __device__ __forceinline__ uint32_t out_full(int i) const
    {
        return own_full(i) + 16 * at::OWNS;
    }

    static __device__ __forceinline__ int place_of(int round, int group)
    {
        return round % K::BUFFERS * K::GROUPS + group;
    }
    static __device__ __forceinline__ int phase_of(int round) { return round / K::BUFFERS & 1; }

    __device__ __forceinline__ void init() const
    {
        for (int i = 0; i < K::STAGES * K::SPLIT; ++i) {
            const int part = i % K::SPLIT;
            const bool transposed = K::TRANSPOSED != NONE && part == K::SPLIT - 1;
            const bool copied = K::TRANSPOSED == COPY && part == 0;
            mbarrier_init(full(i), transposed ? TRANSPOSERS : 1);
            mbarrier_init(empty(i), 4 * K::GROUPS + (copied ? TRANSPOSERS : 0)); // warps
        }
        for (int i = 0; i < at::OWNS; ++i) {
            mbarrier_init(own_full(i), 1);
            mbarrier_init(own_empty(i), 1);
            mbarrier_init(out_full(i), 4); // the group's warps
        }
        mbarrier_init_fence();
    }
};

template <class K>
__device__ __forceinline__ void fetch(const typename K::maps &maps, const work &w,
                                      const memory<K> &mem)
{
    ring_place<K::STAGES> ring;
    ring.phase = 1;
    for (int round = 0;; ++round) {
        const int index = item_index(round, mem.worker(), mem.workers());
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const span tiles = K::sees::item_span(w, t);
        const int count = tiles.top - tiles.bottom + 1, members = K::members(w);
        // Single-buffered own tiles are loaded after as many stages as are free before.
        const int own_at = K::BUFFERS == 1 ? min(K::STAGES - 1, count - 1) : 0;
        for (int member = 0; member < members; ++member) {
            for (int i = 0; i < count; ++i) {
                if (i == own_at && member == 0) {
                    for (int group = 0; group < K::GROUPS; ++group) {
                        const int own = mem.place_of(round, group);
                        const int turn = turn_of<K::GROUPS>(group, round);
                        mbarrier_wait(mem.own_empty(own), mem.phase_of(round) ^ 1);
                        mbarrier_expect(mem.own_full(own), K::PART_BYTES);
                        K::load_own(maps, mem.own(own), K::sees::block(w, t, turn), t,
                                    mem.own_full(own));
                    }
                }
                // The barrier of a part of the stage, when that is free.
                auto take = [&](int part, int bytes) {
                    const int at = ring.stage * K::SPLIT + part;
                    const bool shared = part == K::SHARED_PART; // by the stage before
                    const bool last = K::TRANSPOSED == AFTER && part == 0;
                    const int stage = shared ? ring.stage ^ 1 : ring.stage;
                    mbarrier_wait(mem.empty(stage * K::SPLIT + (last ? K::SPLIT - 1 : part)),
                                  shared && ring.stage ? ring.phase ^ 1 : ring.phase);
                    mbarrier_expect(mem.full(at), bytes);
                    return mem.full(at);
                };
                const uint32_t to = mem.stage(ring.stage), rows = mem.rows(ring.stage);
                const int tile = K::UPWARDS ? tiles.bottom + i : tiles.top - i;
                if constexpr (K::SHARED_BYTES > 0) {
                    K::load_stage(maps, w, to, mem.shared(), rows, tile, t, member, take);
                } else {
                    K::load_stage(maps, w, to, rows, tile, t, member, take);
                }
                ring.advance();
            }
        }
    }
}

// Stores the results of so many groups. A block before the first token is skipped: TMA drops stores
// past the end, but a store wholly before the tensor is illegal.
template <class K, int COUNT>
__device__ __forceinline__ void deliver(const typename K::maps &maps, const work &w,
                                        const memory<K> &mem, int first)
{
    for (int round = 0;; ++round) {
        const int index = item_index(round, mem.worker(), mem.workers());
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
#pragma unroll 1
        for (int group = first; group < first + COUNT; ++group) {
            const int block = K::sees::block(w, t, turn_of<K::GROUPS>(group, round));
            const int own = mem.place_of(round, group);
            mbarrier_wait(mem.out_full(own), mem.phase_of(round));
            if (block >= 0) {
                K::send_own(maps, mem.own(own), block, t);
                tma_store_commit();
                tma_store_wait_read<0>();
            }
            mbarrier_arrive(mem.own_empty(own));
        }
    }
    tma_store_wait<0>();
}

// Transposes each stage's tiles when they are loaded; `part` is the warp's share.
template <class K>
__device__ __forceinline__ void transpose_stages(const work &w, const memory<K> &mem, int part,
                                                 int lane)
{
    ring_place<K::STAGES> ring;
    for (int round = 0;; ++round) {
        const int index = item_index(round, mem.worker(), mem.workers());
        if (index >= w.total) {
            break;
        }
        const span tiles = K::sees::item_span(w, item_at(w, index));
        const int count = (tiles.top - tiles.bottom + 1) * K::members(w);
        for (int i = 0; i < count; ++i) {
            const int loaded = ring.stage * K::SPLIT, transposed = loaded + K::SPLIT - 1;
            mbarrier_wait(mem.full(loaded), ring.phase);
            if constexpr (K::TRANSPOSED == COPY) {
                mbarrier_wait(mem.empty(transposed), ring.phase ^ 1);
            } else if constexpr (K::TRANSPOSED == AFTER) {
                mbarrier_wait(mem.empty(loaded), ring.phase);
            }
            K::transpose(mem.stage(ring.stage), part, lane);
            fence_async();
            __syncwarp();
            if (lane == 0) {
                mbarrier_arrive(mem.full(transposed));
                if constexpr (K::TRANSPOSED == COPY) {
                    mbarrier_arrive(mem.empty(loaded));
                }
            }
            ring.advance();
        }
    }
}

// A consumer's view of the ring. A part of a stage without its own barrier shares that of the last
// part that has one: its `ready` and `release` do nothing.
template <class K> struct reader {
    const memory<K> &mem;
    const place &at;
    ring_place<K::STAGES> ring;

    __device__ __forceinline__ void ready(int part = 0) const
    {
        if (part < K::SPLIT) {
            mbarrier_wait(mem.full(ring.stage * K::SPLIT + part), ring.phase);
        }
    }
    __device__ __forceinline__ void release(int stage, int part = K::PARTS - 1) const
    {
        if (part >= K::PARTS - K::SPLIT) {
            mbarrier_arrive_if(mem.empty(stage * K::SPLIT + part - (K::PARTS - K::SPLIT)),
                               at.lane == 0);
        }
    }
    // Skips tiles; the consumer must not hold a stage.
    __device__ __forceinline__ void pass(int tiles)
    {
        for (; tiles > 0; --tiles) {
#pragma unroll
            for (int part = 0; part < K::SPLIT; ++part) {
                ready(part);
                if constexpr (K::TRANSPOSED != BESIDE) {
                    release(ring.stage, part + K::PARTS - K::SPLIT);
                }
            }
            if constexpr (K::TRANSPOSED == BESIDE) {
                release(ring.stage, 0);
            }
            ring.advance();
        }
    }
};

// The results of the group's block are in its own tiles.
template <class K>
__device__ __forceinline__ void results_ready(const memory<K> &mem, int own, const place &at)
{
    fence_async();
    __syncwarp();
    mbarrier_arrive_if(mem.out_full(own), at.lane == 0);
}

// The roles of a block's warps.
template <class K>
__device__ __forceinline__ void process(const typename K::maps &maps, const work &w,
                                        const typename K::rows &rows, const memory<K> &mem,
                                        const place &at)
{
    if (threadIdx.x == 0) {
        mem.init();
    }
    __syncthreads();
    wait_for_predecessor();
    if (at.group == K::GROUPS) {
        registers_give<OTHER_REGISTERS<K>>();
        const int helper = at.warp - 4 * K::GROUPS;
        if (at.thread == 0) {
            fetch<K>(maps, w, mem);
        } else if constexpr (K::TRANSPOSED != NONE) {
            if (helper >= 2) {
                transpose_stages<K>(w, mem, helper - 2, at.lane);
            } else if (helper == 1 && at.lane == 0) {
                deliver<K, K::GROUPS>(maps, w, mem, 0);
            }
        } else if (helper > 0 && helper <= K::GROUPS && at.lane == 0) {
            deliver<K, 1>(maps, w, mem, helper - 1);
        }
    } else {
        registers_take<CONSUMER_REGISTERS<K>>();
        K::consume(w, rows, mem, at);
    }
}

#endif

template <class K>
__global__ void __launch_bounds__(layout<K>::THREADS, 1)
    hopper(const __grid_constant__ typename K::maps maps, const work w, const typename K::rows rows)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const memory<K> mem = {{}, shared_address(shared)};
    process<K>(maps, w, rows, mem, at);
#endif
}

template <class K>
bt_status start_kernel(const bt_launch *launch, const char *name, const typename K::maps &maps,
                       const work &w, const typename K::rows &rows)
{
    return start(launch, (const void *)hopper<K>, {name, layout<K>::THREADS, layout<K>::SHARED},
                 &maps, w, &rows);
}

} // namespace
} // namespace bt_attention_sm90
#endif
