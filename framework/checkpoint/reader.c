// framework/checkpoint/reader.c - opens a checkpoint: the manifest and the file headers must agree
#include "framework/checkpoint/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/image.h"

static bt_status compare_entry(const char *path, const bt_manifest_tensor *row,
                               const bt_safetensors *head)
{
    const bt_safetensors_entry *entry = bt_safetensors_find(head, row->name);
    if (!entry || entry->dtype != row->dtype || !bt_shape_equal(&entry->shape, &row->shape) ||
        entry->offset_bytes != row->offset_bytes || entry->size_bytes != row->size_bytes) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: tensor %s differs from its entry in the manifest", path, row->name);
    }
    return BT_OK;
}

static bt_status compare_head(const bt_reader *reader, int64_t index, const char *path,
                              const bt_safetensors *head, const char *xxh3)
{
    const bt_manifest *manifest = &reader->manifest;
    int64_t rows = 0;
    if (strcmp(xxh3, manifest->files[index].head_xxh3) != 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: bytes 0 to %llu, the header, have the XXH3-128 %s, expected %s", path,
                        (unsigned long long)head->head_bytes, xxh3,
                        manifest->files[index].head_xxh3);
    }
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        if (manifest->tensors[i].file == index) {
            BT_TRY(compare_entry(path, &manifest->tensors[i], head));
            ++rows;
        }
    }
    return rows == head->count
               ? BT_OK
               : bt_error(BT_STATUS_CORRUPT_DATA, "%s: %lld tensors, but the manifest has %lld",
                          path, (long long)head->count, (long long)rows);
}

static bt_status open_file(bt_reader *reader, int64_t index)
{
    const bt_manifest_file *row = &reader->manifest.files[index];
    char path[BT_PATH_CAPACITY];
    uint64_t size_bytes = 0;
    char xxh3[33];
    bt_safetensors head;
    BT_TRY(bt_io_path(reader->folder, row->name, path));
    BT_TRY(bt_io_open(reader->ops, path, &reader->files[index], &size_bytes));
    ++reader->open_count;
    if (size_bytes != row->size_bytes) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s has %llu bytes, expected %llu", path,
                        (unsigned long long)size_bytes, (unsigned long long)row->size_bytes);
    }
    bt_status status =
        bt_safetensors_read(reader->ops, reader->files[index], path, size_bytes, &head, xxh3);
    if (status == BT_OK) {
        status = compare_head(reader, index, path, &head, xxh3);
    }
    bt_safetensors_release(&head);
    return status;
}

static bt_status read_manifest(bt_reader *reader)
{
    char path[BT_PATH_CAPACITY];
    void *text = NULL;
    size_t size_bytes = 0;
    BT_TRY(bt_io_path(reader->folder, BT_MANIFEST_NAME, path));
    BT_TRY(bt_io_read_file(reader->ops, path, BT_MANIFEST_LIMIT, &text, &size_bytes));
    bt_status status = bt_manifest_parse(path, text, size_bytes, &reader->manifest);
    bt_mem_free(text);
    return status;
}

bt_status bt_reader_open(const bt_checkpoint_store *store, int64_t step, bt_reader *reader)
{
    void *block = NULL;
    *reader = (bt_reader){.ops = bt_store_ops(store)};
    BT_TRY(bt_checkpoint_path(store, step, false, reader->folder));
    BT_TRY(read_manifest(reader));
    if (reader->manifest.values.step != step) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s contains step %lld", reader->folder,
                        (long long)reader->manifest.values.step);
    }
    BT_TRY(bt_mem_alloc((size_t)reader->manifest.file_count + 1, sizeof *reader->files, &block));
    reader->files = block;
    for (int64_t i = 0; i < reader->manifest.file_count; ++i) {
        BT_TRY(open_file(reader, i));
    }
    return BT_OK;
}

void bt_reader_close(bt_reader *reader)
{
    for (int64_t i = 0; i < reader->open_count; ++i) {
        (void)reader->ops->close(reader->ops->self, reader->files[i]);
    }
    bt_mem_free(reader->files);
    bt_manifest_release(&reader->manifest);
    reader->files = NULL;
    reader->open_count = 0;
}
