// kernels/cuda/gemm/tf32_round_sm90.cu - the pass that rounds B of a tf32 product and makes it
//   K-major (tf32_rounded_sm90.cuh)
//   to[n, k] = B[n, k] or B[k, n], to the nearest tf32, ties to even, for every batch entry
//   A thread moves 4 x 4 values, 16 bytes of each of 4 rows of B, and transposes them in registers
//   if B is MN-major. Lanes are arranged so that loads cover whole 128-byte lines and stores runs
//   of at least 64 bytes. For weight gradients (INTERLEAVED) a thread moves every second one of
//   eight rows of B, and a block may also write its column sums, unrounded.
// Shapes   B at a multiple of 16 bytes, as its strides; to [batch, n, rounded_ld], zeros after k:
//          up to the next multiple of 4, INTERLEAVED of 8; sums [k / 64, n]
// NaN      stays NaN
// Cost     reads and writes 4 n k bytes; bound by HBM
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/sm90.h"
#include "kernels/cuda/overlap.h"
#include "kernels/cuda/ptx_sm90.cuh"

namespace bt_gemm_sm90
{

struct rounding {
    const float *from;
    float *to, *sums;
    int64_t ld_from, ld_to, stride_from, stride_to;
    int n, k;
};

constexpr int ROUND_THREADS = 256, ROUND_N = 64, ROUND_K = 64; // a block's threads and values

// Loads the first `count` of four values at `from`; zeros for the rest.
static __device__ __forceinline__ float4 load_at_most(const float *from, int count)
{
    if (count >= 4) {
        return __ldg((const float4 *)from);
    }
    return make_float4(count > 0 ? from[0] : 0.0f, count > 1 ? from[1] : 0.0f,
                       count > 2 ? from[2] : 0.0f, 0.0f);
}

static __device__ __forceinline__ float4 rounded(float x, float y, float z, float w)
{
    return make_float4(__uint_as_float(round_tf32(__float_as_uint(x))),
                       __uint_as_float(round_tf32(__float_as_uint(y))),
                       __uint_as_float(round_tf32(__float_as_uint(z))),
                       __uint_as_float(round_tf32(__float_as_uint(w))));
}

// Sums a block's 64 x 64 values over k. A thread has four columns, v[i] its values of column i.
// Threads along n are lanes by 8 and halves of the block, across n the rest.
static __device__ __forceinline__ void put_column_sums(const rounding &r, const float4 (&v)[4],
                                                       int along, int n)
{
    __shared__ float parts[ROUND_THREADS / 32 / 2][ROUND_N];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float sum = v[i].x + v[i].y + (v[i].z + v[i].w);
        sum += __shfl_xor_sync(ALL_LANES, sum, 8);
        sum += __shfl_xor_sync(ALL_LANES, sum, 16);
        if (lane < 8) {
            parts[warp % 4][4 * along + i] = sum;
        }
    }
    __syncthreads();
    const int col = (int)threadIdx.x, at = n - 4 * along + col;
    if (col < ROUND_N && at < r.n) {
        r.sums[(int64_t)blockIdx.x * r.n + at] =
            parts[0][col] + parts[1][col] + (parts[2][col] + parts[3][col]);
    }
}

template <bool TURNS, bool INTERLEAVED>
static __global__ void __launch_bounds__(ROUND_THREADS) round_kernel(const rounding r)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    start_successor();
    wait_for_predecessor();
    const int thread = (int)threadIdx.x;
    // A warp is 8 lanes along the rows of B by 4 across them, a block 16 by 16 threads.
    const int along = thread % 8 + thread / 128 * 8, across = thread / 8 % 16;
    const int k = (int)blockIdx.x * ROUND_K + 4 * (TURNS ? across : along);
    const int n = (int)blockIdx.y * ROUND_N + 4 * (TURNS ? along : across);
    const float *from = r.from + blockIdx.z * r.stride_from;
    float *to = r.to + blockIdx.z * r.stride_to + n * r.ld_to + k;
    float4 v[4];
    const bool inside = n < r.n && k < (INTERLEAVED ? (int)r.ld_to : r.k);
    if (!inside && !(INTERLEAVED && r.sums)) {
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (TURNS) {
            // The k of position k + i.
            const int depth = INTERLEAVED ? k / 8 * 8 + k % 8 / 4 + 2 * i : k + i;
            v[i] = load_at_most(from + depth * r.ld_from + n, depth < r.k ? r.n - n : 0);
        } else {
            v[i] = load_at_most(from + (n + i) * r.ld_from + k, n + i < r.n ? r.k - k : 0);
        }
    }
    if (TURNS) {
        const float4 a = v[0], b = v[1], c = v[2], d = v[3];
        v[0] = make_float4(a.x, b.x, c.x, d.x);
        v[1] = make_float4(a.y, b.y, c.y, d.y);
        v[2] = make_float4(a.z, b.z, c.z, d.z);
        v[3] = make_float4(a.w, b.w, c.w, d.w);
    }
    if (INTERLEAVED && r.sums) {
        put_column_sums(r, v, along, n);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (inside && n + i < r.n) {
            *(float4 *)(to + i * r.ld_to) = rounded(v[i].x, v[i].y, v[i].z, v[i].w);
        }
    }
#endif
}

int64_t rounded_ld(const bt_gemm_args *args) { return bt_div_up(args->k, 8) * 8; }

int64_t rounded_parts(const bt_gemm_args *args) { return bt_div_up(args->k, ROUND_K); }

bt_status round_b(const bt_launch *launch, const bt_gemm_args *args, float *to, float *sums)
{
    const int64_t ld = rounded_ld(args);
    const rounding r = {(const float *)args->b, to,           sums,         args->ldb,   ld,
                        args->stride_b,         args->n * ld, (int)args->n, (int)args->k};
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute attribute = {};
    how.gridDim = dim3((unsigned)bt_div_up(args->k, ROUND_K), (unsigned)bt_div_up(args->n, ROUND_N),
                       (unsigned)args->batch);
    how.blockDim = dim3(ROUND_THREADS);
    how.stream = bt_cuda_stream(launch);
    how.attrs = &attribute;
    auto kernel = args->trans_b   ? round_kernel<false, false>
                  : args->trans_a ? round_kernel<true, true>
                                  : round_kernel<true, false>;
    bt_cuda_overlap(launch->device, (const void *)kernel, &how);
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&how, kernel, r), "rounding of b"));
    return bt_cuda_launched("rounding of b");
}

} // namespace bt_gemm_sm90
