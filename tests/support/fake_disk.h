// tests/support/fake_disk.h - a disk in memory that fails on demand and can lose its power
//
// It records every change. fake_disk_cut makes the disk that a machine finds after the power went
// before operation `prefix`: what was synced is there; of the rest, each sector of a write, each
// file's new size and each change of a folder is there or not, independently of the others. That is
// weaker than what journaling file systems promise, so what survives it survives them.
#ifndef BT_TESTS_SUPPORT_FAKE_DISK_H
#define BT_TESTS_SUPPORT_FAKE_DISK_H

#include "framework/checkpoint/file_ops.h"

enum { FAKE_SECTOR_BYTES = 512 };

typedef struct fake_disk fake_disk;

// What happens to unsynced changes when the power fails.
typedef enum fake_loss { FAKE_LOSE_ALL, FAKE_LOSE_NONE, FAKE_LOSE_SOME } fake_loss;

fake_disk *fake_disk_make(void);
void fake_disk_free(fake_disk *disk);
// Borrowed from the disk.
const bt_file_ops *fake_disk_ops(fake_disk *disk);

// Operations so far; the n-th operation from now on (1 is the next) answers -error, and with
// `forever` all changes after it do. n 0: none fails.
int64_t fake_disk_operations(const fake_disk *disk);
void fake_disk_fail(fake_disk *disk, int64_t n, int error, bool forever);
// Whether that operation has occurred; its name ("write").
const char *fake_disk_failed(const fake_disk *disk);
// Bytes that may still be written before -ENOSPC; below 0: no limit.
void fake_disk_room(fake_disk *disk, int64_t room_bytes);
// Reads and writes do at most so many bytes, every third answers -EINTR first; 0: all.
void fake_disk_short(fake_disk *disk, size_t most_bytes);
// sync reports success and does nothing.
void fake_disk_ignore_sync(fake_disk *disk, bool ignore);
// Files that are open.
int fake_disk_open_count(const fake_disk *disk);
// Called in each write, on the thread that writes; NULL: nothing.
void fake_disk_on_write(fake_disk *disk, void (*hook)(void *self), void *self);

// The contents of a file, borrowed; NULL when there is none.
unsigned char *fake_disk_bytes(const fake_disk *disk, const char *path, size_t *size_bytes);

// Changes so far.
int64_t fake_disk_changes(const fake_disk *disk);
// Owns    the caller
fake_disk *fake_disk_cut(const fake_disk *disk, int64_t prefix, fake_loss loss, uint64_t seed);

#endif
