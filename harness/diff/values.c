// harness/diff/values.c - stores, finds, reads and writes the values of a step
#include "harness/diff/values.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "framework/checkpoint/safetensors.h"
#include "harness/record/keep.h"

enum { FILE_ALIGNMENT = 64 };

bt_status bt_diff_values_next(bt_diff_values *values, bt_diff_value **out)
{
    BT_TRY(BT_MEM_GROW(values->count + 1, &values->capacity, &values->items));
    *out = &values->items[values->count];
    **out = (bt_diff_value){0};
    return BT_OK;
}

static bt_status add_as(bt_diff_values *values, bt_context *context, const bt_train_value *value,
                        const bt_diff_place *place)
{
    bt_diff_value *row = NULL;
    void *data = NULL;
    BT_TRY(bt_diff_values_next(values, &row));
    BT_TRY(bt_keep(&values->arena, value->name, &row->name));
    BT_TRY(bt_keep(&values->arena, value->layer, &row->layer));
    BT_TRY(bt_keep(&values->arena, value->op, &row->op));
    row->place = *place;
    row->kind = value->kind;
    row->depth = value->depth;
    row->so_far = value->so_far;
    row->dtype = value->tensor->dtype;
    row->shape = value->tensor->shape;
    row->count = bt_tensor_count(value->tensor);
    BT_TRY(bt_mem_alloc(1, bt_tensor_bytes(value->tensor), &data));
    row->data = data;
    ++values->count;
    return bt_tensor_read(context, value->tensor, data);
}

bt_status bt_diff_values_add(bt_diff_values *values, bt_context *context,
                             const bt_train_value *value, const bt_diff_mesh *mesh, int rank)
{
    bt_diff_placed placed = {0};
    bt_train_value whole = *value;
    if (mesh) {
        if (!bt_diff_place_of(mesh, rank, value, &placed)) {
            return BT_OK;
        }
        whole.name = placed.name;
        whole.layer = placed.layer;
        whole.op = placed.op;
    }
    return add_as(values, context, &whole, &placed.place);
}

void bt_diff_values_clear(bt_diff_values *values)
{
    for (int64_t i = 0; i < values->count && !values->map; ++i) {
        if (!values->items[i].copy_of) {
            bt_mem_free((void *)(uintptr_t)values->items[i].data);
        }
    }
    if (values->map) {
        bt_file_unmap(values->map, values->map_bytes);
    }
    values->map = NULL;
    values->count = values->cursor = 0;
    bt_arena_reset(&values->arena);
}

void bt_diff_values_release(bt_diff_values *values)
{
    bt_diff_values_clear(values);
    bt_mem_free(values->items);
    bt_arena_release(&values->arena);
    *values = (bt_diff_values){0};
}

const bt_diff_value *bt_diff_values_find(bt_diff_values *values, const char *name)
{
    for (int64_t i = 0; i < values->count; ++i) {
        const int64_t at = (values->cursor + i) % values->count;
        if (!values->items[at].copy_of && strcmp(values->items[at].name, name) == 0) {
            values->cursor = at + 1;
            return &values->items[at];
        }
    }
    return NULL;
}

// ---- files --------------------------------------------------------------------------------------

void bt_diff_values_path(const char *folder, int64_t step, char *path, size_t capacity)
{
    (void)snprintf(path, capacity, "%s/step-%08lld.safetensors", folder, (long long)step);
}

// The kind whose word the name begins with; false for other names.
static bool kind_of(const char *name, bt_train_value_kind *kind)
{
    for (int i = 0; i < BT_TRAIN_VALUE_COUNT; ++i) {
        const char *word = bt_train_value_name((bt_train_value_kind)i);
        const size_t length = strlen(word);
        if (strncmp(name, word, length) == 0 && name[length] == '.') {
            *kind = (bt_train_value_kind)i;
            return true;
        }
    }
    return false;
}

static bt_status take_entries(bt_diff_values *values, const bt_safetensors *file)
{
    BT_EACH(const bt_safetensors_entry, entry, file->entries, file->count) {
        bt_diff_value *row = NULL;
        BT_TRY(bt_diff_values_next(values, &row));
        if (!kind_of(entry->name, &row->kind)) {
            continue;
        }
        BT_TRY(bt_keep(&values->arena, entry->name, &row->name));
        row->layer = row->op = "";
        row->dtype = entry->dtype;
        row->shape = entry->shape;
        row->count = bt_shape_count(&entry->shape);
        row->data = (const char *)values->map + entry->offset_bytes;
        ++values->count;
    }
    return BT_OK;
}

bt_status bt_diff_values_read(const char *path, bt_diff_values *values)
{
    BT_SCOPED(bt_safetensors) file = {0};
    bt_diff_values_clear(values);
    BT_TRY(bt_file_map(path, &values->map, &values->map_bytes));
    BT_TRY(bt_safetensors_parse(path, values->map, values->map_bytes, values->map_bytes, &file));
    return take_entries(values, &file);
}

static bt_status write_parts(const bt_diff_values *values, const bt_safetensors_entry *entries,
                             bt_str *head, int file, const char *path)
{
    const bt_file_ops *ops = &bt_file_ops_system;
    struct iovec part = {.iov_base = head->text, .iov_len = head->length_bytes};
    BT_TRY(bt_io_write(ops, file, path, &part, 1, 0));
    for (int64_t i = 0; i < values->count; ++i) {
        part = (struct iovec){.iov_base = (void *)(uintptr_t)values->items[entries[i].index].data,
                              .iov_len = (size_t)entries[i].size_bytes};
        BT_TRY(bt_io_write(ops, file, path, &part, 1, (int64_t)entries[i].offset_bytes));
    }
    return BT_OK;
}

static bt_status write_file(const bt_diff_values *values, bt_safetensors_entry *entries,
                            const char *path)
{
    const bt_file_ops *ops = &bt_file_ops_system;
    BT_SCOPED(bt_str) head = {0};
    uint64_t file_bytes = 0;
    bt_status status =
        bt_safetensors_head(entries, values->count, NULL, FILE_ALIGNMENT, &head, &file_bytes);
    const int file = status == BT_OK ? ops->open(ops->self, path, BT_FILE_CREATE) : -1;
    if (status == BT_OK && file < 0) {
        status = bt_io_failed(file, "make", path);
    }
    BT_IF_OK(status, write_parts(values, entries, &head, file, path));
    const int closed = file >= 0 ? ops->close(ops->self, file) : 0;
    return status == BT_OK && closed < 0 ? bt_io_failed(closed, "close", path) : status;
}

bt_status bt_diff_values_write(const bt_diff_values *values, const char *path)
{
    BT_SCOPED_MEM(bt_safetensors_entry *) entries = NULL;
    BT_TRY(BT_MEM_ARRAY(values->count, &entries));
    for (int64_t i = 0; i < values->count; ++i) {
        const bt_diff_value *row = &values->items[i];
        // The name is only read.
        entries[i] = (bt_safetensors_entry){.name = (char *)(uintptr_t)row->name,
                                            .dtype = row->dtype,
                                            .shape = row->shape,
                                            .index = i};
    }
    return write_file(values, entries, path);
}
