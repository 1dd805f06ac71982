// harness/launch/world.h - ranks started by an external launcher: torchrun, SLURM, Open MPI
#ifndef BT_HARNESS_LAUNCH_WORLD_H
#define BT_HARNESS_LAUNCH_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

enum { BT_LAUNCH_RANKS_MAX = 64 }; // that this program starts on a host

typedef struct bt_world {
    const char *launcher;      // "torchrun", "SLURM", "Open MPI"; NULL: none
    const char *size_variable; // the variable that gives `size`
    int rank, size, local_rank;
    char host[256]; // of rank 0
    int port;       // of rank 0
    uint64_t job;   // identifies the job; equal on all ranks
} bt_world;

// Reads the launcher's environment variables. Without one, or with one rank, launcher is NULL.
// MASTER_ADDR and MASTER_PORT take precedence over derived values.
// Errors  INVALID_ARGUMENT: names the variable, its value and what is missing
BT_CHECKED bt_status bt_world_read(bt_world *out);
// "node[07-12,15],other" -> "node07". False: no list of hosts.
bool bt_world_first_host(const char *list, char *host, size_t capacity);

#endif
