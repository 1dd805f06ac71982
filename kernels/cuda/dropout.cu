// kernels/cuda/dropout.cu - y[i] = x[i] / (1 - rate) where kept, else 0
//   Types  f32, bf16
//   Cost   reads x, writes y (reads y too when it accumulates); ten rounds for four elements
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/philox.cuh"

constexpr int THREADS = 256;
constexpr int WORDS = PHILOX_WORDS;

// A thread takes packs of V elements, V a multiple of 4, from element 0 on. The high half of the
// index is the block's own (a block's indices start at a multiple of their number, a power of two),
// so that half of the first two rounds is the same for the whole block.
template <typename T, int V, bool ACCUMULATE>
static __global__ void __launch_bounds__(THREADS)
    packs_kernel(const T *x, T *y, int64_t packs, const __grid_constant__ dropout_step with)
{
    constexpr int BLOCKS = V / WORDS; // of Philox, a thread
    const int64_t pack = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (pack >= packs) {
        return;
    }
    float held[V];
    float old[V];
    load<V>(x + pack * V, held);
    if (ACCUMULATE) {
        load<V>(y + pack * V, old);
    }
    const uint64_t first = (uint64_t)blockIdx.x * (THREADS * BLOCKS);
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        uint32_t words[WORDS];
        philox_block(with, (uint32_t)(first >> 32), (uint32_t)first + threadIdx.x * BLOCKS + i,
                     words);
#pragma unroll
        for (int j = 0; j < WORDS; ++j) {
            const int at = i * WORDS + j;
            const float value = words[j] >= with.least ? held[at] * with.scale : 0.0f;
            held[at] = ACCUMULATE ? old[at] + value : value;
        }
    }
    store<V>(y + pack * V, held);
}

// Elements first.. one by one.
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    elements_kernel(const T *x, T *y, int64_t first, int64_t count, bool accumulate,
                    const __grid_constant__ dropout_step with)
{
    const int64_t at = first + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) {
        return;
    }
    uint32_t words[WORDS];
    const uint64_t index = (uint64_t)(at / WORDS);
    philox_block(with, (uint32_t)(index >> 32), (uint32_t)index, words);
    const uint32_t mine = philox_word(words, (int)(at % WORDS));
    const float value = mine >= with.least ? to_float(x[at]) * with.scale : 0.0f;
    y[at] = from_float<T>(accumulate ? to_float(y[at]) + value : value);
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_dropout_args *args = (const bt_dropout_args *)call;
    const dropout_step step = dropout_step_make(args->rate, args->seed, args->stream);
    const T *x = (const T *)args->x;
    T *y = (T *)args->y;
    cudaStream_t stream = bt_cuda_stream(launch);
    const int64_t packs = bt_aligned_16(x) && bt_aligned_16(y) ? args->count / WIDE<T> : 0;
    const int64_t done = packs * WIDE<T>;
    if (packs) {
        unsigned grid = (unsigned)bt_div_up(packs, THREADS);
        if (args->accumulate) {
            packs_kernel<T, WIDE<T>, true><<<grid, THREADS, 0, stream>>>(x, y, packs, step);
        } else {
            packs_kernel<T, WIDE<T>, false><<<grid, THREADS, 0, stream>>>(x, y, packs, step);
        }
    }
    if (done < args->count) {
        unsigned grid = (unsigned)bt_div_up(args->count - done, THREADS);
        elements_kernel<T>
            <<<grid, THREADS, 0, stream>>>(x, y, done, args->count, args->accumulate, step);
    }
    return bt_cuda_launched("dropout_cuda");
}

bt_status bt_dropout_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_dropout_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
