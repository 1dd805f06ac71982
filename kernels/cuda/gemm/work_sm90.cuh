// kernels/cuda/gemm/work_sm90.cuh - how the blocks of the Hopper GEMMs divide the work: units,
//   consumers
//
// whole_units: the work is a list of units, tiles in groups of `group` rows, so that concurrent
// blocks share slices in L2; with split K all tiles of one split come before those of the next.
// group_share (stream-K): of a group of products, the k-blocks of `cut_tiles` tiles are
// concatenated and divided into one range for each block; of the other tiles a block computes whole
// ones.
//
// Units of one tile add to it in ascending order of k: a flag in the workspace holds the number of
// the next unit. A block processes its range from the end, so that the first k-blocks of a tile,
// for which other blocks wait, are computed first.
//
// A kernel's configuration C has  TILE_M, TILE_N, DEPTH (of a k-block); SHARED_TILE: each consumer
// computes half of every tile's rows, else consumers alternate whole tiles; a consumer's part:
// M_PARTS times 64 rows, SUMS sums a thread for each 64; BOXES staging buffers of 8 KB for each
// consumer; EPILOGUE; VALUE, the operands' type.
#ifndef BT_KERNELS_CUDA_GEMM_WORK_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_WORK_SM90_CUH

#include "kernels/cuda/gemm/sm90.h"
#include "kernels/cuda/ptx_sm90.cuh"

