// kernels/cuda/embedding.cu - y[r,:] = table[ids[r],:] + position[r % positions,:]
//   Types  f32, bf16; the sum is taken in float
//   Ids    an id outside of the table makes its row NaN; bad_row is set to -1 (all ones) before
//          the launch, and an integer atomic minimum over bad rows depends on no order
//   Cost   reads a row of the table and of the positions, writes one of y; bound by HBM, the
//          positions come from L2
#include "kernels/cuda/cuda.cuh"

constexpr int WARPS = 8;  // of a block
constexpr int SHARED = 4; // rows of a warp, all at one position

// A warp processes rows that are `positions` apart: their ids are loaded together, and their common
// position row is read once.
template <typename T, int V>
static __global__ void __launch_bounds__(WARPS *WARP)
    forward_kernel(const __grid_constant__ bt_embedding_args args, int64_t positions)
{
    const T *table = (const T *)args.table;
    const T *position = (const T *)args.position;
    T *y = (T *)args.y;
    const int64_t rows = args.rows, cols = args.cols;
    const int64_t unit = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    const int64_t turn = unit / positions;
    const int64_t at = unit - turn * positions;
    const int64_t first = turn * positions * SHARED + at;
    const T *from[SHARED];
    bool bad[SHARED];
#pragma unroll
    for (int i = 0; i < SHARED; ++i) {
        const int64_t row = first + i * positions;
        const int32_t id = row < rows ? args.ids[row] : 0;
        bad[i] = id < 0 || id >= args.vocab;
        from[i] = row < rows ? table + (bad[i] ? 0 : id) * cols : nullptr;
        if (row < rows && threadIdx.x == 0) {
            if (args.good_ids) {
                args.good_ids[row] = bad[i] ? 0 : id;
            }
            if (args.bad_row && bad[i]) {
                atomicMin((unsigned long long *)args.bad_row, (unsigned long long)row);
            }
        }
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
                    sum[j] = bad[i] ? NAN : position ? sum[j] + added[j] : sum[j];
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
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->bad_row) {
        (void)cudaMemsetAsync(args->bad_row, 0xFF, sizeof *args->bad_row, stream);
    }
    if (args->rows == 0) {
        return bt_cuda_launched("embedding_cuda");
    }
    const int64_t positions = position ? args->positions : 1;
    const int64_t units = bt_div_up(args->rows, positions * SHARED) * positions;
    const unsigned grid = (unsigned)bt_div_up(units, WARPS);
    const dim3 block(WARP, WARPS);
    if (args->cols % WIDE<T> == 0 && bt_aligned_16(table) && bt_aligned_16(position) &&
        bt_aligned_16(y)) {
        forward_kernel<T, WIDE<T>><<<grid, block, 0, stream>>>(*args, positions);
    } else {
        forward_kernel<T, 1><<<grid, block, 0, stream>>>(*args, positions);
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
