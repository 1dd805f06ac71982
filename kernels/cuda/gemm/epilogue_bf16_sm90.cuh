// kernels/cuda/gemm/epilogue_bf16_sm90.cuh - the bf16 epilogues on Hopper (sm90.h)
//
// A bf16 epilogue stores the tile as boxes of 64 x 64 values through buffers in shared memory that
// belong to the consumer: stmatrix writes values in TMA's 128-byte swizzle, and one thread issues
// the store. Buffers are used round robin; `used` counts their uses over the whole kernel.
//   STORE         four stores are in flight
//   EXP           as STORE; a thread sums its values of a row in order of columns, then come the
//                 sums of the four threads that share the row
//   GELU          stores pre-activation and activation together: two buffers, two pairs in flight
//   ADD, DGELU    load the second input into the buffer of the result, two boxes ahead; the first
//                 two loads are issued before the multiplication (begin_boxes)
//   DGELU         optionally writes the tile's column sums, of values as stored, to a row of
//                 [tiles_m, n]. The sums are products of the boxes with ones, which need the
//                 fewest registers
//
// GELU     of the rounded pre-activation with the hardware's tanh (gelu.cuh)
// NaN      stays NaN in every epilogue
#ifndef BT_KERNELS_CUDA_GEMM_EPILOGUE_BF16_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_EPILOGUE_BF16_SM90_CUH

#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/gemm/bf16_sm90.cuh"

namespace bt_gemm_sm90
{

constexpr float GELU_A = 0.7978845608028654f; // sqrt(2/pi)
constexpr float GELU_B = 0.044715f;

static __device__ __forceinline__ float gelu_slope(float x)
{
    float square = fminf(x * x, 1000.0f); // where 1 - t^2 is 0 it must not become 0 * inf
    float t = tanh_approximate(x * (GELU_A + GELU_A * GELU_B * square));
    float inner = GELU_A + 3.0f * GELU_A * GELU_B * square;
    return 0.5f + 0.5f * t + 0.5f * x * (1.0f - t * t) * inner;
}

// Loads the bias of a tile as floats; zeros without a bias, and in F32 for every split of K but the
// first. Visible after the next sync().
template <class C>
static __device__ __forceinline__ void load_bias(const problem &p, const unit &t,
                                                 const consumer &me, float *to)
{
    for (int i = me.thread; i < C::TILE_N; i += GROUP_THREADS) {
        bool there = p.bias && t.n + i < p.n && t.split == 0;
        to[i] = there ? __bfloat162float(((const __nv_bfloat16 *)p.bias)[t.n + i]) : 0.0f;
    }
}

// alpha s + bias of the eight columns 8 j .. 8 j + 7 of the tile: this thread's four.
static __device__ __forceinline__ void scale_and_bias(float *s, int j, const problem &p,
                                                      const float *bias, const consumer &me)
{
    const float2 b = *(const float2 *)(bias + j * 8 + me.lane % 4 * 2);
    s[0] = fmaf(p.alpha, s[0], b.x);
    s[1] = fmaf(p.alpha, s[1], b.y);
    s[2] = fmaf(p.alpha, s[2], b.x);
    s[3] = fmaf(p.alpha, s[3], b.y);
}

// Four sums each of two neighbouring j: 16 rows and 16 columns of the warp's part of a box.
static __device__ __forceinline__ void put(uint32_t box, int sixteen, const float *s,
                                           const consumer &me)
{
    const uint32_t v[4] = {pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]),
                           pack_bf16(s[6], s[7])};
    store_matrices(me.place(box, sixteen), v);
}

// ---- STORE and GELU -----------------------------------------------------------------------------
template <class C>
static __device__ __forceinline__ void finish_store(const problem &p, const unit &t,
                                                    const consumer &me, tile_sums<C> &sums,
                                                    const float *bias, uint32_t boxes, int &used)
{
    constexpr int OUTPUTS = C::EPILOGUE == EPILOGUE_GELU ? 2 : 1, FLIGHTS = C::BOXES / OUTPUTS;
#pragma unroll
    for (int i = 0; i < C::M_PARTS * C::TILE_N / 64; ++i) {
        const int part = i / (C::TILE_N / 64), col = i % (C::TILE_N / 64);
        const uint32_t box = boxes + used % FLIGHTS * OUTPUTS * BOX_BYTES;
        ++used;
        if (me.leads()) {
            tma_store_wait_read<FLIGHTS - 1>();
        }
        me.sync(); // the buffer is free; the first time also: the bias is loaded
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            float *s = &sums[part][(col * 8 + 2 * q) * 4];
            scale_and_bias(s, col * 8 + 2 * q, p, bias, me);
            scale_and_bias(s + 4, col * 8 + 2 * q + 1, p, bias, me);
            put(box, q, s, me);
        }
        if (OUTPUTS == 2) { // after the whole of the first box: faster than value by value
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                float *s = &sums[part][(col * 8 + 2 * q) * 4];
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    s[e] = bt_gelu::gelu_fast(__bfloat162float(__float2bfloat16_rn(s[e])));
                }
                put(box + BOX_BYTES, q, s, me);
            }
        }
        fence_async();
        me.sync();
        if (me.leads()) {
            tma_store(OUTPUTS == 2 ? &p.other : &p.d, box, t.n + col * 64, t.m + part * 64,
                      t.batch);
            if (OUTPUTS == 2) {
                tma_store(&p.d, box + BOX_BYTES, t.n + col * 64, t.m + part * 64, t.batch);
            }
            tma_store_commit();
        }
    }
}

