// harness/bundle/files.h - named files in memory, and deterministic packing
//
// The packed form is tar (ustar; names sorted; mode 0644, owner 0, time 0), one zstd frame with
// size and checksum, followed by a skippable frame of 40 bytes with the SHA-256 of everything
// before it: every byte of the file is checked, also those that zstd and tar ignore.
#ifndef BT_HARNESS_BUNDLE_FILES_H
#define BT_HARNESS_BUNDLE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

#define BT_FILES_COUNT_MAX 200000

typedef struct bt_file {
    char *name;  // owned
    char *bytes; // owned, with a zero byte after the contents
    size_t size_bytes;
} bt_file;

typedef struct bt_files {
    bt_file *items; // owned, [capacity]
    int64_t count, capacity;
    bool sorted; // by name
} bt_files;

// Adds a file with the text's bytes; the text is emptied, also on failure.
BT_CHECKED bt_status bt_files_add(bt_files *files, const char *name, bt_str *text);
// The file of that name, NULL if there is none. Valid until the next add.
const bt_file *bt_files_find(const bt_files *files, const char *name);
// Removes it; a missing file is no error.
void bt_files_remove(bt_files *files, const char *name);
void bt_files_sort(bt_files *files);
void bt_files_release(bt_files *files);

// SHA-256 as 64 hex digits.
void bt_files_digest(const void *bytes, size_t size_bytes, char digest[65]);

// Sorts by name and packs.
BT_CHECKED bt_status bt_files_pack(bt_files *files, bt_str *out);
// The reverse, for untrusted bytes. Memory is limited to 256 MiB plus 1,024 times the packed size.
// Owns: *out: the caller, bt_files_release. Errors: CORRUPT_DATA (not packed by bt_files_pack, or
// changed since), OUT_OF_MEMORY
BT_CHECKED bt_status bt_files_unpack(const void *bytes, size_t size_bytes, bt_files *out);

#endif
