// harness/launch/interface.h - the network interface that a user asks for must be there
#ifndef BT_HARNESS_LAUNCH_INTERFACE_H
#define BT_HARNESS_LAUNCH_INTERFACE_H

#include "framework/base/status.h"

// Checks a value of NCCL_SOCKET_IFNAME, whose rules these are: names by their beginnings, separated
// by commas; "=" in front: whole names; "^" in front: all but these. NULL: nothing was asked for.
// Errors  INVALID_ARGUMENT: names the rank, the value and the interfaces of this host
BT_CHECKED bt_status bt_interface_check(const char *wanted, int rank);

#endif
