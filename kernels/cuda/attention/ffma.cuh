// kernels/cuda/attention/ffma.cuh - register-tiled fp32 products of a warp, operands in shared
// memory
//
// A lane is (r, c), r in 0..3, c in 0..7. r is made of lane bits 1 and 4, c of bits 0, 2 and 3, so
// that of any 16-byte access half the lanes of a pair of quarter-warps repeat each other. A
// thread's rows are runs of 4, 16 apart (64 in the forward), its columns runs of 4, 32 apart.
// Every product is summed in ascending order of its summed index by one thread, in FFMAs.
//
// An FFMA that reads two operands from one of the two register banks costs a further cycle. A load
// of 16 bytes fills both banks in turn, so the right operand is always [summed index][column]: each
// column keeps to a bank, and its sums to the other one. The left operand is reused for all
// columns. If it came along the summed index on both sides, half of the FFMAs would have both
// factors in one bank.
#ifndef BT_KERNELS_CUDA_ATTENTION_FFMA_CUH
#define BT_KERNELS_CUDA_ATTENTION_FFMA_CUH

#include "kernels/cuda/attention/tile.cuh"

namespace
{

__device__ __forceinline__ int lane_r(int lane) { return (lane >> 1 & 1) | (lane >> 4) << 1; }
__device__ __forceinline__ int lane_c(int lane) { return (lane & 1) | (lane >> 2 & 3) << 1; }

// Over the 8 lanes of one r; every lane gets the result.
__device__ __forceinline__ float row_of_lanes_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 4));
    return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 8));
}

__device__ __forceinline__ float row_of_lanes_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffU, x, 1);
    x += __shfl_xor_sync(0xffffffffU, x, 4);
    return x + __shfl_xor_sync(0xffffffffU, x, 8);
}

// x[4h ..] = at[h * apart ..]
template <int N>
__device__ __forceinline__ void load_runs(float (&x)[N], const float *at, int apart)
{
#pragma unroll
    for (int h = 0; h < N / 4; ++h) {
        const float4 run = *(const float4 *)(at + h * apart);
        x[4 * h] = run.x, x[4 * h + 1] = run.y, x[4 * h + 2] = run.z, x[4 * h + 3] = run.w;
    }
}

// product_along and product_across fetch operands one step ahead, across the end of an iteration as
// well (the last time those of step 0, for nothing): the compiler alone leaves an iteration's first
// loads directly before their use. `count`, the length of the sum, is a multiple of 8.

// sum[i][j] += a[i][k] b[k][j]: a from the thread's first row, along the summed index, b from its
// column 4c.
template <int I, int J>
__device__ __forceinline__ void product_along(float (&sum)[I][J], const float *a, int a_step,
                                              const float *b, int b_step, int count)
{
    float4 x[2][I]; // of four steps each
    float y[2][J];
    auto load_rows = [&](float4(&to)[I], int k) {
#pragma unroll
        for (int i = 0; i < I; ++i) {
            to[i] = *(const float4 *)(a + (i / 4 * 16 + i % 4) * a_step + k);
        }
    };
    load_rows(x[0], 0);
    load_runs(y[0], b, 32);
#pragma unroll 1
    for (int k = 0; k < count; k += 8) {
        const int after = k + 8 < count ? k + 8 : 0;
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            if (e % 4 == 0) {
                load_rows(x[1 - e / 4], e < 4 ? k + 4 : after);
            }
            load_runs(y[1 - e % 2], b + (e < 7 ? k + e + 1 : after) * b_step, 32);
#pragma unroll
            for (int i = 0; i < I; ++i) {
                const float4 four = x[e / 4][i];
                const float one = e % 4 == 0   ? four.x
                                  : e % 4 == 1 ? four.y
                                  : e % 4 == 2 ? four.z
                                               : four.w;
#pragma unroll
                for (int j = 0; j < J; ++j) {
                    const int turned = i & 1 ? J - 1 - j : j; // reuses the factor before
                    sum[i][turned] = fmaf(one, y[e % 2][turned], sum[i][turned]);
                }
            }
        }
    }
}

