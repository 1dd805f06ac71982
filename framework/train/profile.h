// framework/train/profile.h - device time per named range, on steps that are not measured
#ifndef BT_TRAIN_PROFILE_H
#define BT_TRAIN_PROFILE_H

#include "framework/tensor/context.h"
#include "framework/train/train.h"

typedef struct bt_profile bt_profile;

// Owns    the caller
BT_CHECKED bt_status bt_profile_create(bt_context *context, bt_profile **out);
void bt_profile_destroy(bt_profile *profile);
// Hooks into the context's ranges until bt_profile_stop.
void bt_profile_start(bt_profile *profile);
// Unhooks, waits for the device and reports a row per path, in order of first appearance.
// Errors  of the hooks, of the device, and of the observer
BT_CHECKED bt_status bt_profile_stop(bt_profile *profile, int64_t step,
                                     const bt_train_observer *observer);

// After bt_profile_stop: device times of the direct child ranges of the last range of that name, in
// order of their begin. *count: their number, even if above `capacity`.
BT_CHECKED bt_status bt_profile_inside(const bt_profile *profile, const char *name,
                                       int64_t *times_ns, int64_t capacity, int64_t *count);
// Likewise: reports the timeline to the observer.
// Errors  OUT_OF_MEMORY; of the device, and of the observer
BT_CHECKED bt_status bt_profile_timeline(const bt_profile *profile, int64_t step,
                                         const bt_train_observer *observer);

#endif
