// harness/run/watchdog.h - a thread that detects when the working thread makes no progress
//
// Progress is the start or end of a range or a kernel (framework/base/ranges.h), or
// bt_watchdog_beat. Time in which the whole process was stopped (SIGSTOP, a suspended machine) does
// not count.
#ifndef BT_HARNESS_RUN_WATCHDOG_H
#define BT_HARNESS_RUN_WATCHDOG_H

#include <stdbool.h>

#include "framework/base/ranges.h"
#include "framework/base/status.h"

typedef struct bt_watchdog bt_watchdog;

// Called once, on the watching thread, after limit_s seconds without progress, with the position of
// the worker (bt_ranges_text) and of the device (bt_ranges_device_text). Returns false if it is not
// a hang; then the time starts again.
typedef struct bt_watchdog_alarm {
    bool (*hangs)(void *self, const char *where, const char *device);
    void *self; // borrowed
} bt_watchdog_alarm;

// limit_s <= 0: no watchdog; *out is NULL, which the other functions accept.
// Owns    *out: the caller, bt_watchdog_stop. `ranges` is borrowed and outlives it; it is `watched`
//         from now on.
// Errors  OUT_OF_MEMORY, UNAVAILABLE (no thread)
BT_CHECKED bt_status bt_watchdog_start(bt_ranges *ranges, double limit_s, bt_watchdog_alarm alarm,
                                       bt_watchdog **out);
void bt_watchdog_beat(bt_watchdog *watchdog);
// Waits for the watching thread. Not from the alarm.
void bt_watchdog_stop(bt_watchdog *watchdog);

#endif
