// framework/base/mem.c - counted heap with injectable failure, and the arena
#include "framework/base/scoped.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK_BYTES = 64 * 1024, GROW_FROM = 64 };

static atomic_llong live_count;
static atomic_llong fail_countdown;

static bt_status refuse(size_t count, size_t size_bytes)
{
    return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory: %zu x %zu bytes", count, size_bytes);
}

// True for the allocation that a test asked to fail.
static int injected(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) {
        return 0;
    }
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

bt_status bt_mem_alloc(size_t count, size_t size_bytes, void **out)
{
    size_t total = 0;
    *out = NULL;
    if (injected() || __builtin_mul_overflow(count, size_bytes, &total)) {
        return refuse(count, size_bytes);
    }
    *out = calloc(1, total ? total : 1);
    if (!*out) {
        return refuse(count, size_bytes);
    }
    atomic_fetch_add(&live_count, 1);
    return BT_OK;
}

bt_status bt_mem_resize(void **block, size_t count, size_t size_bytes)
{
    size_t total = 0;
    if (injected() || __builtin_mul_overflow(count, size_bytes, &total)) {
        return refuse(count, size_bytes);
    }
    void *grown = realloc(*block, total ? total : 1);
    if (!grown) {
        return refuse(count, size_bytes);
    }
    if (!*block) {
        atomic_fetch_add(&live_count, 1);
    }
    *block = grown;
    return BT_OK;
}

bt_status bt_mem_strdup(const char *text, char **out)
{
    size_t size_bytes = strlen(text) + 1;
    void *copy = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(size_bytes, 1, &copy));
    memcpy(copy, text, size_bytes);
    *out = copy;
    return BT_OK;
}

void bt_mem_free(void *block)
{
    if (block) {
        atomic_fetch_sub(&live_count, 1);
        free(block);
    }
}

void bt_mem_free_local(void *pointer)
{
    void *block = NULL;
    memcpy(&block, pointer, sizeof block);
    bt_mem_free(block);
}

int64_t bt_mem_live_count(void) { return atomic_load(&live_count); }

void bt_mem_fail_at(int64_t n) { atomic_store(&fail_countdown, n); }

bool bt_mem_fail_pending(void) { return atomic_load(&fail_countdown) > 0; }

struct bt_arena_chunk {
    struct bt_arena_chunk *next; // owned
    size_t capacity_bytes;
    _Alignas(16) unsigned char bytes[];
};

bt_status bt_arena_alloc(bt_arena *arena, size_t size_bytes, void **out)
{
    struct bt_arena_chunk *chunk = arena->chunks;
    *out = NULL;
    if (size_bytes > SIZE_MAX / 2) { // rounding and the chunk's header would overflow
        return refuse(1, size_bytes);
    }
    size_t rounded = (size_bytes + 15) & ~(size_t)15;
    if (!chunk || chunk->capacity_bytes - arena->used_bytes < rounded) {
        size_t capacity = rounded > ARENA_CHUNK_BYTES ? rounded : ARENA_CHUNK_BYTES;
        void *fresh = NULL;
        BT_TRY(bt_mem_alloc(1, sizeof *chunk + capacity, &fresh));
        chunk = fresh;
        chunk->next = arena->chunks;
        chunk->capacity_bytes = capacity;
        arena->chunks = chunk;
        arena->used_bytes = 0;
    }
    *out = chunk->bytes + arena->used_bytes;
    memset(*out, 0, rounded);
    arena->used_bytes += rounded;
    return BT_OK;
}

bt_status bt_mem_array(size_t count, size_t size_bytes, void *out)
{
    void *block = NULL;
    bt_status status = bt_mem_alloc(count, size_bytes, &block);
    memcpy(out, &block, sizeof block);
    return status;
}

bt_status bt_mem_grow(int64_t count, int64_t *capacity, size_t size_bytes, void *out)
{
    const int64_t twice = *capacity > 0 ? 2 * *capacity : GROW_FROM;
    const int64_t larger = count > twice ? count : twice;
    void *block = NULL;
    if (count <= *capacity) {
        return BT_OK;
    }
    memcpy(&block, out, sizeof block);
    BT_TRY(bt_mem_resize(&block, (size_t)larger, size_bytes));
    memcpy(out, &block, sizeof block);
    *capacity = larger;
    return BT_OK;
}

bt_status bt_arena_array(bt_arena *arena, size_t count, size_t size_bytes, void *out)
{
    void *block = NULL;
    bt_status status = size_bytes > 0 && count > SIZE_MAX / size_bytes
                           ? refuse(count, size_bytes)
                           : bt_arena_alloc(arena, count * size_bytes, &block);
    memcpy(out, &block, sizeof block);
    return status;
}

static void free_chunks(struct bt_arena_chunk *chunk)
{
    while (chunk) {
        struct bt_arena_chunk *next = chunk->next;
        bt_mem_free(chunk);
        chunk = next;
    }
}

void bt_arena_reset(bt_arena *arena)
{
    if (arena->chunks) {
        free_chunks(arena->chunks->next);
        arena->chunks->next = NULL;
    }
    arena->used_bytes = 0;
}

void bt_arena_release(bt_arena *arena)
{
    free_chunks(arena->chunks);
    arena->chunks = NULL;
    arena->used_bytes = 0;
}
