// tests/support/fake_disk.c - inodes, a log of changes, and its replay
#include "tests/support/fake_disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/rng.h"
#include "tests/support/test.h"

enum { NAME_CAPACITY = 64, MOST_ENTRIES = 64, MOST_INODES = 4096, MOST_OPEN = 64 };

typedef struct entry {
    char name[NAME_CAPACITY]; // "": free
    int inode;
} entry;

typedef struct inode {
    bool folder;
    unsigned char *bytes; // owned
    size_t size_bytes;
    entry *entries; // owned [MOST_ENTRIES], of a folder
} inode;

typedef enum change_kind {
    CHANGE_WRITE,   // inode, offset, bytes
    CHANGE_SYNC,    // inode
    CHANGE_LINK,    // inode (a folder), name, target
    CHANGE_UNLINK,  // inode, name
    CHANGE_RENAME,  // inode, name -> other, target
    CHANGE_EXCHANGE // inode, name <-> other, target, other_target
} change_kind;

typedef struct change {
    change_kind kind;
    int inode, target, other_target;
    char name[NAME_CAPACITY], other[NAME_CAPACITY];
    int64_t offset;
    unsigned char *bytes; // owned
    size_t size_bytes;
} change;

struct fake_disk {
    bt_file_ops ops;
    inode inodes[MOST_INODES]; // 0 is the root
    int inode_count;
    struct {
        bool used;
        int inode;
    } open[MOST_OPEN];
    change *log; // owned
    int64_t log_count, log_capacity;
    int64_t operations, countdown, room_bytes, interruptions;
    int error;
    bool forever, broken, ignore_sync;
    const char *failed;
    size_t most_bytes;
    void (*hook)(void *self);
    void *hook_self;
};

// ---- faults -------------------------------------------------------------------------------------

// The error that this operation is to answer, 0 for none.
static int fault(fake_disk *disk, const char *name, bool changes)
{
    ++disk->operations;
    if (disk->countdown > 0 && --disk->countdown == 0) {
        disk->failed = name;
        disk->broken = disk->forever;
        return disk->error;
    }
    return disk->broken && changes ? disk->error : 0;
}

#define FAULT(name, changes)                                                                       \
    do {                                                                                           \
        int fault_error = fault(self, name, changes);                                              \
        if (fault_error) {                                                                         \
            return -fault_error;                                                                   \
        }                                                                                          \
    } while (0)

// ---- inodes -------------------------------------------------------------------------------------

static int add_inode(fake_disk *disk, bool folder)
{
    assert_true(disk->inode_count < MOST_INODES);
    inode *made = &disk->inodes[disk->inode_count];
    *made = (inode){.folder = folder};
    made->entries = folder ? calloc(MOST_ENTRIES, sizeof *made->entries) : NULL;
    return disk->inode_count++;
}

static entry *find(const fake_disk *disk, int folder, const char *name)
{
    for (int i = 0; i < MOST_ENTRIES && disk->inodes[folder].entries; ++i) {
        if (strcmp(disk->inodes[folder].entries[i].name, name) == 0) {
            return &disk->inodes[folder].entries[i];
        }
    }
    return NULL;
}

static void set(fake_disk *disk, int folder, const char *name, int target)
{
    entry *at = find(disk, folder, name);
    at = at ? at : find(disk, folder, "");
    assert_non_null(at);
    if (at) {
        (void)snprintf(at->name, sizeof at->name, "%s", name);
        at->inode = target;
    }
}

static void drop(fake_disk *disk, int folder, const char *name)
{
    entry *at = find(disk, folder, name);
    if (at) {
        at->name[0] = '\0';
    }
}

// The folder that holds a path and the name in it. -ENOENT, -ENOTDIR
static int resolve(const fake_disk *disk, const char *path, char name[NAME_CAPACITY])
{
    int folder = 0;
    name[0] = '\0';
    while (*path) {
        path += strspn(path, "/");
        size_t length = strcspn(path, "/");
        if (length == 0) {
            break;
        }
        if (name[0]) {
            const entry *at = find(disk, folder, name);
            if (!at) {
                return -ENOENT;
            }
            folder = at->inode;
            if (!disk->inodes[folder].folder) {
                return -ENOTDIR;
            }
        }
        assert_true(length < NAME_CAPACITY);
        memcpy(name, path, length);
        name[length] = '\0';
        path += length;
    }
    return folder;
}

static int lookup(const fake_disk *disk, const char *path)
{
    char name[NAME_CAPACITY];
    int folder = resolve(disk, path, name);
    if (folder < 0 || !name[0]) {
        return folder;
    }
    const entry *at = find(disk, folder, name);
    return at ? at->inode : -ENOENT;
}

