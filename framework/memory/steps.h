// framework/memory/steps.h - state of a repeated step: recording it, or replaying its plan
//
//             begin, no plan                     end
//     IDLE ------------------> RECORDING -----------------> IDLE, packed: an arena is needed
//       |
//       |     begin, plan and arena              end
//       +------------------> REPLAYING ------------------> IDLE
//                                |  another size, or another order of allocations and frees
//                                v                         end
//                             ASTRAY: the pool serves ----> IDLE, the plan is dropped
//
// A step that deviates (ASTRAY), or that begins while blocks of an earlier one are still in the
// arena, cannot use the arena: the pool releases it (bt_steps_abandoned), so that no step needs
// memory in addition.
//
// Used by pool.c, which owns the arena's memory; see bt_pool_step_begin in pool.h.
#ifndef BT_MEMORY_STEPS_H
#define BT_MEMORY_STEPS_H

#include "framework/memory/address_map.h"
#include "framework/memory/pool.h"
#include "framework/memory/step_plan.h"

typedef struct bt_steps {
    bt_step_plan plans[BT_POOL_STEPS];
    int64_t serial;        // number of steps begun
    bt_step_plan *open;    // plan of the current step; NULL: none, or a step that is not planned
    int64_t cursor, clock; // replay: blocks so far; allocations and frees so far
    bool replaying, astray;
    bool outside;        // replay: a block did not come from the arena
    uint64_t changes;    // of plans and arena
    char *arena;         // borrowed from the pool, NULL if there is none
    bt_address_map live; // arena addresses in use -> block of the plan
} bt_steps;

// Identifies a block of a recorded step. Zeroed: none.
typedef struct bt_step_birth {
    int64_t serial, index;
} bt_step_birth;

// True if the step is recorded: the arena is then unused until bt_steps_end.
bool bt_steps_begin(bt_steps *steps, int step);
// Size of the arena that is now needed; 0: the current one is sufficient.
size_t bt_steps_end(bt_steps *steps);
// The arena's address for the next block; NULL: the pool serves it. requested_bytes and tag are
// stored with the block.
void *bt_steps_take(bt_steps *steps, size_t size_bytes, size_t requested_bytes, const char *tag);
// A block outside of all plans is allocated: of another stream, or optional memory.
void bt_steps_outside(bt_steps *steps);
// As bt_pool_step_frozen.
uint64_t bt_steps_frozen(const bt_steps *steps, int step);
// Sets the arena; NULL: there is none.
void bt_steps_set_arena(bt_steps *steps, char *arena);
// True if there is an arena that the current step will not use.
bool bt_steps_abandoned(const bt_steps *steps);
// The pool takes the arena back, with all its live blocks (`live` lists them until this call).
void bt_steps_lose_arena(bt_steps *steps);
// True if the address belonged to the arena.
bool bt_steps_give(bt_steps *steps, const void *address);
// A block served by the pool is allocated, and freed.
void bt_steps_born(bt_steps *steps, size_t size_bytes, bt_step_birth *birth);
void bt_steps_died(bt_steps *steps, bt_step_birth *birth);
void bt_steps_release(bt_steps *steps);

#endif
