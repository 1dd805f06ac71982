// harness/run/child_env.h - the environment of a worker: an allow-list of variables
#ifndef BT_HARNESS_RUN_CHILD_ENV_H
#define BT_HARNESS_RUN_CHILD_ENV_H

#include "framework/base/status.h"

// The entries "NAME=value" of this process that a worker gets, terminated by NULL.
// Owns    *out: the caller, bt_mem_free; the entries are borrowed from this process
BT_CHECKED bt_status bt_child_env_make(const char ***out);

#endif
