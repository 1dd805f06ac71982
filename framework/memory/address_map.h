// framework/memory/address_map.h - maps block addresses to the pool's records
//
// Open addressing with linear probing; at most half full, so a probe is short. Only
// bt_address_map_reserve allocates: an insertion after it, and every removal, cannot fail.
#ifndef BT_MEMORY_ADDRESS_MAP_H
#define BT_MEMORY_ADDRESS_MAP_H

#include <stddef.h>

#include "framework/base/status.h"

typedef struct bt_address_entry {
    const void *address; // NULL: the slot is empty
    void *value;
} bt_address_entry;

typedef struct bt_address_map {
    bt_address_entry *slots; // owned, [capacity]
    size_t capacity;         // 0 or a power of two
    size_t count;
} bt_address_map;

// Reserves capacity for `count` entries in total.
// Errors  OUT_OF_MEMORY; the map is unchanged
BT_CHECKED bt_status bt_address_map_reserve(bt_address_map *map, size_t count);
// The address must be absent, not NULL, and capacity reserved for it.
void bt_address_map_insert(bt_address_map *map, const void *address, void *value);
// NULL if absent.
void *bt_address_map_find(const bt_address_map *map, const void *address);
// Returns the removed value, NULL if absent.
void *bt_address_map_remove(bt_address_map *map, const void *address);
void bt_address_map_release(bt_address_map *map);

#endif
