// framework/base/clock.h - host time
#ifndef BT_BASE_CLOCK_H
#define BT_BASE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Monotonic, for durations.
int64_t bt_clock_ns(void);
// Since 1970-01-01 UTC, for records.
int64_t bt_clock_wall_ns(void);
// Busy-waits until the time since start_ns has grown by fraction x itself.
void bt_clock_stretch(int64_t start_ns, double share);

#ifdef __cplusplus
}
#endif

#endif
