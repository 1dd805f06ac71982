// kernels/cuda/collective/wait.cuh - flags between GPUs
//
// Block b of a rank synchronizes with block b of the others through flags in the windows; there is
// no other synchronization. A release by one thread after a barrier of its block publishes the
// stores of the whole block, an acquire before a barrier makes them visible to it (PTX memory
// model: causality order is transitive over bar.sync).
//
// A flag is 64 bits: a counter of the meetings of this block with that rank, which never goes back,
// and a hash of the collective. A peer is at most one meeting ahead: when a call begins, that is
// the end of the same call, so the hash must be ours; when it ends, it may be the next call.
#ifndef BT_KERNELS_CUDA_COLLECTIVE_WAIT_CUH
#define BT_KERNELS_CUDA_COLLECTIVE_WAIT_CUH

#include "kernels/collectives.h"
#include "kernels/cuda/cuda.cuh"

namespace bt_collective
{

constexpr int THREADS = 512;
// How often a thread that waits reads the abort word, which is in host memory. All threads of a sum
// of 256 KiB take 0.65 ms to read it, and the other rank waits for them meanwhile: with a shorter
// period each rank would make the other read it again.
constexpr uint64_t POLL_NS = 2000000;

// The head of a window: written by peers.
struct head {
    uint64_t arrived[BT_P2P_BLOCKS_MAX][BT_P2P_RANKS_MAX];
    uint32_t ready[2][BT_P2P_RANKS_MAX]; // of handshakes, by phase; 1: set
};
static_assert(sizeof(head) <= BT_P2P_WORDS_OFFSET &&
                  BT_P2P_WORDS_OFFSET + 4 * BT_P2P_WORDS <= BT_P2P_HEAD_BYTES,
              "flags and words must fit into the head of the window");

// State of a view.
struct state {
    uint32_t meetings[BT_P2P_BLOCKS_MAX][BT_P2P_RANKS_MAX];
    uint32_t small_epoch, small_ticket; // of low-latency sums
    uint32_t gave_up;                   // 1: a wait has ended without its peer; later ones end too
};
static_assert(sizeof(state) <= BT_P2P_STATE_BYTES,
              "the state must fit into its bytes of the window");

static __device__ __forceinline__ head *head_of(const bt_p2p_view &view, int rank)
{
    return reinterpret_cast<head *>(view.window[rank]);
}

static __device__ __forceinline__ uint64_t load_acquire(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

static __device__ __forceinline__ void store_release(uint64_t *to, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

static __device__ __forceinline__ uint32_t load_host(const uint32_t *from)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

static __device__ __forceinline__ uint64_t now_ns()
{
    uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

static __device__ __forceinline__ void say_fault(const bt_p2p_view &view, uint32_t kind, int peer)
{
    *(volatile uint32_t *)view.fault = kind + 1u + (uint32_t)peer;
    __threadfence_system();
}

// A wait ends without its peer. The view's later waits end at once, so that the calls that are
// queued behind this one take no POLL_NS each.
static __device__ __forceinline__ void give_up(const bt_p2p_view &view)
{
    *(volatile uint32_t *)&reinterpret_cast<state *>(view.state)->gave_up = 1;
}

// False when the host aborts or the timeout has passed.
static __device__ __noinline__ bool may_wait(const bt_p2p_view &view, uint64_t since_ns, int peer)
{
    bool go_on = load_host(view.abort_word) == 0;
    if (go_on && view.patience_ns != 0 && now_ns() - since_ns > view.patience_ns) {
        say_fault(view, BT_P2P_FAULT_SILENT, peer);
        go_on = false;
    }
    if (!go_on) {
        give_up(view);
    }
    return go_on;
}

// The slow path of a wait, every 64th look.
struct wait_clock {
    uint64_t since_ns = 0, polled_ns = 0;

    __device__ __forceinline__ bool may_wait(const bt_p2p_view &view, int peer)
    {
        const uint64_t now = now_ns();
        if (since_ns == 0) {
            since_ns = polled_ns = now;
        }
        if (*(volatile const uint32_t *)&reinterpret_cast<state *>(view.state)->gave_up != 0) {
            return false;
        }
        if (now - polled_ns < POLL_NS) {
            return true;
        }
        polled_ns = now;
        return bt_collective::may_wait(view, since_ns, peer);
    }
};

// False: the call was aborted. `begins`: the hash is compared.
static __device__ __forceinline__ bool wait_for(const bt_p2p_view &view, const uint64_t *flag,
                                                uint32_t meeting, uint32_t call, bool begins,
                                                int peer)
{
    wait_clock clock;
    for (uint32_t look = 1;; ++look) {
        uint64_t seen = load_acquire(flag);
        if ((int32_t)((uint32_t)(seen >> 32) - meeting) >= 0) {
            if (begins && (uint32_t)seen != call) {
                say_fault(view, BT_P2P_FAULT_OTHER_CALL, peer);
                give_up(view);
                return false;
            }
            return true;
        }
        if (look % 64 == 0 && !clock.may_wait(view, peer)) {
            return false;
        }
    }
}

// Barrier of this block and those of the ranks in the mask; false for the whole block: the call was
// aborted.
static __device__ __forceinline__ bool meet(const bt_p2p_view &view, uint32_t mask, uint32_t call,
                                            bool begins)
{
    bool go_on = true;
    __syncthreads();
    const int peer = (int)threadIdx.x;
    if (peer < view.size && (mask >> peer & 1u) != 0 && peer != view.rank) {
        state *own = reinterpret_cast<state *>(view.state);
        const uint32_t meeting = own->meetings[blockIdx.x][peer] + 1;
        own->meetings[blockIdx.x][peer] = meeting;
        store_release(&head_of(view, peer)->arrived[blockIdx.x][view.rank],
                      (uint64_t)meeting << 32 | call);
        go_on = wait_for(view, &head_of(view, view.rank)->arrived[blockIdx.x][peer], meeting, call,
                         begins, peer);
    }
    return __syncthreads_and(go_on) != 0;
}

// Loads data of other ranks, bypassing L1, which is not coherent.
static __device__ __forceinline__ uint4 load_data(const uint4 *from)
{
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
}

static __device__ __forceinline__ void store_data(uint4 *to, uint4 value)
{
    asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(value.x),
                 "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
}

template <typename T> static __device__ __forceinline__ T load_element(const T *from)
{
    return *(const volatile T *)from;
}
template <> __device__ __forceinline__ bf16 load_element<bf16>(const bf16 *from)
{
    const unsigned short bits = *(const volatile unsigned short *)from;
    return __ushort_as_bfloat16(bits);
}

} // namespace bt_collective
#endif
