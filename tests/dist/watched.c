#include "tests/dist/watched.h"

#include <stdlib.h>
#include <string.h>

#include "framework/dist/cpu_group.h"

typedef struct watched_channel {
    bt_channel real; // owned
    watched *rank;
} watched_channel;

static bool is_open(const bt_ranges *ranges, const char *name)
{
    for (int i = 0; i < atomic_load(&ranges->depth) && i < BT_RANGES_DEPTH; ++i) {
        if (strcmp(atomic_load(&ranges->open[i].name), name) == 0) {
            return true;
        }
    }
    return false;
}

static bt_status watched_write(void *impl, const void *data, int64_t size_bytes, int64_t *done)
{
    watched_channel *channel = impl;
    watched *rank = channel->rank;
    if (!rank) {
        return channel->real.ops->write(channel->real.impl, data, size_bytes, done);
    }
    if (is_open(&rank->ranges, rank->inner)) {
        ++rank->inside;
    } else if (is_open(&rank->ranges, rank->outer) && rank->outside++ == 0) {
        (void)bt_ranges_text(&rank->ranges, rank->where);
    }
    return channel->real.ops->write(channel->real.impl, data, size_bytes, done);
}

static bt_status watched_read(void *impl, void *data, int64_t size_bytes, int64_t *done)
{
    watched_channel *channel = impl;
    return channel->real.ops->read(channel->real.impl, data, size_bytes, done);
}

static bool watched_closed(void *impl)
{
    watched_channel *channel = impl;
    return channel->real.ops->closed(channel->real.impl);
}

static void watched_abort(void *impl)
{
    watched_channel *channel = impl;
    channel->real.ops->abort(channel->real.impl);
}

static void watched_close(void *impl)
{
    watched_channel *channel = impl;
    channel->real.ops->close(channel->real.impl);
    free(channel);
}

static const bt_channel_ops watched_ops = {watched_write, watched_read, watched_closed,
                                           watched_abort, watched_close};

void watch_transport(bt_group *base, watched *rank)
{
    bt_cpu_group *group = base->impl;
    for (int peer = 0; peer < base->size; ++peer) {
        bt_channel *channel = &group->peers[peer].channel;
        if (channel->ops == &watched_ops) {
            ((watched_channel *)channel->impl)->rank = rank;
        } else if (channel->ops != NULL) {
            watched_channel *made = calloc(1, sizeof *made);
            *made = (watched_channel){.real = *channel, .rank = rank};
            *channel = (bt_channel){.ops = &watched_ops, .impl = made};
        }
    }
}
