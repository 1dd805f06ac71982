// kernels/cuda/collective/nccl.cu - NCCL, opened on first use
//
// Invariants
//   1. A communicator is non-blocking: no call waits for another rank without a bound. A call that
//      answers 'in progress' is not in the stream yet; it is followed until it is, because work
//      given to the stream next would run before it.
//   2. Calls and the abort of a communicator exclude each other: the abort frees it.
// Order    of NCCL's own sums: chosen by NCCL from size, type and topology, and the same in every
//          run of one version on one topology; not a tree over ranks
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "kernels/cuda/collective/collective.h"

#ifdef BT_NCCL
#include <nccl.h>

#define NCCL_LIST(X)                                                                               \
    X(ncclGetVersion)                                                                              \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommAbort)                                                                               \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclAllReduce)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllGather)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)

struct bt_nccl_comm {
    const bt_device *device; // unowned
    pthread_mutex_t lock;
    ncclComm_t comm; // NULL: aborted
    int size;
    int64_t timeout_ns;
};

namespace
{

static_assert(sizeof(ncclUniqueId) == BT_NCCL_ID_BYTES,
              "BT_NCCL_ID_BYTES must be the size of an id");

struct nccl_table {
    char reason[256]; // "": complete
#define NCCL_FIELD(name) decltype(&name) name##_;
    NCCL_LIST(NCCL_FIELD)
#undef NCCL_FIELD
};

nccl_table find_nccl()
{
    nccl_table table = {};
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)snprintf(table.reason, sizeof table.reason, "%s", dlerror());
        return table;
    }
#define NCCL_FIND(name)                                                                            \
    table.name##_ = (decltype(&name))dlsym(library, #name);                                        \
    if (table.name##_ == NULL) {                                                                   \
        (void)snprintf(table.reason, sizeof table.reason, "libnccl.so.2 has no " #name);           \
    }
    NCCL_LIST(NCCL_FIND)
#undef NCCL_FIND
    return table;
}

const nccl_table &nccl()
{
    static const nccl_table table = find_nccl();
    return table;
}

bt_status check(ncclResult_t result, const char *what)
{
    return result == ncclSuccess ? BT_OK
                                 : bt_error(BT_STATUS_UNAVAILABLE, "%s: NCCL error %s (%d): %s",
                                            what, nccl().ncclGetErrorString_(result), (int)result,
                                            nccl().ncclGetLastError_(NULL));
}

bt_status nccl_ready(int *version)
{
    if (nccl().reason[0] != '\0') {
        return bt_error(BT_STATUS_UNAVAILABLE, "NCCL is unavailable: %s", nccl().reason);
    }
    return check(nccl().ncclGetVersion_(version), "reading the version of NCCL");
}

bt_status nccl_id(char id[BT_NCCL_ID_BYTES])
{
    ncclUniqueId made;
    BT_TRY(check(nccl().ncclGetUniqueId_(&made), "making the id of a communicator"));
    memcpy(id, &made, sizeof made);
    return BT_OK;
}

bt_status aborted(void)
{
    return bt_error(BT_STATUS_INTERRUPTED, "the communicator has been aborted");
}

// Polls a call that is in progress until it is enqueued in the stream.
bt_status follow(bt_nccl_comm *comm, ncclResult_t result, const char *what)
{
    const int64_t deadline_ns = bt_clock_ns() + comm->timeout_ns;
    while (result == ncclInProgress) {
        const struct timespec pause = {0, 20000};
        if (bt_clock_ns() > deadline_ns) {
            return bt_error(BT_STATUS_UNAVAILABLE, "%s: NCCL waited %.1f s for other ranks", what,
                            (double)comm->timeout_ns / 1e9);
        }
        (void)nanosleep(&pause, NULL);
        (void)pthread_mutex_lock(&comm->lock);
        ncclResult_t asked = comm->comm != NULL ? nccl().ncclCommGetAsyncError_(comm->comm, &result)
                                                : ncclInternalError;
        bool gone = comm->comm == NULL;
        (void)pthread_mutex_unlock(&comm->lock);
        if (gone) {
            return aborted();
        }
        result = asked != ncclSuccess ? asked : result;
    }
    return check(result, what);
}

void nccl_abort(bt_nccl_comm *comm)
{
    (void)pthread_mutex_lock(&comm->lock);
    if (comm->comm != NULL) {
        (void)nccl().ncclCommAbort_(comm->comm);
        comm->comm = NULL;
    }
    (void)pthread_mutex_unlock(&comm->lock);
}

void nccl_leave(bt_nccl_comm *comm)
{
    if (comm->comm != NULL) {
        ncclResult_t result = nccl().ncclCommFinalize_(comm->comm);
        bt_error_quiet_begin();
        bt_status ended = follow(comm, result, "leaving");
        bt_error_quiet_end();
        if (ended == BT_OK) {
            (void)nccl().ncclCommDestroy_(comm->comm);
            comm->comm = NULL;
        }
    }
    nccl_abort(comm);
    (void)pthread_mutex_destroy(&comm->lock);
    bt_mem_free(comm);
}

bt_status nccl_join(bt_device *device, const char id[BT_NCCL_ID_BYTES], int rank, int size,
                    int64_t timeout_ns, bt_nccl_comm **out)
{
    bt_nccl_comm *comm = NULL;
    ncclUniqueId given;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    memcpy(&given, id, sizeof given);
    BT_TRY(bt_mem_alloc(1, sizeof *comm, (void **)&comm));
    comm->device = device;
    comm->size = size;
    comm->timeout_ns = timeout_ns;
    (void)pthread_mutex_init(&comm->lock, NULL);
    (void)bt_cuda_stream_of(device, NULL);
    ncclResult_t result = nccl().ncclCommInitRankConfig_(&comm->comm, size, given, rank, &config);
    bt_status status = follow(comm, result, "joining a communicator");
    if (status != BT_OK) {
        nccl_abort(comm);
        nccl_leave(comm);
        return status;
    }
    *out = comm;
    return BT_OK;
}

