// framework/base/file.c - POSIX files
#include "framework/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"

static bt_status failed(const char *what, const char *path)
{
    return bt_error(BT_STATUS_IO, "%s %s: %s", what, path, strerror(errno));
}

bt_status bt_file_size(const char *path, uint64_t *size_bytes)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return failed("cannot read", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return bt_error(BT_STATUS_IO, "cannot read %s: not a regular file", path);
    }
    *size_bytes = (uint64_t)info.st_size;
    return BT_OK;
}

bool bt_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static bt_status read_all(int file, const char *path, char *bytes, size_t size_bytes, size_t *got)
{
    *got = 0;
    while (*got < size_bytes) {
        ssize_t part = read(file, bytes + *got, size_bytes - *got);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return failed("cannot read", path);
        }
        if (part == 0) {
            return BT_OK;
        }
        *got += (size_t)part;
    }
    return BT_OK;
}

bt_status bt_file_read(const char *path, void **bytes, size_t *size_bytes)
{
    *bytes = NULL;
    *size_bytes = 0;
    uint64_t before = 0;
    struct stat info;
    BT_TRY(bt_file_size(path, &before)); // a pipe would block in open
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return failed("cannot open", path);
    }
    // The size of the open file: its name may refer to another file by now.
    void *block = NULL;
    size_t got = 0;
    bt_status status = fstat(file, &info) == 0 ? BT_OK : failed("cannot read", path);
    if (status == BT_OK) {
        status = bt_mem_alloc((size_t)info.st_size + 1, 1, &block);
    }
    if (status == BT_OK) {
        status = read_all(file, path, block, (size_t)info.st_size, &got);
    }
    close(file);
    if (status != BT_OK) {
        bt_mem_free(block);
        return bt_error_context(status, "reading %s", path);
    }
    ((char *)block)[got] = '\0';
    *bytes = block;
    *size_bytes = got;
    return BT_OK;
}

static bt_status write_all(int file, const char *path, const char *bytes, size_t size_bytes)
{
    while (size_bytes) {
        ssize_t part = write(file, bytes, size_bytes);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return failed("cannot write", path);
        }
        bytes += part;
        size_bytes -= (size_t)part;
    }
    return fsync(file) == 0 ? BT_OK : failed("cannot flush", path);
}

static bt_status sync_folder_of(const char *path)
{
    bt_str folder = {0};
    const char *slash = strrchr(path, '/');
    if (slash) {
        bt_str_append_bytes(&folder, path, (size_t)(slash - path) + 1);
    } else {
        bt_str_append(&folder, ".");
    }
    bt_status status = bt_str_status(&folder);
    int handle =
        status == BT_OK ? open(bt_str_text(&folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (status == BT_OK && (handle < 0 || fsync(handle) != 0)) {
        status = failed("cannot flush the folder of", path);
    }
    if (handle >= 0) {
        close(handle);
    }
    bt_str_release(&folder);
    return status;
}

bt_status bt_file_write(const char *path, const void *bytes, size_t size_bytes)
{
    bt_str temporary = {0};
    bt_str_format(&temporary, "%s.%ld.tmp", path, (long)getpid());
    bt_status status = bt_str_status(&temporary);
    int file = -1;
    if (status == BT_OK) {
        file = open(bt_str_text(&temporary), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        status = file < 0 ? failed("cannot create", path) : BT_OK;
    }
    if (status == BT_OK) {
        status = write_all(file, path, bytes, size_bytes);
    }
    if (file >= 0 && close(file) != 0 && status == BT_OK) {
        status = failed("cannot close", path);
    }
    if (status == BT_OK && rename(bt_str_text(&temporary), path) != 0) {
        status = failed("cannot rename", path);
    }
    if (status != BT_OK && file >= 0) {
        (void)unlink(bt_str_text(&temporary));
    }
    bt_str_release(&temporary);
    return status == BT_OK ? sync_folder_of(path) : status;
}

bt_status bt_dir_make(const char *path)
{
    bt_str partial = {0};
    bt_status status = BT_OK;
    for (const char *end = path; status == BT_OK && *end;) {
        end = strchr(end + 1, '/');
        end = end ? end : path + strlen(path);
        bt_str_clear(&partial);
        bt_str_append_bytes(&partial, path, (size_t)(end - path));
        status = bt_str_status(&partial);
        // An existing parent is sufficient, whatever mkdir returns for it (no permission,
        // read-only).
        if (status == BT_OK && !bt_file_exists(bt_str_text(&partial)) &&
            mkdir(bt_str_text(&partial), 0755) != 0 && errno != EEXIST) {
            status = failed("cannot create the folder", bt_str_text(&partial));
        }
    }
    bt_str_release(&partial);
    BT_TRY(status);
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return bt_error(BT_STATUS_IO, "%s exists but is not a directory", path);
    }
    return BT_OK;
}

bt_status bt_disk_free(const char *path, uint64_t *free_bytes)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0) {
        return failed("cannot read the free space of", path);
    }
    *free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return BT_OK;
}

bt_status bt_file_map(const char *path, const void **bytes, size_t *size_bytes)
{
    *bytes = NULL;
    *size_bytes = 0;
    uint64_t size = 0;
    BT_TRY(bt_file_size(path, &size));
    if (size == 0) {
        return BT_OK;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return failed("cannot open", path);
    }
    void *mapping = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapping == MAP_FAILED) {
        return failed("cannot map", path);
    }
    *bytes = mapping;
    *size_bytes = (size_t)size;
    return BT_OK;
}

void bt_file_unmap(const void *bytes, size_t size_bytes)
{
    if (bytes) {
        // munmap takes no const pointer.
        (void)munmap((void *)(uintptr_t)bytes, size_bytes);
    }
}
