// harness/bundle/libarchive.h - libarchive, opened when a bundle first needs it
//
// Only bundles need it, and it loads an XML library with 31 MB of Unicode tables. So it is not
// linked: a machine without it runs everything else, and portable folders do not contain it. Calls
// go through bt_archive: bt_archive.write_new() is archive_write_new().
#ifndef BT_HARNESS_BUNDLE_LIBARCHIVE_H
#define BT_HARNESS_BUNDLE_LIBARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

#include "framework/base/status.h"

// X(name without archive_): the functions that are called.
#define BT_ARCHIVE_LIST(X)                                                                         \
    X(entry_filetype)                                                                              \
    X(entry_free)                                                                                  \
    X(entry_hardlink)                                                                              \
    X(entry_new)                                                                                   \
    X(entry_pathname)                                                                              \
    X(entry_set_filetype)                                                                          \
    X(entry_set_mtime)                                                                             \
    X(entry_set_pathname)                                                                          \
    X(entry_set_perm)                                                                              \
    X(entry_set_size)                                                                              \
    X(entry_size)                                                                                  \
    X(entry_symlink)                                                                               \
    X(read_data)                                                                                   \
    X(read_free)                                                                                   \
    X(read_new)                                                                                    \
    X(read_next_header)                                                                            \
    X(read_open_memory)                                                                            \
    X(read_support_format_tar)                                                                     \
    X(write_close)                                                                                 \
    X(write_data)                                                                                  \
    X(write_free)                                                                                  \
    X(write_header)                                                                                \
    X(write_new)                                                                                   \
    X(write_open)                                                                                  \
    X(write_set_bytes_per_block)                                                                   \
    X(write_set_format_ustar)

typedef struct bt_archive_functions {
#define BT_ARCHIVE_FIELD(name) __typeof__(archive_##name) *name;
    BT_ARCHIVE_LIST(BT_ARCHIVE_FIELD)
#undef BT_ARCHIVE_FIELD
} bt_archive_functions;

// Filled by bt_archive_open(), once; before that all NULL.
extern bt_archive_functions bt_archive;

// Opens the library; it stays open. Errors  UNAVAILABLE (not installed, with how to install it)
BT_CHECKED bt_status bt_archive_open(void);

#endif
