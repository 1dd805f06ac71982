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

void bt_clock_stretch(int64_t start_ns, double share)
{
    int64_t now_ns = bt_clock_ns();
    int64_t end_ns = now_ns + (int64_t)((double)(now_ns - start_ns) * share);
    while (now_ns < end_ns) {
        now_ns = bt_clock_ns();
    }
}
