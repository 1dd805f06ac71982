// framework/checkpoint/hash.h - XXH3-128 as 32 hexadecimal digits
#ifndef BT_CHECKPOINT_HASH_H
#define BT_CHECKPOINT_HASH_H

#include <stddef.h>
#include <stdio.h>

#include <xxhash.h>

static inline void bt_xxh3_text(XXH128_hash_t hash, char hex[33])
{
    (void)snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
}

static inline void bt_xxh3_hex(const void *bytes, size_t size_bytes, char hex[33])
{
    bt_xxh3_text(XXH3_128bits(bytes, size_bytes), hex);
}

#endif
