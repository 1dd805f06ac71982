// framework/dist/host.h - ranks as processes: shared memory on one host, TCP between hosts
#ifndef BT_DIST_HOST_H
#define BT_DIST_HOST_H

#include "framework/dist/group.h"
#include "framework/dist/rendezvous.h"

// Creates the shared memory for `size` ranks of one host. The launcher calls it, and the ranks
// inherit the descriptor, which is closed on exec unless the launcher clears that flag.
// Owns    the caller, the descriptor; the memory lives until the last rank has closed it
BT_CHECKED bt_status bt_group_host_memory(int size, int *fd);
// Joins as `rank` through that memory; does not take the descriptor.
// Units   timeout_ns: how long a call waits while nothing moves
// Errors  INVALID_ARGUMENT (not such a descriptor, rank taken), OUT_OF_MEMORY
BT_CHECKED bt_status bt_group_host_join(int fd, int rank, int size, int64_t timeout_ns,
                                        bt_group **out);
// Joins over TCP; returns when all ranks are connected, within who->timeout_ns. Ranks of one
// machine (who->machine) then share memory; the others keep their TCP connections.
// Errors  as bt_rendezvous_connect
BT_CHECKED bt_status bt_group_host_connect(const bt_rendezvous *who, int64_t timeout_ns,
                                           bt_group **out);

#endif