// sum[i][j] += a[k][i] b[k][j]: a from row 4r of the warp, b from column 4c.
template <int I, int J>
__device__ __forceinline__ void product_across(float (&sum)[I][J], const float *a, int a_step,
                                               const float *b, int b_step, int count)
{
    float x[2][I], y[2][J];
    load_runs(x[0], a, 16);
    load_runs(y[0], b, 32);
#pragma unroll 1
    for (int k = 0; k < count; k += 8) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const int next = e < 7 ? k + e + 1 : k + 8 < count ? k + 8 : 0;
            load_runs(x[1 - e % 2], a + next * a_step, 16);
            load_runs(y[1 - e % 2], b + next * b_step, 32);
#pragma unroll
            for (int j = 0; j < J; ++j) {
#pragma unroll
                for (int i = 0; i < I; ++i) {
                    const int turned = j & 1 ? I - 1 - i : i;
                    sum[turned][j] = fmaf(y[e % 2][j], x[e % 2][turned], sum[turned][j]);
                }
            }
        }
    }
}

// As product_across, for sums of 8 x 8, the runs of rows `apart`. The compiler places the loads:
// with four FFMAs for each value loaded, fetching ahead across iterations costs more than it gains.
template <int I, int J>
__device__ __forceinline__ void product_square(float (&sum)[I][J], const float *a, int a_step,
                                               int apart, const float *b, int b_step, int count)
{
#pragma unroll 1
    for (int k = 0; k < count; k += 8) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            float x[I], y[J];
            load_runs(x, a + (k + e) * a_step, apart);
            load_runs(y, b + (k + e) * b_step, 32);
#pragma unroll
            for (int j = 0; j < J; ++j) {
#pragma unroll
                for (int i = 0; i < I; ++i) {
                    const int turned = j & 1 ? I - 1 - i : i;
                    sum[turned][j] = fmaf(y[j], x[turned], sum[turned][j]);
                }
            }
        }
    }
}

// Asynchronous copies global -> shared of 4 bytes, zero when `valid` is false, and of 8.
__device__ __forceinline__ void cp_async4(uint32_t target, const void *source, bool valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source),
                 "r"(valid ? 4 : 0)
                 : "memory");
}

__device__ __forceinline__ void cp_async8(uint32_t target, const void *source)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(target), "l"(source) : "memory");
}

// Starts the copy of rows row0 .. row0 + ROWS - 1 into tile[column][row], value by value; zeros
// past the last token and column. A warp takes 4 rows by 8 columns at a time.
template <int ROWS, int COLS, int THREADS>
__device__ __forceinline__ void tile_load_transposed(float *tile, int pitch, const float *head,
                                                     int64_t token_stride, int row0, int tokens,
                                                     int head_dim)
{
    constexpr int STEP = THREADS / 8; // rows a turn
    static_assert(ROWS % STEP == 0 && COLS % 8 == 0,
                  "the threads must copy a tile in whole passes");
    const int row = (int)threadIdx.x / 8, column = (int)threadIdx.x % 8;
#pragma unroll
    for (int i = row; i < row + ROWS; i += STEP) {
        const float *source = head + (row0 + i) * token_stride + column;
        const uint32_t target = shared_address(tile + column * pitch + i);
        const int columns = row0 + i < tokens ? head_dim - column : 0;
#pragma unroll
        for (int j = 0; j < COLS; j += 8) {
            cp_async4(target + (uint32_t)(j * pitch * 4), source + j, j < columns);
        }
    }
}

// Columns 32h + 4c .. + 3 of a row, scaled, plus `keep` times what is there.
template <int D>
__device__ __forceinline__ void store_row(float *row, const float (&sum)[D / 8], float scale, int c,
                                          int head_dim, float keep = KEEP_NOTHING)
{
#pragma unroll
    for (int h = 0; h < D / 32; ++h) {
        float *at = row + 32 * h + 4 * c;
        if (32 * h + 4 * c < head_dim) {
            const float2 x = pair_added(sum[4 * h], sum[4 * h + 1], scale, keep, at);
            const float2 y = pair_added(sum[4 * h + 2], sum[4 * h + 3], scale, keep, at + 2);
            *(float4 *)at = make_float4(x.x, x.y, y.x, y.y);
        }
    }
}

} // namespace
#endif
