// tests/dist/ring_order.h - a group whose sums go around a ring, as usual collectives do
//
// Element i of a sum begins at a rank that depends on i, and adds the others in the order of the
// ring: the bits depend on the number of ranks. To show that tests would notice.
#ifndef BT_TESTS_DIST_RING_ORDER_H
#define BT_TESTS_DIST_RING_ORDER_H

#include "framework/dist/group.h"

// *out is borrowed from `group`, which does everything but sums.
void ring_order_group(bt_group *group, bt_group *out);

#endif
