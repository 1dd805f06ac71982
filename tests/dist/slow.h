// tests/dist/slow.h - a transport that delays and cuts messages
#ifndef BT_TESTS_DIST_SLOW_H
#define BT_TESTS_DIST_SLOW_H

#include "framework/dist/group.h"

// From now on each read and write of this rank's channels moves a random number of bytes, from 1 to
// 5000, and every eighth write makes the channel send nothing for up to 1 ms. What has arrived is
// not held back: a group may take it that a rank that ended has sent all that can be read. For
// backends on the CPU.
void slow_transport(bt_group *group, unsigned seed);

#endif
