// kernels/cuda/embedding.cu - y[r,:] = table[ids[r],:] + position[r % positions,:]
//   Types  f32, bf16; the sum is taken in float
//   Cost   reads a row of the table and of the positions, writes one of y; bound by HBM, the
//          positions come from L2
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int UNROLL = 2; // packs per thread

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    forward_kernel(const int32_t *ids, const T *table, const T *position, T *y, int64_t packs,
                   int64_t cols, int64_t positions)
{
    const int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    const int64_t width = cols / V;
    float held[UNROLL][V];
    float added[UNROLL][V];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const int64_t pack = first + i * THREADS;
        if (pack < packs) {
            const int64_t row = pack / width;
            const int64_t col = (pack - row * width) * V;
            load<V>(table + ids[row] * cols + col, held[i]);
            if (position) {
                load<V>(position + row % positions * cols + col, added[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const int64_t pack = first + i * THREADS;
        if (pack < packs) {
            if (position) {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    held[i][j] += added[i][j];
                }
            }
            store<V>(y + pack * V, held[i]);
        }
    }
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_embedding_args *args = (const bt_embedding_args *)call;
    const T *table = (const T *)args->table;
    const T *position = (const T *)args->position;
    T *y = (T *)args->y;
    const int64_t count = args->rows * args->cols;
    if (count == 0) {
        return BT_OK;
    }
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->cols % WIDE<T> == 0 && bt_aligned_16(table) && bt_aligned_16(position) &&
        bt_aligned_16(y)) {
        int64_t packs = count / WIDE<T>;
        unsigned grid = (unsigned)bt_div_up(packs, THREADS * UNROLL);
        forward_kernel<T, WIDE<T>><<<grid, THREADS, 0, stream>>>(
            args->ids, table, position, y, packs, args->cols, args->positions);
    } else {
        unsigned grid = (unsigned)bt_div_up(count, THREADS * UNROLL);
        forward_kernel<T, 1><<<grid, THREADS, 0, stream>>>(args->ids, table, position, y, count,
                                                           args->cols, args->positions);
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
