// framework/compiler/code_cache.c - generated code kept in a folder that processes share
#include "framework/compiler/code_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/environment.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/checkpoint/hash.h"

// Header of an entry; the code follows. Change the magic with the layout.
typedef struct entry_head {
    char magic[8];
    uint64_t size_bytes; // of the code
    char key[40];        // zero-padded
    char hash[40];       // of the code, zero-padded
} entry_head;

static const char magic[8] = "BTCODE1";

enum { ENTRY_MOST_BYTES = 64 << 20 };

void bt_code_release(bt_code *code)
{
    bt_mem_free(code->bytes);
    memset(code, 0, sizeof *code);
}

bt_status bt_code_cache_open(const bt_file_ops *ops, const char *folder, int64_t limit_bytes,
                             bt_code_cache *out)
{
    memset(out, 0, sizeof *out);
    out->ops = ops;
    out->limit_bytes = limit_bytes;
    out->held_bytes = -1;
    return folder ? bt_mem_strdup(folder, &out->folder) : BT_OK;
}

bt_status bt_code_cache_from_environment(bt_code_cache *out)
{
    const char *own = bt_environment(BT_VARIABLE_CACHE_DIR);
    const char *shared = bt_environment(BT_VARIABLE_XDG_CACHE_HOME);
    const char *home = bt_environment(BT_VARIABLE_HOME);
    char folder[BT_PATH_CAPACITY] = "";
    if (own) {
        (void)snprintf(folder, sizeof folder, "%s/code", own);
    } else if (shared) {
        (void)snprintf(folder, sizeof folder, "%s/blutrain/code", shared);
    } else if (home) {
        (void)snprintf(folder, sizeof folder, "%s/.cache/blutrain/code", home);
    }
    return bt_code_cache_open(&bt_file_ops_system, *folder ? folder : NULL, BT_CODE_CACHE_BYTES,
                              out);
}

void bt_code_cache_close(bt_code_cache *cache) { BT_MEM_FREE(cache->folder); }

// ---- reading ------------------------------------------------------------------------------------

// Checks the bytes of an entry and returns its code in their place; false: damaged.
static bool unwrap(const char *key, bt_code *code)
{
    entry_head head;
    char hash[33];
    if (code->size_bytes < sizeof head) {
        return false;
    }
    memcpy(&head, code->bytes, sizeof head);
    char *contents = (char *)code->bytes + sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) != 0 ||
        head.size_bytes != code->size_bytes - sizeof head ||
        strncmp(head.key, key, sizeof head.key) != 0) {
        return false;
    }
    code->size_bytes -= sizeof head;
    bt_xxh3_hex(contents, code->size_bytes, hash);
    memmove(code->bytes, contents, code->size_bytes + 1); // with the terminating zero
    return strncmp(head.hash, hash, sizeof head.hash) == 0;
}

bt_status bt_code_cache_find(bt_code_cache *cache, const char *key, bt_code *code, bool *found)
{
    char path[BT_PATH_CAPACITY];
    *found = false;
    memset(code, 0, sizeof *code);
    if (!cache->folder) {
        return BT_OK;
    }
    BT_TRY(bt_io_path(cache->folder, key, path));
    bt_error_quiet_begin();
    const bt_status status =
        bt_io_read_file(cache->ops, path, ENTRY_MOST_BYTES, &code->bytes, &code->size_bytes);
    bt_error_quiet_end();
    if (status == BT_STATUS_OUT_OF_MEMORY) {
        return bt_error(status, "host memory for generated code");
    }
    if (status == BT_OK && unwrap(key, code)) {
        *found = true;
        atomic_fetch_add(&cache->hits, 1);
        return BT_OK;
    }
    bt_code_release(code);
    atomic_fetch_add(&cache->misses, 1);
    if (status == BT_OK || status == BT_STATUS_CORRUPT_DATA) {
        atomic_fetch_add(&cache->damaged, 1);
        (void)cache->ops->remove_file(cache->ops->self, path);
    }
    return BT_OK;
}

bool bt_code_cache_take(bt_code_cache *cache, const char *key, bt_code *code)
{
    bool found = false;
    bt_error_quiet_begin();
    if (bt_code_cache_find(cache, key, code, &found)) {
        found = false;
    }
    bt_error_quiet_end();
    return found;
}

// ---- writing ------------------------------------------------------------------------------------

static int64_t file_bytes(const bt_file_ops *ops, const char *path)
{
    const int file = ops->open(ops->self, path, BT_FILE_READ);
    if (file < 0) {
        return 0;
    }
    const int64_t size = ops->size(ops->self, file);
    (void)ops->close(ops->self, file);
    return size < 0 ? 0 : size;
}

