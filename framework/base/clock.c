// framework/base/clock.c - clock_gettime
#include "framework/base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t bt_clock_ns(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t bt_clock_wall_ns(void) { return read_clock(CLOCK_REALTIME); }
