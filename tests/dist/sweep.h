// tests/dist/sweep.h - every collective, type and odd size against an ordered oracle, as one rank
#ifndef BT_TESTS_DIST_SWEEP_H
#define BT_TESTS_DIST_SWEEP_H

#include "tests/dist/ranks.h"

typedef struct sweep {
    unsigned delay_seed; // of the ranks, between calls; 0: none
    unsigned slow_seed;  // of the transport; 0: as it is
    bt_device *device;   // where operands are; NULL: the host
    bt_stream stream;
    unsigned char *memory; // of the device [SWEEP_MEMORY_BYTES], for the operands
    int64_t used_bytes;    // of it
    bool in_memory;        // it is memory of the group
    int shift;             // elements from an aligned address to each operand
    bool any_order;        // sums may follow another tree: they are compared within a bound
    const void *data;      // of a body that is not in this file
} sweep;

enum { SWEEP_MEMORY_BYTES = 1 << 26 };

// Bodies of ranks (ranks.h); the argument is a sweep.
// Errors  INTERNAL with operation, type, size and element
bt_status sweep_all(bt_group *group, void *argument, rank_result *result);
// Few sizes of each call, for sanitizers of device code.
bt_status sweep_short(bt_group *group, void *argument, rank_result *result);
// A sum of 2,200,001 f32: more than rings and sockets buffer, and more than one chunk.
bt_status sweep_large(bt_group *group, void *argument, rank_result *result);
// The input values of `rank`, of widely different magnitudes.
void sweep_fill(bt_dtype dtype, void *data, int rank, int64_t count);

#endif
