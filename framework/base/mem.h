// framework/base/mem.h - host memory for our own structures: heap with injectable failure, arena
//
// Every host allocation of the framework and harness goes through here, so that a test can make
// the n-th one fail (n = 1, 2, 3 ...) and check that nothing leaks and the status says so.
// Tensor storage does not: that is framework/memory.
#ifndef BT_BASE_MEM_H
#define BT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zeroed memory for `count` items of `size_bytes`, aligned for any type. A zero product yields a
// unique pointer that may be freed.
// Owns    the caller, until bt_mem_free
// Errors  OUT_OF_MEMORY (real, injected, or a product that overflows)
BT_CHECKED bt_status bt_mem_alloc(size_t count, size_t size_bytes, void **out);
// Grows or shrinks *block to hold `count` items; contents up to the smaller size are kept, the
// rest is not zeroed. On failure *block is unchanged.
BT_CHECKED bt_status bt_mem_resize(void **block, size_t count, size_t size_bytes);
// A copy of a string. Owns: the caller.
BT_CHECKED bt_status bt_mem_strdup(const char *text, char **out);
void bt_mem_free(void *block);

// Allocations made and not yet freed, in this process. For leak checks in tests.
int64_t bt_mem_live_count(void);
// Makes the n-th allocation from now (1: the next) fail, once; 0 turns injection off.
void bt_mem_fail_at(int64_t n);
// Whether that failure has not happened yet.
bool bt_mem_fail_pending(void);

// Frees *pointer and sets it to NULL.
#define BT_MEM_FREE(pointer)                                                                       \
    do {                                                                                           \
        bt_mem_free(pointer);                                                                      \
        (pointer) = NULL;                                                                          \
    } while (0)

// Bump allocator: many small blocks, freed together. Blocks are zeroed and 16-byte aligned.
typedef struct bt_arena {
    struct bt_arena_chunk *chunks; // owned, newest first
    size_t used_bytes;             // in the newest chunk
} bt_arena;

BT_CHECKED bt_status bt_arena_alloc(bt_arena *arena, size_t size_bytes, void **out);

// Allocates zeroed items for the pointer *out, whose type determines the item size; NULL on
// failure. Ownership is as with bt_mem_alloc or bt_arena_alloc.
#define BT_MEM_ARRAY(count, out) bt_mem_array((size_t)(count), sizeof **(out), (out))
#define BT_ARENA_ARRAY(arena, count, out)                                                          \
    bt_arena_array((arena), (size_t)(count), sizeof **(out), (out))
// Grows *items to at least `count` items (int64_t) and sets *capacity (int64_t); the capacity
// doubles. Contents are kept, new items are not zeroed. On failure nothing changes.
#define BT_MEM_GROW(count, capacity, items)                                                        \
    bt_mem_grow((count), (capacity), sizeof **(items), (items))
// Their functions: `out` is the address of a pointer to an object.
BT_CHECKED bt_status bt_mem_array(size_t count, size_t size_bytes, void *out);
BT_CHECKED bt_status bt_arena_array(bt_arena *arena, size_t count, size_t size_bytes, void *out);
BT_CHECKED bt_status bt_mem_grow(int64_t count, int64_t *capacity, size_t size_bytes, void *out);

// Frees all blocks but keeps the newest chunk for reuse.
void bt_arena_reset(bt_arena *arena);
void bt_arena_release(bt_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
