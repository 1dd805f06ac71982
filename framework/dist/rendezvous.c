#include "framework/dist/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/dist/group.h"

static const uint64_t hello_magic = 0x6274686931000002;

// The first message of a connecting rank. Sent without conversion: the magic number ensures that
// ranks have the same build and byte order.
typedef struct hello {
    uint64_t magic, job;
    int32_t rank, size;
    uint32_t port; // where it listens itself
    uint32_t unused;
    bt_place place;
} hello;

// Rank 0's answer: a status and its message, then `size` addresses.
typedef struct answer {
    int32_t status; // bt_status
    char text[252];
} answer;

typedef union inet_address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_storage storage;
} inet_address;

typedef struct where {
    inet_address address;
    uint32_t bytes;
    uint32_t unused;
    bt_place place;
} where;

typedef struct meeting {
    const bt_rendezvous *who;
    int64_t deadline_ns;
    int listener; // -1: none
    uint32_t port;
    bt_place place; // of this rank
    where *table;   // owned [size]
    int *sockets;
} meeting;

static int left_ms(const meeting *m)
{
    int64_t left = (m->deadline_ns - bt_clock_ns()) / 1000000;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static bool is_late(const meeting *m) { return bt_clock_ns() >= m->deadline_ns; }

// Waits until the socket is ready; false on timeout.
static bool wait_ready(const meeting *m, int socket, short events)
{
    struct pollfd ready = {.fd = socket, .events = events};
    while (!is_late(m)) {
        int count = poll(&ready, 1, left_ms(m));
        if (count > 0) {
            return true;
        }
        if (count < 0 && errno != EINTR) {
            return false;
        }
    }
    return false;
}

// Transfers all bytes; false: connection closed, error or timeout.
static bool write_all(const meeting *m, int socket, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t count =
            send(socket, (const char *)data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count > 0) {
            done += (size_t)count;
        } else if (errno != EAGAIN && errno != EINTR) {
            return false;
        } else if (!wait_ready(m, socket, POLLOUT)) {
            return false;
        }
    }
    return true;
}

static bool read_all(const meeting *m, int socket, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t count = recv(socket, (char *)data + done, size - done, MSG_DONTWAIT);
        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else if (!wait_ready(m, socket, POLLIN)) {
            return false;
        }
    }
    return true;
}

static struct addrinfo *resolve(const char *host, int port, bool passive, bt_status *status)
{
    char service[16];
    (void)snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
    struct addrinfo *list = NULL;
    int error = getaddrinfo(host, service, &hints, &list);
    *status = error == 0 ? BT_OK
                         : bt_error(BT_STATUS_UNAVAILABLE, "cannot resolve the host '%s': %s", host,
                                    gai_strerror(error));
    return error == 0 ? list : NULL;
}

static in_port_t *port_of(inet_address *at)
{
    return at->any.sa_family == AF_INET ? &at->in.sin_port : &at->in6.sin6_port;
}

static int listen_at(const struct addrinfo *at, bool reuse)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd >= 0 && reuse) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (fd >= 0 &&
        (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BT_GROUP_MAX_SIZE) != 0)) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

// Rank 0 listens at its known address, the others at any port of the family that reached rank 0.
static bt_status listen_as_root(meeting *m)
{
    bt_status status;
    struct addrinfo *list = resolve(m->who->host, m->who->port, true, &status);
    BT_TRY(status);
    for (struct addrinfo *at = list; at != NULL && m->listener < 0; at = at->ai_next) {
        m->listener = listen_at(at, true);
    }
    int error = errno;
    freeaddrinfo(list);
    if (m->listener < 0) {
        return bt_error(BT_STATUS_UNAVAILABLE, "rank 0 cannot listen at %s port %d: %s",
                        m->who->host, m->who->port, strerror(error));
    }
    return BT_OK;
}

static bt_status listen_anywhere(meeting *m, int family)
{
    inet_address at = {.storage = {.ss_family = (sa_family_t)family}};
    socklen_t bytes = family == AF_INET ? sizeof at.in : sizeof at.in6;
    struct addrinfo any = {.ai_family = family, .ai_addr = &at.any, .ai_addrlen = bytes};
    m->listener = listen_at(&any, false);
    if (m->listener < 0 || getsockname(m->listener, &at.any, &bytes) != 0) {
        return bt_error(BT_STATUS_UNAVAILABLE, "rank %d cannot listen: %s", m->who->rank,
                        strerror(errno));
    }
    m->port = ntohs(*port_of(&at));
    return BT_OK;
}

