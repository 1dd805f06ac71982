// kernels/cuda/gemm/bf16_sm90.cuh - the Hopper GEMM in bf16: its pipeline
//   D = epilogue(alpha op(A) op(B)) + beta C, sums in f32
//
// One persistent block per SM, three warpgroups:
//
//   producer     one thread brings 64-deep slices ("k-blocks") of A and B by TMA into a ring of
//                STAGES stages of shared memory
//   summers      in weight gradients with dbias: the producer warpgroup's other warps, one for each
//                64 rows of A^T, add up the columns of some of the slices
//   consumers    two warpgroups that take turns ("ping-pong"): each multiplies a whole 128 x TILE_N
//                tile by wgmma, sums in registers, then runs its epilogue while the other
//                multiplies
//
//   stage s:  empty[s] -> producer: TMA ... full[s] -> consumer: wgmma ... done -> empty[s] -> ...
//   tile:     |multiply 0|multiply 1|multiply 2|    the tensor cores never wait for an epilogue
//                        |epilogue 0|epilogue 1|    that is shorter than a multiplication
//
// Invariants
//   1. whole_units or group_share (work_sm90.cuh) gives a block's units; consumer i % 2 computes
//      the i-th.
//   2. The consumers' multiplications alternate strictly (ORDER barriers): a parity wait may lag
//      its barrier by one phase and no more, and the ring is read in the order in which it is
//      filled.
//   3. One warpgroup writes a unit's output. Splits of a tile are added in ascending order, so the
//      order of every sum depends only on shape and plan.
//   4. No __trap, and no code after the roles' branches: either makes ptxas give all roles the same
//      registers, and the sums spill.
//
// Edges    TMA reads zeros outside of A and B and stores nothing outside of D; a partial tile costs
//          as much as a whole one
// Shared   128-byte swizzle everywhere; a stage is A's 128 x 64 then B's TILE_N x 64
// Source   CUDA C++ Programming Guide, "Asynchronous Data Copies using TMA"; PTX ISA as in ptx_sm90
#ifndef BT_KERNELS_CUDA_GEMM_BF16_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_BF16_SM90_CUH

#include <cuda_bf16.h>

#include "kernels/cuda/gemm/work_sm90.cuh"

