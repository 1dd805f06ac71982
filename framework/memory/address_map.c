// framework/memory/address_map.c - open addressing; removal shifts the cluster back, no tombstones
#include "framework/memory/address_map.h"

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/mem.h"

enum { SMALLEST_CAPACITY = 64 };

// Start of the probe sequence of an address. Blocks are 256-byte aligned: the low bits are always
// 0.
static size_t home_of(const bt_address_map *map, const void *address)
{
    uint64_t key = (uint64_t)(uintptr_t)address >> 8;
    return (size_t)((key * 0x9E3779B97F4A7C15U) >> 20) & (map->capacity - 1);
}

static size_t slot_of(const bt_address_map *map, const void *address)
{
    size_t slot = home_of(map, address);
    while (map->slots[slot].address && map->slots[slot].address != address) {
        slot = (slot + 1) & (map->capacity - 1);
    }
    return slot;
}

bt_status bt_address_map_reserve(bt_address_map *map, size_t count)
{
    size_t capacity = map->capacity ? map->capacity : SMALLEST_CAPACITY;
    while (capacity < 2 * count) {
        capacity *= 2;
    }
    if (capacity == map->capacity) {
        return BT_OK;
    }
    void *slots = NULL;
    BT_TRY(bt_mem_alloc(capacity, sizeof *map->slots, &slots));
    bt_address_map grown = {slots, capacity, 0};
    for (size_t i = 0; i < map->capacity; ++i) {
        if (map->slots[i].address) {
            bt_address_map_insert(&grown, map->slots[i].address, map->slots[i].value);
        }
    }
    bt_mem_free(map->slots);
    *map = grown;
    return BT_OK;
}

void bt_address_map_insert(bt_address_map *map, const void *address, void *value)
{
    size_t slot = slot_of(map, address);
    map->slots[slot] = (bt_address_entry){address, value};
    ++map->count;
}

void *bt_address_map_find(const bt_address_map *map, const void *address)
{
    return map->capacity && address ? map->slots[slot_of(map, address)].value : NULL;
}

void *bt_address_map_remove(bt_address_map *map, const void *address)
{
    void *value = bt_address_map_find(map, address);
    if (!value) {
        return NULL;
    }
    size_t mask = map->capacity - 1;
    size_t hole = slot_of(map, address);
    for (size_t next = (hole + 1) & mask; map->slots[next].address; next = (next + 1) & mask) {
        size_t home = home_of(map, map->slots[next].address);
        bool reaches_hole = ((next - home) & mask) >= ((next - hole) & mask);
        if (reaches_hole) {
            map->slots[hole] = map->slots[next];
            hole = next;
        }
    }
    map->slots[hole] = (bt_address_entry){NULL, NULL};
    --map->count;
    return value;
}

void bt_address_map_release(bt_address_map *map)
{
    bt_mem_free(map->slots);
    *map = (bt_address_map){0};
}