// Lists the folder, and if it holds more than the limit, removes entries until three quarters of it
// are left; never removes `kept`. Entries that cannot be read or removed are skipped: another
// process may have removed them.
static void evict(bt_code_cache *cache, const char *kept)
{
    bt_io_names names = {0};
    char path[BT_PATH_CAPACITY];
    int64_t total = 0, most = cache->limit_bytes;
    if (bt_io_list(cache->ops, cache->folder, &names) == BT_OK) {
        for (int64_t i = 0; i < names.count; ++i) {
            if (bt_io_path(cache->folder, names.items[i], path) == BT_OK) {
                total += file_bytes(cache->ops, path);
            }
        }
        most = total > most ? most / 4 * 3 : most;
        for (int64_t i = 0; i < names.count && total > most; ++i) {
            if (strcmp(names.items[i], kept) == 0 ||
                bt_io_path(cache->folder, names.items[i], path) != BT_OK) {
                continue;
            }
            const int64_t size = file_bytes(cache->ops, path);
            if (cache->ops->remove_file(cache->ops->self, path) == 0) {
                total -= size;
            }
        }
    }
    atomic_store(&cache->held_bytes, total);
    bt_io_names_release(&names);
}

// Counts an entry; lists the folder only if its size is not known, or above the limit.
static void count_entry(bt_code_cache *cache, const char *key, int64_t size_bytes)
{
    const long long held = atomic_load(&cache->held_bytes);
    if (held < 0 || held + size_bytes > cache->limit_bytes) {
        evict(cache, key);
    } else {
        atomic_fetch_add(&cache->held_bytes, size_bytes);
    }
}

// Writes the entry under a temporary name that is unique to this process.
static bt_status write_entry(const bt_code_cache *cache, const char *path, const char *key,
                             const void *bytes, size_t size_bytes)
{
    const bt_file_ops *ops = cache->ops;
    entry_head head = {.size_bytes = size_bytes};
    memcpy(head.magic, magic, sizeof magic);
    (void)snprintf(head.key, sizeof head.key, "%s", key);
    bt_xxh3_hex(bytes, size_bytes, head.hash);
    const int file = ops->open(ops->self, path, BT_FILE_CREATE);
    if (file < 0) {
        return bt_io_failed(file, "create", path);
    }
    struct iovec parts[] = {{&head, sizeof head}, {(void *)(uintptr_t)bytes, size_bytes}};
    bt_status status = bt_io_write(ops, file, path, parts, 2, 0);
    const int closed = ops->close(ops->self, file);
    if (status == BT_OK && closed < 0) {
        status = bt_io_failed(closed, "close", path);
    }
    return status;
}

static bt_status add(bt_code_cache *cache, const char *key, const void *bytes, size_t size_bytes)
{
    char path[BT_PATH_CAPACITY], temporary[BT_PATH_CAPACITY], name[96];
    (void)snprintf(name, sizeof name, "%s.%ld.%u.tmp", key, (long)getpid(),
                   atomic_fetch_add(&cache->writes, 1));
    BT_TRY(bt_io_path(cache->folder, key, path));
    BT_TRY(bt_io_path(cache->folder, name, temporary));
    BT_TRY(bt_io_make_folders(cache->ops, cache->folder));
    bt_status status = write_entry(cache, temporary, key, bytes, size_bytes);
    if (status == BT_OK) {
        const int renamed = cache->ops->rename(cache->ops->self, temporary, path);
        status = renamed < 0 ? bt_io_failed(renamed, "rename", temporary) : BT_OK;
    }
    if (status) {
        (void)cache->ops->remove_file(cache->ops->self, temporary);
    }
    return status;
}

bt_status bt_code_cache_add(bt_code_cache *cache, const char *key, const void *bytes,
                            size_t size_bytes)
{
    if (!cache->folder) {
        return BT_OK;
    }
    const bt_status status = add(cache, key, bytes, size_bytes);
    if (status) {
        if (atomic_fetch_add(&cache->unwritten, 1) == 0) {
            (void)snprintf(cache->why_unwritten, sizeof cache->why_unwritten, "%s",
                           bt_error_message());
        }
        return bt_error_context(status, "generated code was not saved to the cache");
    }
    bt_error_quiet_begin();
    count_entry(cache, key, (int64_t)(size_bytes + sizeof(entry_head)));
    bt_error_quiet_end();
    return BT_OK;
}