static void put(inode *file, const unsigned char *bytes, size_t size_bytes, int64_t offset)
{
    size_t end = (size_t)offset + size_bytes;
    if (end > file->size_bytes) {
        file->bytes = realloc(file->bytes, end);
        memset(file->bytes + file->size_bytes, 0, end - file->size_bytes);
        file->size_bytes = end;
    }
    if (size_bytes) {
        memcpy(file->bytes + offset, bytes, size_bytes);
    }
}

// ---- changes ------------------------------------------------------------------------------------

static bool coin(uint64_t seed, int64_t change_index, uint64_t part)
{
    uint32_t words[4];
    bt_rng_block((bt_rng){seed, (uint64_t)change_index}, part, words);
    return words[0] & 1;
}

static void apply_write(fake_disk *disk, const change *c, int64_t index, bool whole, uint64_t seed)
{
    inode *file = &disk->inodes[c->inode];
    if (whole) {
        put(file, c->bytes, c->size_bytes, c->offset);
        return;
    }
    for (size_t at = 0; at < c->size_bytes;) {
        uint64_t sector = ((uint64_t)c->offset + at) / FAKE_SECTOR_BYTES;
        size_t end = (size_t)((sector + 1) * FAKE_SECTOR_BYTES - (uint64_t)c->offset);
        end = end < c->size_bytes ? end : c->size_bytes;
        if (coin(seed, index, sector)) {
            put(file, c->bytes + at, end - at, c->offset + (int64_t)at);
        }
        at = end;
    }
    if (coin(seed, index, UINT64_MAX)) { // the size is there, the bytes may be not
        put(file, c->bytes, 0, c->offset + (int64_t)c->size_bytes);
    }
}

static void apply(fake_disk *disk, const change *c, int64_t index, bool whole, uint64_t seed)
{
    if (c->kind == CHANGE_WRITE) {
        apply_write(disk, c, index, whole, seed);
    } else if (c->kind == CHANGE_SYNC || (!whole && !coin(seed, index, 0))) {
        return;
    } else if (c->kind == CHANGE_LINK) {
        set(disk, c->inode, c->name, c->target);
    } else if (c->kind == CHANGE_UNLINK) {
        drop(disk, c->inode, c->name);
    } else if (c->kind == CHANGE_RENAME) {
        drop(disk, c->inode, c->name);
        set(disk, c->inode, c->other, c->target);
    } else {
        set(disk, c->inode, c->name, c->other_target);
        set(disk, c->inode, c->other, c->target);
    }
}

static void record(fake_disk *disk, const change *c)
{
    if (disk->log_count == disk->log_capacity) {
        disk->log_capacity = disk->log_capacity ? 2 * disk->log_capacity : 64;
        disk->log = realloc(disk->log, (size_t)disk->log_capacity * sizeof *disk->log);
    }
    disk->log[disk->log_count] = *c;
    if (c->kind == CHANGE_WRITE) {
        disk->log[disk->log_count].bytes = malloc(c->size_bytes + 1);
        memcpy(disk->log[disk->log_count].bytes, c->bytes, c->size_bytes);
    }
    apply(disk, c, disk->log_count++, true, 0);
}

fake_disk *fake_disk_cut(const fake_disk *disk, int64_t prefix, fake_loss loss, uint64_t seed)
{
    fake_disk *after = fake_disk_make();
    bool synced[MOST_INODES] = {false};
    bool *durable = calloc((size_t)prefix + 1, sizeof *durable);
    for (int i = 1; i < disk->inode_count; ++i) {
        (void)add_inode(after, disk->inodes[i].folder);
    }
    for (int64_t i = prefix - 1; i >= 0; --i) {
        const change *c = &disk->log[i];
        synced[c->inode] = synced[c->inode] || c->kind == CHANGE_SYNC;
        durable[i] = synced[c->inode];
    }
    for (int64_t i = 0; i < prefix; ++i) {
        if (durable[i] || loss != FAKE_LOSE_ALL) {
            apply(after, &disk->log[i], i, durable[i] || loss == FAKE_LOSE_NONE, seed);
        }
    }
    free(durable);
    return after;
}

// ---- operations ---------------------------------------------------------------------------------

static int disk_open(void *self, const char *path, bt_file_mode mode)
{
    fake_disk *disk = self;
    char name[NAME_CAPACITY];
    FAULT("open", mode == BT_FILE_CREATE);
    int at = lookup(disk, path);
    if (mode == BT_FILE_CREATE) {
        int folder = resolve(disk, path, name);
        if (at >= 0 || folder < 0) {
            return at >= 0 ? -EEXIST : folder;
        }
        at = add_inode(disk, false);
        change c = {.kind = CHANGE_LINK, .inode = folder, .target = at};
        memcpy(c.name, name, sizeof name);
        record(disk, &c);
    }
    if (at < 0 || (mode == BT_FILE_FOLDER && !disk->inodes[at].folder)) {
        return at < 0 ? at : -ENOTDIR;
    }
    for (int i = 0; i < MOST_OPEN; ++i) {
        if (!disk->open[i].used) {
            disk->open[i].used = true;
            disk->open[i].inode = at;
            return i;
        }
    }
    return -EMFILE;
}