namespace bt_gemm_sm90
{

constexpr int GROUP_THREADS = 128, CONSUMERS = 2, THREADS = (1 + CONSUMERS) * GROUP_THREADS;
constexpr int BOX_BYTES = 64 * 128; // what TMA moves: 64 rows of 128 bytes

// Barriers of parts of the block; 0 is __syncthreads.
enum { WITHIN = 1, ORDER = WITHIN + CONSUMERS };

// A thread's part of a tile: the accumulators of ptx_sm90.cuh for each 64 rows of it.
template <class C> using tile_sums = float[C::M_PARTS][C::SUMS];

// The first row of a consumer's part of a tile.
template <class C> static __device__ __forceinline__ int row_of(int consumer)
{
    return C::SHARED_TILE ? consumer * C::M_PARTS * 64 : 0;
}

// Other shared memory of a block: alignment to the swizzle pattern, and barriers.
constexpr int ALIGN_BYTES = 1024, BARRIER_BYTES = 256;

// Stages that fit, given the bytes of staging buffers and bias.
constexpr int stages_beside(int bytes, int stage_bytes)
{
    return (SHARED_BYTES_MOST - ALIGN_BYTES - BARRIER_BYTES - bytes) / stage_bytes;
}
// Shared memory of a block, given the bytes of stages, staging buffers and bias.
constexpr int block_bytes(int bytes) { return ALIGN_BYTES + bytes + BARRIER_BYTES; }

// Addresses in shared memory: stages, then staging buffers, then bias as floats, then barriers of
// 8 bytes.
template <class C> struct shared_map {
    uint32_t base;
    uint32_t offset; // of base in the block's shared memory
    static_assert((2 * C::STAGES + CONSUMERS * C::BOXES) * 8 <= BARRIER_BYTES,
                  "the barriers must fit into BARRIER_BYTES");

    __device__ __forceinline__ explicit shared_map(const unsigned char *memory)
    {
        uint32_t start = shared_address(memory);
        base = (start + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
        offset = base - start;
    }
    __device__ __forceinline__ uint32_t a(int stage) const { return base + stage * C::STAGE_BYTES; }
    __device__ __forceinline__ uint32_t b(int stage) const { return a(stage) + C::A_BYTES; }
    __device__ __forceinline__ uint32_t boxes(int consumer) const
    {
        return base + C::STAGES * C::STAGE_BYTES + consumer * C::BOXES * BOX_BYTES;
    }
    __device__ __forceinline__ float *bias(unsigned char *memory, int consumer) const
    {
        constexpr int BEGIN = C::STAGES * C::STAGE_BYTES + C::BOXES_BYTES;
        return (float *)(memory + offset + BEGIN) + consumer * C::TILE_N;
    }
    __device__ __forceinline__ uint32_t full(int stage) const
    {
        return base + C::STAGES * C::STAGE_BYTES + C::BOXES_BYTES + C::BIAS_BYTES + stage * 8;
    }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(C::STAGES + stage); }
    // Signals that a consumer's staging buffer has been loaded.
    __device__ __forceinline__ uint32_t loaded(int consumer, int box) const
    {
        return full(2 * C::STAGES + consumer * C::BOXES + box);
    }
};

// Initializes the barriers of the ring, with `fillers` arrivals to fill a stage and `readers` to
// release it, and of the staging buffers. Called by one thread.
template <class C>
static __device__ __forceinline__ void init_barriers(const shared_map<C> &shared, int fillers,
                                                     int readers)
{
    for (int i = 0; i < C::STAGES; ++i) {
        mbarrier_init(shared.full(i), fillers);
        mbarrier_init(shared.empty(i), readers);
    }
    for (int i = 0; i < CONSUMERS * C::BOXES; ++i) {
        mbarrier_init(shared.loaded(0, i), 1);
    }
    mbarrier_init_fence();
}

struct unit {
    int m, n, batch;    // first row and column of the tile; batch entry
    int k_begin, k_end; // k-blocks
    int split;          // what the tile's flag says when it is this unit's turn; 0 for the first
    int next;           // and what it says then; 0 from the last, so flags end as they began
    int tile;           // number of the tile, over all batch entries
};

// Where TMA finds the rows of A of a unit.
struct a_place {
    const CUtensorMap *map;
    int m;
};

// Where the tile of the unit is.
template <class C> static __device__ __forceinline__ void place_tile(const problem &p, unit &t)
{
    t.batch = t.tile / (p.tiles_m * p.tiles_n);
    int at = t.tile - t.batch * (p.tiles_m * p.tiles_n);
    const int group = at / (p.group * p.tiles_n);
    const int first = group * p.group;
    const int rows = min(p.group, p.tiles_m - first);
    at -= first * p.tiles_n;
    t.m = (first + at % rows) * C::TILE_M;
    t.n = at / rows * C::TILE_N;
}

template <class C> static __device__ __forceinline__ int k_blocks_of(const problem &p)
{
    return (p.k + C::DEPTH - 1) / C::DEPTH;
}

template <class C> static __device__ __forceinline__ unit unit_at(const problem &p, int u)
{
    unit t;
    const int per_split = p.tiles_m * p.tiles_n * p.batch, k_blocks = k_blocks_of<C>(p);
    t.split = u / per_split;
    t.next = t.split + 1 < p.splits ? t.split + 1 : 0;
    t.tile = u - t.split * per_split;
    t.k_begin = (int)((int64_t)k_blocks * t.split / p.splits);
    t.k_end = (int)((int64_t)k_blocks * (t.split + 1) / p.splits);
    place_tile<C>(p, t);
    return t;
}

// All of A is there, and nobody waits for D.
struct whole_rows {
    __device__ __forceinline__ a_place rows_of(const problem &p, const unit &t)
    {
        return {&p.a, t.m};
    }
    __device__ __forceinline__ void all_read() {}
    __device__ __forceinline__ void written(const unit &) {} // by the thread that stores
};

// A block's units, one after the other: every gridDim.x-th of one product's.
template <class C> struct whole_units : whole_rows {
    const problem &p;
    int u;

    __device__ __forceinline__ explicit whole_units(const problem &of) : p(of), u((int)blockIdx.x)
    {
    }
    __device__ __forceinline__ bool more() const { return u < p.units; }
    __device__ __forceinline__ unit next()
    {
        const unit t = unit_at<C>(p, u);
        u += (int)gridDim.x;
        return t;
    }
    __device__ __forceinline__ const problem &product() const { return p; } // of the last next()
};

// A block's share of a group of products.
template <class C> struct group_share : whole_rows {
    const group &g;
    int end;   // of what is left of its run of k-blocks
    int whole; // the next whole tile
    int which; // product

    __device__ __forceinline__ explicit group_share(const group &of)
        : g(of), end(of.cuts[blockIdx.x + 1]), whole(of.cut_tiles + (int)blockIdx.x), which(0)
    {
    }
    __device__ __forceinline__ bool cut() const { return end > g.cuts[blockIdx.x]; }
    __device__ __forceinline__ bool more() const { return cut() || whole < g.tiles; }
    __device__ __forceinline__ unit next()
    {
        unit t;
        which = 0;
        if (cut()) {
            while (end > g.first_block[which + 1]) {
                ++which;
            }
            const int k_blocks = k_blocks_of<C>(g.products[which]);
            t.tile = (end - 1 - g.first_block[which]) / k_blocks;
            const int begin = g.first_block[which] + t.tile * k_blocks; // of the tile
            t.k_end = end - begin;
            t.k_begin = max(g.cuts[blockIdx.x] - begin, 0);
            t.split = t.k_begin;
            t.next = t.k_end < k_blocks ? t.k_end : 0;
            end = begin + t.k_begin;
        } else {
            while (whole >= g.first_tile[which + 1]) {
                ++which;
            }
            t.tile = whole - g.first_tile[which];
            t.k_begin = t.split = t.next = 0;
            t.k_end = k_blocks_of<C>(g.products[which]);
            whole += (int)gridDim.x;
        }
        place_tile<C>(g.products[which], t);
        return t;
    }
    __device__ __forceinline__ const problem &product() const { return g.products[which]; }
};

// Which consumer, and where this thread is in it.
struct consumer {
    int index;        // 0 or 1
    int thread, lane; // of the warpgroup, of the warp
    int row;          // of the box, that this lane names for stmatrix and ldmatrix

    __device__ __forceinline__ explicit consumer(int number)
        : index(number), thread((int)threadIdx.x % GROUP_THREADS), lane(thread % 32),
          row(thread / 32 * 16 + lane % 16)
    {
    }
    __device__ __forceinline__ bool leads() const { return thread == 0; }
    __device__ __forceinline__ void sync() const { barrier_sync(WITHIN + index, GROUP_THREADS); }
    // Of 16 columns of a box, the eight (16 bytes) that this lane names, swizzled.
    __device__ __forceinline__ uint32_t place(uint32_t box, int sixteen) const
    {
        return box + row * 128 + (((2 * sixteen + lane / 16) ^ (row & 7)) << 4);
    }
};

} // namespace bt_gemm_sm90

#endif
