// framework/memory/step_plan.h - offsets of the blocks of a repeated step: recorded once, then
// replayed
//
// A training step allocates and frees the same sizes in the same order each time. The first one is
// recorded: each block's size and lifetime. pack() then gives each block an offset in one arena so
// that blocks which live at the same time do not overlap; the arena is about as large as the peak
// of live memory. Used by pool.c; it does not access device memory.
//
// Invariants
//   1. Packed blocks that live at the same time do not overlap; all lie within arena_bytes.
//   2. The offsets are a function of the recorded sequence alone.
// Source  greedy by size, as in Pisarchyk & Lee 2020, arXiv:2001.03288
#ifndef BT_MEMORY_STEP_PLAN_H
#define BT_MEMORY_STEP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_step_block {
    size_t size_bytes;
    int64_t born, died; // indices into the record; died 0: it outlived the step and is not packed
    size_t offset_bytes;
    size_t requested_bytes; // replay: of the block that is there now
    const char *tag;        // likewise; borrowed
} bt_step_block;

typedef struct bt_step_plan {
    bt_step_block *blocks; // owned, in order of allocation
    int64_t count, capacity;
    int64_t clock;      // allocations and frees recorded
    size_t arena_bytes; // set by pack
    bool packed;
    bool whole; // packed, and the last replay took every block from the arena, and no other
} bt_step_plan;

// Records an allocation; *index identifies it. Errors  OUT_OF_MEMORY; the plan is unchanged
BT_CHECKED bt_status bt_step_plan_alloc(bt_step_plan *plan, size_t size_bytes, int64_t *index);
void bt_step_plan_free(bt_step_plan *plan, int64_t index);
// Ends the record and places the blocks. Errors  OUT_OF_MEMORY; the plan is not packed then
BT_CHECKED bt_status bt_step_plan_pack(bt_step_plan *plan);
// Clears the record and keeps its memory.
void bt_step_plan_reset(bt_step_plan *plan);
void bt_step_plan_release(bt_step_plan *plan);

#endif
