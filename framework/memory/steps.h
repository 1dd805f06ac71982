// framework/memory/steps.h - following a repeated step: recording it, or replaying its plan
//
//             begin, no plan                     end
//     IDLE ------------------> RECORDING -----------------> IDLE, packed: an arena is wanted
//       |
//       |     begin, plan and arena              end
//       +------------------> REPLAYING ------------------> IDLE
//                                |  another size, or another order of births and deaths
//                                v                         end
//                             ASTRAY: the pool serves ----> IDLE, the plan is forgotten
//
// A step that goes astray, or that begins while blocks of an earlier one are still in the arena,
// has no use for the arena: the pool takes it apart (bt_steps_abandoned), so that no step needs
// memory beside it.
//
// Used by pool.c, which owns the arena's memory. bt_pool_step_begin in pool.h says what it is for.
#ifndef BT_MEMORY_STEPS_H
#define BT_MEMORY_STEPS_H

#include "framework/memory/address_map.h"
#include "framework/memory/pool.h"
#include "framework/memory/step_plan.h"

typedef struct bt_steps {
    bt_step_plan plans[BT_POOL_STEPS];
    int64_t serial;        // counts steps begun
    bt_step_plan *open;    // of the step under way; NULL: none, or one that is not planned
    int64_t cursor, clock; // replay: blocks so far; births and deaths so far
    bool replaying, astray;
    bool outside;        // replay: a block was not the arena's
    uint64_t changes;    // of plans and arena
    char *arena;         // borrowed from the pool, NULL when there is none
    bt_address_map live; // arena addresses in use -> block of the plan
} bt_steps;

// Which block of which recorded step a block of the pool is. Zeroed: none.
typedef struct bt_step_birth {
    int64_t serial, index;
} bt_step_birth;

// True when the step is recorded: the arena is then of no use until bt_steps_end.
bool bt_steps_begin(bt_steps *steps, int step);
// Bytes of the arena that is now wanted; 0: the one that there is will do.
size_t bt_steps_end(bt_steps *steps);
// The arena's address for the next block; NULL: the pool serves. requested_bytes and tag are kept
// with the block.
void *bt_steps_take(bt_steps *steps, size_t size_bytes, size_t requested_bytes, const char *tag);
// A block that no plan has is taken: of another stream, or aside.
void bt_steps_outside(bt_steps *steps);
// As bt_pool_step_frozen.
uint64_t bt_steps_frozen(const bt_steps *steps, int step);
// The arena is this from now on; NULL: there is none.
void bt_steps_set_arena(bt_steps *steps, char *arena);
// True when there is an arena that the step under way will not use.
bool bt_steps_abandoned(const bt_steps *steps);
// The arena is the pool's again, with all that lives in it (live lists that until this call).
void bt_steps_lose_arena(bt_steps *steps);
// True when the address was the arena's.
bool bt_steps_give(bt_steps *steps, const void *address);
// A block that the pool served is born, and dies.
void bt_steps_born(bt_steps *steps, size_t size_bytes, bt_step_birth *birth);
void bt_steps_died(bt_steps *steps, bt_step_birth *birth);
void bt_steps_release(bt_steps *steps);

#endif
