// framework/dist/rendezvous.h - ranks of several hosts find each other over TCP
//
// Rank 0 listens at an address known to all. The others connect and send their rank and the address
// at which they listen; rank 0 answers with the addresses of all; then each rank connects to the
// lower ones. Rank 0 checks protocol, job, number of ranks, and that no rank occurs twice. Each
// rank also sends its host and the name of its mailbox, so that ranks of one host can share memory.
#ifndef BT_DIST_RENDEZVOUS_H
#define BT_DIST_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_rendezvous {
    int rank, size;
    const char *host;   // of rank 0: a name, or an IPv4 or IPv6 address
    int port;           // of rank 0, 1 to 65535
    uint64_t job;       // equal on all ranks of a start and different from other starts'
    int64_t timeout_ns; // until all are connected
    uint64_t machine;   // ranks with the same value share memory; 0: bt_rendezvous_machine
    uint64_t mailbox;   // name of this rank's mailbox; 0: none
} bt_rendezvous;

typedef struct bt_place {
    uint64_t machine, mailbox; // of a rank, as above
} bt_place;

// An identifier of this machine, boot, process and network namespace; never 0. Processes with the
// same value can send each other file descriptors and see each other's process ids.
uint64_t bt_rendezvous_machine(void);

// Whether a connected TCP socket is its own peer.
bool bt_rendezvous_is_self(int socket);

// sockets[r] is connected to rank r; sockets[rank] is -1. places[r] is rank r's place.
// Shapes  sockets, places [size]
// Owns    the caller, each socket; on failure none is left
// Errors  UNAVAILABLE (port in use, unknown host, a missing rank: named, with host and port),
//         INVALID_ARGUMENT (two processes of one rank, another number of ranks, another job)
BT_CHECKED bt_status bt_rendezvous_connect(const bt_rendezvous *who, int *sockets,
                                           bt_place *places);

#endif
