// harness/run/child_env.h - the environment that a worker gets: an allow-list, never everything
#ifndef BT_HARNESS_RUN_CHILD_ENV_H
#define BT_HARNESS_RUN_CHILD_ENV_H

#include "framework/base/status.h"

// The entries "NAME=value" of this process that a worker gets, with a NULL behind the last.
// Owns    *out: the caller, bt_mem_free; the entries are borrowed from this process
BT_CHECKED bt_status bt_child_env_make(const char ***out);

#endif
