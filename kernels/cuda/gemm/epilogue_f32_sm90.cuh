// kernels/cuda/gemm/epilogue_f32_sm90.cuh - the f32 epilogues on Hopper (sm90.h)
//
// The tile is stored as boxes of 64 rows and 32 columns through buffers in shared memory that
// belong to the consumer: threads write pairs of values in TMA's 128-byte swizzle, and one thread
// issues the store. Buffers are used round robin; `used` counts their uses over the whole kernel.
//   F32           TMA stores the box or adds it to D. Splits of K add in ascending order, one
//                 addition at a time; the first split adds the bias. A split waits only for units
//                 of smaller numbers, and all blocks are resident (cooperative launch), so there is
//                 no deadlock. Sums of D^T are transposed into the buffers (finish_turned).
//   GELU          stores pre-activation and activation together: two buffers, two pairs in flight
//   ADD, DGELU    load the second input into the buffer of the result, two boxes ahead; the first
//                 two loads are issued before the multiplication (begin_boxes)
//
// GELU     x / (1 + e^-2u), as kernels/cuda/unary.cu has it; exponential and reciprocal are
//          approximate, each good to 2 ulp
// NaN      stays NaN in every epilogue
#ifndef BT_KERNELS_CUDA_GEMM_EPILOGUE_F32_SM90_CUH
#define BT_KERNELS_CUDA_GEMM_EPILOGUE_F32_SM90_CUH

#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/gemm/work_sm90.cuh"

