// framework/compiler/emit.h - writes a fused group as MLIR
//
// What the emitters do not know is UNSUPPORTED: the group then runs eagerly.
//
// CPU. The text has two functions of the same signature
//   kernel, kernel_past(ptr operands[], i64 rows, i64 begin, i64 end, ptr scratch)
// which do tasks [begin, end) of those that bt_emit_tasks counts; threads share tasks, so the bits
// do not depend on their number. kernel_past writes past the cache (kernels/cpu/stream.h); it may
// be called where bt_emitted.past says so and every written operand begins on 64 bytes.
// Bits: those of the group's description (group.h), and so the eager kernels' where the description
// is theirs. A reduction of order {0} is made in 32 lanes, 16 elements of a lane in its type, then
// in f64; a column sum ascends in f64.
//
// Operands do not overlap, or are the same memory with the same strides.
#ifndef BT_COMPILER_EMIT_H
#define BT_COMPILER_EMIT_H

#include "framework/compiler/group.h"

typedef struct bt_emitted {
    bt_str text;           // owned
    int64_t task_elements; // ELEMENTWISE: elements of the last axis in a task; COLUMN: columns
    int64_t scratch_bytes; // for each thread, 64-byte aligned
    bool past;             // kernel_past may be called
} bt_emitted;

// Errors  UNSUPPORTED, naming the instruction; OUT_OF_MEMORY
// Owns    the caller, bt_emitted_release, also after a failure
BT_CHECKED bt_status bt_emit_cpu(const bt_fused *group, bt_emitted *out);
void bt_emitted_release(bt_emitted *emitted);
// How many tasks a call has; `rows` is the size of axis 0.
int64_t bt_emit_tasks(const bt_fused *group, const bt_emitted *emitted, int64_t rows);

#endif
