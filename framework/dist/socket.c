// framework/dist/socket.c - a channel over a connected TCP socket
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/dist/cpu_group.h"

typedef struct socket_channel {
    int socket; // owned
} socket_channel;

static bt_status gone(void) { return bt_error(BT_STATUS_UNAVAILABLE, "the connection is closed"); }

static bt_status moved(ssize_t result, int64_t *done)
{
    bool later = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    *done = result > 0 ? result : 0;
    return result >= 0 || later ? BT_OK : gone();
}

static bt_status socket_write(void *impl, const void *data, int64_t size_bytes, int64_t *done)
{
    int socket = ((socket_channel *)impl)->socket;
    return moved(send(socket, data, (size_t)size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT), done);
}

static bt_status socket_read(void *impl, void *data, int64_t size_bytes, int64_t *done)
{
    ssize_t result = recv(((socket_channel *)impl)->socket, data, (size_t)size_bytes, MSG_DONTWAIT);
    if (result == 0 && size_bytes > 0) {
        *done = 0;
        return gone();
    }
    return moved(result, done);
}

static bool socket_closed(void *impl)
{
    char byte;
    ssize_t result =
        recv(((socket_channel *)impl)->socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    bool later = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return result <= 0 && !later;
}

static void socket_abort(void *impl)
{
    (void)shutdown(((socket_channel *)impl)->socket, SHUT_RDWR);
}

static void socket_close(void *impl)
{
    (void)close(((socket_channel *)impl)->socket);
    bt_mem_free(impl);
}

static const bt_channel_ops socket_ops = {socket_write, socket_read, socket_closed, socket_abort,
                                          socket_close};

bt_status bt_socket_channel(int socket, bt_channel *channel)
{
    socket_channel *impl;
    bt_status status = bt_mem_alloc(1, sizeof *impl, (void **)&impl);
    if (status != BT_OK) {
        (void)close(socket);
        return status;
    }
    int on = 1; // small messages at once; a failure costs time only
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    impl->socket = socket;
    *channel = (bt_channel){.ops = &socket_ops, .impl = impl};
    return BT_OK;
}