// TCP lets a socket connect to itself if nothing listens at the port and the system assigns that
// port to the socket. A rank that retries until rank 0 listens would then talk to itself and block
// rank 0's port.
bool bt_rendezvous_is_self(int socket)
{
    inet_address own = {.storage = {.ss_family = AF_UNSPEC}}, peer = own;
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    return getsockname(socket, &own.any, &own_bytes) == 0 &&
           getpeername(socket, &peer.any, &peer_bytes) == 0 && own_bytes == peer_bytes &&
           memcmp(&own, &peer, own_bytes) == 0;
}

// -1: not reached, errno says why.
static int connect_to(const meeting *m, const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    int error = connect(fd, address, bytes) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        socklen_t length = sizeof error;
        bool ready = wait_ready(m, fd, POLLOUT);
        if (!ready || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
            error = ETIMEDOUT;
        }
    }
    error = error == 0 && bt_rendezvous_is_self(fd) ? ECONNREFUSED : error;
    if (error != 0) {
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bt_status connect_root(meeting *m, int *family)
{
    bt_status status;
    struct addrinfo *list = resolve(m->who->host, m->who->port, false, &status);
    BT_TRY(status);
    int fd = -1;
    int error = 0;
    while (fd < 0 && !is_late(m)) { // rank 0 may start later
        for (struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
            fd = connect_to(m, at->ai_addr, at->ai_addrlen);
            error = fd < 0 ? errno : 0;
            *family = at->ai_family;
        }
        if (fd < 0) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "rank %d cannot reach rank 0 at %s port %d within %.0f s: %s", m->who->rank,
                        m->who->host, m->who->port, (double)m->who->timeout_ns / 1e9,
                        strerror(error));
    }
    m->sockets[0] = fd;
    return BT_OK;
}

static hello greeting(const meeting *m)
{
    return (hello){.magic = hello_magic,
                   .job = m->who->job,
                   .rank = m->who->rank,
                   .size = m->who->size,
                   .port = m->port,
                   .place = m->place};
}

static bt_status check_hello(const meeting *m, const hello *said)
{
    const bt_rendezvous *who = m->who;
    if (said->magic != hello_magic) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a program of another build has connected");
    }
    if (said->job != who->job) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a rank of another job has connected: expected job %016" PRIx64
                        ", got %016" PRIx64,
                        who->job, said->job);
    }
    if (said->size != who->size) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "rank %d was started for %d ranks, rank %d for %d", said->rank, said->size,
                        who->rank, who->size);
    }
    if (said->rank <= 0 || said->rank >= who->size || said->rank == who->rank) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "rank %d does not exist among %d ranks",
                        said->rank, who->size);
    }
    if (m->sockets[said->rank] >= 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "two processes were started as rank %d",
                        said->rank);
    }
    return BT_OK;
}

static bt_status missing(const meeting *m, int lowest)
{
    char ranks[128] = "";
    size_t length = 0;
    for (int rank = lowest; rank < m->who->size && length + 8 < sizeof ranks; ++rank) {
        if (m->sockets[rank] < 0 && rank != m->who->rank) {
            int wrote = snprintf(ranks + length, sizeof ranks - length, "%s%d",
                                 length > 0 ? ", " : "", rank);
            length += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    return bt_error(BT_STATUS_UNAVAILABLE, "rank %s did not connect to rank %d within %.0f s",
                    ranks, m->who->rank, (double)m->who->timeout_ns / 1e9);
}

// Accepts connections until `count` ranks have connected. A connection without a valid message (a
// port scanner, a program of another protocol) is dropped; a rank with wrong values is an error.
static bt_status accept_ranks(meeting *m, int lowest, int count)
{
    while (count > 0) {
        if (!wait_ready(m, m->listener, POLLIN)) {
            return missing(m, lowest);
        }
        inet_address from = {.storage = {.ss_family = AF_UNSPEC}};
        socklen_t bytes = sizeof from;
        int fd = accept4(m->listener, &from.any, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            continue;
        }
        hello said;
        meeting soon = *m; // an unknown connection gets one second, not the whole timeout
        int64_t second = bt_clock_ns() + 1000000000;
        soon.deadline_ns = second < m->deadline_ns ? second : m->deadline_ns;
        if (!read_all(&soon, fd, &said, sizeof said) || said.magic != hello_magic) {
            (void)close(fd);
            continue;
        }
        bt_status status = check_hello(m, &said);
        if (status != BT_OK) {
            answer reply = {.status = (int32_t)status};
            (void)snprintf(reply.text, sizeof reply.text, "%s", bt_error_message());
            (void)write_all(m, fd, &reply, sizeof reply);
            (void)close(fd);
            return status;
        }
        m->sockets[said.rank] = fd;
        *port_of(&from) = htons((uint16_t)said.port);
        m->table[said.rank] = (where){.address = from, .bytes = bytes, .place = said.place};
        --count;
    }
    return BT_OK;
}

// Sends the result to all connected ranks.
static void answer_all(const meeting *m, bt_status status)
{
    answer reply = {.status = (int32_t)status};
    (void)snprintf(reply.text, sizeof reply.text, "%s", status != BT_OK ? bt_error_message() : "");
    for (int rank = 1; rank < m->who->size; ++rank) {
        if (m->sockets[rank] >= 0) {
            bool sent = write_all(m, m->sockets[rank], &reply, sizeof reply);
            if (sent && status == BT_OK) {
                (void)write_all(m, m->sockets[rank], m->table,
                                (size_t)m->who->size * sizeof *m->table);
            }
        }
    }
}

static bt_status meet_as_root(meeting *m)
{
    BT_TRY(listen_as_root(m));
    bt_status status = accept_ranks(m, 1, m->who->size - 1);
    answer_all(m, status);
    return status;
}

static bt_status read_table(meeting *m)
{
    answer reply;
    if (!read_all(m, m->sockets[0], &reply, sizeof reply)) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "rank 0 at %s port %d closed the connection before all ranks had connected",
                        m->who->host, m->who->port);
    }
    reply.text[sizeof reply.text - 1] = '\0';
    if (reply.status != BT_OK) {
        bool known = reply.status > 0 && reply.status < (int32_t)BT_STATUS_COUNT;
        return bt_error(known ? (bt_status)reply.status : BT_STATUS_INTERNAL, "rank 0 says: %s",
                        reply.text);
    }
    if (!read_all(m, m->sockets[0], m->table, (size_t)m->who->size * sizeof *m->table)) {
        return bt_error(BT_STATUS_UNAVAILABLE, "rank 0 at %s port %d closed the connection",
                        m->who->host, m->who->port);
    }
    return BT_OK;
}

