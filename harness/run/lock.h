// harness/run/lock.h - one run at a time on a GPU
//
// Two runs on one GPU would disturb each other, so the second waits. The lock is advisory: a file
// "bt-bench-<device>.lock" in $TMPDIR or /tmp, locked with flock(2), which the system releases when
// its owner exits in any way; its contents name the owner. It has no effect on other containers,
// hosts or programs, which telemetry detects. CPU runs take no lock; a loaded machine is a label of
// their rounds.
#ifndef BT_HARNESS_RUN_LOCK_H
#define BT_HARNESS_RUN_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "framework/base/status.h"

typedef struct bt_device_lock {
    int file; // owned; -1: not held
} bt_device_lock;

// Tries to get the lock. *taken false: `owner` [capacity] describes its owner.
// Owns    *lock: the caller, bt_device_lock_release
// Errors  IO (the file cannot be made or locked)
BT_CHECKED bt_status bt_device_lock_try(const char *device, bt_device_lock *lock, bool *taken,
                                        char *owner, size_t capacity);
// Writes the owner to the file: "run 5 of /home/me/results/bt.sqlite, process 123".
void bt_device_lock_sign(bt_device_lock *lock, const char *owner);
// A lock that is not held is allowed.
void bt_device_lock_release(bt_device_lock *lock);

#endif
