#include "tests/dist/slow.h"

#include <stdlib.h>

#include "framework/base/clock.h"
#include "framework/dist/cpu_group.h"

typedef struct slow_channel {
    bt_channel real; // owned
    unsigned state;
    int64_t until_ns; // nothing is written
} slow_channel;

static unsigned draw(slow_channel *slow, unsigned below)
{
    slow->state = slow->state * 1664525 + 1013904223;
    return (slow->state >> 8) % below;
}

static int64_t cut(slow_channel *slow, int64_t size_bytes)
{
    int64_t most = 1 + draw(slow, 5000);
    return size_bytes < most ? size_bytes : most;
}

static bt_status slow_write(void *impl, const void *data, int64_t size_bytes, int64_t *done)
{
    slow_channel *slow = impl;
    *done = 0;
    if (bt_clock_ns() < slow->until_ns) {
        return BT_OK;
    }
    if (draw(slow, 8) == 0) {
        slow->until_ns = bt_clock_ns() + draw(slow, 1000000);
        return BT_OK;
    }
    return slow->real.ops->write(slow->real.impl, data, cut(slow, size_bytes), done);
}

static bt_status slow_read(void *impl, void *data, int64_t size_bytes, int64_t *done)
{
    slow_channel *slow = impl;
    return slow->real.ops->read(slow->real.impl, data, cut(slow, size_bytes), done);
}

static bool slow_closed(void *impl)
{
    slow_channel *slow = impl;
    return slow->real.ops->closed(slow->real.impl);
}

static void slow_abort(void *impl)
{
    slow_channel *slow = impl;
    slow->real.ops->abort(slow->real.impl);
}

static void slow_close(void *impl)
{
    slow_channel *slow = impl;
    slow->real.ops->close(slow->real.impl);
    free(slow);
}

static const bt_channel_ops slow_ops = {slow_write, slow_read, slow_closed, slow_abort, slow_close};

void slow_transport(bt_group *base, unsigned seed)
{
    bt_cpu_group *group = base->impl;
    for (int peer = 0; peer < base->size; ++peer) {
        bt_channel *channel = &group->peers[peer].channel;
        if (channel->ops != NULL) {
            slow_channel *slow = calloc(1, sizeof *slow);
            *slow = (slow_channel){.real = *channel,
                                   .state = seed + (unsigned)(base->rank * 64 + peer)};
            *channel = (bt_channel){.ops = &slow_ops, .impl = slow};
        }
    }
}
