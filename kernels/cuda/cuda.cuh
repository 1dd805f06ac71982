// kernels/cuda/cuda.cuh - helpers of kernels: wide accesses, conversions, fixed-order reductions
//
// Everything computes in float; bf16 is converted on load and rounded to nearest even on store.
// A "wide" access is 16 bytes: WIDE<T> elements of type T.
#ifndef BT_KERNELS_CUDA_CUDA_CUH
#define BT_KERNELS_CUDA_CUDA_CUH

#include <cuda_bf16.h>

#include <type_traits>

#include "kernels/cuda/cuda.h"

using bf16 = __nv_bfloat16;

template <typename T> constexpr int WIDE = 16 / (int)sizeof(T);
constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

static __device__ __forceinline__ float to_float(float value) { return value; }
static __device__ __forceinline__ float to_float(bf16 value) { return __bfloat162float(value); }

template <typename T> __device__ __forceinline__ T from_float(float value);
template <> __device__ __forceinline__ float from_float<float>(float value) { return value; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float value)
{
    return __float2bfloat16_rn(value);
}

// V elements that move in accesses of up to 16 bytes.
template <typename T, int V> struct alignas((sizeof(T) * V < 16) ? sizeof(T) * V : 16) bt_pack {
    T at[V];
};

template <int V, typename T> __device__ __forceinline__ void load(const T *from, float (&to)[V])
{
    const bt_pack<T, V> pack = *reinterpret_cast<const bt_pack<T, V> *>(from);
#pragma unroll
    for (int i = 0; i < V; ++i) {
        to[i] = to_float(pack.at[i]);
    }
}

// Two floats rounded to bf16 by one instruction. (A struct of __nv_bfloat162 would be stored
// element by element: its copy constructor is not trivial.)
static __device__ __forceinline__ uint32_t bf16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

template <int V, typename T> __device__ __forceinline__ void store(T *to, const float (&from)[V])
{
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
        bt_pack<uint32_t, V / 2> pack;
#pragma unroll
        for (int i = 0; i < V / 2; ++i) {
            pack.at[i] = bf16_pair(from[2 * i], from[2 * i + 1]);
        }
        *reinterpret_cast<bt_pack<uint32_t, V / 2> *>(to) = pack;
    } else {
        bt_pack<T, V> pack;
#pragma unroll
        for (int i = 0; i < V; ++i) {
            pack.at[i] = from_float<T>(from[i]);
        }
        *reinterpret_cast<bt_pack<T, V> *>(to) = pack;
    }
}

// The elements of a 16-byte access, not yet converted: half the registers for bf16.
template <typename T> __device__ __forceinline__ void unpack(uint4 raw, float (&to)[WIDE<T>]);
template <> __device__ __forceinline__ void unpack<float>(uint4 raw, float (&to)[WIDE<float>])
{
    to[0] = __uint_as_float(raw.x);
    to[1] = __uint_as_float(raw.y);
    to[2] = __uint_as_float(raw.z);
    to[3] = __uint_as_float(raw.w);
}
template <> __device__ __forceinline__ void unpack<bf16>(uint4 raw, float (&to)[WIDE<bf16>])
{
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}
// Half of that.
static __device__ __forceinline__ void unpack_half(uint2 raw, float (&to)[4])
{
    to[0] = __uint_as_float(raw.x << 16);
    to[1] = __uint_as_float(raw.x & 0xffff0000u);
    to[2] = __uint_as_float(raw.y << 16);
    to[3] = __uint_as_float(raw.y & 0xffff0000u);
}
// V elements, not yet converted; V is 1, WIDE<T>, or 4 of bf16. `convert` turns them into floats.
template <typename T, int V>
using raw = std::conditional_t<V == 1, T, std::conditional_t<V == WIDE<T>, uint4, uint2>>;
template <typename T, int V> __device__ __forceinline__ raw<T, V> fetch(const T *from)
{
    return *reinterpret_cast<const raw<T, V> *>(from);
}
template <typename T, int V>
__device__ __forceinline__ void convert(const raw<T, V> &from, float (&to)[V])
{
    if constexpr (V == 1) {
        to[0] = to_float(from);
    } else if constexpr (V == WIDE<T>) {
        unpack<T>(from, to);
    } else {
        unpack_half(from, to);
    }
}
// Elementwise kernels: one pack a thread and small blocks keep stores close to address order, which
// is faster than several packs a thread (lab/README.md).
constexpr int STREAM_THREADS = 128;

// Sum and maximum over the lanes of a warp, by butterfly: every lane has the result, always by the
// same tree. NaN survives the sum; the maximum drops it.
static __device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, lane);
    }
    return value;
}

static __device__ __forceinline__ float warp_max(float value)
{
#pragma unroll
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, lane));
    }
    return value;
}

// The same over a block of WARPS warps. `shared` holds WARPS floats and may be used again after the
// next barrier of the block; consecutive calls need different buffers or a barrier between.
template <int WARPS> __device__ __forceinline__ float block_sum(float value, float *shared)
{
    value = warp_sum(value);
    if (WARPS == 1) {
        return value;
    }
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    value = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) {
        value += shared[warp];
    }
    return value;
}

template <int WARPS> __device__ __forceinline__ float block_max(float value, float *shared)
{
    value = warp_max(value);
    if (WARPS == 1) {
        return value;
    }
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    value = shared[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; ++warp) {
        value = fmaxf(value, shared[warp]);
    }
    return value;
}

// e^x through the approximate ex2: 2 ulp of the exponential of the product as rounded. Results
// below 2^-126 become 0; -inf gives 0, +inf gives +inf, NaN stays.
constexpr float LOG2_E = 1.4426950408889634f;
static __device__ __forceinline__ float exp_base2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
    return y;
}

#endif
