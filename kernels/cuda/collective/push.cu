// kernels/cuda/collective/push.cu - copies into other ranks' windows, between two barriers
//
// All-gather, all-to-all, broadcast and point to point differ only in source and destination; with
// nothing to copy it is the barrier. After the first barrier the receivers' memory is free, after
// the second the data has arrived. The sender copies, because remote stores are faster than loads.
//
// Shapes   any bytes; 16 at a time where both addresses are aligned
// Cost     bytes of each rank once over its link
#include "kernels/cuda/collective/collective.h"
#include "kernels/cuda/collective/wait.cuh"

namespace
{
using namespace bt_collective;

__device__ void copy_vectors(uint4 *to, const uint4 *from, int64_t count)
{
    constexpr int UNROLL = 8, TILE = THREADS * UNROLL;
    for (int64_t tile = blockIdx.x; tile * TILE < count; tile += gridDim.x) {
        const int64_t base = tile * TILE + threadIdx.x;
        uint4 x[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (base + u * THREADS < count) {
                x[u] = load_data(from + base + u * THREADS);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (base + u * THREADS < count) {
                store_data(to + base + u * THREADS, x[u]);
            }
        }
    }
}

__device__ void copy_bytes(char *to, const char *from, int64_t bytes)
{
    const bool aligned = ((uintptr_t)to & 15) == 0 && ((uintptr_t)from & 15) == 0;
    const int64_t vectors = aligned ? bytes / 16 : 0;
    copy_vectors((uint4 *)to, (const uint4 *)from, vectors);
    for (int64_t i = vectors * 16 + blockIdx.x * (int64_t)THREADS + threadIdx.x; i < bytes;
         i += (int64_t)gridDim.x * THREADS) {
        to[i] = from[i];
    }
}

__global__ void __launch_bounds__(THREADS, 1)
    push_kernel(const __grid_constant__ bt_p2p_view view, const __grid_constant__ bt_p2p_push args)
{
    if (!meet(view, args.mask, args.call, true)) {
        return;
    }
    for (int step = 1; step <= view.size; ++step) { // each rank starts with a different receiver
        const int peer = (view.rank + step) % view.size;
        if (args.bytes[peer] > 0) {
            copy_bytes((char *)args.to[peer], (const char *)args.from[peer], args.bytes[peer]);
        }
    }
    meet(view, args.mask, args.call, false);
}

} // namespace

bt_status bt_p2p_push_launch(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                             const bt_p2p_push *args)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    push_kernel<<<(unsigned)args->blocks, THREADS, 0, on>>>(*view, *args);
    return bt_cuda_launched("push to ranks");
}
