// kernels/cuda/gemm/epilogue_sm80.cuh - the epilogues on any GPU from sm_80 on
//
// A warp stages 16 rows of 64 sums in shared memory at a time, reads them back in runs of 16 bytes
// of D, and applies alpha, bias, beta C, GELU or its derivative. An epilogue prefetches its second
// input, C or aux, 16 rows ahead.
//
// Edges    parts of a tile outside of D, and matrices not aligned to 16 bytes, are written value by
//          value
// GELU     of the pre-activation as it is stored: gelu.cuh
// NaN      stays NaN
#ifndef BT_KERNELS_CUDA_GEMM_EPILOGUE_SM80_CUH
#define BT_KERNELS_CUDA_GEMM_EPILOGUE_SM80_CUH

#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/gemm/units_sm80.cuh"

namespace bt_gemm_sm80
{

constexpr float SIGMOID_A = 2 * 0.7978845608028654f; // 2 sqrt(2/pi)
constexpr float SIGMOID_B = SIGMOID_A * 0.044715f;

static __device__ __forceinline__ float sigmoid(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + exp_base2(-x)));
    return y;
}

// GELU of a pre-activation as it is stored.
template <typename T> static __device__ __forceinline__ float gelu(float x)
{
    return sizeof(T) == sizeof(float) ? bt_gelu::gelu_f32(x)
                                      : bt_gelu::gelu_fast(to_float(from_float<T>(x)));
}

static __device__ __forceinline__ float gelu_slope(float x)
{
    const float s = sigmoid(x * (SIGMOID_A + SIGMOID_B * x * x));
    return s + x * s * (1.0f - s) * (SIGMOID_A + 3.0f * SIGMOID_B * x * x);
}

// Sums of a warp on their way: 16 rows of 64, 4 of a row together. Chunks are permuted so that
// fragments of four neighbouring rows lie in different banks.
constexpr int STAGED_ROWS = 16, STAGED_COLS = 64, STAGED_BYTES = STAGED_ROWS * STAGED_COLS * 4;

template <typename T> static __device__ __forceinline__ T *staged_at(T *staged, int row, int col)
{
    return staged + row * STAGED_COLS + ((col / 4 ^ (row % 4 * 2)) * 4 + col % 4);
}

// What an epilogue does besides alpha and bias. Each is compiled separately and has no branches:
// the cost of an epilogue is its number of instructions.
enum class epilogue { STORE, ADD, GELU, SLOPE };

static __device__ __forceinline__ epilogue epilogue_of(const problem &p)
{
    return p.call.epilogue == BT_EPILOGUE_BIAS_GELU ? epilogue::GELU
           : p.call.epilogue == BT_EPILOGUE_DGELU   ? epilogue::SLOPE
           : p.beta != 0.0f                         ? epilogue::ADD
                                                    : epilogue::STORE;
}

static __device__ __forceinline__ bool adds_bias(const bt_gemm_args &call)
{
    return call.bias &&
           (call.epilogue == BT_EPILOGUE_BIAS || call.epilogue == BT_EPILOGUE_BIAS_GELU);
}

// A value of D from alpha times a sum with its bias, and what was read: C or aux.
template <typename T, epilogue HOW>
static __device__ __forceinline__ float finished(const problem &p, float s, float read)
{
    return HOW == epilogue::ADD     ? fmaf(p.beta, read, s)
           : HOW == epilogue::GELU  ? gelu<T>(s)
           : HOW == epilogue::SLOPE ? s * gelu_slope(read)
                                    : s;
}

