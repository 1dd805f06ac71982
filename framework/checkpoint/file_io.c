// framework/checkpoint/file_io.c - whole reads and writes over bt_file_ops, with messages
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/file_ops.h"

bt_status bt_io_path(const char *folder, const char *name, char *path)
{
    int length = snprintf(path, BT_PATH_CAPACITY, "%s/%s", folder, name);
    if (length < 0 || length >= BT_PATH_CAPACITY) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "the path %.100s.../%s is longer than %d bytes",
                        folder, name, BT_PATH_CAPACITY - 1);
    }
    return BT_OK;
}

bt_status bt_io_failed(int64_t error, const char *what, const char *path)
{
    return bt_error(BT_STATUS_IO, "cannot %s %s: %s", what, path, strerror((int)-error));
}

bt_status bt_io_write(const bt_file_ops *ops, int file, const char *path, struct iovec *parts,
                      int count, int64_t offset)
{
    while (count > 0) {
        if (parts->iov_len == 0) {
            ++parts, --count;
            continue;
        }
        int64_t wrote = ops->write(ops->self, file, parts, count, offset);
        if (wrote == -EINTR) {
            continue;
        }
        if (wrote <= 0) {
            bt_status status = bt_io_failed(wrote < 0 ? wrote : -EIO, "write", path);
            return bt_error_context(status, "at byte %lld", (long long)offset);
        }
        offset += wrote;
        for (; count > 0 && (size_t)wrote >= parts->iov_len; ++parts, --count) {
            wrote -= (int64_t)parts->iov_len;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + wrote;
            parts->iov_len -= (size_t)wrote;
        }
    }
    return BT_OK;
}

bt_status bt_io_read(const bt_file_ops *ops, int file, const char *path, void *bytes,
                     size_t size_bytes, int64_t offset)
{
    size_t done = 0;
    while (done < size_bytes) {
        int64_t got = ops->read(ops->self, file, (char *)bytes + done, size_bytes - done,
                                offset + (int64_t)done);
        if (got == -EINTR) {
            continue;
        }
        if (got < 0) {
            return bt_io_failed(got, "read", path);
        }
        if (got == 0) {
            return bt_error(BT_STATUS_CORRUPT_DATA, "%s ends at byte %lld; expected %zu more", path,
                            (long long)offset + (long long)done, size_bytes - done);
        }
        done += (size_t)got;
    }
    return BT_OK;
}

bt_status bt_io_open(const bt_file_ops *ops, const char *path, int *file, uint64_t *size_bytes)
{
    *file = ops->open(ops->self, path, BT_FILE_READ);
    if (*file < 0) {
        return bt_io_failed(*file, "open", path);
    }
    int64_t size = ops->size(ops->self, *file);
    if (size < 0) {
        (void)ops->close(ops->self, *file);
        return size == -EISDIR ? bt_error(BT_STATUS_IO, "%s is not a regular file", path)
                               : bt_io_failed(size, "read the size of", path);
    }
    *size_bytes = (uint64_t)size;
    return BT_OK;
}

bt_status bt_io_create(const bt_file_ops *ops, const char *path, const void *bytes,
                       size_t size_bytes)
{
    int file = ops->open(ops->self, path, BT_FILE_CREATE);
    if (file < 0) {
        return bt_io_failed(file, "create", path);
    }
    struct iovec part = {(void *)(uintptr_t)bytes, size_bytes}; // struct iovec has no const pointer
    bt_status status = bt_io_write(ops, file, path, &part, 1, 0);
    int error = status == BT_OK ? ops->sync(ops->self, file) : 0;
    if (error < 0) {
        status = bt_io_failed(error, "flush", path);
    }
    error = ops->close(ops->self, file);
    return status == BT_OK && error < 0 ? bt_io_failed(error, "close", path) : status;
}

bt_status bt_io_read_file(const bt_file_ops *ops, const char *path, size_t limit_bytes,
                          void **bytes, size_t *size_bytes)
{
    int file = -1;
    uint64_t size = 0;
    *bytes = NULL;
    *size_bytes = 0;
    BT_TRY(bt_io_open(ops, path, &file, &size));
    bt_status status = BT_OK;
    if (size > limit_bytes) {
        status = bt_error(BT_STATUS_CORRUPT_DATA, "%s has %llu bytes, at most %zu are allowed",
                          path, (unsigned long long)size, limit_bytes);
    }
    if (status == BT_OK) {
        status = bt_mem_alloc((size_t)size + 1, 1, bytes);
    }
    if (status == BT_OK) {
        status = bt_io_read(ops, file, path, *bytes, (size_t)size, 0);
    }
    (void)ops->close(ops->self, file);
    if (status != BT_OK) {
        BT_MEM_FREE(*bytes);
        return status;
    }
    *size_bytes = (size_t)size;
    return BT_OK;
}

