// framework/compiler/code_cache.h - generated code kept in a folder that processes share
//
// An entry is a file named by its key, the XXH3-128 hash of everything that the code depends on
// (lower.h). It is written under another name and renamed, so a reader sees all of it or nothing;
// where two processes make the same entry, the later rename wins, with the same contents.
//
// Invariants
//   1. find() verifies the hash of an entry: a damaged one is removed and reported as missing.
//   2. After add() the folder holds at most limit_bytes, or only the new entry, and what other
//      processes have added since this one last listed the folder: at its first add, and when the
//      limit is reached. Then entries are removed until three quarters of the limit are left, in
//      the order of their names; keys are hashes, so this order is arbitrary.
//   3. The cache is optional: a caller may record and ignore an error of add().
// find and add are thread-safe.
#ifndef BT_COMPILER_CODE_CACHE_H
#define BT_COMPILER_CODE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "framework/checkpoint/file_ops.h"

enum { BT_CODE_KEY_BYTES = 33 };                 // 32 hexadecimal digits and a zero
#define BT_CODE_CACHE_BYTES ((int64_t)256 << 20) // the usual limit

typedef struct bt_code {
    void *bytes; // owned (bt_mem_free), zero-terminated
    size_t size_bytes;
} bt_code;

void bt_code_release(bt_code *code);

typedef struct bt_code_cache {
    const bt_file_ops *ops;             // borrowed
    char *folder;                       // owned; NULL: nothing is cached
    int64_t limit_bytes;                // of all files in the folder
    atomic_llong hits, misses, damaged; // calls of find; damaged entries are misses too
    atomic_llong unwritten;             // calls of add that failed
    atomic_llong held_bytes; // of the folder as last listed, and of what was added since;
                             // -1: not listed yet
    atomic_uint writes;      // makes temporary names distinct
    char why_unwritten[256]; // the first failure of add; "": none
} bt_code_cache;

// folder NULL: a cache that stores nothing. The first add creates the folder.
BT_CHECKED bt_status bt_code_cache_open(const bt_file_ops *ops, const char *folder,
                                        int64_t limit_bytes, bt_code_cache *out);
// The same in the folder BT_CACHE_DIR/code, XDG_CACHE_HOME/blutrain/code or
// ~/.cache/blutrain/code; if none of these is set, a cache that stores nothing.
BT_CHECKED bt_status bt_code_cache_from_environment(bt_code_cache *out);
void bt_code_cache_close(bt_code_cache *cache);
// *found false: no such entry, or a damaged one.
// Errors  OUT_OF_MEMORY, INVALID_ARGUMENT (the folder's path is too long)
BT_CHECKED bt_status bt_code_cache_find(bt_code_cache *cache, const char *key, bt_code *code,
                                        bool *found);
// The same where a failure is no reason to stop: true if the code was found. A failure is a miss.
bool bt_code_cache_take(bt_code_cache *cache, const char *key, bt_code *code);
// Errors  IO naming the file (full disk, no permission), OUT_OF_MEMORY; no part of it is left
BT_CHECKED bt_status bt_code_cache_add(bt_code_cache *cache, const char *key, const void *bytes,
                                       size_t size_bytes);

#endif
