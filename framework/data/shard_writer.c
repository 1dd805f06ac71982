// framework/data/shard_writer.c - writes token shards: buffered, atomic
#include "framework/data/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"

enum { BUFFER_TOKENS = 1 << 16 };

struct bt_shard_writer {
    char *path;      // owned
    char *temporary; // owned
    int file;        // -1: closed
    int64_t count;   // tokens written so far
    int64_t buffered;
    uint16_t buffer[BUFFER_TOKENS];
};

static bt_status failed(const bt_shard_writer *writer, const char *what)
{
    return bt_error(BT_STATUS_IO, "cannot %s %s: %s", what, writer->path, strerror(errno));
}

static bt_status write_bytes(const bt_shard_writer *writer, const void *bytes, size_t size_bytes)
{
    const char *next = bytes;
    while (size_bytes) {
        ssize_t part = write(writer->file, next, size_bytes);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return failed(writer, "write");
        }
        next += part;
        size_bytes -= (size_t)part;
    }
    return BT_OK;
}

static void free_writer(bt_shard_writer *writer)
{
    if (writer->file >= 0) {
        close(writer->file);
    }
    bt_mem_free(writer->path);
    bt_mem_free(writer->temporary);
    bt_mem_free(writer);
}

bt_status bt_shard_writer_open(const char *path, bt_shard_writer **out)
{
    *out = NULL;
    void *block = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_shard_writer), &block));
    bt_shard_writer *writer = block;
    writer->file = -1;
    bt_str temporary = {0};
    static const char empty_header[BT_SHARD_HEADER_BYTES];
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_mem_strdup(path, &writer->path), failed);
    bt_str_format(&temporary, "%s.%ld.tmp", path, (long)getpid());
    BT_TRY_GOTO(bt_str_take(&temporary, &writer->temporary), failed);
    writer->file = open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    BT_TRY_GOTO(writer->file < 0 ? failed(writer, "create") : BT_OK, failed);
    BT_TRY_GOTO(write_bytes(writer, empty_header, sizeof empty_header), failed);
    *out = writer;
    return BT_OK;
failed:
    bt_str_release(&temporary);
    bt_shard_writer_abort(writer);
    return status;
}

static bt_status flush(bt_shard_writer *writer)
{
    BT_TRY(write_bytes(writer, writer->buffer, (size_t)writer->buffered * sizeof *writer->buffer));
    writer->buffered = 0;
    return BT_OK;
}

bt_status bt_shard_writer_append(bt_shard_writer *writer, const uint16_t *tokens, int64_t count)
{
    if (count < 0 || count > INT32_MAX - writer->count) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "%s: %lld tokens after %lld do not fit into one shard, whose header can count up to %d",
            writer->path, (long long)count, (long long)writer->count, INT32_MAX);
    }
    writer->count += count;
    while (count > 0) {
        int64_t room = BUFFER_TOKENS - writer->buffered;
        int64_t part = count < room ? count : room;
        memcpy(writer->buffer + writer->buffered, tokens, (size_t)part * sizeof *tokens);
        writer->buffered += part;
        tokens += part;
        count -= part;
        if (writer->buffered == BUFFER_TOKENS) {
            BT_TRY(flush(writer));
        }
    }
    return BT_OK;
}

int64_t bt_shard_writer_count(const bt_shard_writer *writer) { return writer->count; }

static bt_status write_header(const bt_shard_writer *writer)
{
    const int32_t header[3] = {BT_SHARD_MAGIC, BT_SHARD_VERSION, (int32_t)writer->count};
    ssize_t part = pwrite(writer->file, header, sizeof header, 0);
    return part == (ssize_t)sizeof header ? BT_OK : failed(writer, "write");
}

static bt_status sync_folder(const bt_shard_writer *writer)
{
    const char *slash = strrchr(writer->path, '/');
    // The temporary name is no longer needed.
    char *folder = writer->temporary;
    size_t length = slash ? (size_t)(slash - writer->path) + 1 : 1;
    memcpy(folder, slash ? writer->path : ".", length);
    folder[length] = '\0';
    int handle = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = handle < 0 ? -1 : fsync(handle);
    bt_status status = result == 0 ? BT_OK : failed(writer, "flush the folder of");
    if (handle >= 0) {
        close(handle);
    }
    return status;
}

bt_status bt_shard_writer_finish(bt_shard_writer *writer)
{
    bt_status status = BT_OK;
    BT_TRY_GOTO(flush(writer), failed);
    BT_TRY_GOTO(write_header(writer), failed);
    BT_TRY_GOTO(fsync(writer->file) == 0 ? BT_OK : failed(writer, "flush"), failed);
    int closed = close(writer->file);
    writer->file = -1;
    BT_TRY_GOTO(closed == 0 ? BT_OK : failed(writer, "close"), failed);
    int renamed = rename(writer->temporary, writer->path);
    BT_TRY_GOTO(renamed == 0 ? BT_OK : failed(writer, "rename"), failed);
    status = sync_folder(writer);
    free_writer(writer);
    return status;
failed:
    bt_shard_writer_abort(writer);
    return status;
}

void bt_shard_writer_abort(bt_shard_writer *writer)
{
    if (!writer) {
        return;
    }
    if (writer->temporary) {
        (void)unlink(writer->temporary);
    }
    free_writer(writer);
}

bt_status bt_shard_write(const char *path, const uint16_t *tokens, int64_t count)
{
    bt_shard_writer *writer = NULL;
    BT_TRY(bt_shard_writer_open(path, &writer));
    bt_status status = bt_shard_writer_append(writer, tokens, count);
    if (status != BT_OK) {
        bt_shard_writer_abort(writer);
        return status;
    }
    return bt_shard_writer_finish(writer);
}
