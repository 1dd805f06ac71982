// framework/checkpoint/file_ops.c - the operating system's file operations (POSIX, Linux)
#include "framework/checkpoint/file_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int result_of(int result) { return result < 0 ? -errno : result; }

static int system_open(void *self, const char *path, bt_file_mode mode)
{
    // Without O_NONBLOCK, opening a named pipe in a checkpoint would wait for a writer.
    static const int flags[] = {O_RDONLY | O_NONBLOCK, O_WRONLY | O_CREAT | O_EXCL,
                                O_RDONLY | O_DIRECTORY};
    (void)self;
    return result_of(open(path, flags[mode] | O_CLOEXEC, 0644));
}

static int system_close(void *self, int file)
{
    (void)self;
    return result_of(close(file));
}

static int64_t system_size(void *self, int file)
{
    struct stat info;
    (void)self;
    if (fstat(file, &info) != 0) {
        return -errno;
    }
    return S_ISREG(info.st_mode) ? (int64_t)info.st_size : -EISDIR;
}

static int64_t system_read(void *self, int file, void *bytes, size_t size_bytes, int64_t offset)
{
    (void)self;
    ssize_t got = pread(file, bytes, size_bytes, offset);
    return got < 0 ? -errno : got;
}

static int64_t system_write(void *self, int file, const struct iovec *parts, int count,
                            int64_t offset)
{
    (void)self;
    ssize_t wrote = pwritev(file, parts, count, offset);
    return wrote < 0 ? -errno : wrote;
}

static int system_flush_begin(void *self, int file, int64_t offset, int64_t size_bytes)
{
    (void)self;
    return result_of(sync_file_range(file, offset, size_bytes, SYNC_FILE_RANGE_WRITE));
}

static int system_sync(void *self, int file)
{
    (void)self;
    return result_of(fsync(file));
}

static int system_make_folder(void *self, const char *path)
{
    (void)self;
    return result_of(mkdir(path, 0755));
}

static int system_rename(void *self, const char *from, const char *to)
{
    (void)self;
    return result_of(rename(from, to));
}

static int system_exchange(void *self, const char *a, const char *b)
{
    (void)self;
    return result_of(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE));
}

static int system_remove_file(void *self, const char *path)
{
    (void)self;
    return result_of(unlink(path));
}

static int system_remove_folder(void *self, const char *path)
{
    (void)self;
    return result_of(rmdir(path));
}

static int system_list(void *self, const char *path, void *target,
                       void (*entry)(void *target, const char *name))
{
    (void)self;
    DIR *folder = opendir(path);
    if (!folder) {
        return -errno;
    }
    errno = 0;
    for (const struct dirent *item = readdir(folder); item; item = readdir(folder)) {
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0) {
            entry(target, item->d_name);
        }
        errno = 0;
    }
    int error = -errno;
    (void)closedir(folder);
    return error;
}

const bt_file_ops bt_file_ops_system = {
    .open = system_open,
    .close = system_close,
    .size = system_size,
    .read = system_read,
    .write = system_write,
    .flush_begin = system_flush_begin,
    .sync = system_sync,
    .make_folder = system_make_folder,
    .rename = system_rename,
    .exchange = system_exchange,
    .remove_file = system_remove_file,
    .remove_folder = system_remove_folder,
    .list = system_list,
};
