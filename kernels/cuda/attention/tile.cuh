// kernels/cuda/attention/tile.cuh - tiles of one head in shared memory, and launching
//
// A tile is ROWS tokens of one (batch, head), COLS columns wide (the head-dim bucket, 64 or 128);
// rows past the last token and columns past head_dim are zero, so no kernel needs a special case.
//   bf16  row of COLS elements, no padding; the 16-byte chunk c of row r lies at c ^ (r % 8), so
//         that ldmatrix, plain and transposed, meets every bank once
//   f32   row of COLS + 4 elements: 8 rows of one chunk, and rows 2t of the columns 4g.., meet
//         every bank once
#ifndef BT_KERNELS_CUDA_ATTENTION_TILE_CUH
#define BT_KERNELS_CUDA_ATTENTION_TILE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>

#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/cuda.h"

typedef __nv_bfloat16 bf16;

namespace
{

// What a block may take on the smallest device served (sm_89), bytes.
constexpr int SHARED_LIMIT = 99 * 1024;

constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

// Which head of which batch entry; made once, for its division.
struct head_place {
    int64_t batch, head;
};

__device__ __forceinline__ head_place head_place_make(int64_t heads, int64_t index)
{
    return {index / heads, index % heads};
}

// First element of a head.
template <typename T>
__device__ __forceinline__ T *view_head(const bt_attention_view &view, const head_place &at)
{
    return (T *)view.base + at.batch * view.batch_stride + at.head * view.head_stride;
}

// Byte offset of a chunk in a bf16 tile; of 32 columns (64 bytes) two rows fill the banks.
template <int COLS> __device__ __forceinline__ uint32_t swizzle(int row, int chunk)
{
    const int turn = COLS == 32 ? row >> 1 & 3 : row & 7;
    return (uint32_t)(row * COLS * 2 + ((chunk ^ turn) << 4));
}

// Byte offset of a chunk in an f32 tile.
template <int COLS> __device__ __forceinline__ uint32_t padded(int row, int chunk)
{
    return (uint32_t)(row * (COLS + 4) * 4 + (chunk << 4));
}

template <typename T, int COLS> __device__ __forceinline__ uint32_t tile_offset(int row, int chunk)
{
    return sizeof(T) == 2 ? swizzle<COLS>(row, chunk) : padded<COLS>(row, chunk);
}

template <typename T, int COLS>
constexpr int ROW_BYTES = sizeof(T) == 2 ? COLS * 2 : (COLS + 4) * 4;

template <typename T, int ROWS, int COLS> constexpr int tile_bytes()
{
    return ROWS * ROW_BYTES<T, COLS>;
}

// Starts the copy of rows row0 .. row0 + ROWS - 1 into a tile, 16 bytes a thread and turn.
template <typename T, int ROWS, int COLS, int THREADS>
__device__ __forceinline__ void tile_load(uint32_t tile, const T *head, int64_t token_stride,
                                          int row0, int tokens, int head_dim)
{
    constexpr int PER_CHUNK = 16 / (int)sizeof(T), CHUNKS = COLS / PER_CHUNK;
    constexpr int STEP = THREADS / CHUNKS; // rows a turn; swizzle() repeats every 8
    static_assert(ROWS % STEP == 0 && (sizeof(T) == 4 || STEP % 8 == 0),
                  "the threads must copy a tile in whole passes");
    const int row = (int)threadIdx.x / CHUNKS, chunk = (int)threadIdx.x % CHUNKS;
    const int rows = chunk * PER_CHUNK < head_dim ? tokens - row0 - row : 0;
    const T *source = head + (row0 + row) * token_stride + chunk * PER_CHUNK;
    tile += tile_offset<T, COLS>(row, chunk);
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        cp_async16(tile + i * ROW_BYTES<T, COLS>, source, i < rows);
        source += STEP * token_stride;
    }
}

// Rounds to tf32 what this same thread copied with tile_load: needs cp_async_wait, no barrier.
template <int ROWS, int COLS, int THREADS> __device__ __forceinline__ void tile_round(float *tile)
{
    constexpr int CHUNKS = COLS / 4;
#pragma unroll
    for (int i = 0; i < (ROWS * CHUNKS + THREADS - 1) / THREADS; ++i) {
        const int index = i * THREADS + (int)threadIdx.x;
        const int row = index / CHUNKS, chunk = index % CHUNKS;
        if (ROWS * CHUNKS % THREADS == 0 || row < ROWS) {
            float4 *at = (float4 *)(tile + row * (COLS + 4) + chunk * 4);
            const float4 x = *at;
            *at = make_float4(round_tf32(x.x), round_tf32(x.y), round_tf32(x.z), round_tf32(x.w));
        }
    }
}

// Makes a row's log-sum-exp that over its keys and over others, whose is `old`; scales `factor` by
// the share of its own keys. Returns the share of the others.
__device__ __forceinline__ float merge_lse(float &lse, float old, float &factor)
{
    const float most = fmaxf(old, lse);
    if (most == -INFINITY && !isnan(lse) && !isnan(old)) {
        return 1.0f; // no key is seen
    }
    const float own = expf(lse - most), other = expf(old - most), sum = own + other;
    lse = most + logf(sum);
    factor *= own / sum;
    return other / sum;
}

