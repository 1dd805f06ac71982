// framework/dist/mpi/transport.c - channels that move bytes with MPI
//
// A write is a copy and a non-blocking send; its bytes count as written when MPI has sent them, so
// that a rank that computes between two collectives owes nobody anything.
//
// Invariants
//   1. No call of MPI waits, but for join and a leave without a failure, which all ranks make.
//   2. There is one send a channel at a time; bytes arrive in the order in which they were written.
#include "framework/dist/mpi/transport.h"

#include <mpi.h>
#include <stdatomic.h>
#include <string.h>

#include "framework/base/mem.h"

enum { TAG_DATA = 1, TAG_ABORT = 2, BUFFER_BYTES = 1 << 16 };

typedef struct mpi_channel {
    int peer;
    bool sending;
    MPI_Request send;
    int64_t sent_bytes; // of the send
    int64_t in_bytes, in_at;
    MPI_Request abort;
    atomic_bool aborted; // by this side
    char out[BUFFER_BYTES], in[BUFFER_BYTES];
} mpi_channel;

static MPI_Comm world = MPI_COMM_NULL;
static bool is_ours; // MPI was initialised here

// The analyzer looks for a wait for each request in the function that makes it; ours are tested by
// later calls.
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)

static bt_status gone(void) { return bt_error(BT_STATUS_UNAVAILABLE, "MPI lost the other rank"); }

static bt_status mpi_write(void *impl, const void *data, int64_t size_bytes, int64_t *done)
{
    mpi_channel *channel = impl;
    *done = 0;
    if (!channel->sending && size_bytes > 0) {
        channel->sent_bytes = size_bytes < BUFFER_BYTES ? size_bytes : BUFFER_BYTES;
        memcpy(channel->out, data, (size_t)channel->sent_bytes);
        if (MPI_Isend(channel->out, (int)channel->sent_bytes, MPI_BYTE, channel->peer, TAG_DATA,
                      world, &channel->send) != MPI_SUCCESS) {
            return gone();
        }
        channel->sending = true;
    }
    int sent = 0;
    if (channel->sending && MPI_Test(&channel->send, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return gone();
    }
    if (sent) {
        channel->sending = false;
        *done = channel->sent_bytes;
    }
    return BT_OK;
}

// Receives the next message, if it has come.
static bt_status receive(mpi_channel *channel)
{
    int there = 0;
    int bytes = 0;
    MPI_Status about;
    if (MPI_Iprobe(channel->peer, MPI_ANY_TAG, world, &there, &about) != MPI_SUCCESS) {
        return gone();
    }
    if (!there) {
        return BT_OK;
    }
    bool whole = MPI_Get_count(&about, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes <= BUFFER_BYTES;
    if (!whole || about.MPI_TAG != TAG_DATA) {
        return gone(); // an abort
    }
    if (MPI_Recv(channel->in, bytes, MPI_BYTE, channel->peer, TAG_DATA, world, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS) {
        return gone();
    }
    channel->in_at = 0;
    channel->in_bytes = bytes;
    return BT_OK;
}

static bt_status mpi_read(void *impl, void *data, int64_t size_bytes, int64_t *done)
{
    mpi_channel *channel = impl;
    *done = 0;
    if (channel->in_at == channel->in_bytes) {
        BT_TRY(receive(channel));
    }
    int64_t there = channel->in_bytes - channel->in_at;
    int64_t size = there < size_bytes ? there : size_bytes;
    memcpy(data, channel->in + channel->in_at, (size_t)size);
    channel->in_at += size;
    *done = size;
    return BT_OK;
}

static bool mpi_closed(void *impl)
{
    mpi_channel *channel = impl;
    int there = 0;
    return MPI_Iprobe(channel->peer, TAG_ABORT, world, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
           there;
}

static void mpi_abort(void *impl)
{
    mpi_channel *channel = impl;
    if (!atomic_exchange(&channel->aborted, true)) {
        (void)MPI_Isend(NULL, 0, MPI_BYTE, channel->peer, TAG_ABORT, world, &channel->abort);
    }
}

static void mpi_close(void *impl)
{
    mpi_channel *channel = impl;
    int sent = 0;
    if (atomic_load(&channel->aborted)) {
        (void)MPI_Test(&channel->abort, &sent, MPI_STATUS_IGNORE); // MPI keeps what is not sent
    }
    if (channel->sending && MPI_Test(&channel->send, &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
        !sent) {
        return; // a failed group: MPI may still read the buffer, which therefore stays
    }
    bt_mem_free(channel);
}

// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

static const bt_channel_ops channel_ops = {mpi_write, mpi_read, mpi_closed, mpi_abort, mpi_close};

static bt_status make_channel(int peer, bt_channel *out)
{
    mpi_channel *channel;
    BT_TRY(bt_mem_alloc(1, sizeof *channel, (void **)&channel));
    channel->peer = peer;
    channel->send = channel->abort = MPI_REQUEST_NULL;
    *out = (bt_channel){.ops = &channel_ops, .impl = channel};
    return BT_OK;
}

static bt_status initialise(void)
{
    int done = 0;
    int finalised = 0;
    int level = MPI_THREAD_SINGLE;
    if (MPI_Finalized(&finalised) != MPI_SUCCESS || finalised) {
        return bt_error(BT_STATUS_UNAVAILABLE, "MPI has been finalised in this process");
    }
    bool ok = MPI_Initialized(&done) == MPI_SUCCESS;
    if (ok && done) {
        ok = MPI_Query_thread(&level) == MPI_SUCCESS;
    } else if (ok) {
        ok = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS;
        is_ours = ok;
    }
    if (!ok) {
        return bt_error(BT_STATUS_UNAVAILABLE, "MPI cannot be initialised");
    }
    // An abort may come from any thread.
    return level == MPI_THREAD_MULTIPLE
               ? BT_OK
               : bt_error(BT_STATUS_UNAVAILABLE,
                          "MPI is initialised for thread level %d, MPI_THREAD_MULTIPLE (%d) is "
                          "needed",
                          level, MPI_THREAD_MULTIPLE);
}

static void leave(bool failed)
{
    if (failed) {
        return;
    }
    (void)MPI_Comm_free(&world);
    world = MPI_COMM_NULL;
    if (is_ours) {
        (void)MPI_Finalize();
    }
}

static bt_status join(int *rank, int *size)
{
    BT_TRY(initialise());
    if (MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(world, rank) != MPI_SUCCESS || MPI_Comm_size(world, size) != MPI_SUCCESS) {
        return bt_error(BT_STATUS_UNAVAILABLE, "MPI cannot create a communicator");
    }
    return BT_OK;
}

const bt_mpi_transport *bt_mpi_entry(void)
{
    static const bt_mpi_transport transport = {BT_MPI_ABI, join, make_channel, leave};
    return &transport;
}
