// tests/dist/slow.h - a transport that delays and cuts messages
#ifndef BT_TESTS_DIST_SLOW_H
#define BT_TESTS_DIST_SLOW_H

#include "framework/dist/group.h"

// From now on each read and write of this rank's channels moves a random number of bytes, from 1 to
// 5000, and every eighth makes the channel stand still for up to 1 ms. For backends on the CPU.
void slow_transport(bt_group *group, unsigned seed);

#endif
