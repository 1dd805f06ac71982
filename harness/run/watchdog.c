// harness/run/watchdog.c - polls a counter ten times within the limit
//
// The limit is counted in ticks, and a tick counts at most twice its length: a process that was
// stopped for an hour has missed one tick, not an hour.
#include "harness/run/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"

#define TICKS    10
#define NS_PER_S 1000000000LL

struct bt_watchdog {
    bt_ranges *ranges; // borrowed
    bt_watchdog_alarm alarm;
    int64_t limit_ns;
    atomic_ullong beats;
    pthread_t thread;
    pthread_mutex_t mutex; // of quit
    pthread_cond_t changed;
    bool quit;
};

static uint64_t signs_of(bt_watchdog *self)
{
    return bt_ranges_moves(self->ranges) + atomic_load(&self->beats);
}

// Waits one tick. False: asked to quit.
static bool wait_tick(bt_watchdog *self, int64_t tick_ns)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + tick_ns;
    until.tv_sec += (time_t)(ns / NS_PER_S);
    until.tv_nsec = (long)(ns % NS_PER_S);
    (void)pthread_mutex_lock(&self->mutex);
    int error = 0;
    while (!self->quit && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&self->changed, &self->mutex, &until);
    }
    const bool goes_on = !self->quit;
    (void)pthread_mutex_unlock(&self->mutex);
    return goes_on;
}

static void *watch(void *argument)
{
    bt_watchdog *self = argument;
    const int64_t tick_ns = self->limit_ns / TICKS;
    uint64_t signs = signs_of(self);
    int64_t still_ns = 0, seen_ns = bt_clock_ns();
    while (wait_tick(self, tick_ns)) {
        const int64_t now_ns = bt_clock_ns(), passed_ns = now_ns - seen_ns;
        const uint64_t now = signs_of(self);
        still_ns = now == signs ? still_ns + (passed_ns < 2 * tick_ns ? passed_ns : tick_ns) : 0;
        signs = now;
        seen_ns = now_ns;
        if (still_ns >= self->limit_ns) {
            char text[BT_RANGES_TEXT_BYTES], device[BT_RANGES_DEVICE_TEXT_BYTES];
            if (self->alarm.hangs(self->alarm.self, bt_ranges_text(self->ranges, text),
                                  bt_ranges_device_text(self->ranges, device))) {
                break;
            }
            still_ns = 0;
        }
    }
    return NULL;
}

// Signals are handled by the working thread.
static bool start_thread(bt_watchdog *self)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&self->thread, NULL, watch, self);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static void release(bt_watchdog *self)
{
    (void)pthread_cond_destroy(&self->changed);
    (void)pthread_mutex_destroy(&self->mutex);
    bt_mem_free(self);
}

bt_status bt_watchdog_start(bt_ranges *ranges, double limit_s, bt_watchdog_alarm alarm,
                            bt_watchdog **out)
{
    pthread_condattr_t attributes;
    *out = NULL;
    if (!(limit_s > 0)) {
        return BT_OK;
    }
    bt_watchdog *self = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &self));
    self->ranges = ranges;
    ranges->watched = true;
    self->alarm = alarm;
    self->limit_ns = (int64_t)(limit_s * (double)NS_PER_S);
    (void)pthread_mutex_init(&self->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (!start_thread(self)) {
        release(self);
        return bt_error(BT_STATUS_UNAVAILABLE, "cannot start the watchdog thread");
    }
    *out = self;
    return BT_OK;
}

void bt_watchdog_beat(bt_watchdog *watchdog)
{
    if (watchdog) {
        atomic_fetch_add(&watchdog->beats, 1);
    }
}

void bt_watchdog_stop(bt_watchdog *watchdog)
{
    if (!watchdog) {
        return;
    }
    (void)pthread_mutex_lock(&watchdog->mutex);
    watchdog->quit = true;
    (void)pthread_cond_signal(&watchdog->changed);
    (void)pthread_mutex_unlock(&watchdog->mutex);
    (void)pthread_join(watchdog->thread, NULL);
    release(watchdog);
}
