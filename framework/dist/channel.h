// framework/dist/channel.h - a byte stream to one other rank and back, that never waits
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
    // Hands over as much as fits at once: *done bytes, 0 when nothing does.
    // Errors  UNAVAILABLE when the other side is gone; without a message about who it is
    bt_status (*write)(void *impl, const void *data, int64_t size_bytes, int64_t *done);
    bt_status (*read)(void *impl, void *data, int64_t size_bytes, int64_t *done);
    // Whether the other side is known to be gone. Reads nothing.
    bool (*closed)(void *impl);
    // Makes the other side's read and write fail, as far as the channel can. Any thread.
    void (*abort)(void *impl);
    void (*close)(void *impl);
} bt_channel_ops;

#endif
