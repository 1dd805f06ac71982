// framework/base/ranges.h - which named ranges a thread is in, for another thread to read
//
// The thread that works pushes and pops; a watching thread may read at any time, also while the
// first one hangs. No locks: a version number tells a reader that it saw a change half done.
//
// How far an asynchronous device has come is known from marks: bytes of host memory that the device
// sets, in the order of its work, at the ends of some ranges (bt_range_pop of tensor/context.h).
//
// Invariants
//   1. One thread writes. Any number read.
//   2. A path that is read was true at one moment, unless the writer was faster in every try.
//   3. `moves` grows with every push, pop and note: as long as it grows, the writer works.
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
    BT_RANGES_NAMES = 16,      // different names that are counted inside one range
    BT_RANGES_MARKS = 512,     // of one outermost range
    BT_RANGES_MARK_DEPTH = 6,  // names that are kept of a mark's path
    BT_RANGES_MARK_KERNELS = 8 // launched at least between two marks
};

typedef struct bt_range_name {
    _Atomic(const char *) name;
    atomic_int nth; // of this name inside the range around it, from 0; outermost: always 0
} bt_range_name;

typedef struct bt_ranges {
    bool watched;        // whoever opens the device keeps marks; set before work begins
    atomic_ullong moves; // odd while the writer changes something
    atomic_int depth;    // may exceed BT_RANGES_DEPTH: deeper names are lost
    bt_range_name open[BT_RANGES_DEPTH]; // outermost first
    _Atomic(const char *) note; // what is done in the innermost range, such as a kernel; or NULL
    struct {                    // of the writer alone: the names so far inside an open range
        const char *name;
        int count;
    } seen[BT_RANGES_DEPTH][BT_RANGES_NAMES];
    int seen_count[BT_RANGES_DEPTH];
    _Atomic(unsigned char *) done; // [BT_RANGES_MARKS], borrowed; the device sets a mark's to 1
    atomic_int readers;            // of `done`
    int kernels, mark_kernels;     // of the writer: since the last mark; needed for the next
    atomic_int mark_count;
    bt_range_name mark[BT_RANGES_MARKS][BT_RANGES_MARK_DEPTH];
} bt_ranges;

// `name` and `note` must outlive every reader: string constants. `ranges` NULL: nothing happens. A
// note is the launch of a kernel, NULL its end.
void bt_ranges_push(bt_ranges *ranges, const char *name);
void bt_ranges_pop(bt_ranges *ranges);
void bt_ranges_note(bt_ranges *ranges, const char *note);
uint64_t bt_ranges_moves(const bt_ranges *ranges);
// "step/forward/block[3]/attention", with " (gemm_cpu_f32)" behind it where there is a note; ""
// outside of all ranges. [3]: three of that name came before it in the range around it. Returns
// text.
const char *bt_ranges_text(const bt_ranges *ranges, char text[BT_RANGES_TEXT_BYTES]);

// ---- marks --------------------------------------------------------------------------------------

// From now on marks are kept in `done` (zeros), memory that host and device reach; NULL ends it and
// waits for readers.
void bt_ranges_marks_keep(bt_ranges *ranges, unsigned char done[BT_RANGES_MARKS]);
// An outermost range begins: where the device is to write BT_RANGES_MARKS zeros; NULL: not wanted.
unsigned char *bt_ranges_marks_clear(bt_ranges *ranges);
// The innermost range ends: which byte the device is to set to 1 behind the work so far; NULL: no
// mark is due.
unsigned char *bt_ranges_mark(bt_ranges *ranges);
// "the device has completed step/forward/block[3], not step/forward/block[4]"; "" without marks.
// For a writer that stands still. Returns text.
const char *bt_ranges_device_text(bt_ranges *ranges, char text[BT_RANGES_DEVICE_TEXT_BYTES]);

#endif
