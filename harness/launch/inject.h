// harness/launch/inject.h - fault injection, to test recovery
#ifndef BT_HARNESS_LAUNCH_INJECT_H
#define BT_HARNESS_LAUNCH_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "framework/base/status.h"

enum { BT_LAUNCH_AT_START = -1 };

typedef struct bt_launch_fault {
    int signal;       // SIGKILL, SIGSTOP, SIGSEGV
    int rank;         // below the number of ranks
    int64_t step;     // after this many steps of the rank; BT_LAUNCH_AT_START: when it is started,
                      // also during recovery from another fault
    int64_t delay_ns; // additional delay
} bt_launch_fault;

// "kill rank 1 at step 20", "kill rank 1 at start", also with stop, segv.
// Errors  INVALID_ARGUMENT: says what is allowed
BT_CHECKED bt_status bt_launch_fault_parse(const char *text, int size, bt_launch_fault *out);

#endif