static bt_status connect_lower(meeting *m)
{
    hello mine = greeting(m);
    for (int rank = 1; rank < m->who->rank; ++rank) {
        const where *at = &m->table[rank];
        int fd = at->bytes <= sizeof at->address ? connect_to(m, &at->address.any, at->bytes) : -1;
        if (fd < 0 || !write_all(m, fd, &mine, sizeof mine)) {
            int error = errno;
            if (fd >= 0) {
                (void)close(fd);
            }
            return bt_error(BT_STATUS_UNAVAILABLE, "rank %d cannot reach rank %d: %s", m->who->rank,
                            rank, strerror(error));
        }
        m->sockets[rank] = fd;
    }
    return BT_OK;
}

static bt_status meet_as_other(meeting *m)
{
    int family = AF_INET;
    BT_TRY(connect_root(m, &family));
    BT_TRY(listen_anywhere(m, family));
    hello mine = greeting(m);
    if (!write_all(m, m->sockets[0], &mine, sizeof mine)) {
        return bt_error(BT_STATUS_UNAVAILABLE, "rank 0 at %s port %d closed the connection",
                        m->who->host, m->who->port);
    }
    BT_TRY(read_table(m));
    BT_TRY(connect_lower(m));
    return accept_ranks(m, m->who->rank + 1, m->who->size - 1 - m->who->rank);
}

bt_status bt_rendezvous_connect(const bt_rendezvous *who, int *sockets, bt_place *places)
{
    if (who->size < 1 || who->size > BT_GROUP_MAX_SIZE || who->rank < 0 || who->rank >= who->size) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "expected a rank below %d ranks, got rank %d",
                        who->size, who->rank);
    }
    if (who->port < 1 || who->port > 65535) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "expected a port from 1 to 65535, got %d",
                        who->port);
    }
    uint64_t machine = who->machine != 0 ? who->machine : bt_rendezvous_machine();
    meeting m = {.who = who,
                 .deadline_ns = bt_clock_ns() + who->timeout_ns,
                 .listener = -1,
                 .place = {.machine = machine, .mailbox = who->mailbox},
                 .sockets = sockets};
    for (int rank = 0; rank < who->size; ++rank) {
        sockets[rank] = -1;
    }
    BT_TRY(bt_mem_alloc((size_t)who->size, sizeof *m.table, (void **)&m.table));
    m.table[0].place = m.place; // rank 0's own entry: the others receive the table from it
    bt_status status = who->rank == 0 ? meet_as_root(&m) : meet_as_other(&m);
    for (int rank = 0; rank < who->size; ++rank) {
        places[rank] = m.table[rank].place;
    }
    if (m.listener >= 0) {
        (void)close(m.listener);
    }
    bt_mem_free(m.table);
    for (int rank = 0; rank < who->size && status != BT_OK; ++rank) {
        if (sockets[rank] >= 0) {
            (void)close(sockets[rank]);
            sockets[rank] = -1;
        }
    }
    return status;
}
