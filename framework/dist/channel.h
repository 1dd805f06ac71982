// framework/dist/channel.h - a non-blocking, bidirectional byte stream to one other rank
#ifndef BT_DIST_CHANNEL_H
#define BT_DIST_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_channel {
    const struct bt_channel_ops *ops; // NULL: none (this rank itself)
    void *impl;                       // owned; released by close
} bt_channel;

typedef struct bt_channel_ops {
    // Transfers as many bytes as possible without waiting: *done, may be 0.
    // Errors  UNAVAILABLE when the other side has exited; the message does not name it
    bt_status (*write)(void *impl, const void *data, int64_t size_bytes, int64_t *done);
    bt_status (*read)(void *impl, void *data, int64_t size_bytes, int64_t *done);
    // Whether the other side is known to have exited. Reads nothing.
    bool (*closed)(void *impl);
    // Makes the other side's read and write fail, if the channel supports it. Any thread.
    void (*abort)(void *impl);
    void (*close)(void *impl);
} bt_channel_ops;

#endif