// Writes a warp's sums to D where all 64 x 64 are inside and aligned to 16 bytes. A lane writes
// runs of 16 bytes of the same columns, PASSES of them for every 16 rows.
//   IN, T  types of the bias and of c, d, aux
template <typename IN, typename T, epilogue HOW> struct finisher {
    static constexpr int RUN = WIDE<T>, ACROSS = STAGED_COLS / RUN, BELOW = 32 / ACROSS,
                         PASSES = STAGED_ROWS / BELOW;
    static constexpr bool READS = HOW == epilogue::ADD || HOW == epilogue::SLOPE;
    using extras = uint4[PASSES]; // the second input as loaded

    char *d;                    // the lane's next run
    int64_t aux;                // bytes from there to aux's
    const char *extra;          // the next that is read
    int64_t d_step, extra_step; // bytes from run to run
    float bias[RUN];

    // `m`, `n`: the warp's first row and column.
    __device__ __forceinline__ finisher(const problem &p, const unit &t, int m, int n)
    {
        const bt_gemm_args &call = p.call;
        const int row = m + (int)threadIdx.x % 32 / ACROSS,
                  col = n + (int)threadIdx.x % ACROSS * RUN;
        const int64_t at = t.batch * call.stride_d + row * call.ldd + col;
        d = (char *)((T *)call.d + at);
        aux = (char *)((T *)call.aux + at) - d;
        d_step = BELOW * call.ldd * (int64_t)sizeof(T);
        extra = HOW == epilogue::SLOPE
                    ? d + aux
                    : (const char *)((const T *)call.c + t.batch * call.stride_c + row * call.ldc +
                                     col);
        extra_step = HOW == epilogue::SLOPE ? d_step : BELOW * call.ldc * (int64_t)sizeof(T);
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            bias[i] = 0;
        }
        if (HOW != epilogue::SLOPE && adds_bias(call)) {
#pragma unroll
            for (int i = 0; i < RUN; ++i) {
                bias[i] = to_float(((const IN *)call.bias)[col + i]);
            }
        }
    }
    // Prefetches the second input of the next 16 rows.
    __device__ __forceinline__ void fetch(extras &x)
    {
        if constexpr (READS) {
#pragma unroll
            for (int i = 0; i < PASSES; ++i) {
                x[i] = __ldcg((const uint4 *)extra);
                extra += extra_step;
            }
        }
    }
    // Writes the 16 rows that the warp has staged.
    __device__ __forceinline__ void rows(const problem &p, const float *staged, const extras &x)
    {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            float s[RUN], read[RUN] = {};
#pragma unroll
            for (int j = 0; j < RUN; j += 4) {
                *(float4 *)&s[j] =
                    *(const float4 *)staged_at(staged, i * BELOW + (int)threadIdx.x % 32 / ACROSS,
                                               (int)threadIdx.x % ACROSS * RUN + j);
            }
            if constexpr (READS) {
                unpack<T>(x[i], read);
            }
#pragma unroll
            for (int j = 0; j < RUN; ++j) {
                s[j] = fmaf(p.alpha, s[j], bias[j]);
            }
            if (HOW == epilogue::GELU) {
                store<RUN>((T *)(d + aux), s);
            }
#pragma unroll
            for (int j = 0; j < RUN; ++j) {
                s[j] = finished<T, HOW>(p, s[j], read[j]);
            }
            store<RUN>((T *)d, s);
            d += d_step;
        }
        __syncwarp();
    }
};

// The same for any rows and columns from (m, n) on, value by value.
template <typename IN, typename T>
static __device__ __forceinline__ void end_rows_at_edge(const problem &p, const unit &t, int m,
                                                        int n, const float *staged)
{
    const bt_gemm_args &call = p.call;
    const epilogue how = epilogue_of(p);
    __syncwarp();
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32; i < STAGED_ROWS * STAGED_COLS; i += 32) {
        const int64_t row = m + i / STAGED_COLS, col = n + i % STAGED_COLS;
        if (row < call.m && col < call.n) {
            const int64_t at = t.batch * call.stride_d + row * call.ldd + col;
            const float bias = adds_bias(call) ? to_float(((const IN *)call.bias)[col]) : 0.0f;
            float s = fmaf(p.alpha, *staged_at(staged, i / STAGED_COLS, i % STAGED_COLS), bias);
            if (how == epilogue::ADD) {
                s = finished<T, epilogue::ADD>(
                    p, s,
                    to_float(((const T *)call.c)[t.batch * call.stride_c + row * call.ldc + col]));
            } else if (how == epilogue::GELU) {
                ((T *)call.aux)[at] = from_float<T>(s);
                s = finished<T, epilogue::GELU>(p, s, 0);
            } else if (how == epilogue::SLOPE) {
                s = finished<T, epilogue::SLOPE>(p, s, to_float(((const T *)call.aux)[at]));
            }
            ((T *)call.d)[at] = from_float<T>(s);
        }
    }
    __syncwarp();
}

// Writes a warp's 64 x 64 sums, of which the first is at (m, n). stage(i) copies rows 16 i to
// 16 i + 15 into `staged`.
template <epilogue HOW, typename IN, typename T, typename STAGE>
static __device__ __forceinline__ void finish_inside(const problem &p, const unit &t, int m, int n,
                                                     const float *staged, STAGE stage)
{
    using finish = finisher<IN, T, HOW>;
    finish to(p, t, m, n);
    typename finish::extras extras[2];
    to.fetch(extras[0]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        stage(i);
        if (i + 1 < 4) {
            to.fetch(extras[(i + 1) % 2]);
        }
        to.rows(p, staged, extras[i % 2]);
    }
}

template <typename IN, typename T, typename STAGE>
static __device__ __forceinline__ void write_sums(const problem &p, const unit &t, int m, int n,
                                                  const float *staged, STAGE stage)
{
    if (!p.wide_d || m + 64 > p.call.m || n + 64 > p.call.n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            stage(i);
            end_rows_at_edge<IN, T>(p, t, m + 16 * i, n, staged);
        }
        return;
    }
    switch (epilogue_of(p)) {
    case epilogue::STORE:
        return finish_inside<epilogue::STORE, IN, T>(p, t, m, n, staged, stage);
    case epilogue::ADD:
        return finish_inside<epilogue::ADD, IN, T>(p, t, m, n, staged, stage);
    case epilogue::GELU:
        return finish_inside<epilogue::GELU, IN, T>(p, t, m, n, staged, stage);
    case epilogue::SLOPE:
        return finish_inside<epilogue::SLOPE, IN, T>(p, t, m, n, staged, stage);
    }
}

} // namespace bt_gemm_sm80

#endif
