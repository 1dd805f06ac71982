// tests/dist/watched.h - a transport that counts what is sent inside and outside of a range
#ifndef BT_TESTS_DIST_WATCHED_H
#define BT_TESTS_DIST_WATCHED_H

#include "framework/base/ranges.h"
#include "framework/dist/group.h"

typedef struct watched {
    bt_ranges ranges;                 // those of the rank, which publishes them here
    const char *outer, *inner;        // what is sent in `outer` should be in `inner`
    int64_t inside, outside;          // writes
    char where[BT_RANGES_TEXT_BYTES]; // of the first one outside
} watched;

// From now on the writes of this rank's channels are counted, those of its parts included. NULL: no
// longer. For backends on the CPU.
void watch_transport(bt_group *group, watched *rank);

#endif
