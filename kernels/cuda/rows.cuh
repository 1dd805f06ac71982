// kernels/cuda/rows.cuh - a row of a matrix in registers: W warps hold it, E elements a thread
//
// Element (i, j) of a thread is column (i * 32 W + thread) * V + j: consecutive threads touch
// consecutive 16 bytes. Columns past the end hold what the caller filled in and are never stored.
// Blocks have 8 warps: 8 rows at W = 1, one row at W = 8.
#ifndef BT_KERNELS_CUDA_ROWS_CUH
#define BT_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/cuda.cuh"

constexpr int ROW_BLOCK_WARPS = 8;
constexpr int ROW_THREADS = ROW_BLOCK_WARPS * WARP;

template <int ELEMENTS, int WARPS> struct row_config {
    static constexpr int E = ELEMENTS;
    static constexpr int W = WARPS;
    static constexpr int ROWS = ROW_BLOCK_WARPS / WARPS; // per block
};

// Calls f with the narrowest configuration that holds `cols`; false when none does.
template <typename F> static bool with_row_config(int64_t cols, F f)
{
    if (cols <= 768) {
        f(row_config<24, 1>{});
    } else if (cols <= 1024) {
        f(row_config<32, 1>{});
    } else if (cols <= 2048) {
        f(row_config<8, 8>{});
    } else if (cols <= 4096) {
        f(row_config<16, 8>{});
    } else {
        return false;
    }
    return true;
}

template <typename T, typename C> struct row_span {
    static constexpr int V = WIDE<T>;
    static constexpr int N = C::E / V; // packs a thread

    // The first column of pack i.
    static __device__ __forceinline__ int column(int i)
    {
        int thread = C::W == 1 ? (int)threadIdx.x % WARP : (int)threadIdx.x;
        return (i * WARP * C::W + thread) * V;
    }
    // The row of this thread in its block.
    static __device__ __forceinline__ int row() { return C::W == 1 ? (int)threadIdx.x / WARP : 0; }
    static __device__ __forceinline__ void read(const T *from, int cols, float pad,
                                                float (&to)[N][V])
    {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (column(i) < cols) {
                load<V>(from + column(i), to[i]);
            } else {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    to[i][j] = pad;
                }
            }
        }
    }
    static __device__ __forceinline__ void write(T *to, int cols, const float (&from)[N][V])
    {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (column(i) < cols) {
                store<V>(to + column(i), from[i]);
            }
        }
    }
};

// Over the threads of a row; see block_sum for `shared`.
template <typename C> __device__ __forceinline__ float row_sum(float value, float *shared)
{
    return block_sum<C::W>(value, shared);
}
template <typename C> __device__ __forceinline__ float row_max(float value, float *shared)
{
    return block_max<C::W>(value, shared);
}

#endif
