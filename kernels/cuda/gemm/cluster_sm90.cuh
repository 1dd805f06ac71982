// kernels/cuda/gemm/cluster_sm90.cuh - bf16 weight gradients on Hopper, K split among the blocks of
//   a cluster:  D = alpha A^T B, or D += alpha A^T B, in f32
//
// A cluster of SPLITS blocks has one tile. Block s multiplies the s-th part of K, by
// bf16_sm90.cuh's ring and multiplication: all consumers share the tile, 64 rows each. Then
// every block owns some lines of the tile, 32 columns of a row, and adds up their parts:
//
//   sums -> own shared memory (the ring's, which is free) -> [cluster barrier] -> owner reads the
//   parts of all blocks, adds, writes whole lines of D -> [cluster barrier] -> exit
//
// Invariants
//   1. A block has one tile: nothing is loaded once its sums are in the ring.
//   2. No block waits for another cluster, so any number of clusters may be resident.
//   3. A line's parts are added cyclically, starting with its owner's: the order of every sum
//      depends only on shape and plan. At any time the owners read from different blocks.
//   4. No block exits while another reads its shared memory. Producer warps exit early, which
//      cluster barriers allow.
//
// Cost     the exchange is bound by reads of other SMs' shared memory (lab/README.md)
// Edges    as in bf16_sm90.cuh; D is written by its threads, 16 bytes each
// Source   CUDA C++ Programming Guide, "Distributed Shared Memory"; PTX ISA as in ptx_sm90.cuh
#ifndef BT_KERNELS_CUDA_GEMM_CLUSTER_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_CLUSTER_SM90_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/bf16_sm90.cuh"
#include "kernels/cuda/gemm/epilogue_f32_sm90.cuh"

