// framework/dist/mailbox.h - file descriptors between processes of one host
//
// A mailbox is a datagram socket under a random name of the host's network namespace. Only messages
// from processes of the same user are taken.
#ifndef BT_DIST_MAILBOX_H
#define BT_DIST_MAILBOX_H

#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_mailbox {
    int socket;    // owned
    uint64_t name; // what others send to
} bt_mailbox;

// Errors  UNAVAILABLE, with the system's reason
BT_CHECKED bt_status bt_mailbox_open(bt_mailbox *out);
void bt_mailbox_close(bt_mailbox *box);
// Sends a copy of the descriptor; the caller keeps its own. `tag` is passed to the receiver.
// Errors  UNAVAILABLE (there is no such mailbox, no room until the deadline)
BT_CHECKED bt_status bt_mailbox_send(const bt_mailbox *from, uint64_t to, uint64_t tag, int fd,
                                     int64_t deadline_ns);
// Waits for one message. Units  deadline_ns: of bt_clock_ns
// Owns    the caller, *fd (closed on exec)
// Errors  UNAVAILABLE when none came
BT_CHECKED bt_status bt_mailbox_receive(const bt_mailbox *box, int64_t deadline_ns, uint64_t *tag,
                                        int *fd);

#endif
