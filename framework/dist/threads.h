// framework/dist/threads.h - ranks as threads of one process
#ifndef BT_DIST_THREADS_H
#define BT_DIST_THREADS_H

#include "framework/dist/group.h"

// groups[r] for r < size; each is then used by one thread.
// Units   timeout_ns: how long a call waits while nothing moves
// Owns    the caller, each by bt_group_destroy, in any order
// Errors  INVALID_ARGUMENT (size), OUT_OF_MEMORY, UNAVAILABLE
BT_CHECKED bt_status bt_group_threads_create(int size, int64_t timeout_ns, bt_group **groups);

#endif
