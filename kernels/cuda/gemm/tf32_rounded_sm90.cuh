// kernels/cuda/gemm/tf32_rounded_sm90.cuh - the Hopper GEMM in tf32, B rounded before: its pipeline
//   D = epilogue(alpha op(A) op(B)) + beta C, operands f32 rounded to tf32, sums in f32
//
// A separate pass rounds the smaller operand, B, and makes it K-major (tf32_round_sm90.cu). A is
// often too large for a pass, so the consumers round it in registers:
//
//   A   TMA -> shared memory -> registers, rounded there -> wgmma; K-major by ldmatrix, MN-major
//       (weight gradients) word by word (tf32_words_sm90.cuh)
//   B   round_b -> workspace -> TMA -> shared memory -> wgmma
//
// In weight gradients the smaller operand may be the call's A. Then the kernel computes D^T
// (EXCHANGED) and transposes it in its epilogue.
//
// One persistent block per SM, three warpgroups: a producer, of which one thread issues TMA for a
// ring of STAGES stages with 32-deep slices ("k-blocks"), and two consumers. Either the consumers
// alternate whole tiles, one's epilogue overlapping the other's multiplication ("ping-pong", as in
// bf16_sm90.cuh), or each computes half of every tile's rows. The latter reads less of B per FLOP,
// but does not hide its epilogues.
//
//   stage s:  empty[s] -> producer: TMA ... full[s] -> consumer ... done -> empty[s]
//   wgmma j:  issue j | wait for j - 1 | load words of j + 2 | round those of j + 1 | issue j + 1
//
// Invariants
//   1. Ping-pong: unit u belongs to block u % gridDim.x and there to consumer (u / gridDim.x) % 2,
//      whose multiplications alternate strictly (ORDER barriers). Together: to both.
//   2. Words of A rotate through SLOTS sets of registers. A set is reloaded when the wgmma that
//      read it, the second-last one issued, has completed.
//   3. Words of A are defined with at most one wgmma in flight: with two, ptxas 13.0 inserts a wait
//      after every wgmma (C7513). Larger groups of wgmmas need more registers than there are.
//   4. Each warp of a consumer releases a stage when its own wgmmas of the stage have completed;
//      its reads of A complete before them.
//   5. No __trap, and no code after the roles' branches (bf16_sm90.cuh).
//
// Edges    TMA reads zeros outside of A and B; a partial tile costs as much as a whole one
// Shared   128-byte swizzle everywhere; a stage is A's TILE_M x 32 then B's TILE_N x 32
// Source   PTX ISA as in ptx_sm90; wgmma, "Register Fragments and Shared Memory Matrix Layouts"
#ifndef BT_KERNELS_CUDA_GEMM_TF32_ROUNDED_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_TF32_ROUNDED_SM90_CUH

#include "kernels/cuda/gemm/tf32_sm90.cuh"

namespace bt_gemm_sm90
{

// Configuration of one kernel. N: columns of a tile; TOGETHER: consumers share each tile; MN: A is
// MN-major; TURNED: computes D^T.
template <int N, bool TOGETHER, epilogue E, bool MN = false, bool TURNED = false>
struct rounded_config {
    using VALUE = float;
    static constexpr bool SHARED_TILE = TOGETHER, A_MN = MN, EXCHANGED = TURNED;
    static constexpr int M_PARTS = 2, SUMS = N / 2;
    static constexpr int TILE_M = (TOGETHER ? CONSUMERS : 1) * M_PARTS * 64, TILE_N = N;
    static constexpr int DEPTH = 32; // 128 bytes, one swizzle row
    static constexpr epilogue EPILOGUE = E;
    static constexpr bool BIASED =
        E == EPILOGUE_ADD || E == EPILOGUE_GELU || (E == EPILOGUE_F32 && !EXCHANGED);
    static constexpr int BOXES = EXCHANGED ? 2 : A_MN ? 3 : 4; // leaves memory for three stages
    static constexpr int A_BYTES = TILE_M * DEPTH * 4, B_BYTES = N * DEPTH * 4;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int BOXES_BYTES = CONSUMERS * BOXES * BOX_BYTES;
    static constexpr int BIAS_BYTES = CONSUMERS * N * (int)sizeof(float);
    static constexpr int STAGES = stages_beside(BOXES_BYTES + BIAS_BYTES, STAGE_BYTES);
    static constexpr int SHARED_BYTES =
        block_bytes(STAGES * STAGE_BYTES + BOXES_BYTES + BIAS_BYTES);
    static_assert(STAGES >= 3, "at least 3 stages: one is read while two are loaded");
};

template <class C>
static __device__ __forceinline__ void load_rounded_a(const problem &p, uint32_t to, const unit &t,
                                                      int block, uint32_t barrier)
{
    if constexpr (C::A_MN) { // in pieces 32 wide, each its 32 rows of K
        for (int piece = 0; piece < C::TILE_M / 32; ++piece) {
            tma_load(to + piece * 32 * 128, &p.a, t.m + piece * 32, block * C::DEPTH, t.batch,
                     barrier);
        }
    } else {
        tma_load(to, &p.a, block * C::DEPTH, t.m, t.batch, barrier);
    }
}

template <class C>
static __device__ __forceinline__ void produce_rounded(const problem &p,
                                                       const shared_map<C> &shared)
{
    int stage = 0;
    uint32_t phase = 1; // a new barrier acts as if a phase of parity 1 had completed
    for (int u = (int)blockIdx.x; u < p.units; u += (int)gridDim.x) {
        const unit t = unit_at<C>(p, u);
        for (int block = t.k_begin; block < t.k_end; ++block) {
            const uint32_t full = shared.full(stage);
            mbarrier_wait(shared.empty(stage), phase);
            mbarrier_expect(full, C::STAGE_BYTES);
            load_rounded_a<C>(p, shared.a(stage), t, block, full);
            tma_load(shared.b(stage), &p.b, block * C::DEPTH, t.n, t.batch, full);
            if (++stage == C::STAGES) {
                stage = 0;
                phase ^= 1;
            }
        }
    }
}

using a_words = uint32_t[4]; // of A, for one wgmma
constexpr int SLOTS = 4;

// Addresses of a thread's words in a stage of A. wgmma j of a k-block has K step j / M_PARTS and
// rows j % M_PARTS.
template <class C, bool MN = C::A_MN> struct word_places {
    uint32_t place;

    __device__ __forceinline__ explicit word_places(const consumer &me)
        : place(row_of<C>(me.index) * 128 + me.place(0, 0))
    {
    }
    // ldmatrix moves pairs of 16-bit values, here f32 words, in the order that wgmma wants.
    __device__ __forceinline__ void load(a_words &words, uint32_t a, int j) const
    {
        load_matrices(a + j % C::M_PARTS * BOX_BYTES + (place ^ j / C::M_PARTS << 5), words);
    }
};
template <class C> struct word_places<C, true> {
    a_places<C> places;

    __device__ __forceinline__ explicit word_places(const consumer &me) : places(me.index) {}
    __device__ __forceinline__ void load(a_words &words, uint32_t a, int j) const
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = load_word(a + places.of(i / 2, i % 2, j / C::M_PARTS, j % C::M_PARTS));
        }
    }
};