static int inode_of(const fake_disk *disk, int file)
{
    assert_true(file >= 0 && file < MOST_OPEN && disk->open[file].used);
    return disk->open[file].inode;
}

static int disk_close(void *self, int file)
{
    fake_disk *disk = self;
    (void)inode_of(disk, file);
    disk->open[file].used = false; // closed, whatever it answers
    FAULT("close", true);
    return 0;
}

static int64_t disk_size(void *self, int file)
{
    const fake_disk *disk = self;
    FAULT("size", false);
    const inode *at = &disk->inodes[inode_of(disk, file)];
    return at->folder ? -EISDIR : (int64_t)at->size_bytes;
}

static size_t shorten(fake_disk *disk, size_t size_bytes, bool *interrupted)
{
    *interrupted = disk->most_bytes && disk->interruptions++ % 3 == 0;
    return disk->most_bytes && size_bytes > disk->most_bytes ? disk->most_bytes : size_bytes;
}

static int64_t disk_read(void *self, int file, void *bytes, size_t size_bytes, int64_t offset)
{
    fake_disk *disk = self;
    const inode *at = &disk->inodes[inode_of(disk, file)];
    bool interrupted = false;
    FAULT("read", false);
    size_bytes = shorten(disk, size_bytes, &interrupted);
    size_t left = (size_t)offset < at->size_bytes ? at->size_bytes - (size_t)offset : 0;
    size_bytes = size_bytes < left ? size_bytes : left;
    if (size_bytes && !interrupted) {
        memcpy(bytes, at->bytes + offset, size_bytes);
    }
    return interrupted ? -EINTR : (int64_t)size_bytes;
}

static int64_t disk_write(void *self, int file, const struct iovec *parts, int count,
                          int64_t offset)
{
    fake_disk *disk = self;
    bool interrupted = false;
    size_t total = 0;
    FAULT("write", true);
    if (disk->hook) {
        disk->hook(disk->hook_self);
    }
    for (int i = 0; i < count; ++i) {
        total += parts[i].iov_len;
    }
    total = shorten(disk, total, &interrupted);
    if (interrupted) {
        return -EINTR;
    }
    if (disk->room_bytes >= 0) { // the last write before the end is a short one
        total = total < (size_t)disk->room_bytes ? total : (size_t)disk->room_bytes;
        disk->room_bytes -= (int64_t)total;
        if (total == 0) {
            return -ENOSPC;
        }
    }
    unsigned char *bytes = malloc(total + 1);
    size_t used = 0;
    for (int i = 0; i < count && used < total; ++i) {
        size_t part = parts[i].iov_len < total - used ? parts[i].iov_len : total - used;
        memcpy(bytes + used, parts[i].iov_base, part);
        used += part;
    }
    record(disk, &(change){.kind = CHANGE_WRITE,
                           .inode = inode_of(disk, file),
                           .offset = offset,
                           .bytes = bytes,
                           .size_bytes = total});
    free(bytes);
    return (int64_t)total;
}

static int disk_flush_begin(void *self, int file, int64_t offset, int64_t size_bytes)
{
    (void)offset, (void)size_bytes;
    (void)inode_of(self, file);
    FAULT("flush_begin", true);
    return 0;
}

static int disk_sync(void *self, int file)
{
    fake_disk *disk = self;
    FAULT("sync", true);
    if (!disk->ignore_sync) {
        record(disk, &(change){.kind = CHANGE_SYNC, .inode = inode_of(disk, file)});
    }
    return 0;
}

static int disk_make_folder(void *self, const char *path)
{
    fake_disk *disk = self;
    FAULT("make_folder", true);
    change c = {.kind = CHANGE_LINK};
    c.inode = resolve(disk, path, c.name);
    if (c.inode < 0 || lookup(disk, path) >= 0) {
        return c.inode < 0 ? c.inode : -EEXIST;
    }
    c.target = add_inode(disk, true);
    record(disk, &c);
    return 0;
}

static bool is_empty(const fake_disk *disk, int folder)
{
    for (int i = 0; i < MOST_ENTRIES; ++i) {
        if (disk->inodes[folder].entries[i].name[0]) {
            return false;
        }
    }
    return true;
}