// ---- EXP ----------------------------------------------------------------------------------------
// A row that a thread has values of.
struct exp_row {
    int row;         // of D
    float reference; // in units of log 2
    int target;      // its column, from this thread's first one on
    float sum;
};

static __device__ __forceinline__ exp_row exp_row_of(const problem &p, int row, int first_column)
{
    const bool there = row < p.m;
    // Unsigned, since a target may have any value.
    const unsigned target = there ? (unsigned)p.targets[row] - (unsigned)first_column : ~0u;
    return {row, there ? p.reference[row] * LOG2_E : 0.0f, (int)target, 0.0f};
}

// `column` from this thread's first one on, of which `columns` are within D.
static __device__ __forceinline__ float exp_of(float s, int column, int columns, exp_row &r)
{
    const float e = exp2_approximate(fmaf(s, LOG2_E, -r.reference));
    const float value = column == r.target || column >= columns ? 0.0f : e;
    r.sum += value;
    return value;
}

static __device__ __forceinline__ void write_sum(const problem &p, const exp_row &r, int tile,
                                                 const consumer &me)
{
    float sum = r.sum + __shfl_xor_sync(ALL_LANES, r.sum, 1);
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    if (me.lane % 4 == 0 && r.row < p.m) {
        p.row_sums[(int64_t)tile * p.m + r.row] = sum;
    }
}

template <class C>
static __device__ __forceinline__ void finish_exp(const problem &p, const unit &t,
                                                  const consumer &me, tile_sums<C> &sums,
                                                  uint32_t boxes, int &used)
{
    const int first = t.n + me.lane % 4 * 2, columns = p.n - first;
#pragma unroll
    for (int part = 0; part < C::M_PARTS; ++part) {
        const int row = t.m + part * 64 + me.thread / 32 * 16 + me.lane / 4;
        exp_row upper = exp_row_of(p, row, first), lower = exp_row_of(p, row + 8, first);
#pragma unroll
        for (int col = 0; col < C::TILE_N / 64; ++col) {
            const uint32_t box = boxes + used % C::BOXES * BOX_BYTES;
            ++used;
            if (me.leads()) {
                tma_store_wait_read<C::BOXES - 1>();
            }
            me.sync(); // the buffer is free
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                float *s = &sums[part][(col * 8 + 2 * q) * 4];
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    const int column = (col * 8 + 2 * q + e / 4) * 8 + e % 2;
                    s[e] = exp_of(s[e], column, columns, e % 4 < 2 ? upper : lower);
                }
                put(box, q, s, me);
            }
            fence_async();
            me.sync();
            if (me.leads()) {
                tma_store(&p.d, box, t.n + col * 64, t.m + part * 64, t.batch);
                tma_store_commit();
            }
        }
        write_sum(p, upper, t.n / C::TILE_N, me);
        write_sum(p, lower, t.n / C::TILE_N, me);
    }
}

// ---- ADD and DGELU ------------------------------------------------------------------------------
// Box i of the tile. DGELU goes down a column of boxes first, so that it holds the sums of one
// column of boxes at a time.
template <class C> static __device__ __forceinline__ int part_of(int i)
{
    return C::EPILOGUE == EPILOGUE_DGELU ? i % C::M_PARTS : i / (C::TILE_N / 64);
}
template <class C> static __device__ __forceinline__ int col_of(int i)
{
    return C::EPILOGUE == EPILOGUE_DGELU ? i / C::M_PARTS : i % (C::TILE_N / 64);
}

