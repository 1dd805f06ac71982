#include "tests/dist/fake_gpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/dist/reduce.h"

typedef struct fake_head {
    _Atomic uint64_t arrived[BT_P2P_RANKS_MAX]; // meeting << 32 | call
    _Atomic uint32_t ready[2][BT_P2P_RANKS_MAX];
} fake_head;

static bt_status ready_status;
static bool is_exhausted, fails_import;

static bt_status p2p_ready(bt_device *device)
{
    (void)device;
    return ready_status == BT_OK ? BT_OK : bt_error(ready_status, "this GPU shares no memory");
}

// ---- windows -----------------------------------------------------------------------------------

static bt_status map(int fd, size_t size_bytes, bt_window *out)
{
    void *base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *out = (bt_window){.base = base, .size_bytes = size_bytes};
    if (base == MAP_FAILED) {
        out->base = NULL;
        return bt_error(BT_STATUS_UNAVAILABLE, "cannot map a window");
    }
    return BT_OK;
}

static bt_status window_create(bt_device *device, size_t size_bytes, bt_window *out, int *fd)
{
    (void)device;
    size_bytes = (size_bytes + 4095) / 4096 * 4096;
    *fd = is_exhausted ? -1 : memfd_create("window", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)size_bytes) != 0) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "no memory for a window");
    }
    return map(*fd, size_bytes, out);
}

static bt_status window_import(bt_device *device, int fd, size_t size_bytes, bt_window *out)
{
    (void)device;
    if (fails_import) {
        fails_import = false;
        return bt_error(BT_STATUS_UNAVAILABLE, "no peer access");
    }
    return map(fd, size_bytes, out);
}

static void window_destroy(bt_device *device, bt_window *window)
{
    (void)device;
    (void)munmap(window->base, window->size_bytes);
    window->base = NULL;
}

// ---- waits -------------------------------------------------------------------------------------

static fake_head *head_of(const bt_p2p_view *view, int rank)
{
    return (fake_head *)(void *)view->window[rank];
}

static void say_fault(const bt_p2p_view *view, uint32_t kind, int peer)
{
    __atomic_store_n(view->fault, kind + 1U + (uint32_t)peer, __ATOMIC_RELEASE);
}

static bool may_wait(const bt_p2p_view *view, int64_t since_ns, int peer)
{
    (void)sched_yield();
    if (__atomic_load_n(view->abort_word, __ATOMIC_ACQUIRE) != 0) {
        return false;
    }
    if ((uint64_t)(bt_clock_ns() - since_ns) > view->patience_ns) {
        say_fault(view, BT_P2P_FAULT_SILENT, peer);
        return false;
    }
    return true;
}

static bool wait_for(const bt_p2p_view *view, int peer, uint32_t meeting, uint32_t call,
                     bool begins)
{
    int64_t since_ns = bt_clock_ns();
    _Atomic uint64_t *flag = &head_of(view, view->rank)->arrived[peer];
    for (;;) {
        uint64_t seen = atomic_load(flag);
        if ((int32_t)((uint32_t)(seen >> 32) - meeting) >= 0) {
            bool same = !begins || (uint32_t)seen == call;
            if (!same) {
                say_fault(view, BT_P2P_FAULT_OTHER_CALL, peer);
            }
            return same;
        }
        if (!may_wait(view, since_ns, peer)) {
            return false;
        }
    }
}

static bool meet(const bt_p2p_view *view, uint32_t mask, uint32_t call, bool begins)
{
    bool go_on = true;
    for (int peer = 0; peer < view->size; ++peer) {
        if ((mask >> peer & 1) != 0 && peer != view->rank) {
            uint64_t meeting = ++view->state[peer];
            atomic_store(&head_of(view, peer)->arrived[view->rank], meeting << 32 | call);
        }
    }
    for (int peer = 0; peer < view->size && go_on; ++peer) {
        if ((mask >> peer & 1) != 0 && peer != view->rank) {
            go_on = wait_for(view, peer, view->state[peer], call, begins);
        }
    }
    return go_on;
}

// ---- kernels -----------------------------------------------------------------------------------

static bt_status fold(bt_device *device, bt_stream stream, const bt_p2p_sum *args)
{
    (void)device, (void)stream;
    size_t bytes = (size_t)args->count * bt_dtype_size(args->dtype);
    void *sum = malloc(bytes + 1);
    if (args->count > 0) {
        bt_reduce_tree(args->in, args->in_count, sum, args->count, args->dtype,
                       args->maximum ? BT_REDUCE_MAX : BT_REDUCE_SUM);
        if (args->base != NULL) {
            bt_reduce_tree((const void *[]){sum, args->base}, 2, sum, args->count, args->dtype,
                           BT_REDUCE_SUM);
        }
    }
    for (int i = 0; i < args->out_count; ++i) {
        memcpy(args->out[i], sum, bytes);
    }
    free(sum);
    return BT_OK;
}

