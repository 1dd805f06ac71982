// framework/compiler/tiling.h - the feasible tilings of a group's CUDA kernel, ranked by a cost
// model
//
// The emitter's own rule (emit_cuda.c) has been measured, the model is an estimate. So the tiling
// of the rule is taken unless the model predicts that another one takes less time by more than
// BT_TILING_MARGIN. Another tiling of a reduction has another order of its sum, hence other bits: a
// group that serves any number of rows keeps the rule's order, so that its bits do not depend on
// the number of rows that it was captured with. `bt-bench compile --dump groups` lists what fits
// the registers, shared memory and threads of the target, what is taken, and why.
//
// Model   time = launches * 2 us + the sum over waves of max(latency, bytes of the wave / rate)
//         A wave is as many blocks as all multiprocessors hold at once, the last one fewer. Latency
//         is one access to memory and, for each row reduction, a butterfly within a warp, and
//         between warps a barrier. Every tiling moves the group's bytes once (bt_fused_bytes);
//         column groups also write and read their partial sums. Vectors are always the widest that
//         the strides allow: narrower ones move the same bytes by more instructions.
// Limits  of the compute capability, from the CUDA C++ Programming Guide, "Technical
//         Specifications"; multiprocessors and rate are those of one card of it (tiling.c)
// Registers are estimated: addresses, the loads in flight and one result.
#ifndef BT_COMPILER_TILING_H
#define BT_COMPILER_TILING_H

#include "framework/compiler/emit.h"
#include "framework/compiler/lower.h"

// What a target offers. Sizes in bytes, registers of 32 bits.
typedef struct bt_gpu_limits {
    int arch;                               // compute capability x10
    const char *card;                       // whose multiprocessors and rate these are
    int multiprocessors;                    // of the card
    double rate_gb_s;                       // three quarters of the memory's nominal rate
    int threads, blocks, registers, shared; // of a multiprocessor
    int block_threads, block_shared;        // of a block
    int thread_registers;                   // of a thread
} bt_gpu_limits;

// The limits of the latest known capability up to arch; arch is at least 80.
const bt_gpu_limits *bt_gpu_limits_of(int arch);

enum { BT_TILINGS_MOST = 16 };

typedef struct bt_tiling {
    int threads; // of a block
    int rows;    // ROW: of a block; COLUMN: warps of a block; PRODUCT: side of its square; else 0
    int packs, lanes; // vectors of a thread, and elements of each
    int registers;    // of a thread, estimated
    int shared_bytes; // of a block
    int resident;     // blocks of a multiprocessor
    int64_t blocks;   // of the call
    double time_us;   // predicted
    bool is_rule;     // the rule's
    bool keeps_bits;  // its sums have the order of the rule's
    bool may_spill;   // the estimate exceeds what a thread can have; only the rule's is listed then
} bt_tiling;

typedef struct bt_tilings {
    bt_tiling items[BT_TILINGS_MOST]; // the shortest time first; of equal ones, the rule's first
    int count, infeasible;            // infeasible: candidates that do not fit
    int taken;                        // which one is emitted; -1: none fits, so the rule's
} bt_tilings;

// The tilings for the group's own number of rows; the same for all GPUs of a compute capability.
// Errors  UNSUPPORTED (no CUDA code is generated for the group), OUT_OF_MEMORY
BT_CHECKED bt_status bt_tilings_find(const bt_fused *group, const bt_gpu_limits *limits,
                                     bt_tilings *out);
#define BT_TILING_MARGIN 0.10 // the model's own uncertainty

// The group's code for a CUDA target, by the tiling that is taken.
// Errors  as bt_emit_cuda
// Owns    the caller: out->text (bt_str_release), also after a failure
BT_CHECKED bt_status bt_tilings_emit(const bt_target *target, const bt_fused *group,
                                     bt_emitted_cuda *out);
// Appends them as a table, one line each, and which is taken and why. Appends the reason if there
// is no code. Nothing for a CPU.
BT_CHECKED bt_status bt_tilings_print(const bt_target *target, const bt_fused *group, int number,
                                      bt_str *out);

#endif
