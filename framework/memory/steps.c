// framework/memory/steps.c - records and replays a repeated step
//
// If host memory runs out, the plan is lost, but the allocation succeeds: the pool serves it.
#include "framework/memory/steps.h"

#include <assert.h>

static void forget(bt_steps *steps, bt_step_plan *plan)
{
    ++steps->changes;
    bt_step_plan_reset(plan);
}

bool bt_steps_begin(bt_steps *steps, int step)
{
    assert(!steps->open && step >= 0 && step < BT_POOL_STEPS);
    ++steps->serial;
    steps->astray = steps->live.count > 0;
    if (steps->astray) {
        return false; // a block of an earlier step is still in use, so the arena is not free
    }
    steps->open = &steps->plans[step];
    steps->replaying = steps->open->packed && steps->arena;
    steps->cursor = steps->clock = 0;
    steps->outside = false;
    if (!steps->replaying) {
        forget(steps, steps->open);
    }
    return !steps->replaying;
}

size_t bt_steps_end(bt_steps *steps)
{
    bt_step_plan *plan = steps->open;
    size_t wanted = 0;
    const bool astray = steps->astray;
    steps->open = NULL;
    steps->astray = false;
    if (!plan) {
        return 0;
    }
    if (steps->replaying) {
        plan->whole = !steps->outside;
        if (astray || steps->cursor != plan->count) {
            forget(steps, plan);
        }
        return 0;
    }
    bt_error_quiet_begin();
    ++steps->changes;
    if (bt_step_plan_pack(plan) != BT_OK) {
        forget(steps, plan);
    }
    bt_error_quiet_end();
    for (int i = 0; i < BT_POOL_STEPS; ++i) {
        const bt_step_plan *each = &steps->plans[i];
        wanted = each->packed && each->arena_bytes > wanted ? each->arena_bytes : wanted;
    }
    return wanted;
}

// The order of allocations and frees must be the recorded one: else offsets could overlap in time.
static bool has_room(bt_steps *steps)
{
    bt_error_quiet_begin();
    const bt_status status = bt_address_map_reserve(&steps->live, steps->live.count + 1);
    bt_error_quiet_end();
    return status == BT_OK;
}

void *bt_steps_take(bt_steps *steps, size_t size_bytes, size_t requested_bytes, const char *tag)
{
    if (!steps->open || !steps->replaying || steps->astray) {
        return NULL;
    }
    bt_step_block *next =
        steps->cursor < steps->open->count ? &steps->open->blocks[steps->cursor++] : NULL;
    if (!next || next->size_bytes != size_bytes || next->born != ++steps->clock ||
        !has_room(steps)) {
        steps->astray = true;
        return NULL;
    }
    if (!next->died) {
        steps->outside = true; // it outlives the step
        return NULL;
    }
    next->requested_bytes = requested_bytes;
    next->tag = tag;
    bt_address_map_insert(&steps->live, steps->arena + next->offset_bytes, next);
    return steps->arena + next->offset_bytes;
}

void bt_steps_outside(bt_steps *steps) { steps->outside = true; }

uint64_t bt_steps_frozen(const bt_steps *steps, int step)
{
    assert(step >= 0 && step < BT_POOL_STEPS);
    return steps->arena && steps->plans[step].whole ? steps->changes : 0;
}

void bt_steps_set_arena(bt_steps *steps, char *arena)
{
    ++steps->changes;
    steps->arena = arena;
}

bool bt_steps_abandoned(const bt_steps *steps) { return steps->arena && steps->astray; }

void bt_steps_lose_arena(bt_steps *steps)
{
    bt_address_map_release(&steps->live);
    bt_steps_set_arena(steps, NULL);
    steps->astray = true;
}

bool bt_steps_give(bt_steps *steps, const void *address)
{
    const bt_step_block *freed = bt_address_map_remove(&steps->live, address);
    if (freed && steps->open && !steps->astray) {
        steps->astray = freed->died != ++steps->clock;
    }
    return freed != NULL;
}

void bt_steps_born(bt_steps *steps, size_t size_bytes, bt_step_birth *birth)
{
    *birth = (bt_step_birth){0};
    if (!steps->open || steps->replaying) {
        return;
    }
    bt_error_quiet_begin();
    if (bt_step_plan_alloc(steps->open, size_bytes, &birth->index) == BT_OK) {
        birth->serial = steps->serial;
    } else {
        forget(steps, steps->open);
        steps->open = NULL;
    }
    bt_error_quiet_end();
}

void bt_steps_died(bt_steps *steps, bt_step_birth *birth)
{
    if (birth->serial && steps->open && birth->serial == steps->serial) {
        bt_step_plan_free(steps->open, birth->index);
    }
    *birth = (bt_step_birth){0};
}

void bt_steps_release(bt_steps *steps)
{
    for (int i = 0; i < BT_POOL_STEPS; ++i) {
        bt_step_plan_release(&steps->plans[i]);
    }
    bt_address_map_release(&steps->live);
}
