// kernels/cuda/cross_entropy_sm90.cu - loss and gradient of long rows of logits, read once
//   loss = lse - logit[target]; dlogit = (e^(logit - lse) - [c == target]) inv_count
//
// A block keeps its row in shared memory, in slices. One warp loads them by bulk copies. The other
// warps walk the row twice: for maximum and sum as the slices arrive, then for the gradient, which
// is stored from registers. As soon as a slice has been read for the second time, the copy warp
// loads that slice of the block's next row, so loads overlap stores. Rows of up to half of an SM's
// shared memory have two blocks per SM, so that one can reduce while the other stores.
//   Types  f32, bf16; everything else f32, in a fixed order
//   Cost   reads and writes the logits once; bound by HBM
//   NaN    a NaN or +inf in a row makes its loss and gradient NaN; -inf is probability 0
//   Approximate: ex2 (see cuda.cuh), logf of the library
//   Source PTX ISA, "cp.async.bulk", "mbarrier"; "Programming Guide", asynchronous data copies
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gemm/arch_sm90.h"
#include "kernels/cuda/overlap.cuh"

constexpr int SLICES_MOST = 8;
constexpr int PACKS = 2; // of 16 bytes, a thread and slice
constexpr int64_t ROW_BYTES_LEAST = 16 << 10;
constexpr uint64_t OTHER_BYTES = 2 << 10; // of a block: barriers, sums, CUDA's reserve

// Computing threads with two blocks per SM and with one; one more warp copies.
constexpr int TWO_THREADS = 512, ONE_THREADS = 1024 - WARP;
template <int THREADS> constexpr int SLICE_BYTES = THREADS *PACKS * 16;

// Values of -inf, four bytes of them.
template <typename T> constexpr uint32_t NOTHING = sizeof(T) == 2 ? 0xff80ff80u : 0xff800000u;

struct operands {
    const int32_t *targets;
    const float *inv_count;
    float *loss;
    int64_t rows, stride;
    int32_t vocab, ignore;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
static __device__ __forceinline__ uint32_t address_of(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)),
                 "r"(arrivals));
}
static __device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
}
// Waits until the phase of that parity has ended.
static __device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    uint32_t done;
    do {
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(address_of(barrier)), "r"(parity)
                     : "memory");
    } while (!done);
}
static __device__ __forceinline__ void bulk_load(void *to, const void *from, uint32_t bytes,
                                                 uint64_t *barrier)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)),
        "r"(bytes)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(address_of(to)),
                 "l"(from), "r"(bytes), "r"(address_of(barrier))
                 : "memory");
}

// Barrier of the computing warps only, without the copy warp.
template <int THREADS> static __device__ __forceinline__ void barrier_of_block()
{
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

template <int THREADS> static __device__ __forceinline__ float join_max(float value, float *shared)
{
    value = warp_max(value);
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = value;
    }
    barrier_of_block<THREADS>();
    return warp_max(shared[threadIdx.x % WARP % (THREADS / WARP)]);
}

template <int THREADS> static __device__ __forceinline__ float join_sum(float value, float *shared)
{
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = value;
    }
    barrier_of_block<THREADS>();
    const int lane = (int)threadIdx.x % WARP;
    return warp_sum(lane < THREADS / WARP ? shared[lane] : 0.0f);
}

template <typename T, int THREADS> struct block_memory {
    uint64_t full[SLICES_MOST], empty[SLICES_MOST];
    float sums[2][WARP];
};

// The copy warp: its first lane issues the bulk copies.
template <typename T, int THREADS>
static __device__ __forceinline__ void ask(const T *logits, char *row_at, const operands &with,
                                           block_memory<T, THREADS> &shared)
{
    const int bytes = with.vocab * (int)sizeof(T);
    uint32_t parity = 1; // a wait on a slice that was never used returns at once
    for (int64_t row = blockIdx.x; row < with.rows; row += gridDim.x, parity ^= 1) {
        const char *from = (const char *)(logits + row * with.stride);
        for (int at = 0, slice = 0; at < bytes; at += SLICE_BYTES<THREADS>, ++slice) {
            const int part = min(SLICE_BYTES<THREADS>, bytes - at);
            barrier_wait(&shared.empty[slice], parity);
            bulk_load(row_at + at, from + at, (uint32_t)part, &shared.full[slice]);
        }
    }
}

