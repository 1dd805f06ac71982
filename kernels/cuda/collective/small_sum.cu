// kernels/cuda/collective/small_sum.cu - low-latency all-reduce of small data without a barrier
//
// Eight bytes of data and two copies of the epoch are written by one 16-byte store: a reader that
// sees the epoch has the data. There are two sets of slots, by the parity of the epoch: a rank that
// writes epoch e + 2 has received all of e + 1, so the others have finished the call of e.
// Shapes   data [count] in place, at most BT_P2P_LOW_LATENCY_BYTES; any aligned memory
// Types    f32, f64
// Order    the tree of sum.cu
// Cost     bytes of each rank to each other, twice (data and epoch); bound by latency
// Errors   different calls on different ranks are detected only by the timeout: no hash is sent
#include "kernels/cuda/collective/collective.h"
#include "kernels/cuda/collective/wait.cuh"

namespace
{
using namespace bt_collective;

// Eight bytes at `pair`, zeros beyond the end of the data.
template <typename T>
__device__ __forceinline__ uint2 load_pair(const T *data, int64_t pair, int64_t count)
{
    if constexpr (sizeof(T) == 8) {
        const unsigned long long bits = __double_as_longlong(data[pair]);
        return make_uint2((uint32_t)bits, (uint32_t)(bits >> 32));
    } else {
        const float second = 2 * pair + 1 < count ? data[2 * pair + 1] : 0.0f;
        return make_uint2(__float_as_uint(data[2 * pair]), __float_as_uint(second));
    }
}

template <typename T>
__device__ __forceinline__ void store_pair(T *data, int64_t pair, int64_t count, uint2 sum)
{
    if constexpr (sizeof(T) == 8) {
        data[pair] = __longlong_as_double((long long)((uint64_t)sum.y << 32 | sum.x));
    } else {
        data[2 * pair] = __uint_as_float(sum.x);
        if (2 * pair + 1 < count) {
            data[2 * pair + 1] = __uint_as_float(sum.y);
        }
    }
}

template <typename T> __device__ __forceinline__ uint2 add(uint2 a, uint2 b)
{
    if constexpr (sizeof(T) == 8) {
        const double x = __longlong_as_double((long long)((uint64_t)a.y << 32 | a.x));
        const double y = __longlong_as_double((long long)((uint64_t)b.y << 32 | b.x));
        const unsigned long long bits = __double_as_longlong(x + y);
        return make_uint2((uint32_t)bits, (uint32_t)(bits >> 32));
    } else {
        return make_uint2(__float_as_uint(__uint_as_float(a.x) + __uint_as_float(b.x)),
                          __float_as_uint(__uint_as_float(a.y) + __uint_as_float(b.y)));
    }
}

// The slots that rank `from` writes for rank `to`, of this epoch's parity.
__device__ __forceinline__ uint4 *slots_of(const bt_p2p_view &view, int to, int from,
                                           uint32_t epoch)
{
    const size_t set = (size_t)(epoch & 1) * BT_P2P_RANKS_MAX + (size_t)from;
    return (uint4 *)(view.window[to] + BT_P2P_HEAD_BYTES + set * 2 * BT_P2P_LOW_LATENCY_BYTES);
}

__device__ __forceinline__ void send(uint4 *slot, uint2 value, uint32_t epoch)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%2};" ::"l"(slot), "r"(value.x),
                 "r"(epoch), "r"(value.y)
                 : "memory");
}

// False: the call was aborted.
__device__ __forceinline__ bool receive(const bt_p2p_view &view, const uint4 *slot, uint32_t epoch,
                                        int peer, uint2 *value)
{
    wait_clock clock;
    for (uint32_t look = 1;; ++look) {
        uint4 seen;
        asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(seen.x), "=r"(seen.y), "=r"(seen.z), "=r"(seen.w)
                     : "l"(slot)
                     : "memory");
        if (seen.y == epoch && seen.w == epoch) {
            *value = make_uint2(seen.x, seen.z);
            return true;
        }
        if (look % 64 == 0 && !clock.may_wait(view, peer)) {
            return false;
        }
    }
}

template <int N, typename T>
__device__ bool sum_pair(const bt_p2p_view &view, T *data, int64_t pair, int64_t count,
                         uint32_t epoch)
{
    const uint2 own = load_pair(data, pair, count);
    uint2 x[N];
#pragma unroll
    for (int r = 0; r < N; ++r) {
        if (r != view.rank) {
            send(slots_of(view, r, view.rank, epoch) + pair, own, epoch);
        }
    }
#pragma unroll
    for (int r = 0; r < N; ++r) {
        x[r] = own;
        if (r != view.rank &&
            !receive(view, slots_of(view, view.rank, r, epoch) + pair, epoch, r, &x[r])) {
            return false;
        }
    }
#pragma unroll
    for (int w = 1; w < N; w *= 2) {
#pragma unroll
        for (int i = 0; i + w < N; i += 2 * w) {
            x[i] = add<T>(x[i], x[i + w]);
        }
    }
    store_pair(data, pair, count, x[0]);
    return true;
}

template <int N, typename T>
__global__ void __launch_bounds__(THREADS, 1)
    small_sum_kernel(const __grid_constant__ bt_p2p_view view, T *data, int64_t pairs,
                     int64_t count)
{
    state *own = reinterpret_cast<state *>(view.state);
    uint32_t epoch = *(volatile uint32_t *)&own->small_epoch + 1;
    epoch = epoch == 0 ? 2 : epoch; // slots are zero at first; parities alternate past 2^32 - 1
    bool go_on = true;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < pairs && go_on;
         i += (int64_t)gridDim.x * THREADS) {
        go_on = sum_pair<N, T>(view, data, i, count, epoch);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&own->small_ticket, 1u) == gridDim.x - 1) { // all blocks have read the epoch
            own->small_ticket = 0;
            *(volatile uint32_t *)&own->small_epoch = epoch;
        }
    }
}

template <typename T>
bt_status launch(const bt_p2p_view &view, const bt_p2p_small_sum *args, int64_t pairs,
                 cudaStream_t stream)
{
    T *data = (T *)args->data;
    const unsigned blocks = (unsigned)args->blocks;
    if (view.size == 2) {
        small_sum_kernel<2, T><<<blocks, THREADS, 0, stream>>>(view, data, pairs, args->count);
    } else if (view.size == 4) {
        small_sum_kernel<4, T><<<blocks, THREADS, 0, stream>>>(view, data, pairs, args->count);
    } else {
        small_sum_kernel<8, T><<<blocks, THREADS, 0, stream>>>(view, data, pairs, args->count);
    }
    return bt_cuda_launched("small sum over ranks");
}

} // namespace

bt_status bt_p2p_small_sum_launch(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                                  const bt_p2p_small_sum *args)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return args->dtype == BT_F64 ? launch<double>(*view, args, args->count, on)
                                 : launch<float>(*view, args, bt_div_up(args->count, 2), on);
}
