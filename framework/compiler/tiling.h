// framework/compiler/tiling.h - the feasible tilings of a group's CUDA kernel, ranked by a cost
// model
//
// For a reader (`bt-bench compile --dump groups`). The emitter's own rule decides (emit_cuda.c);
// this list shows what else fits the registers, shared memory and threads of the target, what each
// is predicted to take, and where the model prefers another one, which is then to be measured.
// Another tiling of a reduction also has another order of its sum, hence other bits.
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
    bool is_taken;    // the emitter's choice
    bool
        may_spill; // the estimate exceeds what a thread can have; only the taken one is listed then
} bt_tiling;

typedef struct bt_tilings {
    bt_tiling items[BT_TILINGS_MOST]; // the shortest time first; of equal ones, the taken one first
    int count, infeasible;            // infeasible: candidates that do not fit
} bt_tilings;

// The tilings for the group's own number of rows.
// Errors  UNSUPPORTED (no CUDA code is generated for the group), OUT_OF_MEMORY
BT_CHECKED bt_status bt_tilings_find(const bt_fused *group, const bt_gpu_limits *limits,
                                     bt_tilings *out);
// The tiling that the model prefers to the taken one: predicted to be faster by more than
// BT_TILING_MARGIN, the model's own uncertainty. NULL: none.
#define BT_TILING_MARGIN 0.10
const bt_tiling *bt_tilings_preferred(const bt_tilings *tilings);
// Appends them as a table, one line each, and which is taken and why. Appends the reason if there
// is no code. Nothing for a CPU.
BT_CHECKED bt_status bt_tilings_print(const bt_target *target, const bt_fused *group, int number,
                                      bt_str *out);

#endif
