// kernels/cuda/dropout.cu - y[i] = x[i] / (1 - rate) where kept, else 0
// Philox4x32-10 as in framework/base/rng.c: element i takes word i % 4 of block i / 4, so host and
// device keep the same elements, bit for bit.
//   Types  f32, bf16
//   Cost   reads x, writes y (reads y too when it accumulates); ten rounds for four elements
//   Source Salmon, Moraes, Dror, Shaw, SC 2011
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int WORDS = 4;

constexpr int ROUNDS = 10;

// The same for all elements: Philox' round keys come from the constant bank.
struct dropout_step {
    uint32_t key0[ROUNDS], key1[ROUNDS];
    uint64_t stream;
    uint32_t least; // a word that is not below it keeps its element
    float scale;    // 1 / (1 - rate)
};

static __device__ __forceinline__ void random_block(const dropout_step &with, uint32_t index_high,
                                                    uint32_t index_low, uint32_t (&words)[WORDS])
{
    uint32_t c0 = index_low;
    uint32_t c1 = index_high;
    uint32_t c2 = (uint32_t)with.stream;
    uint32_t c3 = (uint32_t)(with.stream >> 32);
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ with.key0[round];
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ with.key1[round];
        c1 = (uint32_t)product1;
        c3 = (uint32_t)product0;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

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
        random_block(with, (uint32_t)(first >> 32), (uint32_t)first + threadIdx.x * BLOCKS + i,
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
    random_block(with, (uint32_t)(index >> 32), (uint32_t)index, words);
    const int word = (int)(at % WORDS);
    const uint32_t mine = word == 0   ? words[0]
                          : word == 1 ? words[1]
                          : word == 2 ? words[2]
                                      : words[3];
    const float value = mine >= with.least ? to_float(x[at]) * with.scale : 0.0f;
    y[at] = from_float<T>(accumulate ? to_float(y[at]) + value : value);
}

// The smallest word whose number in (0, 1), as framework/base/rng.c makes it from the upper 24
// bits, is not below the rate. The number grows with the word, and the largest rounds to 1.
static uint32_t least_word(double rate)
{
    uint32_t below = 0; // of the upper 24 bits: all less than this are below the rate
    uint32_t kept = 0xffffff;
    while (below < kept) {
        const uint32_t middle = below + (kept - below) / 2;
        const float uniform = ((float)middle + 0.5f) * 0x1p-24f;
        if ((double)uniform >= rate) {
            kept = middle;
        } else {
            below = middle + 1;
        }
    }
    return kept << 8;
}

static dropout_step make_step(const bt_dropout_args *args)
{
    dropout_step step;
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        step.key0[round] = (uint32_t)args->seed + round * 0x9E3779B9u;
        step.key1[round] = (uint32_t)(args->seed >> 32) + round * 0xBB67AE85u;
    }
    step.stream = args->stream;
    step.least = least_word(args->rate);
    step.scale = (float)(1.0 / (1.0 - args->rate));
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
