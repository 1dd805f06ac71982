// kernels/cuda/gemm/endings_sm80.cuh - units, and what becomes of sums, on any GPU from sm_80 on
//
// A warp puts 16 rows of 64 sums into shared memory at a time and takes them from there in runs of
// 16 bytes of D; alpha, bias, beta C, GELU or its slope on the way. Splits of a tile add to D one
// after the other, ascending; a split waits for units of smaller numbers only, and all blocks are
// on the device at once (cooperative launch), so the waiting ends.
//
// GELU     x / (1 + e^-2u), as kernels/cuda/unary.cu has it
// NaN      stays NaN
#ifndef BT_KERNELS_CUDA_GEMM_ENDINGS_SM80_CUH
#define BT_KERNELS_CUDA_GEMM_ENDINGS_SM80_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/sm80.h"

namespace bt_gemm_sm80
{

struct unit {
    int m, n;               // first row and column of the tile
    int k_begin, k_end;     // values
    int batch, split, tile; // tile: its number over all batch entries
};

template <int TILE_M, int TILE_N, int DEPTH>
static __device__ __forceinline__ unit unit_at(const problem &p, int u)
{
    unit t;
    const int per_batch = p.tiles_m * p.tiles_n, per_split = per_batch * (int)p.call.batch;
    t.split = u / per_split;
    t.tile = u - t.split * per_split;
    t.batch = t.tile / per_batch;
    int at = t.tile - t.batch * per_batch;
    const int first = at / (p.group * p.tiles_n) * p.group;
    const int rows = min(p.group, p.tiles_m - first);
    at -= first * p.tiles_n;
    t.m = (first + at % rows) * TILE_M;
    t.n = at / rows * TILE_N;
    const int k = (int)p.call.k, blocks = (k + DEPTH - 1) / DEPTH;
    t.k_begin = blocks * t.split / p.splits * DEPTH;
    t.k_end = min(blocks * (t.split + 1) / p.splits * DEPTH, k);
    return t;
}

static __device__ __forceinline__ void await_turn(const problem &p, const unit &t)
{
    if (t.split > 0) {
        if (threadIdx.x == 0) {
            int done;
            do {
                asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                             : "=r"(done)
                             : "l"(p.turn + t.tile)
                             : "memory");
            } while (done != t.split);
        }
        __syncthreads();
    }
}

static __device__ __forceinline__ void pass_turn(const problem &p, const unit &t)
{
    if (t.split + 1 < p.splits) {
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p.turn + t.tile),
                         "r"(t.split + 1)
                         : "memory");
        }
    }
}

constexpr float SIGMOID_A = 2 * 0.7978845608028654f; // 2 sqrt(2/pi)
constexpr float SIGMOID_B = SIGMOID_A * 0.044715f;

static __device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + exp_base2(-x)); }

static __device__ __forceinline__ float gelu(float x)
{
    return x * sigmoid(x * (SIGMOID_A + SIGMOID_B * x * x));
}

static __device__ __forceinline__ float gelu_slope(float x)
{
    const float s = sigmoid(x * (SIGMOID_A + SIGMOID_B * x * x));
    return s + x * s * (1.0f - s) * (SIGMOID_A + 3.0f * SIGMOID_B * x * x);
}

