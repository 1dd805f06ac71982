// kernels/cuda/dropout.cu - y[i] = x[i] / (1 - rate) where kept, else 0
// Philox4x32-10 as in framework/base/rng.c: element i takes word i % 4 of block i / 4, so host and
// device keep the same elements, bit for bit.
//   Types  f32, bf16
//   Cost   reads x, writes y (reads y too when it accumulates); ten rounds for four elements
//   Source Salmon, Moraes, Dror, Shaw, SC 2011
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int WORDS = 4;

static __device__ __forceinline__ void random_block(uint64_t seed, uint64_t stream, uint64_t index,
                                                    uint32_t (&words)[WORDS])
{
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index;
    uint32_t c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream;
    uint32_t c3 = (uint32_t)(stream >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint32_t high0 = __umulhi(0xD2511F53u, c0);
        const uint32_t high1 = __umulhi(0xCD9E8D57u, c2);
        const uint32_t low0 = 0xD2511F53u * c0;
        const uint32_t low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key0;
        c2 = high0 ^ c3 ^ key1;
        c1 = low1;
        c3 = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

struct dropout_step {
    uint64_t seed, stream;
    float rate;  // the smallest float that is not below the rate
    float scale; // 1 / (1 - rate)
    bool accumulate;
};

static __device__ __forceinline__ float drop(const dropout_step &with, float x, uint32_t word)
{
    const float uniform = ((float)(word >> 8) + 0.5f) * 0x1p-24f;
    return uniform >= with.rate ? x * with.scale : 0.0f;
}

// A thread takes packs of V elements, V a multiple of 4, from element 0 on.
template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    packs_kernel(const T *x, T *y, int64_t packs, const __grid_constant__ dropout_step with)
{
    const int64_t pack = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (pack >= packs) {
        return;
    }
    float held[V];
    float old[V] = {};
    load<V>(x + pack * V, held);
    if (with.accumulate) {
        load<V>(y + pack * V, old);
    }
#pragma unroll
    for (int i = 0; i < V / WORDS; ++i) {
        uint32_t words[WORDS];
        random_block(with.seed, with.stream, (uint64_t)(pack * (V / WORDS) + i), words);
#pragma unroll
        for (int j = 0; j < WORDS; ++j) {
            float value = drop(with, held[i * WORDS + j], words[j]);
            old[i * WORDS + j] = with.accumulate ? old[i * WORDS + j] + value : value;
        }
    }
    store<V>(y + pack * V, old);
}

// Elements first.. one by one.
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    elements_kernel(const T *x, T *y, int64_t first, int64_t count,
                    const __grid_constant__ dropout_step with)
{
    const int64_t at = first + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) {
        return;
    }
    uint32_t words[WORDS];
    random_block(with.seed, with.stream, (uint64_t)(at / WORDS), words);
    const int word = (int)(at % WORDS);
    const uint32_t mine = word == 0   ? words[0]
                          : word == 1 ? words[1]
                          : word == 2 ? words[2]
                                      : words[3];
    const float value = drop(with, to_float(x[at]), mine);
    y[at] = from_float<T>(with.accumulate ? to_float(y[at]) + value : value);
}

static dropout_step make_step(const bt_dropout_args *args)
{
    dropout_step step;
    step.seed = args->seed;
    step.stream = args->stream;
    step.rate = (float)args->rate;
    if ((double)step.rate < args->rate) {
        step.rate = nextafterf(step.rate, 2.0f);
    }
    step.scale = (float)(1.0 / (1.0 - args->rate));
    step.accumulate = args->accumulate;
    return step;
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_dropout_args *args = (const bt_dropout_args *)call;
    const dropout_step step = make_step(args);
    const T *x = (const T *)args->x;
    T *y = (T *)args->y;
    cudaStream_t stream = bt_cuda_stream(launch);
    const int64_t packs = bt_aligned_16(x) && bt_aligned_16(y) ? args->count / WIDE<T> : 0;
    const int64_t done = packs * WIDE<T>;
    if (packs) {
        unsigned grid = (unsigned)bt_div_up(packs, THREADS);
        packs_kernel<T, WIDE<T>><<<grid, THREADS, 0, stream>>>(x, y, packs, step);
    }
    if (done < args->count) {
        unsigned grid = (unsigned)bt_div_up(args->count - done, THREADS);
        elements_kernel<T><<<grid, THREADS, 0, stream>>>(x, y, done, args->count, step);
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
