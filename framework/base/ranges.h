// framework/base/ranges.h - the named ranges that a thread is in, readable by another thread
//
// The working thread pushes and pops; a watching thread may read at any time, also while the first
// one hangs. There are no locks: by a version number a reader detects an incomplete change.
//
// The progress of an asynchronous device is known from marks: bytes of host memory that the device
// sets, in the order of its work, at the ends of some ranges (bt_range_pop in tensor/context.h).
//
// Invariants
//   1. One thread writes. Any number read.
//   2. A path that was read was correct at one moment, unless the writer was faster in every
//      attempt.
//   3. `moves` increases with every push, pop and note: while it increases, the writer works.
//   4. Marks are numbered from 0 in every outermost range, and the device sets them in that order.
#ifndef BT_BASE_RANGES_H
#define BT_BASE_RANGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BT_RANGES_DEPTH = 24,
    BT_RANGES_TEXT_BYTES = 512,
    BT_RANGES_DEVICE_TEXT_BYTES = 2 * BT_RANGES_TEXT_BYTES + 64,
    BT_RANGES_NAMES = 16,      // different names counted within one range
    BT_RANGES_MARKS = 512,     // of one outermost range
    BT_RANGES_MARK_DEPTH = 6,  // names kept of a mark's path
    BT_RANGES_MARK_KERNELS = 8 // minimum number of launches between two marks
};

typedef struct bt_range_name {
    _Atomic(const char *) name;
    atomic_int nth; // index among ranges of this name in the enclosing range, from 0; outermost:
                    // always 0
} bt_range_name;

typedef struct bt_ranges {
    bool watched;        // the opener of the device enables marks; set before work begins
    atomic_ullong moves; // odd while the writer changes the stack
    atomic_int depth;    // may exceed BT_RANGES_DEPTH: deeper names are not stored
    bt_range_name open[BT_RANGES_DEPTH]; // outermost first
    _Atomic(const char *) note; // current work in the innermost range, such as a kernel; or NULL
    struct {                    // writer only: the names so far inside an open range
        const char *name;
        int count;
    } seen[BT_RANGES_DEPTH][BT_RANGES_NAMES];
    int seen_count[BT_RANGES_DEPTH];
    _Atomic(unsigned char *) done; // [BT_RANGES_MARKS], borrowed; the device sets a mark's to 1
    atomic_int readers;            // of `done`
    int kernels, mark_kernels;     // writer only: launches since the last mark; needed for the next
    atomic_int mark_count;
    bt_range_name mark[BT_RANGES_MARKS][BT_RANGES_MARK_DEPTH];
} bt_ranges;

// `name` and `note` must outlive every reader: string constants. `ranges` NULL: no effect. A
// note is the launch of a kernel, NULL its end.
void bt_ranges_push(bt_ranges *ranges, const char *name);
void bt_ranges_pop(bt_ranges *ranges);
void bt_ranges_note(bt_ranges *ranges, const char *note);
uint64_t bt_ranges_moves(const bt_ranges *ranges);
// "step/forward/block[3]/attention", followed by " (gemm_cpu_f32)" if there is a note; "" outside
// of all ranges. [3]: the fourth of that name in its enclosing range. Returns text.
const char *bt_ranges_text(const bt_ranges *ranges, char text[BT_RANGES_TEXT_BYTES]);

// ---- marks --------------------------------------------------------------------------------------

// Enables marks in `done` (zeros), memory that host and device can access; NULL disables them and
// waits for readers.
void bt_ranges_marks_keep(bt_ranges *ranges, unsigned char done[BT_RANGES_MARKS]);
// Begins an outermost range. Returns where the device must write BT_RANGES_MARKS zeros; NULL:
// nowhere.
unsigned char *bt_ranges_marks_clear(bt_ranges *ranges);
// Ends the innermost range. Returns the byte that the device must set to 1 after the work so far;
// NULL: no mark is due.
unsigned char *bt_ranges_mark(bt_ranges *ranges);
// "the device has completed step/forward/block[3], not step/forward/block[4]"; "" without marks.
// For a writer that hangs. Returns text.
const char *bt_ranges_device_text(bt_ranges *ranges, char text[BT_RANGES_DEVICE_TEXT_BYTES]);

#endif
