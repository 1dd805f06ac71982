// framework/data/shard.h - token shards: the file format in which corpora are stored
//
// A shard is 256 little-endian int32 (magic 20240520, version 1, token count, 253 unused) followed
// by that many little-endian uint16 token ids, and nothing else. Pre-tokenised FineWeb shards have
// this format. Reading maps the file; nothing is copied.
//
// Invariants
//   1. An opened shard has a valid header, and its file has exactly the size given there.
//   2. The path of a writer has the old contents or a complete shard, never a part.
//
// Opening a shard does not check its token ids; bt_shard_scan does, once per file.
// A file that shrinks while it is mapped ends the process with SIGBUS, as with any mapping.
#ifndef BT_DATA_SHARD_H
#define BT_DATA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

enum {
    BT_SHARD_MAGIC = 20240520,
    BT_SHARD_VERSION = 1,
    BT_SHARD_HEADER_BYTES = 1024,
};

typedef struct bt_shard {
    char *path;             // owned
    const void *mapping;    // owned, the whole file
    size_t mapping_bytes;   //
    const uint16_t *tokens; // [count], inside mapping
    int64_t count;
} bt_shard;

// Checks the bytes of a shard and finds its tokens. `name` is used in messages.
// Owns    *tokens points into bytes, which must be 2-byte aligned
// Errors  CORRUPT_DATA (file, byte offset, expected, got)
BT_CHECKED bt_status bt_shard_parse(const char *name, const void *bytes, size_t size_bytes,
                                    const uint16_t **tokens, int64_t *count);
// Maps a shard and checks its header and size.
// Owns    the caller, until bt_shard_close
// Errors  IO, CORRUPT_DATA, OUT_OF_MEMORY
BT_CHECKED bt_status bt_shard_open(const char *path, bt_shard *shard);
// Safe on a zeroed struct and when called twice.
void bt_shard_close(bt_shard *shard);
// Checks that every token id is below `vocab`.
// Errors  CORRUPT_DATA (file, byte offset, id, vocabulary)
BT_CHECKED bt_status bt_shard_scan(const bt_shard *shard, int64_t vocab);
// The error for a token id >= vocab, for callers that read tokens[index] themselves.
bt_status bt_shard_token_error(const bt_shard *shard, int64_t index, int64_t vocab);

// Writes a shard piece by piece under a temporary name in the same folder.
typedef struct bt_shard_writer bt_shard_writer;

// Owns    *writer: the caller, until finish or abort
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_shard_writer_open(const char *path, bt_shard_writer **writer);
// Errors  IO (also a full disk), INVALID_ARGUMENT (more tokens than the header can count)
BT_CHECKED bt_status bt_shard_writer_append(bt_shard_writer *writer, const uint16_t *tokens,
                                            int64_t count);
int64_t bt_shard_writer_count(const bt_shard_writer *writer);
// Flushes, syncs and renames the file; frees the writer in any case.
BT_CHECKED bt_status bt_shard_writer_finish(bt_shard_writer *writer);
// Removes the temporary file and frees the writer. NULL is allowed.
void bt_shard_writer_abort(bt_shard_writer *writer);

// Writes tokens that are all in memory, in one call.
BT_CHECKED bt_status bt_shard_write(const char *path, const uint16_t *tokens, int64_t count);

#endif
