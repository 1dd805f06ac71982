// kernels/cuda/embedding.cu - y[r,:] = table[ids[r],:] + position[r % positions,:]
//   Types  f32, bf16; the sum is taken in float
//   Cost   reads a row of the table and of the positions, writes one of y; bound by HBM, the
//          positions come from L2
#include "kernels/cuda/cuda.cuh"

constexpr int WARPS = 8;  // of a block
constexpr int SHARED = 4; // rows of a warp, all at one position

// A warp takes rows that lie `positions` apart: their ids are asked for together, and the row of
// the position is read once for all.
template <typename T, int V>
static __global__ void __launch_bounds__(WARPS *WARP)
    forward_kernel(const int32_t *ids, const T *table, const T *position, T *y, int64_t rows,
                   int64_t cols, int64_t positions)
{
    const int64_t unit = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    const int64_t turn = unit / positions;
    const int64_t at = unit - turn * positions;
    const int64_t first = turn * positions * SHARED + at;
    const T *from[SHARED];
#pragma unroll
    for (int i = 0; i < SHARED; ++i) {
        const int64_t row = first + i * positions;
        from[i] = row < rows ? table + ids[row] * cols : nullptr;
    }
    for (int64_t col = (int64_t)threadIdx.x * V; col < cols; col += WARP * V) {
        raw<T, V> held[SHARED];
        float added[V] = {};
#pragma unroll
        for (int i = 0; i < SHARED; ++i) {
            if (from[i]) {
                held[i] = fetch<T, V>(from[i] + col);
            }
        }
        if (position) {
            load<V>(position + at * cols + col, added);
        }
#pragma unroll
        for (int i = 0; i < SHARED; ++i) {
            if (from[i]) {
                float sum[V];
                convert<T, V>(held[i], sum);
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    sum[j] = position ? sum[j] + added[j] : sum[j];
                }
                store<V>(y + (first + i * positions) * cols + col, sum);
            }
        }
    }
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_embedding_args *args = (const bt_embedding_args *)call;
    const T *table = (const T *)args->table;
    const T *position = (const T *)args->position;
    T *y = (T *)args->y;
    if (args->rows == 0 || args->cols == 0) {
        return BT_OK;
    }
    const int64_t positions = position ? args->positions : 1;
    const int64_t units = bt_div_up(args->rows, positions * SHARED) * positions;
    const unsigned grid = (unsigned)bt_div_up(units, WARPS);
    const dim3 block(WARP, WARPS);
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->cols % WIDE<T> == 0 && bt_aligned_16(table) && bt_aligned_16(position) &&
        bt_aligned_16(y)) {
        forward_kernel<T, WIDE<T>><<<grid, block, 0, stream>>>(args->ids, table, position, y,
                                                               args->rows, args->cols, positions);
    } else {
        forward_kernel<T, 1><<<grid, block, 0, stream>>>(args->ids, table, position, y, args->rows,
                                                         args->cols, positions);
    }
    return bt_cuda_launched("embedding_cuda");
}

bt_status bt_embedding_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_embedding_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