// Adds words of wgmma j to the sums of op(A)'s rows.
template <class C>
static __device__ __forceinline__ void add_words(row_sums<C> &rows, const a_words &raw, int j)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        rows[j % C::M_PARTS][i % 2] += __uint_as_float(raw[i]);
    }
}

static __device__ __forceinline__ void round_words(a_words &words)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        words[i] = round_tf32(words[i]);
    }
}

// Multiplies `blocks` k-blocks, the first of which is the ring's k-block number `position`; then,
// with `tell`, lets the other consumer start. After the last k-block it loads words that are not
// used: a condition would make the compiler copy them. If A is MN-major, `rows` become the sums of
// op(A)'s rows.
template <class C>
static __device__ __forceinline__ void
multiply_rounded(tile_sums<C> &sums, row_sums<C> &rows, const shared_map<C> &shared,
                 const consumer &me, const word_places<C> &places, int position, int blocks,
                 bool tell)
{
    constexpr int STEP_BYTES = 8 * 4, COUNT = C::DEPTH / 8 * C::M_PARTS;
    constexpr bool ADDS = C::A_MN && !C::EXCHANGED;
    int stage = position % C::STAGES;
    uint32_t phase = (uint32_t)(position / C::STAGES) & 1;
    int previous = -1;
    a_words words[SLOTS];
    mbarrier_wait(shared.full(stage), phase);
    places.load(words[0], shared.a(stage), 0);
    places.load(words[1], shared.a(stage), 1);
    if constexpr (ADDS) {
#pragma unroll
        for (int part = 0; part < C::M_PARTS; ++part) {
            rows[part][0] = rows[part][1] = 0.0f;
        }
        add_words<C>(rows, words[0], 0);
    }
    round_words(words[0]);
    for (int block = 0; block < blocks; ++block) {
        const bool more = block + 1 < blocks;
        const int now = stage;
        const uint64_t b = wgmma_operand<false>(shared.b(now), 0);
        if (++stage == C::STAGES) {
            stage = 0;
            phase ^= 1;
        }
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const int step = j / C::M_PARTS, ahead = j + 2;
            wgmma_fence();
            wgmma_tf32<C::TILE_N>::multiply(sums[j % C::M_PARTS], words[j % SLOTS],
                                            b + step * STEP_BYTES / 16, block > 0 || step > 0);
            wgmma_commit();
            wgmma_wait<1>(); // the previous wgmma is complete
            wgmma_settle(words[ahead % SLOTS]);
            if (j == 1) {
                give_back<C>(shared, previous);
            }
            if (ahead == COUNT && more) {
                mbarrier_wait(shared.full(stage), phase);
            }
            places.load(words[ahead % SLOTS], shared.a(ahead < COUNT || !more ? now : stage),
                        ahead % COUNT);
            if (ADDS && (j + 1 < COUNT || more)) {
                add_words<C>(rows, words[(j + 1) % SLOTS], j + 1);
            }
            round_words(words[(j + 1) % SLOTS]);
        }
        previous = now;
    }
    if (tell) {
        barrier_arrive(ORDER + 1 - me.index, CONSUMERS * GROUP_THREADS);
    }
    wgmma_wait<0>();
    give_back<C>(shared, previous);
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
        wgmma_settle(sums[part]);
    }
}

} // namespace bt_gemm_sm90

#endif