// Both names in one folder, as checkpoints have them.
static int disk_move(fake_disk *disk, change_kind kind, const char *from, const char *to)
{
    change c = {.kind = kind, .target = lookup(disk, from), .other_target = lookup(disk, to)};
    c.inode = resolve(disk, from, c.name);
    if (c.target < 0 || c.inode < 0) {
        return c.target < 0 ? c.target : c.inode;
    }
    if (kind == CHANGE_EXCHANGE && c.other_target < 0) {
        return c.other_target;
    }
    if (kind == CHANGE_RENAME && c.other_target >= 0 && !is_empty(disk, c.other_target)) {
        return -ENOTEMPTY;
    }
    assert_int_equal(resolve(disk, to, c.other), c.inode);
    record(disk, &c);
    return 0;
}

static int disk_rename(void *self, const char *from, const char *to)
{
    FAULT("rename", true);
    return disk_move(self, CHANGE_RENAME, from, to);
}

static int disk_exchange(void *self, const char *a, const char *b)
{
    FAULT("exchange", true);
    return disk_move(self, CHANGE_EXCHANGE, a, b);
}

static int disk_remove(fake_disk *disk, const char *path, bool folder)
{
    change c = {.kind = CHANGE_UNLINK};
    int at = lookup(disk, path);
    c.inode = resolve(disk, path, c.name);
    if (at < 0) {
        return at;
    }
    if (disk->inodes[at].folder != folder) {
        return folder ? -ENOTDIR : -EISDIR;
    }
    if (folder && !is_empty(disk, at)) {
        return -ENOTEMPTY;
    }
    record(disk, &c);
    return 0;
}

static int disk_remove_file(void *self, const char *path)
{
    FAULT("remove_file", true);
    return disk_remove(self, path, false);
}

static int disk_remove_folder(void *self, const char *path)
{
    FAULT("remove_folder", true);
    return disk_remove(self, path, true);
}

static int disk_list(void *self, const char *path, void *target,
                     void (*give)(void *target, const char *name))
{
    const fake_disk *disk = self;
    FAULT("list", false);
    int at = lookup(disk, path);
    if (at < 0 || !disk->inodes[at].folder) {
        return at < 0 ? at : -ENOTDIR;
    }
    for (int i = 0; i < MOST_ENTRIES; ++i) {
        if (disk->inodes[at].entries[i].name[0]) {
            give(target, disk->inodes[at].entries[i].name);
        }
    }
    return 0;
}

// ---- interface ----------------------------------------------------------------------------------

fake_disk *fake_disk_make(void)
{
    fake_disk *disk = calloc(1, sizeof *disk);
    disk->room_bytes = -1;
    disk->ops = (bt_file_ops){.self = disk,
                              .open = disk_open,
                              .close = disk_close,
                              .size = disk_size,
                              .read = disk_read,
                              .write = disk_write,
                              .flush_begin = disk_flush_begin,
                              .sync = disk_sync,
                              .make_folder = disk_make_folder,
                              .rename = disk_rename,
                              .exchange = disk_exchange,
                              .remove_file = disk_remove_file,
                              .remove_folder = disk_remove_folder,
                              .list = disk_list};
    (void)add_inode(disk, true);
    return disk;
}

void fake_disk_free(fake_disk *disk)
{
    for (int i = 0; i < disk->inode_count; ++i) {
        free(disk->inodes[i].bytes);
        free(disk->inodes[i].entries);
    }
    for (int64_t i = 0; i < disk->log_count; ++i) {
        free(disk->log[i].bytes);
    }
    free(disk->log);
    free(disk);
}

const bt_file_ops *fake_disk_ops(fake_disk *disk) { return &disk->ops; }
int64_t fake_disk_operations(const fake_disk *disk) { return disk->operations; }
int64_t fake_disk_changes(const fake_disk *disk) { return disk->log_count; }
const char *fake_disk_failed(const fake_disk *disk) { return disk->failed; }
void fake_disk_room(fake_disk *disk, int64_t room_bytes) { disk->room_bytes = room_bytes; }
void fake_disk_short(fake_disk *disk, size_t most_bytes) { disk->most_bytes = most_bytes; }
void fake_disk_ignore_sync(fake_disk *disk, bool ignore) { disk->ignore_sync = ignore; }

void fake_disk_fail(fake_disk *disk, int64_t n, int error, bool forever)
{
    disk->countdown = n;
    disk->error = error;
    disk->forever = forever;
    disk->broken = false;
    disk->failed = NULL;
}

int fake_disk_open_count(const fake_disk *disk)
{
    int count = 0;
    for (int i = 0; i < MOST_OPEN; ++i) {
        count += disk->open[i].used;
    }
    return count;
}

void fake_disk_on_write(fake_disk *disk, void (*hook)(void *self), void *self)
{
    disk->hook = hook;
    disk->hook_self = self;
}

unsigned char *fake_disk_bytes(const fake_disk *disk, const char *path, size_t *size_bytes)
{
    int at = lookup(disk, path);
    *size_bytes = at < 0 ? 0 : disk->inodes[at].size_bytes;
    return at < 0 ? NULL : disk->inodes[at].bytes;
}