// `count` of RUN values of memory that other blocks may have written: not through L1.
template <int RUN, typename T>
static __device__ __forceinline__ void load_run(const T *from, bool whole, int count,
                                                float (&to)[RUN])
{
    if (whole) {
        bt_pack<T, RUN> pack;
        if constexpr (sizeof(pack) == 16) {
            *(uint4 *)&pack = __ldcg((const uint4 *)from);
        } else if constexpr (sizeof(pack) == 8) {
            *(uint2 *)&pack = __ldcg((const uint2 *)from);
        } else {
            *(unsigned *)&pack = __ldcg((const unsigned *)from);
        }
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            to[i] = to_float(pack.at[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        to[i] = i < count ? to_float(__ldcg(from + i)) : 0.0f;
    }
}

template <int RUN, typename T>
static __device__ __forceinline__ void store_run(T *to, bool whole, int count,
                                                 const float (&from)[RUN])
{
    if (whole) {
        store<RUN>(to, from);
        return;
    }
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        if (i < count) {
            to[i] = from_float<T>(from[i]);
        }
    }
}

// Sums of a warp on their way: 16 rows of 64, 4 of a row together. Chunks are permuted so that
// fragments of four neighbouring rows lie in different banks.
constexpr int STAGED_ROWS = 16, STAGED_COLS = 64, STAGED_BYTES = STAGED_ROWS * STAGED_COLS * 4;

static __device__ __forceinline__ float *staged_at(float *staged, int row, int col)
{
    return staged + row * STAGED_COLS + ((col / 4 ^ (row % 4 * 2)) * 4 + col % 4);
}

// A warp's way from sums to D. A lane ends runs of 16 bytes, always of the same columns.
//   IN, T  types of the bias and of c, d, aux
template <typename IN, typename T> struct finisher {
    static constexpr int RUN = 16 / (int)sizeof(T), ACROSS = STAGED_COLS / RUN;
    int64_t at; // of the lane's first column in row 0 of d and aux
    int col, count;
    bool whole;
    float bias[RUN];

    // `first` is the warp's first column.
    __device__ __forceinline__ finisher(const problem &p, const unit &t, int first)
        : col(first + (int)threadIdx.x % ACROSS * RUN), count(min(RUN, (int)p.call.n - col)),
          whole(p.wide_d && count == RUN)
    {
        const bt_gemm_args &call = p.call;
        const bool adds =
            t.split == 0 && call.bias &&
            (call.epilogue == BT_EPILOGUE_BIAS || call.epilogue == BT_EPILOGUE_BIAS_GELU);
        at = t.batch * call.stride_d + col;
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            bias[i] = adds && i < count ? to_float(((const IN *)call.bias)[col + i]) : 0.0f;
        }
    }
    __device__ __forceinline__ void run(const problem &p, const unit &t, int row,
                                        float (&s)[RUN]) const
    {
        const bt_gemm_args &call = p.call;
        T *d = (T *)call.d + at + row * call.ldd, *aux = (T *)call.aux + at + row * call.ldd;
        float x[RUN];
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            s[i] = fmaf(p.alpha, s[i], bias[i]);
        }
        if (call.epilogue == BT_EPILOGUE_BIAS_GELU) {
            store_run<RUN>(aux, whole, count, s);
#pragma unroll
            for (int i = 0; i < RUN; ++i) {
                s[i] = gelu(s[i]);
            }
        } else if (call.epilogue == BT_EPILOGUE_DGELU) {
            load_run<RUN>((const T *)aux, whole, count, x);
#pragma unroll
            for (int i = 0; i < RUN; ++i) {
                s[i] *= gelu_slope(x[i]);
            }
        }
        if (t.split > 0 || p.beta != 0.0f) {
            const bool first = t.split == 0;
            const T *c = (const T *)call.c + t.batch * call.stride_c + row * call.ldc + col;
            load_run<RUN>(first ? c : d, whole, count, x);
#pragma unroll
            for (int i = 0; i < RUN; ++i) {
                s[i] = fmaf(first ? p.beta : 1.0f, x[i], s[i]);
            }
        }
        store_run<RUN>(d, whole, count, s);
    }
    // Ends what the warp has staged: rows from `first` on.
    __device__ __forceinline__ void rows(const problem &p, const unit &t, int first,
                                         float *staged) const
    {
        __syncwarp();
#pragma unroll 2
        for (int i = (int)threadIdx.x % 32 / ACROSS; i < STAGED_ROWS; i += 32 / ACROSS) {
            float s[RUN];
#pragma unroll
            for (int j = 0; j < RUN; j += 4) {
                *(float4 *)&s[j] =
                    *(const float4 *)staged_at(staged, i, (int)threadIdx.x % ACROSS * RUN + j);
            }
            if (first + i < p.call.m && count > 0) {
                run(p, t, first + i, s);
            }
        }
        __syncwarp();
    }
};

} // namespace bt_gemm_sm80

#endif