bt_status nccl_check(bt_nccl_comm *comm)
{
    ncclResult_t state = ncclSuccess;
    (void)pthread_mutex_lock(&comm->lock);
    bool gone = comm->comm == NULL;
    ncclResult_t asked = gone ? ncclSuccess : nccl().ncclCommGetAsyncError_(comm->comm, &state);
    (void)pthread_mutex_unlock(&comm->lock);
    if (gone) {
        return aborted();
    }
    state = asked != ncclSuccess ? asked : state;
    return state == ncclInProgress ? BT_OK : check(state, "an NCCL collective");
}

// Makes a call under the lock, then polls it. `call` gets the communicator and the stream.
template <typename F>
bt_status submit(bt_nccl_comm *comm, bt_stream stream, const char *what, F call)
{
    cudaStream_t on = bt_cuda_stream_of(comm->device, stream);
    (void)pthread_mutex_lock(&comm->lock);
    bool gone = comm->comm == NULL;
    ncclResult_t result = gone ? ncclSuccess : call(comm->comm, on);
    (void)pthread_mutex_unlock(&comm->lock);
    return gone ? aborted() : follow(comm, result, what);
}

ncclDataType_t type_of(bt_dtype dtype)
{
    switch (dtype) {
    case BT_F64:
        return ncclFloat64;
    case BT_BF16:
        return ncclBfloat16;
    case BT_I64:
        return ncclInt64;
    case BT_I32:
        return ncclInt32;
    default:
        return ncclFloat32;
    }
}

bt_status nccl_all_reduce(bt_nccl_comm *comm, void *data, int64_t count, bt_dtype dtype,
                          bool maximum, bt_stream stream)
{
    return submit(comm, stream, "all_reduce", [&](ncclComm_t on, cudaStream_t queue) {
        return nccl().ncclAllReduce_(data, data, (size_t)count, type_of(dtype),
                                     maximum ? ncclMax : ncclSum, on, queue);
    });
}

bt_status nccl_reduce_scatter(bt_nccl_comm *comm, const void *in, void *out, int64_t count,
                              bt_dtype dtype, bool maximum, bt_stream stream)
{
    return submit(comm, stream, "reduce_scatter", [&](ncclComm_t on, cudaStream_t queue) {
        return nccl().ncclReduceScatter_(in, out, (size_t)count, type_of(dtype),
                                         maximum ? ncclMax : ncclSum, on, queue);
    });
}

bt_status nccl_all_gather(bt_nccl_comm *comm, const void *in, void *out, int64_t size_bytes,
                          bt_stream stream)
{
    return submit(comm, stream, "all_gather", [&](ncclComm_t on, cudaStream_t queue) {
        return nccl().ncclAllGather_(in, out, (size_t)size_bytes, ncclUint8, on, queue);
    });
}

bt_status nccl_broadcast(bt_nccl_comm *comm, void *data, int64_t size_bytes, int root,
                         bt_stream stream)
{
    return submit(comm, stream, "broadcast", [&](ncclComm_t on, cudaStream_t queue) {
        return nccl().ncclBroadcast_(data, data, (size_t)size_bytes, ncclUint8, root, on, queue);
    });
}

struct legs {
    const void *const *out;
    const int64_t *out_bytes;
    void *const *in;
    const int64_t *in_bytes;
};

ncclResult_t exchange_all(const legs &all, int size, ncclComm_t on, cudaStream_t queue)
{
    ncclResult_t first = nccl().ncclGroupStart_();
    for (int peer = 0; peer < size && first == ncclSuccess; ++peer) {
        if (all.out[peer] != NULL) {
            first = nccl().ncclSend_(all.out[peer], (size_t)all.out_bytes[peer], ncclUint8, peer,
                                     on, queue);
        }
        if (all.in[peer] != NULL && first == ncclSuccess) {
            first = nccl().ncclRecv_(all.in[peer], (size_t)all.in_bytes[peer], ncclUint8, peer, on,
                                     queue);
        }
    }
    ncclResult_t ended = nccl().ncclGroupEnd_();
    return first != ncclSuccess && first != ncclInProgress ? first : ended;
}

bt_status nccl_exchange(bt_nccl_comm *comm, const void *const *out, const int64_t *out_bytes,
                        void *const *in, const int64_t *in_bytes, bt_stream stream)
{
    const legs all = {out, out_bytes, in, in_bytes};
    return submit(comm, stream, "an exchange", [&](ncclComm_t on, cudaStream_t queue) {
        return exchange_all(all, comm->size, on, queue);
    });
}

} // namespace

void bt_collective_nccl_table(bt_device_collectives *table)
{
    table->nccl_ready = nccl_ready;
    table->nccl_id = nccl_id;
    table->nccl_join = nccl_join;
    table->nccl_all_reduce = nccl_all_reduce;
    table->nccl_reduce_scatter = nccl_reduce_scatter;
    table->nccl_all_gather = nccl_all_gather;
    table->nccl_broadcast = nccl_broadcast;
    table->nccl_exchange = nccl_exchange;
    table->nccl_check = nccl_check;
    table->nccl_abort = nccl_abort;
    table->nccl_leave = nccl_leave;
}

#else

static bt_status no_nccl(int *version)
{
    *version = 0;
    return bt_error(BT_STATUS_UNAVAILABLE,
                    "NCCL is unavailable: this program was built without nccl.h");
}

void bt_collective_nccl_table(bt_device_collectives *table) { table->nccl_ready = no_nccl; }

#endif