// Loads box i of the tile's second input; one thread.
template <class C>
static __device__ __forceinline__ void load_box(const problem &p, const unit &t, const consumer &me,
                                                const shared_map<C> &shared, int used, int i)
{
    const int at = (used + i) % C::BOXES;
    const uint32_t loaded = shared.loaded(me.index, at);
    mbarrier_expect(loaded, BOX_BYTES);
    tma_load(shared.boxes(me.index) + at * BOX_BYTES, &p.other, t.n + col_of<C>(i) * 64,
             t.m + part_of<C>(i) * 64, t.batch, loaded);
}

template <class C>
static __device__ __forceinline__ void begin_boxes(const problem &p, const unit &t,
                                                   const consumer &me, const shared_map<C> &shared,
                                                   int used)
{
    if (me.leads()) {
        tma_store_wait_read<2>(); // of the four boxes, the two used longest ago are free
        load_box<C>(p, t, me, shared, used, 0);
        load_box<C>(p, t, me, shared, used, 1);
    }
}

// Adds a box's first `rows` rows: sums += transposed box times ones. A warp takes 16 columns, its
// lanes 4 g .. 4 g + 3 columns g (sums[0], [1]) and g + 8 (sums[2], [3]). `zeros`: 16 zero bytes in
// shared memory, read in place of rows past the end, whose contents are undefined.
static __device__ __forceinline__ void add_columns(float (&sums)[4], uint32_t box, int rows,
                                                   uint32_t zeros, const consumer &me)
{
    const int first = me.lane / 16 * 8 + me.lane % 8;
    const int piece = (me.thread / 32 * 2 + me.lane / 8 % 2) ^ (me.lane % 8);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const int row = first + step * 16;
        uint32_t v[4];
        load_transposed(row < rows ? box + row * 128 + piece * 16 : zeros, v);
        multiply_ones(sums, v);
    }
}

// Writes them as the 64 sums of the row of tiles that start at column n, then resets them.
static __device__ __forceinline__ void write_columns(float (&sums)[4], const problem &p, int tile,
                                                     int n, const consumer &me)
{
    n += me.thread / 32 * 16 + me.lane / 4;
    float *to = p.column_sums + (int64_t)tile * p.n + n;
    if (me.lane % 4 == 0 && n < p.n) {
        to[0] = sums[0];
    }
    if (me.lane % 4 == 0 && n + 8 < p.n) {
        to[8] = sums[2];
    }
    sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
}

template <class C>
static __device__ __forceinline__ void
finish_with_input(const problem &p, const unit &t, const consumer &me, tile_sums<C> &sums,
                  const float *bias, const shared_map<C> &shared, int &used)
{
    constexpr int COUNT = C::M_PARTS * C::TILE_N / 64;
    const bool summing = C::EPILOGUE == EPILOGUE_DGELU && p.column_sums;
    float columns[4] = {};
    me.sync(); // the bias is loaded
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int at = (used + i) % C::BOXES, part = part_of<C>(i), col = col_of<C>(i);
        const uint32_t box = shared.boxes(me.index) + at * BOX_BYTES;
        if (me.leads() && i + 2 < COUNT) {
            tma_store_wait_read<1>();
            load_box<C>(p, t, me, shared, used, i + 2);
        }
        mbarrier_wait(shared.loaded(me.index, at), (uint32_t)((used + i) / C::BOXES) & 1);
        uint32_t x[4][4]; // all loads first: arithmetic hides their latency
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            load_matrices(me.place(box, q), x[q]);
        }
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            float *s = &sums[part][(col * 8 + 2 * q) * 4];
            if (C::EPILOGUE == EPILOGUE_ADD) {
                scale_and_bias(s, col * 8 + 2 * q, p, bias, me);
                scale_and_bias(s + 4, col * 8 + 2 * q + 1, p, bias, me);
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float low = low_bf16(x[q][e]), high = high_bf16(x[q][e]);
                float *d = s + 2 * e;
                if (C::EPILOGUE == EPILOGUE_ADD) {
                    d[0] = fmaf(p.beta, low, d[0]);
                    d[1] = fmaf(p.beta, high, d[1]);
                } else {
                    d[0] *= p.alpha * gelu_slope(low);
                    d[1] *= p.alpha * gelu_slope(high);
                }
            }
            put(box, q, s, me);
        }
        fence_async();
        me.sync();
        if (me.leads()) {
            tma_store(&p.d, box, t.n + col * 64, t.m + part * 64, t.batch);
            tma_store_commit();
        }
        if (summing) { // the buffer is reloaded two boxes later, after the consumer's next sync
            add_columns(columns, box, p.m - t.m - part * 64, shared_address(bias), me);
            if (part == C::M_PARTS - 1) {
                write_columns(columns, p, t.m / C::TILE_M, t.n + col * 64, me);
            }
        }
    }
    used += COUNT;
}

} // namespace bt_gemm_sm90

#endif