namespace bt_gemm_sm90
{

constexpr float SIGMOID_A = 2 * 0.7978845608028654f; // 2 sqrt(2/pi)
constexpr float SIGMOID_B = SIGMOID_A * 0.044715f;

static __device__ __forceinline__ float sigmoid(float x)
{
    return reciprocal_approximate(1.0f + exp2_approximate(-1.4426950408889634f * x));
}

static __device__ __forceinline__ float gelu_slope_f32(float x)
{
    const float s = sigmoid(x * (SIGMOID_A + SIGMOID_B * x * x));
    return s + x * s * (1.0f - s) * (SIGMOID_A + 3.0f * SIGMOID_B * x * x);
}

constexpr int BOX_COLS = 32;

// The tile's part of a consumer as boxes: row and column of box i in the output.
template <class C> struct box_grid {
    static constexpr int ACROSS = C::TILE_N / BOX_COLS, COUNT = C::M_PARTS * ACROSS;
};
template <class C> static __device__ __forceinline__ int box_row(const unit &t, int index, int i)
{
    return t.m + row_of<C>(index) + i / box_grid<C>::ACROSS * 64;
}
template <class C> static __device__ __forceinline__ int box_col(const unit &t, int i)
{
    return t.n + i % box_grid<C>::ACROSS * BOX_COLS;
}

// Address of this thread's two values of columns 8 j .. 8 j + 7 in a box. Two more values are 8
// rows below, at the same position of the swizzle.
static __device__ __forceinline__ uint32_t pair_place(uint32_t box, int j, const consumer &me)
{
    const int row = me.thread / 32 * 16 + me.lane / 4;
    return box + row * 128 + (((2 * j + me.lane % 4 / 2) ^ (row & 7)) << 4) + me.lane % 2 * 8;
}
constexpr int EIGHT_ROWS = 8 * 128;

// alpha s + bias of columns 8 j .. 8 j + 7 of box column `col`: this thread's four.
template <class C>
static __device__ __forceinline__ void scale_f32(float *s, int col, const problem &p,
                                                 const float *bias, const consumer &me)
{
    float2 b = make_float2(0.0f, 0.0f);
    if constexpr (C::BIASED) {
        b = *(const float2 *)(bias + col + me.lane % 4 * 2);
    }
    s[0] = fmaf(p.alpha, s[0], b.x);
    s[1] = fmaf(p.alpha, s[1], b.y);
    s[2] = fmaf(p.alpha, s[2], b.x);
    s[3] = fmaf(p.alpha, s[3], b.y);
}

// ---- F32 and GELU -------------------------------------------------------------------------------

// Waits until the units before this one have added to the consumer's part of the tile. Only the
// leader accesses memory, so only the leader waits.
static __device__ __forceinline__ void await_turn(const unit &t, const int *turn,
                                                  const consumer &me)
{
    if (t.split > 0 && me.leads()) {
        while (load_acquire(turn) != t.split) {
        }
        fence_async_global();
    }
}

static __device__ __forceinline__ void pass_turn(const unit &t, int *turn, const consumer &me)
{
    if (t.next != 0 && me.leads()) {
        tma_store_wait<0>();
        fence_async_global();
        __threadfence();
    }
    if (t.next != t.split && me.leads()) {
        store_release(turn, t.next);
    }
}

template <class C>
static __device__ __forceinline__ void finish_f32(const problem &p, const unit &t,
                                                  const consumer &me, tile_sums<C> &sums,
                                                  const float *bias, uint32_t boxes, int &used)
{
    constexpr int OUTPUTS = C::EPILOGUE == EPILOGUE_GELU ? 2 : 1, FLIGHTS = C::BOXES / OUTPUTS;
    const bool adds = OUTPUTS == 1 && (t.split > 0 || p.beta != 0.0f);
    int *turn = p.turn + t.tile * TURNS_PER_TILE + (C::SHARED_TILE ? me.index : 0);
    if (OUTPUTS == 1) {
        await_turn(t, turn, me);
    }
#pragma unroll
    for (int i = 0; i < box_grid<C>::COUNT; ++i) {
        const int part = i / box_grid<C>::ACROSS, col = i % box_grid<C>::ACROSS;
        const uint32_t box = boxes + used % FLIGHTS * OUTPUTS * BOX_BYTES;
        ++used;
        if (me.leads()) {
            tma_store_wait_read<FLIGHTS - 1>();
        }
        me.sync(); // the buffer is free; the first time also: the bias is loaded
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float *s = &sums[part][(col * 4 + j) * 4];
            scale_f32<C>(s, col * BOX_COLS + j * 8, p, bias, me);
            store_pair(pair_place(box, j, me), s[0], s[1]);
            store_pair(pair_place(box, j, me) + EIGHT_ROWS, s[2], s[3]);
            if (OUTPUTS == 2) {
                const uint32_t second = pair_place(box + BOX_BYTES, j, me);
                store_pair(second, bt_gelu::gelu_f32(s[0]), bt_gelu::gelu_f32(s[1]));
                store_pair(second + EIGHT_ROWS, bt_gelu::gelu_f32(s[2]), bt_gelu::gelu_f32(s[3]));
            }
        }
        fence_async();
        me.sync();
        if (me.leads()) {
            const int x = box_col<C>(t, i), y = box_row<C>(t, me.index, i);
            if (OUTPUTS == 2) {
                tma_store(&p.other, box, x, y, t.batch);
                tma_store(&p.d, box + BOX_BYTES, x, y, t.batch);
            } else if (adds) {
                tma_add(&p.d, box, x, y, t.batch);
            } else {
                tma_store(&p.d, box, x, y, t.batch);
            }
            tma_store_commit();
        }
    }
    if (OUTPUTS == 1) {
        pass_turn(t, turn, me);
    }
}

// F32 where the sums are of D^T: a consumer's 64 rows of each part are columns of D, and move as
// two boxes of 32 of them by 64 of D's rows, each written by two warps.
template <class C>
static __device__ __forceinline__ void finish_turned(const problem &p, const unit &t,
                                                     const consumer &me, tile_sums<C> &sums,
                                                     uint32_t boxes)
{
    constexpr int GROUPS = C::TILE_N / 64, HALVES = 64 / BOX_COLS;
    static_assert(C::BOXES == HALVES, "one box per half: all boxes of a part are stored together");
    const bool adds = t.split > 0 || p.beta != 0.0f;
    const int warp = me.thread / 32, col = warp % 2 * 16 + me.lane / 4;
    const uint32_t box = boxes + warp / 2 * BOX_BYTES + col % 4 * 4;
    int *turn = p.turn + t.tile * TURNS_PER_TILE + me.index;
    await_turn(t, turn, me);
#pragma unroll
    for (int i = 0; i < C::M_PARTS * GROUPS; ++i) {
        const int part = i / GROUPS, group = i % GROUPS;
        if (me.leads()) {
            tma_store_wait_read<0>();
        }
        me.sync(); // the buffers are free
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float *s = &sums[part][(group * 8 + j) * 4];
#pragma unroll
            for (int e = 0; e < 4; ++e) { // rows of D two by two, columns 0 and 8
                const int row = 8 * j + me.lane % 4 * 2 + e % 2, chunk = (col + e / 2 * 8) / 4;
                const uint32_t at = box + row * 128 + ((chunk ^ (row & 7)) << 4);
                *(float *)__cvta_shared_to_generic(at) = p.alpha * s[e];
            }
        }
        fence_async();
        me.sync();
        if (me.leads()) {
            const int y = t.n + group * 64;
#pragma unroll
            for (int half = 0; half < HALVES; ++half) {
                const int x = t.m + row_of<C>(me.index) + part * 64 + half * BOX_COLS;
                if (adds) {
                    tma_add(&p.d, boxes + half * BOX_BYTES, x, y, t.batch);
                } else {
                    tma_store(&p.d, boxes + half * BOX_BYTES, x, y, t.batch);
                }
            }
            tma_store_commit();
        }
    }
    pass_turn(t, turn, me);
}

