// tests/dist/ranks.h - runs a function as every rank of a group, by each way of making groups
#ifndef BT_TESTS_DIST_RANKS_H
#define BT_TESTS_DIST_RANKS_H

#include <stdbool.h>

#include "framework/dist/group.h"

enum { RANKS_MAX = 16 };

typedef enum ranks_kind {
    RANKS_THREADS, // threads of this process
    RANKS_MEMORY,  // processes, shared memory
    RANKS_TCP,     // processes, TCP on the loopback address
    RANKS_MIXED,   // processes of two hosts, even and odd ranks: shared memory and TCP
    RANKS_KIND_COUNT
} ranks_kind;

typedef struct rank_result {
    bt_status status;  // what the body returned
    char message[640]; // and its message
    int64_t time_ns;   // of the body
    uint64_t digest;   // for the body
    bool ended;        // by a signal, or without a result
    bool took_group;   // the body has destroyed the group; for processes
} rank_result;

typedef bt_status (*rank_body)(bt_group *group, void *argument, rank_result *result);

const char *ranks_kind_name(ranks_kind kind);
// Fails the test when a group cannot be made; what the bodies return is in results[size].
void run_ranks(ranks_kind kind, int size, int64_t timeout_ns, rank_body body, void *argument,
               rank_result *results);
// Whether a sweep over numbers of ranks and combinations of settings includes this one. Sanitizers
// run each combination on two ranks, and on 1 and 4 ranks every fifth, beginning with 0.
bool in_sweep(int ranks, int combination);
// A TCP port of the loopback address that was free a moment ago.
int free_port(void);

#endif
