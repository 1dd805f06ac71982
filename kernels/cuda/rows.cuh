// kernels/cuda/rows.cuh - a row of a matrix in registers: T threads hold it, E elements each
//
// Several short rows share a block; a longer row has its own block. Two goals determine the
// configuration: an SM should have about 50 KB in flight, which limits registers per thread; and a
// row of bf16 takes half the time, so a thread takes more elements of it, to amortize the fixed
// cost of a row.
//
// Element (i, j) of a thread is column (i * T + thread) * V + j: consecutive threads touch
// consecutive 16 bytes. Columns past the end are never read nor stored.
//
// A kernel handles one row per thread without a loop: the registers of a loop would cost occupancy.
// Rows past the end (row_index) have no columns, but take part in reductions. More rows than a grid
// can have take several launches (row_launches).
#ifndef BT_KERNELS_CUDA_ROWS_CUH
#define BT_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/cuda.cuh"

constexpr int64_t ROW_MOST_BLOCKS = 0x7fffffff; // of a grid

// Threads that an SM can hold: 8.6 and 8.9 hold fewer than the others.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900
constexpr int ROW_SM_THREADS = 1536;
#else
constexpr int ROW_SM_THREADS = 2048;
#endif

// PER_SM: threads that an SM should hold, which limits their registers. SHARED_BY: threads of a
// block of several rows.
template <int ELEMENTS, int THREADS, int PER_SM, int SHARED_BY = (ELEMENTS > 8 ? 256 : 128)>
struct row_config {
    static constexpr int E = ELEMENTS;
    static constexpr int T = THREADS;
    static constexpr int BLOCK = T > WARP ? T : SHARED_BY; // threads
    static constexpr int ROWS = BLOCK / T;                 // of a block
    static constexpr int WARPS = T > WARP ? T / WARP : 1;  // of a row
    // Blocks of an SM, at least.
    static constexpr int RESIDENT = (PER_SM < ROW_SM_THREADS ? PER_SM : ROW_SM_THREADS) / BLOCK;
    // The same for a kernel that keeps two operands.
    static constexpr int ROOMY = E > 8 ? (RESIDENT + 1) / 2 : RESIDENT;
};

// Calls f with the configuration that holds `cols` of type T; false when none does.
template <typename T, typename F> static bool with_row_config(int64_t cols, F f)
{
    constexpr bool HALF = sizeof(T) == 2;
    if (cols <= 64) {
        f(row_config<8, 8, 1536>{});
    } else if (cols <= 128) {
        f(row_config<8, 16, 1536>{});
    } else if (cols <= 256) {
        f(row_config<8, 32, 1536>{});
    } else if (cols <= 512) {
        f(row_config < HALF ? 16 : 8, HALF ? 32 : 64, 1536 > {});
    } else if (cols <= 768) {
        f(row_config < HALF ? 24 : 8, HALF ? 32 : 96, HALF ? 1280 : 1536 > {});
    } else if (cols <= 1024) {
        f(row_config < HALF ? 32 : 8, HALF ? 32 : 128, HALF ? 1024 : 1536 > {});
    } else if (cols <= 2048) {
        f(row_config < HALF ? 16 : 8, HALF ? 128 : 256, 1536 > {});
    } else if (cols <= 3072) {
        f(row_config < HALF ? 16 : 8, HALF ? 192 : 384, 1536 > {});
    } else if (cols <= 4096) {
        f(row_config<16, 256, 1536>{});
    } else if (cols <= 8192) {
        f(row_config < HALF ? 32 : 16, HALF ? 256 : 512, HALF ? 1024 : 1536 > {});
    } else if (cols <= 16384) {
        f(row_config < HALF ? 32 : 16, HALF ? 512 : 1024, HALF ? 1024 : 2048 > {});
    } else {
        return false;
    }
    return true;
}

// Calls f(first row, rows, blocks) for each launch that `rows` take.
template <typename C, typename F> static void row_launches(int64_t rows, F f)
{
    const int64_t most = ROW_MOST_BLOCKS * C::ROWS;
    for (int64_t first = 0; first < rows; first += most) {
        const int64_t count = bt_min_i64(rows - first, most);
        f(first, count, (unsigned)bt_div_up(count, C::ROWS));
    }
}

// The row of this thread.
template <typename C> static __device__ __forceinline__ int64_t row_index()
{
    return (int64_t)blockIdx.x * C::ROWS + (int)threadIdx.x / C::T;
}

template <typename T, typename C> struct row_span {
    static constexpr int V = WIDE<T>;
    static constexpr int N = C::E / V; // packs a thread

    // The first column of pack i.
    static __device__ __forceinline__ int column(int i)
    {
        return (i * C::T + (int)threadIdx.x % C::T) * V;
    }
    static __device__ __forceinline__ void read(const T *from, int cols, uint4 (&to)[N])
    {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            to[i] = column(i) < cols ? fetch<T, V>(from + column(i)) : uint4{0, 0, 0, 0};
        }
    }
};

// Over the threads of a row, always by the same tree. `shared` holds C::WARPS floats and may be
// used again after the next barrier of the block; consecutive calls need different buffers.
template <typename C, typename F>
static __device__ __forceinline__ float row_reduce(float value, float *shared, F join)
{
    constexpr int LANES = C::T < WARP ? C::T : WARP;
#pragma unroll
    for (int lane = LANES / 2; lane > 0; lane /= 2) {
        value = join(value, __shfl_xor_sync(ALL_LANES, value, lane));
    }
    if (C::WARPS > 1) {
        if (threadIdx.x % WARP == 0) {
            shared[threadIdx.x / WARP] = value;
        }
        __syncthreads();
        value = shared[0];
#pragma unroll
        for (int warp = 1; warp < C::WARPS; ++warp) {
            value = join(value, shared[warp]);
        }
    }
    return value;
}
template <typename C> static __device__ __forceinline__ float row_sum(float value, float *shared)
{
    return row_reduce<C>(value, shared, [](float a, float b) { return a + b; });
}
template <typename C> static __device__ __forceinline__ float row_max(float value, float *shared)
{
    return row_reduce<C>(value, shared, [](float a, float b) { return fmaxf(a, b); });
}

// Prefetches a cache line without a register. Called by one block only: many prefetches of the same
// line serialize.
static __device__ __forceinline__ void prefetch(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

#endif
