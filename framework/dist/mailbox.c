#include "framework/dist/mailbox.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "framework/base/clock.h"

static const uint64_t letter_magic = 0x62746d61696c3031; // "btmail01"

typedef struct letter {
    uint64_t magic, tag;
} letter;

// Room for one descriptor and the sender's credentials.
typedef union control_space {
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr align;
} control_space;

// An abstract address: its first byte is zero, and no file is left behind.
static socklen_t address_of(uint64_t name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "blutrain-%016" PRIx64, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bt_status bt_mailbox_open(bt_mailbox *out)
{
    *out = (bt_mailbox){.socket = -1};
    struct sockaddr_un address;
    int on = 1;
    bool random = getrandom(&out->name, sizeof out->name, 0) == (ssize_t)sizeof out->name;
    socklen_t bytes = address_of(out->name, &address);
    out->socket = random ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (out->socket < 0 || setsockopt(out->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(out->socket, (struct sockaddr *)&address, bytes) != 0) {
        bt_status status =
            bt_error(BT_STATUS_UNAVAILABLE, "cannot open a socket for file descriptors: %s",
                     strerror(errno));
        bt_mailbox_close(out);
        return status;
    }
    return BT_OK;
}

void bt_mailbox_close(bt_mailbox *box)
{
    if (box->socket >= 0) {
        (void)close(box->socket);
    }
    box->socket = -1;
}

// False on timeout.
static bool wait_for(int socket, short events, int64_t deadline_ns)
{
    struct pollfd ready = {.fd = socket, .events = events};
    for (;;) {
        int64_t left_ms = (deadline_ns - bt_clock_ns()) / 1000000;
        if (left_ms < 0) {
            return false;
        }
        int count = poll(&ready, 1, left_ms > 1000 ? 1000 : (int)left_ms);
        if (count > 0) {
            return true;
        }
        if (left_ms == 0) {
            return false;
        }
    }
}

bt_status bt_mailbox_send(const bt_mailbox *from, uint64_t to, uint64_t tag, int fd,
                          int64_t deadline_ns)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(to, &address);
    letter text = {.magic = letter_magic, .tag = tag};
    struct iovec io = {.iov_base = &text, .iov_len = sizeof text};
    control_space control = {.bytes = {0}};
    struct msghdr message = {.msg_name = &address,
                             .msg_namelen = bytes,
                             .msg_iov = &io,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(sizeof fd)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    while (sendmsg(from->socket, &message, MSG_NOSIGNAL) < 0) {
        bool full = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS;
        int error = errno;
        if (errno != EINTR && !(full && wait_for(from->socket, POLLOUT, deadline_ns))) {
            return bt_error(BT_STATUS_UNAVAILABLE, "cannot send a file descriptor: %s",
                            strerror(error));
        }
        if (bt_clock_ns() > deadline_ns) {
            return bt_error(BT_STATUS_UNAVAILABLE,
                            "cannot send a file descriptor: the receiver accepts none");
        }
    }
    return BT_OK;
}

// The descriptor of a message from a process of this user, -1: there is none. Others are closed.
static int take_descriptor(struct msghdr *message)
{
    int fd = -1;
    bool ours = false;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (head->cmsg_type == SCM_RIGHTS) {
            size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof fd;
            for (size_t i = 0; i < count; ++i) { // one is expected: the last is kept
                if (fd >= 0) {
                    (void)close(fd);
                }
                memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            }
        } else if (head->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(head), sizeof sender);
            ours = sender.uid == geteuid();
        }
    }
    if (fd >= 0 && !ours) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

bt_status bt_mailbox_receive(const bt_mailbox *box, int64_t deadline_ns, uint64_t *tag, int *fd)
{
    while (wait_for(box->socket, POLLIN, deadline_ns)) {
        letter text = {0};
        struct iovec io = {.iov_base = &text, .iov_len = sizeof text};
        control_space control;
        struct msghdr message = {.msg_iov = &io,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t bytes = recvmsg(box->socket, &message, MSG_CMSG_CLOEXEC);
        if (bytes < 0) {
            continue;
        }
        *fd = take_descriptor(&message);
        if (*fd >= 0 && bytes == (ssize_t)sizeof text && text.magic == letter_magic) {
            *tag = text.tag;
            return BT_OK;
        }
        if (*fd >= 0) { // of an unknown sender
            (void)close(*fd);
        }
    }
    *fd = -1;
    return bt_error(BT_STATUS_UNAVAILABLE, "no file descriptor arrived from another rank in time");
}
