// tests/support/lazy_device.h - a device whose streams run as late as they may
//
// Copies, fills and events are queued; they run when a synchronisation needs them and not before,
// one stream ahead of another where no event forbids it. So a wait that is missing shows in the
// bytes. Memory is the host's; the kind is not the CPU's.
#ifndef BT_TESTS_SUPPORT_LAZY_DEVICE_H
#define BT_TESTS_SUPPORT_LAZY_DEVICE_H

#include "framework/device/device.h"

void lazy_device_open(bt_device *device);
// Fails the test when streams, events or memory are left.
void lazy_device_close(bt_device *device);
// The n-th call of this thread from now on that copies, allocates, or makes a stream or an event
// fails; 0: none.
void lazy_device_fail_at(int64_t n);
bool lazy_device_failed(void);

#endif
