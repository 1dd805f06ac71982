// framework/base/file.h - whole-file reads, atomic writes, folders
//
// Messages name the path, what was tried and the system's reason.
#ifndef BT_BASE_FILE_H
#define BT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

// Reads a whole file. A zero byte is appended to the contents, so text can be used as a string.
// Owns    *bytes: the caller (bt_mem_free)
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_file_read(const char *path, void **bytes, size_t *size_bytes);
// Writes a file atomically: temporary name in the same folder, fsync, rename, fsync of the folder.
BT_CHECKED bt_status bt_file_write(const char *path, const void *bytes, size_t size_bytes);
bool bt_file_exists(const char *path);
BT_CHECKED bt_status bt_file_size(const char *path, uint64_t *size_bytes);
// Makes a folder and its parents; an existing folder is no error.
BT_CHECKED bt_status bt_dir_make(const char *path);
// Bytes available to an unprivileged writer on the file system of `path`.
BT_CHECKED bt_status bt_disk_free(const char *path, uint64_t *free_bytes);
// A read-only shared mapping of a file. An empty file maps to NULL, 0.
BT_CHECKED bt_status bt_file_map(const char *path, const void **bytes, size_t *size_bytes);
void bt_file_unmap(const void *bytes, size_t size_bytes);

#endif