// Log-sum-exp of the row in shared memory, as its slices arrive.
template <typename T, int THREADS>
static __device__ __forceinline__ float row_lse(const char *row_at, int packs, uint32_t parity,
                                                block_memory<T, THREADS> &shared)
{
    constexpr int V = WIDE<T>;
    float maximum = -INFINITY, sum = 0.0f;
    for (int first = 0, slice = 0; first < packs; first += THREADS * PACKS, ++slice) {
        barrier_wait(&shared.full[slice], parity);
        float held[PACKS][V];
        float largest = maximum;
#pragma unroll
        for (int i = 0; i < PACKS; ++i) {
            const int pack = first + i * THREADS + (int)threadIdx.x;
            uint4 raw = {NOTHING<T>, NOTHING<T>, NOTHING<T>, NOTHING<T>};
            if (pack < packs) {
                raw = *(const uint4 *)(row_at + (int64_t)pack * 16);
            }
            unpack<T>(raw, held[i]);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                largest = fmaxf(largest, held[i][j]);
            }
        }
        // A maximum of -inf counts as 0 in the exponent, so that e^(-inf) is 0 and not NaN.
        const float base = largest == -INFINITY ? 0.0f : largest;
        sum *= exp_base2(maximum - base);
        maximum = largest;
#pragma unroll
        for (int i = 0; i < PACKS; ++i) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum += exp_base2(held[i][j] - base);
            }
        }
    }
    const float largest = join_max<THREADS>(maximum, shared.sums[0]);
    const float base = largest == -INFINITY ? 0.0f : largest;
    return largest + logf(join_sum<THREADS>(sum * exp_base2(maximum - base), shared.sums[1]));
}

// Writes the gradient of the row in shared memory, zeros if the row is ignored, and releases its
// slices.
template <typename T, int THREADS>
static __device__ __forceinline__ void row_grad(const char *row_at, T *dx, int packs, float all,
                                                float scale, int target, bool ignored,
                                                block_memory<T, THREADS> &shared)
{
    constexpr int V = WIDE<T>;
    for (int first = 0, slice = 0; first < packs; first += THREADS * PACKS, ++slice) {
        uint4 raw[PACKS] = {};
#pragma unroll
        for (int i = 0; i < PACKS; ++i) {
            const int pack = first + i * THREADS + (int)threadIdx.x;
            if (pack < packs) {
                raw[i] = *(const uint4 *)(row_at + (int64_t)pack * 16);
            }
        }
        __syncwarp();
        if (threadIdx.x % WARP == 0) {
            barrier_arrive(&shared.empty[slice]);
        }
#pragma unroll
        for (int i = 0; i < PACKS; ++i) {
            const int pack = first + i * THREADS + (int)threadIdx.x;
            const int chosen = target - pack * V;
            float held[V];
            unpack<T>(raw[i], held);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[j] = exp_base2(held[j] - all);
            }
            if (chosen >= 0 && chosen < V) {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    held[j] -= j == chosen ? 1.0f : 0.0f;
                }
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[j] = ignored ? 0.0f : held[j] * scale;
            }
            if (pack < packs) {
                store<V>(dx + (int64_t)pack * V, held);
            }
        }
    }
}

template <typename T, int THREADS>
static __device__ __forceinline__ void compute(T *dlogits, const char *row_at, const operands &with,
                                               block_memory<T, THREADS> &shared)
{
    const int packs = with.vocab / WIDE<T>;
    const float scale = with.inv_count[0];
    uint32_t parity = 0;
    for (int64_t row = blockIdx.x; row < with.rows; row += gridDim.x, parity ^= 1) {
        const int32_t target = with.targets[row];
        const bool ignored = target == with.ignore;
        const float all = row_lse<T, THREADS>(row_at, packs, parity, shared);
        if (threadIdx.x == 0) {
            const bool named = target >= 0 && target < with.vocab;
            const float chosen = named ? to_float(((const T *)row_at)[target]) : NAN;
            with.loss[row] = ignored ? 0.0f : all - chosen;
        }
        row_grad<T, THREADS>(row_at, dlogits + row * with.stride, packs, all, scale, target,
                             ignored, shared);
    }
}
#endif

