// framework/checkpoint/image_write.c - writes an image: one thread writes while another hashes
//
// Both only read the tensors' memory, so neither waits for the other; the manifest, which needs the
// hashes, is written last.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "framework/checkpoint/hash.h"
#include "framework/checkpoint/image.h"
#include "framework/checkpoint/thread.h"

// A write ends at a multiple of BATCH_BYTES of the file, so that all but a tensor's first part are
// aligned to pages and erase blocks.
enum { BATCH_BYTES = 8 << 20, MAX_PARTS = 256 };

typedef struct save {
    bt_image *image;
    const bt_file_ops *ops;
    const void *const *data;
    const atomic_bool *cancel;
} save;

static bool is_cancelled(const save *s) { return s->cancel && atomic_load(s->cancel); }

static void *hash_tensors(void *self)
{
    const save *s = self;
    bt_manifest *manifest = &s->image->manifest;
    for (int64_t i = 0; i < manifest->tensor_count && !is_cancelled(s); ++i) {
        bt_manifest_tensor *tensor = &manifest->tensors[i];
        bt_xxh3_hex(s->data[i], (size_t)tensor->size_bytes, tensor->xxh3);
    }
    return NULL;
}

typedef struct batch {
    const save *save;
    int file;
    const char *path;
    struct iovec parts[MAX_PARTS];
    int count;
    int64_t begin, end; // in the file
} batch;

static bt_status flush(batch *b)
{
    const bt_file_ops *ops = b->save->ops;
    if (is_cancelled(b->save)) {
        return bt_error(BT_STATUS_INTERRUPTED, "saving %s was cancelled", b->path);
    }
    BT_TRY(bt_io_write(ops, b->file, b->path, b->parts, b->count, b->begin));
    int error = ops->flush_begin(ops->self, b->file, b->begin, b->end - b->begin);
    if (error < 0 && error != -ENOSYS && error != -EINVAL && error != -EOPNOTSUPP) {
        return bt_io_failed(error, "write", b->path);
    }
    b->begin = b->end;
    b->count = 0;
    return BT_OK;
}

static bt_status add(batch *b, const void *bytes, uint64_t size_bytes)
{
    const char *at = bytes;
    while (size_bytes > 0) {
        uint64_t room = (uint64_t)(BATCH_BYTES - b->end % BATCH_BYTES);
        uint64_t part = size_bytes < room ? size_bytes : room;
        // struct iovec has no const pointer.
        b->parts[b->count++] = (struct iovec){(void *)(uintptr_t)at, (size_t)part};
        b->end += (int64_t)part;
        at += part;
        size_bytes -= part;
        if (b->count == MAX_PARTS || b->end % BATCH_BYTES == 0) {
            BT_TRY(flush(b));
        }
    }
    return BT_OK;
}

static bt_status write_parts(const save *s, int64_t index, int file, const char *path)
{
    const bt_manifest *manifest = &s->image->manifest;
    const bt_str *head = &s->image->heads[index];
    batch b = {.save = s, .file = file, .path = path};
    BT_TRY(add(&b, head->text, head->length_bytes));
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        if (manifest->tensors[i].file == index) {
            bt_status status = add(&b, s->data[i], manifest->tensors[i].size_bytes);
            BT_TRY(bt_error_context(status, "tensor %s", manifest->tensors[i].name));
        }
    }
    BT_TRY(flush(&b));
    int error = s->ops->sync(s->ops->self, file);
    return error < 0 ? bt_io_failed(error, "flush", path) : BT_OK;
}

static bt_status write_file(const save *s, int64_t index, const char *folder)
{
    char path[BT_PATH_CAPACITY];
    BT_TRY(bt_io_path(folder, s->image->manifest.files[index].name, path));
    int file = s->ops->open(s->ops->self, path, BT_FILE_CREATE);
    if (file < 0) {
        return bt_io_failed(file, "create", path);
    }
    bt_status status = write_parts(s, index, file, path);
    int error = s->ops->close(s->ops->self, file);
    return status == BT_OK && error < 0 ? bt_io_failed(error, "close", path) : status;
}