namespace bt_gemm_sm90
{

// W consumers of 64 rows each.
template <int W, int N, int S> struct cluster_config {
    using VALUE = __nv_bfloat16;
    static constexpr int WARPGROUPS = W, SPLITS = S;
    static constexpr int CONSUMER_THREADS = W * GROUP_THREADS,
                         THREADS = GROUP_THREADS + CONSUMER_THREADS;
    static constexpr int TILE_M = W * 64, TILE_N = N, DEPTH = 64;
    static constexpr bool A_MN = true, B_MN = true, SHARED_TILE = true;
    static constexpr int M_PARTS = 1, SUMS = N / 2;
    static constexpr int A_BYTES = TILE_M * DEPTH * 2, B_BYTES = N * DEPTH * 2;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int BOXES = 0, BOXES_BYTES = 0, BIAS_BYTES = 0;
    static constexpr int STAGES = stages_beside(0, STAGE_BYTES);
    static constexpr int SHARED_BYTES = block_bytes(STAGES * STAGE_BYTES);
    // The tile as boxes of 64 lines of 32 columns, as epilogue_f32_sm90.cuh has them, row by row.
    static constexpr int ACROSS = N / BOX_COLS, LINES = TILE_M * ACROSS;
    static_assert(LINES * 128 <= STAGES * STAGE_BYTES, "the sums must fit into the stages");
    // Registers of a thread, of 65536.
    static constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = W == 3 ? 152 : 232;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The first line that a block owns.
template <class C> static __device__ __forceinline__ int first_line(int rank)
{
    return C::LINES * rank / C::SPLITS;
}

// The block's only unit.
template <class C> static __device__ __forceinline__ unit unit_in_cluster(const problem &p)
{
    const int k_blocks = k_blocks_of<C>(p), rank = (int)blockIdx.x % C::SPLITS;
    unit t;
    t.tile = (int)blockIdx.x / C::SPLITS;
    t.split = rank;
    t.next = 0;
    t.k_begin = k_blocks * rank / C::SPLITS;
    t.k_end = k_blocks * (rank + 1) / C::SPLITS;
    place_tile<C>(p, t);
    return t;
}

// That unit as a sequence of one (work_sm90.cuh).
template <class C> struct one_unit {
    const problem &p;
    bool done = false;

    __device__ __forceinline__ explicit one_unit(const problem &of) : p(of) {}
    __device__ __forceinline__ bool more() const { return !done; }
    __device__ __forceinline__ unit next()
    {
        done = true;
        return unit_in_cluster<C>(p);
    }
    __device__ __forceinline__ const problem &product() const { return p; }
};

// Threads that read the ring, by warps.
template <class C> static __device__ __forceinline__ int readers_of(const problem &p)
{
    return C::CONSUMER_THREADS + (p.a_sums ? SUMMERS<C> * 32 : 0);
}

// Prefetches to L2 the part of D to which the block will add, in boxes of D's map.
template <class C>
static __device__ __forceinline__ void fetch_output(const problem &p, const unit &t)
{
    for (int box = first_line<C>(t.split) / 64; box * 64 < first_line<C>(t.split + 1); ++box) {
        tma_fetch(&p.d, t.n + box % C::ACROSS * BOX_COLS, t.m + box / C::ACROSS * 64, t.batch);
    }
}

// produce() of bf16_sm90.cuh for one unit, which also prefetches D where it is added to.
template <class C>
static __device__ __forceinline__ void produce_in_cluster(const problem &p, const unit &t,
                                                          const shared_map<C> &shared)
{
    constexpr int AHEAD = 8; // k-blocks
    int stage = 0;
    uint32_t phase = 1;
    for (int block = t.k_begin; block < t.k_end; ++block) {
        const uint32_t full = shared.full(stage);
        mbarrier_wait(shared.empty(stage), phase);
        mbarrier_expect(full, C::STAGE_BYTES);
        load_operand<true, C::TILE_M>(&p.a, shared.a(stage), t.m, block * C::DEPTH, t.batch, full);
        load_operand<true, C::TILE_N>(&p.b, shared.b(stage), t.n, block * C::DEPTH, t.batch, full);
        if (p.beta != 0.0f && block == max(t.k_begin, t.k_end - AHEAD)) {
            fetch_output<C>(p, t);
        }
        if (++stage == C::STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
}

// Writes a consumer's sums to the block's boxes.
template <class C>
static __device__ __forceinline__ void put_sums(const consumer &me, const tile_sums<C> &sums,
                                                uint32_t boxes)
{
#pragma unroll
    for (int i = 0; i < C::ACROSS; ++i) {
        const uint32_t box = boxes + (me.index * C::ACROSS + i) * BOX_BYTES;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float *s = &sums[0][(i * 4 + j) * 4];
            store_pair(pair_place(box, j, me), s[0], s[1]);
            store_pair(pair_place(box, j, me) + EIGHT_ROWS, s[2], s[3]);
        }
    }
}

static __device__ __forceinline__ float4 add(float4 x, float4 y)
{
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// Adds up the parts of the lines that the block owns, four columns at a time, and writes them to D.
template <class C>
static __device__ __forceinline__ void collect(const problem &p, const unit &t, int thread,
                                               uint32_t boxes)
{
    constexpr int AT_ONCE = 12 / (C::SPLITS + 1); // limited by registers
    const int end = first_line<C>(t.split + 1) * 8;
    float *tile = p.out + t.batch * p.stride_out + t.m * p.ld_out + t.n;
    uint32_t from[C::SPLITS];
#pragma unroll
    for (int s = 0; s < C::SPLITS; ++s) {
        from[s] = cluster_address(boxes, (t.split + s) % C::SPLITS);
    }
    for (int first = first_line<C>(t.split) * 8 + thread; first < end;
         first += AT_ONCE * C::CONSUMER_THREADS) {
        float4 part[AT_ONCE][C::SPLITS], before[AT_ONCE];
        float *to[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int at = first + i * C::CONSUMER_THREADS, line = at / 8, four = at % 8;
            const int row = line / (64 * C::ACROSS) * 64 + line % 64;
            const int col = line / 64 % C::ACROSS * BOX_COLS + four * 4;
            const bool there = at < end && t.m + row < p.m && t.n + col < p.n;
            to[i] = there ? tile + row * p.ld_out + col : NULL;
            before[i] = there && p.beta != 0.0f ? *(const float4 *)to[i]
                                                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
            for (int s = 0; s < C::SPLITS; ++s) {
                if (at < end) {
                    part[i][s] = load_remote(from[s] + line * 128 + ((four ^ (line & 7)) << 4));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            float4 sum = part[i][0];
#pragma unroll
            for (int s = 1; s < C::SPLITS; ++s) {
                sum = add(sum, part[i][s]);
            }
            sum = make_float4(p.alpha * sum.x, p.alpha * sum.y, p.alpha * sum.z, p.alpha * sum.w);
            if (to[i]) {
                *(float4 *)to[i] = p.beta != 0.0f ? add(before[i], sum) : sum;
            }
        }
    }
}

template <class C>
static __device__ __forceinline__ void consume_in_cluster(const problem &p, const unit &t,
                                                          const shared_map<C> &shared, int index)
{
    const consumer me(index);
    const uint32_t boxes = shared.a(0);
    tile_sums<C> sums;
    multiply<C>(sums, shared, 0, t.k_end - t.k_begin, 1 - index, false);
    barrier_sync(WITHIN, readers_of<C>(p)); // no warp reads the ring any more
    put_sums<C>(me, sums, boxes);
    cluster_arrive();
    cluster_wait();
    collect<C>(p, t, index * GROUP_THREADS + me.thread, boxes);
    cluster_arrive();
    cluster_wait();
}

template <class C> static __device__ __forceinline__ void run_in_cluster(const problem &p)
{
    extern __shared__ unsigned char memory[];
    const shared_map<C> shared(memory);
    const int role = __shfl_sync(ALL_LANES, (int)threadIdx.x / GROUP_THREADS, 0);
    if (threadIdx.x == 0) {
        init_barriers<C>(shared, 1, C::WARPGROUPS + (p.a_sums ? SUMMERS<C> : 0));
        tma_prefetch(&p.a);
        tma_prefetch(&p.b);
    }
    __syncthreads();
    start_successor(); // its blocks start as ours exit, and wait for our results
    wait_for_predecessor();
    if (role == 0) {
        registers_give<C::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            produce_in_cluster<C>(p, unit_in_cluster<C>(p), shared);
        }
        if (p.a_sums && threadIdx.x >= 32 && summer_index() < SUMMERS<C>) {
            sum_columns<C>(one_unit<C>(p), shared);
            barrier_arrive(WITHIN, readers_of<C>(p));
        }
    } else {
        registers_take<C::CONSUMER_REGISTERS>();
        consume_in_cluster<C>(p, unit_in_cluster<C>(p), shared, role - 1);
    }
}
#endif

} // namespace bt_gemm_sm90

#endif
