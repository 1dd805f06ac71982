// kernels/cuda/gemm/tf32_sm90.cuh - the Hopper GEMM in tf32 for an MN-major A: its pipeline
//   D (+)= alpha A^T op(B) + bias, operands f32 rounded to tf32, sums in f32
//
// wgmma truncates f32 words to tf32 and requires K-major operands in shared memory. Here both
// operands pass through registers, where they are rounded to nearest even and transposed at no
// extra cost (weight gradients: both operands are large and MN-major):
//
//   A   TMA -> shared memory -> a consumer's registers, word by word in the order of wgmma's A
//       fragment, rounded there
//   B   global memory -> a producer's registers, 4 x 4 values, rounded and turned there -> shared
//       memory, K-major -> wgmma
//
// One persistent block per SM, four warpgroups:
//
//   producers   two warpgroups fill a ring of STAGES stages with 32-deep slices ("k-blocks"). They
//               load B two k-blocks ahead; each warp's first lane issues TMA for a part of A
//   consumers   two warpgroups, each with half of the tile's rows. Both read the same stages, so
//               one can be ahead of the other by at most the ring; that is how much of an epilogue
//               overlaps the other consumer's multiplication
//
//   stage s:  empty[s] -> producers: TMA A, store B ... full[s] -> consumers: 4 x (load A, round,
//             wgmma) ... done -> empty[s]
//   step:     load A of step i + 1 while wgmma of step i runs; round it when wgmma i - 1 is
//   complete
//
// Invariants
//   1. Unit u belongs to block u % gridDim.x; each consumer writes its own rows of the output.
//   2. The order of k in a k-block is that of tf32_words_sm90.cuh.
//   3. A's fragments alternate between two sets of registers; a set is reloaded when the wgmmas
//      that read it are complete (wgmma_wait<1>).
//   4. Each warp of the consumers releases a stage when its own wgmmas of the stage are complete;
//      its reads of A complete before them.
//   5. No __trap, and no code after the roles' branches (bf16_sm90.cuh).
//
// Edges    TMA reads zeros outside of A, load_four outside of B; a partial tile costs as much as a
//          whole one
// Shared   128-byte swizzle everywhere; a stage is A's TILE_M x 32 then B's TILE_N x 32
// Source   PTX ISA as in ptx_sm90; wgmma, "Register Fragments and Shared Memory Matrix Layouts"
#ifndef BT_KERNELS_CUDA_GEMM_TF32_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_TF32_SM90_CUH

#include "kernels/cuda/gemm/tf32_words_sm90.cuh"

