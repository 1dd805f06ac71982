// framework/compiler/emit.h - writes a fused group as MLIR
//
// Instructions that the emitters do not implement are UNSUPPORTED; such a group runs eagerly.
//
// CPU. The text has two functions of the same signature
//   kernel, kernel_past(ptr operands[], i64 rows, i64 begin, i64 end, ptr scratch)
// which execute tasks [begin, end) of bt_emit_tasks. A task's result does not depend on the thread
// that runs it, so the bits do not depend on the number of threads. kernel_past uses non-temporal
// stores (kernels/cpu/stream.h); it may be called if bt_emitted.past is set and every written
// operand is 64-byte aligned.
// Bits: as the group specifies (group.h), hence those of the eager kernels where the group
// specifies their order. A reduction of order {0} uses 32 lanes, sums 16 elements of a lane in its
// type, then adds in f64; a column sum is accumulated in f64, rows ascending. A product
// needs an order with lanes 1: its sum over k ascends.
//
// CUDA. The text has one kernel: kernel(ptr operand 0, ptr operand 1, ..., i64 rows), to be
// launched with bt_emitted_cuda's shape. Row groups keep a row in registers: it is read once. Sums
// of order {0} are accumulated in `sum` by the tree of kernels/cuda/rows.cuh: elements of a thread
// ascending, lanes by butterfly, warps ascending; deterministic. Functions: emit_math_cuda.c.
// Column groups have a second kernel, finish, launched after the first; both take one more
// argument, a buffer of bt_emit_parts_bytes for the partial sums of BT_CUDA_CHUNK rows each.
// Products: bf16 and tf32 by mma.sync, sums in f32 (emit_cuda_product.c). Not supported: inner
// strides other than 0 and 1, orders with lanes.
// A kernel for early launch (programmatic dependent launch) begins with griddepcontrol.wait. It
// has no griddepcontrol.launch_dependents: its successor is launched as its last block exits. So
// when a wait begins, all kernels but the previous one have ended.
//
// Operands do not overlap, unless they are the same memory with the same strides.
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
// The number of tasks of a call; `rows` is the size of axis 0.
int64_t bt_emit_tasks(const bt_fused *group, const bt_emitted *emitted, int64_t rows);

enum {
    BT_CUDA_ROW_MOST = 16384, // columns of a row group
    BT_CUDA_CHUNK = 128       // rows of a block of a column group
};

// The shape of a kernel's blocks. tiling.h lists the feasible ones.
typedef struct bt_cuda_tiling {
    int threads; // of a block: whole warps
    int rows;    // ROW: of a block; PRODUCT: rows and columns of a block; else 0
} bt_cuda_tiling;

// Launch configuration of a kernel.
typedef struct bt_emitted_cuda {
    bt_str text;            // owned
    int threads;            // of a block
    int64_t block_rows;     // ROW: rows of a block
    int64_t block_elements; // ELEMENTWISE: elements of a block, all axes together
    int64_t tile_columns;   // COLUMN: columns of a block
    int64_t tile_side;      // PRODUCT: rows and columns of a block
    int alignment_bytes;    // required of every operand's memory
    bool is_early;          // may be launched before the previous kernel of the stream has ended
} bt_emitted_cuda;

// is_early: for early launch, which the target must have (bt_target.has_early_launch). tiling NULL:
// the emitter's rule. The tiling decides the order in which a row or column is summed; elementwise
// and product groups have the same bits by every tiling.
// Errors  UNSUPPORTED, naming the instruction, or a tiling that the group cannot have;
//         OUT_OF_MEMORY
// Owns    the caller: text (bt_str_release), also after a failure
BT_CHECKED bt_status bt_emit_cuda(const bt_fused *group, const bt_cuda_tiling *tiling,
                                  bool is_early, bt_emitted_cuda *out);
// The launch configuration by the emitter's rule, without a text. For groups that
// bt_emit_cuda_refuses has no reason against.
void bt_emit_cuda_rule(const bt_fused *group, bt_emitted_cuda *out);
// The reason why no code can be generated, as far as kinds, rows, strides and functions show; NULL:
// none known. Groups that fuse forms by it have code.
const char *bt_emit_cuda_refuses(const bt_fused *group);
// Blocks of a call; `rows` is the size of axis 0.
int64_t bt_emit_blocks(const bt_fused *group, const bt_emitted_cuda *emitted, int64_t rows);
// BT_OK if the blocks of such a call can be counted by generated code and by a launch.
// Errors  UNSUPPORTED
BT_CHECKED bt_status bt_emit_check_rows(const bt_fused *group, const bt_emitted_cuda *emitted,
                                        int64_t rows);
// Blocks of the second kernel; 0: there is none. Its blocks have as many threads as the first's.
int64_t bt_emit_finish_blocks(const bt_fused *group);
// Bytes of the buffer between the two kernels; 0: none.
int64_t bt_emit_parts_bytes(const bt_fused *group, int64_t rows);

#endif