bt_status bt_io_sync_folder(const bt_file_ops *ops, const char *path)
{
    int folder = ops->open(ops->self, path, BT_FILE_FOLDER);
    if (folder < 0) {
        return bt_io_failed(folder, "open the folder", path);
    }
    int error = ops->sync(ops->self, folder);
    (void)ops->close(ops->self, folder); // nothing was written through it
    return error < 0 ? bt_io_failed(error, "flush the folder", path) : BT_OK;
}

void bt_io_parent(const char *path, char *parent)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    length = slash == path ? 1 : length;
    (void)snprintf(parent, BT_PATH_CAPACITY, "%.*s", (int)length, slash ? path : "");
    if (!slash) {
        (void)snprintf(parent, BT_PATH_CAPACITY, ".");
    }
}

bt_status bt_io_make_folders(const bt_file_ops *ops, const char *path)
{
    char part[BT_PATH_CAPACITY];
    char parent[BT_PATH_CAPACITY];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a folder's path of %zu bytes, allowed 1 to %d",
                        length, BT_PATH_CAPACITY - 1);
    }
    for (size_t end = 1; end <= length; ++end) {
        if (path[end] != '/' && path[end] != '\0') {
            continue;
        }
        (void)snprintf(part, sizeof part, "%.*s", (int)end, path);
        int folder = ops->open(ops->self, part, BT_FILE_FOLDER);
        if (folder >= 0) {
            (void)ops->close(ops->self, folder);
        }
        if (folder >= 0 || (folder == -EACCES && end < length)) { // a parent folder may be
                                                                  // unreadable
            continue;
        }
        int error = folder == -ENOENT ? ops->make_folder(ops->self, part) : folder;
        if (error < 0 && error != -EEXIST) {
            return bt_io_failed(error, "create the folder", part);
        }
        bt_io_parent(part, parent);
        BT_TRY(bt_io_sync_folder(ops, parent));
    }
    return BT_OK;
}

bt_status bt_io_remove_folder(const bt_file_ops *ops, const char *path)
{
    bt_io_names names;
    char inner[BT_PATH_CAPACITY];
    bt_status status = bt_io_list(ops, path, &names);
    for (int64_t i = 0; i < names.count && status == BT_OK; ++i) {
        status = bt_io_path(path, names.items[i], inner);
        int error = status == BT_OK ? ops->remove_file(ops->self, inner) : 0;
        if (error < 0) {
            status = bt_io_failed(error, "remove", inner);
        }
    }
    bt_io_names_release(&names);
    int error = status == BT_OK ? ops->remove_folder(ops->self, path) : 0;
    return error < 0 ? bt_io_failed(error, "remove the folder", path) : status;
}

static void collect(void *target, const char *name)
{
    bt_io_names *names = target;
    if (names->status != BT_OK) {
        return;
    }
    if (names->count == names->capacity) {
        int64_t capacity = names->capacity ? 2 * names->capacity : 16;
        void *items = names->items;
        names->status = bt_mem_resize(&items, (size_t)capacity, sizeof *names->items);
        if (names->status != BT_OK) {
            return;
        }
        names->items = items;
        names->capacity = capacity;
    }
    names->status = bt_mem_strdup(name, &names->items[names->count]);
    names->count += names->status == BT_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bt_status bt_io_list(const bt_file_ops *ops, const char *path, bt_io_names *names)
{
    *names = (bt_io_names){0};
    int error = ops->list(ops->self, path, names, collect);
    if (error < 0) {
        return bt_io_failed(error, "list the folder", path);
    }
    if (names->count > 0) {
        qsort(names->items, (size_t)names->count, sizeof *names->items, compare_names);
    }
    return names->status;
}

void bt_io_names_release(bt_io_names *names)
{
    for (int64_t i = 0; i < names->count; ++i) {
        bt_mem_free(names->items[i]);
    }
    bt_mem_free(names->items);
    *names = (bt_io_names){0};
}
