// framework/memory/step_plan.c - records lifetimes and packs blocks, largest first
//
// A block is placed in the lowest gap that fits between placed blocks whose lifetimes overlap its
// own. Quadratic in the number of blocks: some thousand, once.
#include "framework/memory/step_plan.h"

#include <stdlib.h>

#include "framework/base/mem.h"

bt_status bt_step_plan_alloc(bt_step_plan *plan, size_t size_bytes, int64_t *index)
{
    if (plan->count == plan->capacity) {
        int64_t capacity = plan->capacity ? 2 * plan->capacity : 256;
        void *blocks = plan->blocks;
        BT_TRY(bt_mem_resize(&blocks, (size_t)capacity, sizeof *plan->blocks));
        plan->blocks = blocks;
        plan->capacity = capacity;
    }
    *index = plan->count++;
    plan->blocks[*index] = (bt_step_block){.size_bytes = size_bytes, .born = ++plan->clock};
    return BT_OK;
}

void bt_step_plan_free(bt_step_plan *plan, int64_t index)
{
    plan->blocks[index].died = ++plan->clock;
}

static int larger_first(const void *left, const void *right)
{
    const bt_step_block *a = *(bt_step_block *const *)left;
    const bt_step_block *b = *(bt_step_block *const *)right;
    if (a->size_bytes != b->size_bytes) {
        return a->size_bytes < b->size_bytes ? 1 : -1;
    }
    return a->born < b->born ? -1 : a->born > b->born;
}

static bool live_together(const bt_step_block *a, const bt_step_block *b)
{
    return a->born < b->died && b->born < a->died;
}

// placed[count] is sorted by offset. Computes the block's offset and inserts it.
static void place(bt_step_block **placed, int64_t count, bt_step_block *block)
{
    size_t end = 0; // end of the blocks that overlap in time, so far
    for (int64_t i = 0; i < count; ++i) {
        const bt_step_block *other = placed[i];
        if (!live_together(other, block)) {
            continue;
        }
        if (other->offset_bytes >= end && other->offset_bytes - end >= block->size_bytes) {
            break;
        }
        size_t other_end = other->offset_bytes + other->size_bytes;
        end = other_end > end ? other_end : end;
    }
    block->offset_bytes = end;
    int64_t at = count;
    for (; at > 0 && placed[at - 1]->offset_bytes > end; --at) {
        placed[at] = placed[at - 1];
    }
    placed[at] = block;
}

bt_status bt_step_plan_pack(bt_step_plan *plan)
{
    void *memory = NULL;
    int64_t count = 0;
    BT_TRY(bt_mem_alloc(2 * (size_t)plan->count, sizeof(bt_step_block *), &memory));
    bt_step_block **order = memory;
    bt_step_block **placed = order + plan->count;
    for (int64_t i = 0; i < plan->count; ++i) {
        if (plan->blocks[i].died) {
            order[count++] = &plan->blocks[i];
        }
    }
    qsort(order, (size_t)count, sizeof(bt_step_block *), larger_first);
    plan->arena_bytes = 0;
    for (int64_t i = 0; i < count; ++i) {
        place(placed, i, order[i]);
        size_t end = order[i]->offset_bytes + order[i]->size_bytes;
        plan->arena_bytes = end > plan->arena_bytes ? end : plan->arena_bytes;
    }
    plan->packed = true;
    bt_mem_free(memory);
    return BT_OK;
}

void bt_step_plan_reset(bt_step_plan *plan)
{
    plan->count = plan->clock = 0;
    plan->arena_bytes = 0;
    plan->packed = plan->whole = false;
}

void bt_step_plan_release(bt_step_plan *plan)
{
    bt_mem_free(plan->blocks);
    *plan = (bt_step_plan){0};
}
