// framework/base/ranges.h - which named ranges a thread is in, for another thread to read
//
// The thread that works pushes and pops; a watching thread may read at any time, also while the
// first one hangs. No locks: a version number tells a reader that it saw a change half done.
//
// Invariants
//   1. One thread writes. Any number read.
//   2. A path that is read was true at one moment, unless the writer was faster in every try.
//   3. `moves` grows with every push, pop and note: as long as it grows, the writer works.
#ifndef BT_BASE_RANGES_H
#define BT_BASE_RANGES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { BT_RANGES_DEPTH = 24, BT_RANGES_TEXT_BYTES = 512 };

typedef struct bt_ranges {
    atomic_ullong moves; // odd while the writer changes something
    atomic_int depth;    // may exceed BT_RANGES_DEPTH: deeper names are lost
    _Atomic(const char *) name[BT_RANGES_DEPTH]; // outermost first
    _Atomic(const char *) note; // what is done in the innermost range, such as a kernel; or NULL
} bt_ranges;

// `name` and `note` must outlive every reader: string constants. `ranges` NULL: nothing happens.
void bt_ranges_push(bt_ranges *ranges, const char *name);
void bt_ranges_pop(bt_ranges *ranges);
void bt_ranges_note(bt_ranges *ranges, const char *note);
uint64_t bt_ranges_moves(const bt_ranges *ranges);
// "step/forward/block/attention", with " (gemm_cpu_f32)" behind it where there is a note; ""
// outside of all ranges. Returns text.
const char *bt_ranges_text(const bt_ranges *ranges, char text[BT_RANGES_TEXT_BYTES]);

#endif