namespace bt_gemm_sm90
{

// Configuration of one kernel. N: columns of a tile; SHARED: both consumers share each tile.
template <int N, bool A_MN_MAJOR, bool B_MN_MAJOR, epilogue E, bool SHARED = false> struct config {
    using VALUE = __nv_bfloat16;
    static constexpr int TILE_M = 128, TILE_N = N;
    static constexpr int DEPTH = 64;         // 128 bytes, one swizzle row
    static constexpr bool A_MN = A_MN_MAJOR; // [k, m] in memory: trans_a
    static constexpr bool B_MN = B_MN_MAJOR; // [k, n] in memory: not trans_b
    static constexpr epilogue EPILOGUE = E;
    static constexpr bool SHARED_TILE = SHARED;
    // A thread's sums: M_PARTS x SUMS.
    static constexpr int M_PARTS = TILE_M / 64 / (SHARED ? CONSUMERS : 1), SUMS = N / 2;
    static constexpr int BOXES = SHARED ? 2 : 4; // staging buffers of the epilogue, per consumer
    // Weight gradients have no bias. With DGELU its place holds zeros, for sums of columns.
    static constexpr bool BIASED =
        E != EPILOGUE_DGELU && E != EPILOGUE_EXP && !(E == EPILOGUE_F32 && A_MN_MAJOR);
    static constexpr int A_BYTES = TILE_M * DEPTH * 2, B_BYTES = N * DEPTH * 2;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int BOXES_BYTES = CONSUMERS * BOXES * BOX_BYTES;
    static constexpr int BIAS_BYTES =
        BIASED || E == EPILOGUE_DGELU ? CONSUMERS * N * (int)sizeof(float) : 0;
    static constexpr int STAGES = stages_beside(BOXES_BYTES + BIAS_BYTES, STAGE_BYTES);
    static constexpr int SHARED_BYTES =
        block_bytes(STAGES * STAGE_BYTES + BOXES_BYTES + BIAS_BYTES);
};

// One k-block of an operand of ROWS rows of M or N. MN-major: 64 wide pieces, each its 64 rows of
// K.
template <bool MN_MAJOR, int ROWS>
static __device__ __forceinline__ void load_operand(const CUtensorMap *map, uint32_t to, int row,
                                                    int k, int batch, uint32_t barrier)
{
    if constexpr (MN_MAJOR) {
#pragma unroll
        for (int piece = 0; piece < ROWS / 64; ++piece) {
            tma_load(to + piece * BOX_BYTES, map, row + piece * 64, k, batch, barrier);
        }
    } else {
        tma_load(to, map, k, row, batch, barrier);
    }
}

// WORK answers the block's units (work_sm90.cuh).
template <class C, class WORK>
static __device__ __forceinline__ void produce(WORK work, const shared_map<C> &shared)
{
    int stage = 0;
    uint32_t phase = 1; // a new barrier acts as if a phase of parity 1 had completed
    while (work.more()) {
        const unit t = work.next();
        const problem &p = work.product();
        const a_place a = work.rows_of(p, t);
        for (int block = t.k_begin; block < t.k_end; ++block) {
            const uint32_t full = shared.full(stage);
            mbarrier_wait(shared.empty(stage), phase);
            mbarrier_expect(full, C::STAGE_BYTES);
            load_operand<C::A_MN, C::TILE_M>(a.map, shared.a(stage), a.m, block * C::DEPTH, t.batch,
                                             full);
            load_operand<C::B_MN, C::TILE_N>(&p.b, shared.b(stage), t.n, block * C::DEPTH, t.batch,
                                             full);
            if (++stage == C::STAGES) {
                stage = 0;
                phase ^= 1;
            }
        }
    }
    work.all_read();
}

// Warps that add up A's columns, where p.a_sums is given.
template <class C> constexpr int SUMMERS = C::A_MN ? C::TILE_M / 64 : 0;

// Index of the summer warp that a thread of the producer warpgroup belongs to; SUMMERS or more:
// none.
static __device__ __forceinline__ int summer_index() { return (int)threadIdx.x / 32 - 1; }

// A tile's warps add up every tiles_n-th k-block of its units, starting at the tile's column: each
// split and column of tiles writes its own part of p.a_sums. Every stage is released, also skipped
// ones. Shared  row k of a piece of A is 128 bytes, eight columns a lane and four rows at once
template <class C, class WORK>
static __device__ __forceinline__ void sum_columns(WORK work, const shared_map<C> &shared)
{
    const int lane = (int)threadIdx.x % 32, row = lane / 8;
    const uint32_t piece = (uint32_t)summer_index() * BOX_BYTES;
    int stage = 0;
    uint32_t phase = 0;
    while (work.more()) {
        const unit t = work.next();
        const problem &p = work.product();
        const int column = t.n / C::TILE_N;
        int until = column - t.k_begin % p.tiles_n; // k-blocks to the next one to add up
        until += until < 0 ? p.tiles_n : 0;
        float sums[8] = {};
        for (int block = t.k_begin; block < t.k_end; ++block) {
            mbarrier_wait(shared.full(stage), phase);
            if (until-- == 0) {
                until = p.tiles_n - 1;
                const uint32_t from = shared.a(stage) + piece + row * 128;
#pragma unroll 2
                for (int k = 0; k < C::DEPTH; k += 4) {
                    const uint4 v = load_four(from + k * 128 + (((lane ^ (k + row)) & 7) << 4));
                    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sums[2 * i] += __uint_as_float(words[i] << 16);
                        sums[2 * i + 1] += __uint_as_float(words[i] & 0xffff0000U);
                    }
                }
            }
            __syncwarp();
            if (lane == 0) {
                mbarrier_arrive(shared.empty(stage));
            }
            if (++stage == C::STAGES) {
                stage = 0;
                phase ^= 1;
            }
        }
        float *to = p.a_sums + (int64_t)(t.split * p.tiles_n + column) * p.m;
        const int m = t.m + summer_index() * 64 + lane * 8;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sums[i] += __shfl_xor_sync(ALL_LANES, sums[i], 8);
            sums[i] += __shfl_xor_sync(ALL_LANES, sums[i], 16);
            if (lane < 8 && m + i < p.m) {
                to[m + i] = sums[i];
            }
        }
    }
}

template <class C>
static __device__ __forceinline__ void multiply_block(tile_sums<C> &sums, uint32_t a_address,
                                                      uint32_t b_address, bool adds)
{
    const uint64_t a = wgmma_operand<C::A_MN>(a_address, BOX_BYTES);
    const uint64_t b = wgmma_operand<C::B_MN>(b_address, BOX_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::DEPTH / 16; ++k) {
#pragma unroll
        for (int part = 0; part < C::M_PARTS; ++part) {
            wgmma_bf16<C::TILE_N, C::A_MN, C::B_MN>::multiply(
                sums[part], a + k * WGMMA_K_STEP<C::A_MN> + part * BOX_BYTES / 16,
                b + k * WGMMA_K_STEP<C::B_MN>, adds || k > 0);
        }
    }
    wgmma_commit();
}

// Multiplies `blocks` k-blocks, the first of which is the ring's k-block number `position`.
// Releases a stage once the next k-block's wgmma is issued. Then lets the other consumer start.
template <class C>
static __device__ __forceinline__ void multiply(tile_sums<C> &sums, const shared_map<C> &shared,
                                                int position, int blocks, int other, bool tell)
{
    const bool leader = threadIdx.x % GROUP_THREADS == 0;
    int stage = position % C::STAGES;
    uint32_t phase = (uint32_t)(position / C::STAGES) & 1;
    int previous = -1;
    for (int block = 0; block < blocks; ++block) {
        mbarrier_wait(shared.full(stage), phase);
        multiply_block<C>(sums, shared.a(stage) + row_of<C>(1 - other) / 64 * BOX_BYTES,
                          shared.b(stage), block > 0);
        wgmma_wait<1>();
        if (previous >= 0 && leader) {
            mbarrier_arrive(shared.empty(previous));
        }
        previous = stage;
        if (++stage == C::STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
    if (!C::SHARED_TILE && tell) {
        barrier_arrive(ORDER + other, CONSUMERS * GROUP_THREADS);
    }
    wgmma_wait<0>();
    if (leader) {
        mbarrier_arrive(shared.empty(previous));
    }
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
        wgmma_settle(sums[part]);
    }
}

} // namespace bt_gemm_sm90

#endif
