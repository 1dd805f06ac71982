// harness/run/watchdog.h - a thread that notices when the one that works does not move any more
//
// A sign of life is a range or a kernel that begins or ends (framework/base/ranges.h), or
// bt_watchdog_beat. Time in which the whole process stood still (SIGSTOP, a suspended machine) does
// not count.
#ifndef BT_HARNESS_RUN_WATCHDOG_H
#define BT_HARNESS_RUN_WATCHDOG_H

#include <stdbool.h>

#include "framework/base/ranges.h"
#include "framework/base/status.h"

typedef struct bt_watchdog bt_watchdog;

// Told once, on the watching thread, when there was no sign of life for limit_s seconds: where the
// worker is, as bt_ranges_text says it, and how far the device has come, as bt_ranges_device_text
// does. It returns false when that is no hang after all; then the seconds count anew.
typedef struct bt_watchdog_alarm {
    bool (*hangs)(void *self, const char *where, const char *device);
    void *self; // borrowed
} bt_watchdog_alarm;

// limit_s <= 0: nobody watches, *out is NULL, which the other functions take.
// Owns    *out: the caller, bt_watchdog_stop. `ranges` is borrowed and outlives it; it is `watched`
//         from now on.
// Errors  OUT_OF_MEMORY, UNAVAILABLE (no thread)
BT_CHECKED bt_status bt_watchdog_start(bt_ranges *ranges, double limit_s, bt_watchdog_alarm alarm,
                                       bt_watchdog **out);
void bt_watchdog_beat(bt_watchdog *watchdog);
// Waits for the watching thread. Not from the alarm.
void bt_watchdog_stop(bt_watchdog *watchdog);

#endif