static bt_status write_files(save *s, const char *folder)
{
    pthread_t thread;
    bt_status status = BT_OK;
    bool threaded = bt_thread_start(&thread, hash_tensors, s);
    for (int64_t i = 0; i < s->image->manifest.file_count && status == BT_OK; ++i) {
        status = write_file(s, i, folder);
    }
    if (threaded) {
        (void)pthread_join(thread, NULL);
    } else {
        (void)hash_tensors(s); // slower, same result
    }
    return status;
}

static bt_status write_manifest(const save *s, const char *folder)
{
    char path[BT_PATH_CAPACITY];
    bt_str json = {0};
    if (is_cancelled(s)) {
        return bt_error(BT_STATUS_INTERRUPTED, "saving %s was cancelled", folder);
    }
    bt_status status = bt_manifest_print(&s->image->manifest, &json);
    if (status == BT_OK) {
        status = bt_io_path(folder, BT_MANIFEST_NAME, path);
    }
    if (status == BT_OK) {
        status = bt_io_create(s->ops, path, bt_str_text(&json), json.length_bytes);
    }
    bt_str_release(&json);
    return status;
}

// Writes everything under the temporary name, durably.
static bt_status write_folder(save *s, const char *temporary)
{
    int error = s->ops->make_folder(s->ops->self, temporary);
    if (error < 0) {
        return bt_io_failed(error, "create the folder", temporary);
    }
    BT_TRY(write_files(s, temporary));
    BT_TRY(write_manifest(s, temporary));
    return bt_io_sync_folder(s->ops, temporary);
}

// Renames the folder. An existing checkpoint of that name gets the temporary name.
static bt_status publish(const bt_file_ops *ops, const char *store, const char *temporary,
                         const char *path)
{
    int error = ops->rename(ops->self, temporary, path);
    if (error == -EEXIST || error == -ENOTEMPTY) {
        error = ops->exchange(ops->self, temporary, path);
    }
    return error < 0 ? bt_io_failed(error, "rename", path) : bt_io_sync_folder(ops, store);
}

// Removes the files of a failed save; keeps the failure's message.
static bt_status abandon(const bt_file_ops *ops, const char *temporary, bt_status status)
{
    char message[BT_ERROR_CAPACITY];
    (void)snprintf(message, sizeof message, "%s", bt_error_message());
    bt_status cleaning = bt_io_remove_folder(ops, temporary);
    (void)cleaning; // the next save tries again
    return bt_error(status, "%s", message);
}

bt_status bt_image_write(bt_image *image, const bt_checkpoint_store *store,
                         const bt_state_values *values, int64_t max_to_keep,
                         const void *const *data, const atomic_bool *cancel)
{
    char temporary[BT_PATH_CAPACITY];
    char path[BT_PATH_CAPACITY];
    save s = {image, bt_store_ops(store), data, cancel};
    BT_TRY(bt_state_check_values(values));
    image->manifest.values = *values;
    BT_TRY(bt_checkpoint_path(store, values->step, true, temporary));
    BT_TRY(bt_checkpoint_path(store, values->step, false, path));
    BT_TRY(bt_io_make_folders(s.ops, store->folder));
    BT_TRY(bt_store_clean(store));
    bt_status status = write_folder(&s, temporary);
    if (status == BT_OK) {
        status = publish(s.ops, store->folder, temporary, path);
    }
    if (status != BT_OK) {
        return abandon(s.ops, temporary, status);
    }
    status = bt_store_clean(store);
    if (status == BT_OK) {
        status = bt_store_retain(store, values->step, max_to_keep);
    }
    return bt_error_context(status,
                            "step %lld was saved, but older checkpoints could not be removed",
                            (long long)values->step);
}
