// harness/run/lock.h - one run at a time on a GPU
//
// Two runs on one GPU would falsify each other, so the second waits. The lock is advisory: a file
// "bt-bench-<device>.lock" in $TMPDIR or /tmp, locked with flock(2), so that it is free as soon as
// its owner is gone, however it went; what the file says is who that is. It does not reach into
// another container or host, nor does it hold back other programs: those are seen by telemetry.
// CPU runs take no lock: that the machine was loaded is a label of their rounds.
#ifndef BT_HARNESS_RUN_LOCK_H
#define BT_HARNESS_RUN_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "framework/base/status.h"

typedef struct bt_device_lock {
    int file; // owned; -1: not held
} bt_device_lock;

// Tries to get the lock. *taken false: `owner` [capacity] says who has it.
// Owns    *lock: the caller, bt_device_lock_release
// Errors  IO (the file cannot be made or locked)
BT_CHECKED bt_status bt_device_lock_try(const char *device, bt_device_lock *lock, bool *taken,
                                        char *owner, size_t capacity);
// Says in the file who holds it: "run 5 of /home/me/results/bt.sqlite, process 123".
void bt_device_lock_sign(bt_device_lock *lock, const char *owner);
// A lock that is not held is fine.
void bt_device_lock_release(bt_device_lock *lock);

#endif
