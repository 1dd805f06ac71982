// framework/checkpoint/safetensors.h - the header of a safetensors file: checked reading, writing
//
// A file is: 8 bytes little-endian size of the header, the header (JSON, padded with spaces), the
// data. The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets from
// the start of the data; "__metadata__" maps texts to texts.
// Source: github.com/huggingface/safetensors, section "Format".
//
// Invariants of what a read accepts
//   1. The tensors cover the data exactly: no overlap, no gap, no bytes after the last one.
//   2. Names are valid UTF-8, not empty, and unique; so is every key of an object.
//   3. A tensor's bytes are its shape's product times its element size, computed without overflow.
//      They may begin anywhere: other writers do not align them.
// This file does not read or write the data; callers do, using the offsets.
#ifndef BT_CHECKPOINT_SAFETENSORS_H
#define BT_CHECKPOINT_SAFETENSORS_H

#include "framework/base/str.h"
#include "framework/checkpoint/file_ops.h"
#include "framework/tensor/tensor.h"

enum {
    BT_SAFETENSORS_PREFIX_BYTES = 8,        // the header's size
    BT_SAFETENSORS_HEADER_LIMIT = 16 << 20, // larger headers are refused
    BT_SAFETENSORS_ALIGNMENT = 4096,        // alignment of the data, in our files
    BT_SAFETENSORS_NAME_LIMIT = 1024        // bytes of a name
};

typedef struct bt_safetensors_entry {
    char *name; // owned if parsed; borrowed if to be written
    bt_dtype dtype;
    bt_shape shape;
    uint64_t offset_bytes; // from the start of the file
    uint64_t size_bytes;
    int64_t index; // the caller's; kept when entries are sorted
} bt_safetensors_entry;

typedef struct bt_safetensors {
    bt_safetensors_entry *entries; // owned [count], sorted by name
    int64_t count;
    uint64_t head_bytes; // prefix and header: offset of the data
    uint64_t file_bytes;
} bt_safetensors;

// Checks the header of a file of file_bytes. `head` holds its first head_bytes bytes, at least the
// whole header; `path` is for messages.
// Owns    *out: the caller, until bt_safetensors_release, also when this fails
// Errors  CORRUPT_DATA (byte offset, tensor), UNSUPPORTED (a type or rank that we do not have),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_safetensors_parse(const char *path, const void *head, size_t head_bytes,
                                          uint64_t file_bytes, bt_safetensors *out);
// Reads and checks the header of an open file of that size. If xxh3 is not NULL, it becomes the
// XXH3-128 of the header, as hex.
BT_CHECKED bt_status bt_safetensors_read(const bt_file_ops *ops, int file, const char *path,
                                         uint64_t file_bytes, bt_safetensors *out, char xxh3[33]);
void bt_safetensors_release(bt_safetensors *file);
// NULL if there is none of this name.
const bt_safetensors_entry *bt_safetensors_find(const bt_safetensors *file, const char *name);

// Errors  INVALID_ARGUMENT (a name that is empty, too long, not UTF-8, twice or "__metadata__"),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_safetensors_check_names(const bt_safetensors_entry *entries, int64_t count);
// Sorts entries by descending element size (stable), sets their offsets and sizes, and makes the
// header, padded so that the data begins at a multiple of `alignment` (a power of two, 8 or more).
// metadata: pairs of texts, terminated by NULL; NULL: none.
// Errors  as bt_safetensors_check_names; INVALID_ARGUMENT for sizes that overflow
BT_CHECKED bt_status bt_safetensors_head(bt_safetensors_entry *entries, int64_t count,
                                         const char *const *metadata, uint64_t alignment,
                                         bt_str *head, uint64_t *file_bytes);

// Bytes of a contiguous tensor; false if they overflow or a size is negative.
bool bt_safetensors_bytes(bt_dtype dtype, const bt_shape *shape, uint64_t *size_bytes);
// The format's name of a type ("F32"), and the reverse; false if we do not have the type.
const char *bt_safetensors_dtype_name(bt_dtype dtype);
bool bt_safetensors_dtype_parse(const char *name, bt_dtype *dtype);

#endif
