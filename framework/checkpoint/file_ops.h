// framework/checkpoint/file_ops.h - the file operations of a checkpoint, as a struct of functions
//
// All disk accesses of checkpoint/ go through bt_file_ops, so that a test can fail the n-th
// operation, or record all of them and simulate a power failure.
//
// Invariants
//   1. An operation returns 0 or more, or -errno. It sets no message, so the message of a failure
//      survives the cleanup.
//   2. write and read may transfer less than requested, as pwritev and pread do; the bt_io_*
//      functions repeat them.
//   3. A new file is durable after `sync` of the file and of its folder.
#ifndef BT_CHECKPOINT_FILE_OPS_H
#define BT_CHECKPOINT_FILE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "framework/base/status.h"

typedef enum bt_file_mode {
    BT_FILE_READ,   // an existing file
    BT_FILE_CREATE, // a new file, for writing; -EEXIST if the name exists
    BT_FILE_FOLDER  // an existing folder, for sync
} bt_file_mode;

typedef struct bt_file_ops {
    void *self; // borrowed; first argument of every function
    int (*open)(void *self, const char *path, bt_file_mode mode);
    int (*close)(void *self, int file);
    int64_t (*size)(void *self, int file); // -EISDIR unless a regular file
    int64_t (*read)(void *self, int file, void *bytes, size_t size_bytes, int64_t offset);
    int64_t (*write)(void *self, int file, const struct iovec *parts, int count, int64_t offset);
    // Starts writing these bytes to the disk without waiting; does not make them durable.
    int (*flush_begin)(void *self, int file, int64_t offset, int64_t size_bytes);
    int (*sync)(void *self, int file);
    int (*make_folder)(void *self, const char *path);
    int (*rename)(void *self, const char *from, const char *to);
    int (*exchange)(void *self, const char *a, const char *b); // swaps two names atomically
    int (*remove_file)(void *self, const char *path);
    int (*remove_folder)(void *self, const char *path); // an empty one
    // Calls entry for each name in a folder except "." and "..", in any order.
    int (*list)(void *self, const char *path, void *target,
                void (*entry)(void *target, const char *name));
} bt_file_ops;

// The operating system's.
extern const bt_file_ops bt_file_ops_system;

enum { BT_PATH_CAPACITY = 4096 };

// Joins folder and name into path[BT_PATH_CAPACITY]. Errors  INVALID_ARGUMENT when it is too long
BT_CHECKED bt_status bt_io_path(const char *folder, const char *name, char *path);
// The folder that holds `path`, which is shorter than that, into folder[BT_PATH_CAPACITY].
void bt_io_parent(const char *path, char *folder);
// "cannot WHAT PATH: reason" as IO; `error` is the negative result of an operation.
bt_status bt_io_failed(int64_t error, const char *what, const char *path);
// Writes all parts at `offset`; modifies `parts`.
// Errors  IO with path and byte offset
BT_CHECKED bt_status bt_io_write(const bt_file_ops *ops, int file, const char *path,
                                 struct iovec *parts, int count, int64_t offset);
// Reads exactly size_bytes. Errors  IO; CORRUPT_DATA if the file is shorter
BT_CHECKED bt_status bt_io_read(const bt_file_ops *ops, int file, const char *path, void *bytes,
                                size_t size_bytes, int64_t offset);
// Opens a file and gets its size.
BT_CHECKED bt_status bt_io_open(const bt_file_ops *ops, const char *path, int *file,
                                uint64_t *size_bytes);
// Writes a new file with these bytes and syncs it. A failure may leave a partial file.
BT_CHECKED bt_status bt_io_create(const bt_file_ops *ops, const char *path, const void *bytes,
                                  size_t size_bytes);
// Reads a whole file of at most limit_bytes and appends a zero byte.
// Owns    *bytes: the caller (bt_mem_free)
// Errors  IO, OUT_OF_MEMORY, CORRUPT_DATA (larger than the limit)
BT_CHECKED bt_status bt_io_read_file(const bt_file_ops *ops, const char *path, size_t limit_bytes,
                                     void **bytes, size_t *size_bytes);
// Makes the entries of a folder durable.
BT_CHECKED bt_status bt_io_sync_folder(const bt_file_ops *ops, const char *path);
// Makes a folder and its parents, durably; an existing folder is no error.
BT_CHECKED bt_status bt_io_make_folders(const bt_file_ops *ops, const char *path);
// Removes a folder and the files in it; subfolders are an error.
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_io_remove_folder(const bt_file_ops *ops, const char *path);

// The names in a folder, sorted.
typedef struct bt_io_names {
    char **items; // owned [count], each owned
    int64_t count, capacity;
    bt_status status; // size of the arrays
} bt_io_names;

// Owns    the caller, until bt_io_names_release, also when this fails
BT_CHECKED bt_status bt_io_list(const bt_file_ops *ops, const char *path, bt_io_names *names);
void bt_io_names_release(bt_io_names *names);

#endif
