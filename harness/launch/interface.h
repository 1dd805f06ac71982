// harness/launch/interface.h - checks that a requested network interface exists
#ifndef BT_HARNESS_LAUNCH_INTERFACE_H
#define BT_HARNESS_LAUNCH_INTERFACE_H

#include "framework/base/status.h"

// Checks a value of NCCL_SOCKET_IFNAME: prefixes of names, separated by commas; a leading "=" means
// whole names, a leading "^" all but these. NULL: not set.
// Errors  INVALID_ARGUMENT: names the rank, the value and the interfaces of this host
BT_CHECKED bt_status bt_interface_check(const char *wanted, int rank);

#endif