// ---- ADD and DGELU ------------------------------------------------------------------------------

// Loads box i of the second input; one thread.
template <class C>
static __device__ __forceinline__ void load_f32_box(const problem &p, const unit &t,
                                                    const consumer &me, const shared_map<C> &shared,
                                                    int used, int i)
{
    const int at = (used + i) % C::BOXES;
    const uint32_t loaded = shared.loaded(me.index, at);
    mbarrier_expect(loaded, BOX_BYTES);
    tma_load(shared.boxes(me.index) + at * BOX_BYTES, &p.other, box_col<C>(t, i),
             box_row<C>(t, me.index, i), t.batch, loaded);
}

template <class C>
static __device__ __forceinline__ void begin_f32_boxes(const problem &p, const unit &t,
                                                       const consumer &me,
                                                       const shared_map<C> &shared, int used)
{
    if (me.leads()) {
        tma_store_wait_read<2>(); // of the four boxes, the two used longest ago are free
        load_f32_box<C>(p, t, me, shared, used, 0);
        load_f32_box<C>(p, t, me, shared, used, 1);
    }
}

// This thread's value of the result, from the sum and the second input.
template <class C>
static __device__ __forceinline__ float combine_f32(const problem &p, float s, float x)
{
    return C::EPILOGUE == EPILOGUE_ADD ? fmaf(p.beta, x, s) : p.alpha * s * gelu_slope_f32(x);
}

template <class C>
static __device__ __forceinline__ void
finish_f32_with_input(const problem &p, const unit &t, const consumer &me, tile_sums<C> &sums,
                      const float *bias, const shared_map<C> &shared, int &used)
{
    constexpr int COUNT = box_grid<C>::COUNT;
    me.sync(); // the bias is loaded
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int at = (used + i) % C::BOXES, part = i / box_grid<C>::ACROSS,
                  col = i % box_grid<C>::ACROSS;
        const uint32_t box = shared.boxes(me.index) + at * BOX_BYTES;
        if (me.leads() && i + 2 < COUNT) {
            tma_store_wait_read<1>();
            load_f32_box<C>(p, t, me, shared, used, i + 2);
        }
        mbarrier_wait(shared.loaded(me.index, at), (uint32_t)((used + i) / C::BOXES) & 1);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint32_t place = pair_place(box, j, me);
            float *s = &sums[part][(col * 4 + j) * 4];
            const float2 high = load_pair(place), low = load_pair(place + EIGHT_ROWS);
            if (C::EPILOGUE == EPILOGUE_ADD) {
                scale_f32<C>(s, col * BOX_COLS + j * 8, p, bias, me);
            }
            store_pair(place, combine_f32<C>(p, s[0], high.x), combine_f32<C>(p, s[1], high.y));
            store_pair(place + EIGHT_ROWS, combine_f32<C>(p, s[2], low.x),
                       combine_f32<C>(p, s[3], low.y));
        }
        fence_async();
        me.sync();
        if (me.leads()) {
            tma_store(&p.d, box, box_col<C>(t, i), box_row<C>(t, me.index, i), t.batch);
            tma_store_commit();
        }
    }
    used += COUNT;
}

} // namespace bt_gemm_sm90

#endif