// Values that follow each other in memory, in f32.
__device__ __forceinline__ float2 load_pair(const float *at) { return *(const float2 *)at; }
__device__ __forceinline__ float2 load_pair(const bf16 *at)
{
    const uint32_t x = *(const uint32_t *)at;
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000U));
}
__device__ __forceinline__ void store_pair(float *at, float2 x) { *(float2 *)at = x; }
__device__ __forceinline__ void store_pair(bf16 *at, float2 x)
{
    *(uint32_t *)at = pack_bf16(x.x, x.y);
}

constexpr float KEEP_NOTHING = -1.0f;

// x times `scale`, y times `scale`, plus `keep` times the values at `old`, which are not read if
// `keep` is negative.
template <typename T>
__device__ __forceinline__ float2 pair_added(float x, float y, float scale, float keep,
                                             const T *old)
{
    float2 sum = make_float2(x * scale, y * scale);
    if (!(keep < 0.0f)) {
        const float2 before = load_pair(old);
        sum = make_float2(fmaf(keep, before.x, sum.x), fmaf(keep, before.y, sum.y));
    }
    return sum;
}

// What a lane adds to a tile's address to name its row of an ldmatrix.
//   lane_rows  matrices (rows 0-7, chunk 0) (rows 8-15, 0) (rows 0-7, 1) (rows 8-15, 1)
//   lane_cols  matrices (rows 0-7, chunk 0) (rows 0-7, 1) (rows 8-15, 0) (rows 8-15, 1)
struct lane_place {
    int row, chunk;
};

__device__ __forceinline__ lane_place lane_rows(int lane) { return {lane & 15, lane >> 4}; }

__device__ __forceinline__ lane_place lane_cols(int lane)
{
    return {(lane & 7) | ((lane >> 4) << 3), (lane >> 3) & 1};
}

// A lane's fragment address in a bf16 tile. `base` is the tile's address plus swizzle() of the
// lane's place within the first 16 rows and two chunks; the fragment lies blocks of 16 rows and
// pairs of chunks further on. Tiles start at multiples of a row's size, so a pair only flips bits.
template <int COLS>
__device__ __forceinline__ uint32_t fragment(uint32_t base, int row_block, int chunk_pair)
{
    return (base ^ (uint32_t)(chunk_pair << 5)) + (uint32_t)(row_block * 16 * COLS * 2);
}

// A fragment of the transpose of an f32 tile: m = columns, k = rows. `at` is the tile's element
// [2t, 2g] (k and m of the lane, mma.cuh), further on by 8 rows and 16 columns a block. m = g
// stands for column 2g, m = g + 8 for 2g + 1.
template <int COLS>
__device__ __forceinline__ void transposed_fragment(uint32_t (&a)[4], const float *at)
{
    const uint2 even = *(const uint2 *)at, odd = *(const uint2 *)(at + COLS + 4);
    a[0] = even.x, a[1] = even.y, a[2] = odd.x, a[3] = odd.y;
}

// Raises the kernel's shared-memory limit and launches it.
template <typename Params>
bt_status launch_kernel(const bt_launch *launch, void (*kernel)(Params), int64_t blocks,
                        int threads, int shared_bytes, const Params &params, const char *name)
{
    const cudaStream_t stream = bt_cuda_stream(launch); // makes the device current
    cudaError_t error = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error == cudaSuccess) {
        kernel<<<(unsigned)blocks, (unsigned)threads, (size_t)shared_bytes, stream>>>(params);
        error = cudaGetLastError();
    }
    if (error != cudaSuccess) {
        return bt_error(
            BT_STATUS_INTERNAL,
            "%s: launch of %lld blocks of %d threads with %d bytes of shared memory: %s", name,
            (long long)blocks, threads, shared_bytes, cudaGetErrorString(error));
    }
    return BT_OK;
}

struct forward_params {
    bt_attention_args a;
    float scale, scale_log2; // scale, scale * log2(e)
    float slack;             // 8 / scale_log2: see softmax.cuh
};

inline forward_params forward_params_make(const bt_attention_args *args)
{
    const double scale_log2 = args->shape.scale * 1.4426950408889634;
    return {*args, (float)args->shape.scale, (float)scale_log2,
            (float)fmin(8.0 / scale_log2, 1e30)};
}

// How a row of o ends: o = scale o + keep times the old o (see pair_added), with its new lse.
struct joined_row {
    float lse, scale, keep;
};

// From the row's maximum and sum; `lse` [tokens] is the head's. All lanes of a row have read its
// old lse when this returns.
__device__ __forceinline__ joined_row join_row(float row_max, float sum,
                                               const forward_params &params, const float *lse,
                                               int row)
{
    joined_row joined = {fmaf(row_max, params.scale, logf(sum)), 1.0f / sum, KEEP_NOTHING};
    if (params.a.accumulate) {
        if (row < params.a.shape.q_tokens) {
            joined.keep = merge_lse(joined.lse, lse[row], joined.scale);
        }
        __syncwarp();
    }
    return joined;
}

} // namespace
#endif
