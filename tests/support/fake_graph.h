// tests/support/fake_graph.h - captured graphs for a backend whose work is done by the CPU
//
// While a capture is open, kernels, copies and fills are put into a list with what they were given,
// and not done; a launch does the list in order. As on a GPU, nothing may be waited for, allocated
// or ordered by events meanwhile: the capture is then broken, and reports an error when it is
// ended.
#ifndef BT_TESTS_SUPPORT_FAKE_GRAPH_H
#define BT_TESTS_SUPPORT_FAKE_GRAPH_H

#include "kernels/kernels.h"

typedef bt_status (*fake_graph_row)(int row, const bt_launch *launch, const void *args);

// Gives the backend functions for graphs, and wraps those that a capture must know of.
void fake_graph_install(bt_backend *backend);
bool fake_graph_capturing(void);
// Puts a call into the open capture; a launch of the graph does run(row, launch, args).
bt_status fake_graph_kernel(fake_graph_row run, int row, bt_kernel_op op, const bt_launch *launch,
                            const void *args);
// The next capture cannot be ended.
void fake_graph_break_next(void);
// Captures that were ended well, launches, and graphs that were not destroyed, so far.
int64_t fake_graph_captures(void);
int64_t fake_graph_launches(void);
int64_t fake_graph_live(void);

#endif