static bt_status sum(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                     const bt_p2p_sum *args)
{
    if (args->blocks < 1 || args->blocks > BT_P2P_BLOCKS_MAX) {
        return bt_error(BT_STATUS_INTERNAL, "%d blocks", args->blocks);
    }
    if (meet(view, ~0U, args->call, true)) {
        BT_TRY(fold(device, stream, args));
        (void)meet(view, ~0U, args->call, false);
    }
    return BT_OK;
}

static bt_status small_sum(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                           const bt_p2p_small_sum *args)
{
    size_t bytes = (size_t)args->count * bt_dtype_size(args->dtype);
    bt_p2p_sum all = {.in_count = view->size,
                      .out_count = 1,
                      .out = {args->data},
                      .dtype = args->dtype,
                      .count = args->count};
    if (bytes > BT_P2P_LOW_LATENCY_BYTES) {
        return bt_error(BT_STATUS_INTERNAL, "%zu bytes in a small sum", bytes);
    }
    for (int rank = 0; rank < view->size; ++rank) {
        all.in[rank] = view->window[rank] + BT_P2P_HEAD_BYTES;
    }
    memcpy(view->window[view->rank] + BT_P2P_HEAD_BYTES, args->data, bytes);
    if (meet(view, ~0U, 0, false)) {
        BT_TRY(fold(device, stream, &all));
        (void)meet(view, ~0U, 0, false);
    }
    return BT_OK;
}

static bt_status push(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                      const bt_p2p_push *args)
{
    (void)device, (void)stream;
    if (!meet(view, args->mask, args->call, true)) {
        return BT_OK;
    }
    for (int peer = 0; peer < view->size; ++peer) {
        if (args->bytes[peer] > 0) {
            memcpy(args->to[peer], args->from[peer], (size_t)args->bytes[peer]);
        }
    }
    (void)meet(view, args->mask, args->call, false);
    return BT_OK;
}

static bt_status handshake(bt_device *device, bt_stream stream, const bt_p2p_view *view, int phase)
{
    (void)device, (void)stream;
    for (int peer = 0; peer < view->size; ++peer) {
        if (peer != view->rank) {
            atomic_store(&head_of(view, peer)->ready[phase][view->rank], 1);
        }
    }
    for (int peer = 0; peer < view->size; ++peer) {
        _Atomic uint32_t *flag = &head_of(view, view->rank)->ready[phase][peer];
        while (peer != view->rank && atomic_load(flag) == 0) {
            (void)sched_yield();
        }
        atomic_store(flag, 0);
    }
    return BT_OK;
}

static void handshake_release(bt_device *device, bt_stream stream, const bt_p2p_view *view)
{
    (void)device, (void)stream;
    for (int peer = 0; peer < view->size; ++peer) {
        atomic_store(&head_of(view, view->rank)->ready[0][peer], 1);
        atomic_store(&head_of(view, view->rank)->ready[1][peer], 1);
    }
    uint32_t *words = (uint32_t *)(void *)(view->window[view->rank] + BT_P2P_WORDS_OFFSET);
    for (int i = 0; i < BT_P2P_WORDS; ++i) {
        __atomic_store_n(&words[i], 1, __ATOMIC_RELEASE);
    }
}

static bt_status await_mark(bt_device *device, bt_stream stream, uint32_t *word)
{
    (void)device, (void)stream;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        (void)sched_yield();
    }
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    return BT_OK;
}

static bt_status mark(bt_device *device, bt_stream stream, uint32_t *word, uint32_t value)
{
    (void)device, (void)stream;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return BT_OK;
}

static bt_status nccl_ready(int *version)
{
    *version = 0;
    return bt_error(BT_STATUS_UNAVAILABLE, "no NCCL: this is not a GPU");
}

void fake_gpu_exhaust(void) { is_exhausted = true; }

void fake_gpu_fail_import(void) { fails_import = true; }

const bt_device_collectives *fake_gpu_table(bt_status ready)
{
    static const bt_device_collectives table = {.abi = BT_COLLECTIVES_ABI,
                                                .p2p_ready = p2p_ready,
                                                .window_create = window_create,
                                                .window_import = window_import,
                                                .window_destroy = window_destroy,
                                                .sum = sum,
                                                .small_sum = small_sum,
                                                .push = push,
                                                .fold = fold,
                                                .handshake = handshake,
                                                .handshake_release = handshake_release,
                                                .mark = mark,
                                                .await_mark = await_mark,
                                                .nccl_ready = nccl_ready};
    ready_status = ready;
    return &table;
}