namespace bt_gemm_sm90
{

constexpr int PRODUCER_WARPS = 8, CONSUMER_WARPS = CONSUMERS * GROUP_THREADS / 32;
constexpr int TF32_THREADS = (PRODUCER_WARPS + CONSUMER_WARPS) * 32;

// One kernel: rows (64 PARTS for each consumer) and columns of its tile, B's layout.
template <int PARTS, int N, bool B_MN_MAJOR> struct tf32_config {
    using VALUE = float;
    static constexpr int TILE_M = CONSUMERS * PARTS * 64, TILE_N = N;
    static constexpr int DEPTH = 32;         // 128 bytes, one swizzle row
    static constexpr bool B_MN = B_MN_MAJOR; // as in bf16_sm90.cuh
    static constexpr epilogue EPILOGUE = EPILOGUE_F32;
    static constexpr bool BIASED = true;
    static constexpr bool SHARED_TILE = true;
    static constexpr int M_PARTS = PARTS, SUMS = N / 2;
    static constexpr int BOXES = 4;
    static constexpr int A_BYTES = TILE_M * DEPTH * 4, B_BYTES = N * DEPTH * 4;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int BOXES_BYTES = CONSUMERS * BOXES * BOX_BYTES;
    static constexpr int BIAS_BYTES = CONSUMERS * N * (int)sizeof(float);
    static constexpr int STAGES = stages_beside(BOXES_BYTES + BIAS_BYTES, STAGE_BYTES);
    static constexpr int SHARED_BYTES =
        block_bytes(STAGES * STAGE_BYTES + BOXES_BYTES + BIAS_BYTES);
    static_assert(N == 128, "the producer warps divide 128 rows of b among them");
};

// ---- producers ----------------------------------------------------------------------------------

// Position of a role in its sequence of k-blocks: stage, and parity of the stage's phase.
template <class C> struct ring {
    int stage;
    uint32_t phase;
    __device__ __forceinline__ void advance()
    {
        if (++stage == C::STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

// Loads the first `count` of four values at `from`; zeros for the rest.
static __device__ __forceinline__ float4 load_four(const float *from, int count)
{
    float4 v = make_float4(0, 0, 0, 0);
    if (count >= 4) {
        v = __ldg((const float4 *)from);
    } else if (count > 0) {
        v.x = from[0];
        v.y = count > 1 ? from[1] : 0.0f;
        v.z = count > 2 ? from[2] : 0.0f;
    }
    return v;
}

// A producer's part of B's k-block, 128 x 32: four times four values. Lanes are laid out so that
// loads take whole 128-byte lines and stores of a quarter warp fall on different banks.
//   MN-major   v[e] is rows `row` .. row + 3 at position 4 chunk + e
//   K-major    v[2 i], v[2 i + 1] are 8 values of k of row + 8 i, to be exchanged
template <class C> struct b_place {
    int row, chunk; // in the k-block
    int depth;      // its k, of v[0]

    __device__ __forceinline__ b_place()
    {
        const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        if constexpr (C::B_MN) {
            row = 32 * (warp % 4) + 8 * (lane / 8) + 4 * (lane % 2);
            chunk = lane / 2 % 4 + warp / 4 * 4;
            depth = 8 * (chunk / 2) + chunk % 2; // invariant 2
        } else {
            row = 16 * warp + lane / 4;
            chunk = lane % 4 * 2;
            depth = 4 * chunk;
        }
    }
    // Of v[i], from that of v[0].
    static __device__ __forceinline__ int row_step(int i) { return C::B_MN ? 0 : i / 2 * 8; }
    static __device__ __forceinline__ int depth_step(int i) { return C::B_MN ? i * 2 : i % 2 * 4; }
};

struct b_part {
    float4 v[4];
};

// A producer's sequence of loads of B: unit by unit, k-block by k-block.
template <class C> struct b_reader {
    const problem &p;
    const b_place<C> place;
    int u, left;       // unit; its k-blocks that are left
    int k, n;          // of the k-block and the unit
    bool whole;        // all of the unit's rows are inside
    const float *from; // v[0]

    __device__ __forceinline__ explicit b_reader(const problem &problem)
        : p(problem), u((int)blockIdx.x)
    {
        enter();
    }
    __device__ __forceinline__ void enter()
    {
        left = 0;
        if (u < p.units) {
            const unit t = unit_at<C>(p, u);
            k = t.k_begin * C::DEPTH;
            n = t.n;
            left = t.k_end - t.k_begin;
            whole = n + C::TILE_N <= p.n;
            from = p.b_values + t.batch * p.stride_b +
                   (C::B_MN ? (k + place.depth) * p.ldb + n + place.row
                            : (n + place.row) * p.ldb + k + place.depth);
        }
    }
    // The distance in memory from v[0] to v[i].
    __device__ __forceinline__ int64_t step(int i) const
    {
        const int rows = b_place<C>::row_step(i), depth = b_place<C>::depth_step(i);
        return C::B_MN ? depth * p.ldb : rows * p.ldb + depth;
    }
    __device__ __forceinline__ void load_edge(b_part &part) const
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = n + place.row + b_place<C>::row_step(i);
            const int depth = k + place.depth + b_place<C>::depth_step(i);
            const int count =
                C::B_MN ? (depth < p.k ? p.n - row : 0) : (row < p.n ? p.k - depth : 0);
            part.v[i] = load_four(from + step(i), count);
        }
    }
    // Loads the next k-block's part, if there is one.
    __device__ __forceinline__ void fetch(b_part &part)
    {
        if (left == 0) {
            return;
        }
        if (whole && k + C::DEPTH <= p.k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                part.v[i] = __ldg((const float4 *)(from + step(i)));
            }
        } else {
            load_edge(part);
        }
        k += C::DEPTH;
        from += C::B_MN ? C::DEPTH * p.ldb : C::DEPTH;
        if (--left == 0) {
            u += (int)gridDim.x;
            enter();
        }
    }
};

static __device__ __forceinline__ void put_four(uint32_t to, int row, int chunk, float x, float y,
                                                float z, float w)
{
    const uint32_t v[4] = {round_tf32(__float_as_uint(x)), round_tf32(__float_as_uint(y)),
                           round_tf32(__float_as_uint(z)), round_tf32(__float_as_uint(w))};
    store_four(to + row * 128 + ((chunk ^ (row & 7)) << 4), v);
}

template <class C>
static __device__ __forceinline__ void put_part(const b_part &part, const b_place<C> &at,
                                                uint32_t to)
{
    const float4 &a = part.v[0], &b = part.v[1], &c = part.v[2], &d = part.v[3];
    if constexpr (C::B_MN) {
        put_four(to, at.row, at.chunk, a.x, b.x, c.x, d.x);
        put_four(to, at.row + 1, at.chunk, a.y, b.y, c.y, d.y);
        put_four(to, at.row + 2, at.chunk, a.z, b.z, c.z, d.z);
        put_four(to, at.row + 3, at.chunk, a.w, b.w, c.w, d.w);
    } else {
        put_four(to, at.row, at.chunk, a.x, a.z, b.x, b.z);
        put_four(to, at.row, at.chunk + 1, a.y, a.w, b.y, b.w);
        put_four(to, at.row + 8, at.chunk, c.x, c.z, d.x, d.z);
        put_four(to, at.row + 8, at.chunk + 1, c.y, c.w, d.y, d.w);
    }
}

// A's part of a k-block; every producer warp's first lane calls. Pieces 32 wide, each its 32 rows
// of K, are spread over the warps.
template <class C>
static __device__ __forceinline__ void load_a(const problem &p, uint32_t to, const unit &t,
                                              int block, uint32_t barrier)
{
    const int warp = (int)threadIdx.x / 32;
    if (warp == 0) {
        mbarrier_expect(barrier, C::A_BYTES);
    }
    if (warp < C::TILE_M / 32) {
        tma_load(to + warp * 32 * 128, &p.a, t.m + warp * 32, block * C::DEPTH, t.batch, barrier);
    }
}

// A producer's sequence of stages in the ring.
template <class C> struct feeder {
    const problem &p;
    const shared_map<C> &shared;
    b_reader<C> reader;
    ring<C> to;
    unit t;
    int u, block;
    bool first_lane;

    __device__ __forceinline__ feeder(const problem &problem, const shared_map<C> &map)
        : p(problem), shared(map), reader(problem), to{0, 1}, u((int)blockIdx.x), block(0),
          first_lane(threadIdx.x % 32 == 0) // a new barrier acts as after a phase of parity 1
    {
        t.k_end = 0;
    }
    // Writes the next k-block to the ring, B from `part`, then loads the k-block two ahead into
    // `part`; false at the end. The caller alternates two parts: copying one would wait for its
    // loads.
    __device__ __forceinline__ bool feed(b_part &part)
    {
        if (block == t.k_end) {
            if (u >= p.units) {
                return false;
            }
            t = unit_at<C>(p, u);
            block = t.k_begin;
            u += (int)gridDim.x;
        }
        const uint32_t full = shared.full(to.stage);
        mbarrier_wait(shared.empty(to.stage), to.phase);
        if (first_lane) {
            load_a<C>(p, shared.a(to.stage), t, block, full);
        }
        __syncwarp();
        put_part<C>(part, reader.place, shared.b(to.stage));
        fence_async();
        __syncwarp();
        if (first_lane) {
            mbarrier_arrive(full);
        }
        reader.fetch(part);
        to.advance();
        ++block;
        return true;
    }
};

template <class C>
static __device__ __forceinline__ void produce_tf32(const problem &p, const shared_map<C> &shared)
{
    feeder<C> feeds(p, shared);
    b_part even, odd;
    feeds.reader.fetch(even);
    feeds.reader.fetch(odd);
    while (feeds.feed(even) && feeds.feed(odd)) {
    }
}

// ---- consumers ----------------------------------------------------------------------------------

template <class C> using fragment = uint32_t[C::M_PARTS][4];

template <class C>
static __device__ __forceinline__ void load_fragment(fragment<C> &raw, uint32_t a,
                                                     const a_places<C> &places, int step)
{
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            raw[part][i] = load_word(a + places.of(i / 2, i % 2, step, part));
        }
    }
}