template <typename T, int THREADS>
static __global__ void __launch_bounds__(THREADS + WARP, THREADS == TWO_THREADS ? 2 : 1)
    long_rows_kernel(const T *logits, T *dlogits, const __grid_constant__ operands with)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char row_at[];
    __shared__ block_memory<T, THREADS> shared;
    if (threadIdx.x == 0) {
        for (int slice = 0; slice < SLICES_MOST; ++slice) {
            barrier_init(&shared.full[slice], 1);
            barrier_init(&shared.empty[slice], THREADS / WARP);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    wait_for_previous();
    if (threadIdx.x >= THREADS) {
        if (threadIdx.x == THREADS) {
            ask<T, THREADS>(logits, row_at, with, shared);
        }
    } else {
        compute<T, THREADS>(dlogits, row_at, with, shared);
    }
#endif
}

template <typename T, int THREADS>
static bt_status start(const bt_launch *launch, const bt_cross_entropy_grad_args *args)
{
    const operands with = {
        args->targets,       (const float *)args->inv_count, (float *)args->loss, args->rows,
        args->logits_stride, (int32_t)args->vocab,           args->ignore};
    const int row_bytes = (int)args->vocab * (int)sizeof(T);
    const unsigned grid = bt_cuda_grid(launch->device, args->rows, THREADS == TWO_THREADS ? 2 : 1);
    cudaStream_t stream = bt_cuda_stream(launch);
    BT_TRY(
        bt_cuda_check(cudaFuncSetAttribute(long_rows_kernel<T, THREADS>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, row_bytes),
                      "shared memory of cross_entropy_grad_sm90"));
    launch_after(launch->device, long_rows_kernel<T, THREADS>, grid, THREADS + WARP,
                 (size_t)row_bytes, stream, (const T *)args->logits, (T *)args->dlogits, with);
    return bt_cuda_launched("cross_entropy_grad_sm90");
}

// Shared memory for two blocks per SM; an SM has 1 KB more than a block can use.
template <typename T>
static bool two_fit(const bt_device *device, const bt_cross_entropy_grad_args *args)
{
    const uint64_t row_bytes = (uint64_t)args->vocab * sizeof(T);
    return 2 * (row_bytes + OTHER_BYTES) <= device->info.shared_bytes + 1024;
}

template <typename T> static bool accepts(const bt_device *device, const void *call)
{
    const bt_cross_entropy_grad_args *args = (const bt_cross_entropy_grad_args *)call;
    const int64_t row_bytes = args->vocab * (int64_t)sizeof(T);
    return bt_sm90_code_runs(device->info.arch, BT_CUDA_SM90A) && args->dlogits && args->rows > 0 &&
           row_bytes >= ROW_BYTES_LEAST &&
           (uint64_t)row_bytes + OTHER_BYTES <= device->info.shared_bytes && row_bytes % 16 == 0 &&
           args->logits_stride % WIDE<T> == 0 && bt_aligned_16(args->logits) &&
           bt_aligned_16(args->dlogits);
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_grad_args *args = (const bt_cross_entropy_grad_args *)call;
    return two_fit<T>(launch->device, args) ? start<T, TWO_THREADS>(launch, args)
                                            : start<T, ONE_THREADS>(launch, args);
}

bool bt_cross_entropy_grad_sm90_f32_accepts(const bt_device *device, const void *args)
{
    return accepts<float>(device, args);
}

bool bt_cross_entropy_grad_sm90_bf16_accepts(const bt_device *device, const void *args)
{
    return accepts<bf16>(device, args);
}

bt_status bt_cross_entropy_grad_sm90_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_cross_entropy_grad_sm90_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