template <class C>
static __device__ __forceinline__ void round_fragment(fragment<C> &f, const fragment<C> &raw)
{
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            f[part][i] = round_tf32(raw[part][i]);
        }
    }
}

template <class C>
static __device__ __forceinline__ void add_fragment(row_sums<C> &rows, const fragment<C> &raw)
{
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            rows[part][i % 2] += __uint_as_float(raw[part][i]);
        }
    }
}

template <class C> static __device__ __forceinline__ void settle(fragment<C> &f)
{
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
        wgmma_settle(f[part]);
    }
}

template <class C>
static __device__ __forceinline__ void multiply_step(tile_sums<C> &sums, const fragment<C> &f,
                                                     uint64_t b, bool adds)
{
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
        wgmma_tf32<C::TILE_N>::multiply(sums[part], f[part], b, adds);
    }
    wgmma_commit();
}

// Multiplies the next `blocks` k-blocks of the ring; `rows` become the sums of op(A)'s rows.
template <class C>
static __device__ __forceinline__ void
multiply_tf32(tile_sums<C> &sums, row_sums<C> &rows, const shared_map<C> &shared,
              const a_places<C> &places, ring<C> &from, int blocks)
{
    constexpr int STEPS = C::DEPTH / 8, STEP_BYTES = 8 * 4;
    fragment<C> f[2], raw;
    int previous = -1;
    mbarrier_wait(shared.full(from.stage), from.phase);
    load_fragment<C>(raw, shared.a(from.stage), places, 0);
    round_fragment<C>(f[0], raw);
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
        rows[part][0] = rows[part][1] = 0.0f;
    }
    add_fragment<C>(rows, raw);
    for (int block = 0; block < blocks; ++block) {
        const int stage = from.stage;
        const bool more = block + 1 < blocks;
        const uint64_t b = wgmma_operand<false>(shared.b(stage), 0);
        from.advance();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            fragment<C> &next = f[(step + 1) % 2];
            multiply_step<C>(sums, f[step % 2], b + step * STEP_BYTES / 16, block > 0 || step > 0);
            if (step + 1 < STEPS) {
                load_fragment<C>(raw, shared.a(stage), places, step + 1);
            } else if (more) {
                mbarrier_wait(shared.full(from.stage), from.phase);
                load_fragment<C>(raw, shared.a(from.stage), places, 0);
            }
            wgmma_wait<1>(); // the previous step is complete
            settle<C>(next);
            if (step == 0) {
                give_back<C>(shared, previous);
            }
            round_fragment<C>(next, raw); // the last time of a unit: not used
            if (step + 1 < STEPS || more) {
                add_fragment<C>(rows, raw);
            }
        }
        previous = stage;
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
