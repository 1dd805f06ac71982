// framework/checkpoint/image.c - assigns the tensors of a state to files
#include "framework/checkpoint/image.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"

void bt_image_release(bt_image *image)
{
    for (int64_t i = 0; image->heads && i < image->manifest.file_count; ++i) {
        bt_str_release(&image->heads[i]);
    }
    bt_mem_free(image->heads);
    bt_mem_free(image->sources);
    bt_manifest_release(&image->manifest);
    *image = (bt_image){0};
}

// The end of the file that begins with entry `first`: at least one tensor, and at most the allowed
// number of bytes.
static int64_t file_end(const bt_safetensors_entry *entries, int64_t count, int64_t first,
                        uint64_t limit_bytes)
{
    uint64_t used = 0;
    int64_t end = first;
    while (end < count &&
           (end == first || limit_bytes == 0 || entries[end].size_bytes <= limit_bytes - used)) {
        uint64_t size_bytes = entries[end++].size_bytes;
        if (limit_bytes && size_bytes >= limit_bytes - used) {
            break;
        }
        used += size_bytes;
    }
    return end;
}

static bt_status fill_entries(const bt_state *state, bt_safetensors_entry *entries)
{
    for (int64_t i = 0; i < state->count; ++i) {
        const bt_state_tensor *item = &state->tensors[i];
        BT_TRY(bt_tensor_expect(item->tensor, item->tensor->dtype, item->name));
        entries[i] = (bt_safetensors_entry){
            .name = (char *)(uintptr_t)item->name, // only read
            .dtype = item->tensor->dtype,
            .shape = item->tensor->shape,
            .size_bytes = bt_tensor_bytes(item->tensor),
            .index = i,
        };
    }
    return bt_safetensors_check_names(entries, state->count);
}

// The header of a file with these tensors, and their rows.
static bt_status add_file(bt_image *image, bt_safetensors_entry *entries, int64_t count)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    bt_manifest *manifest = &image->manifest;
    bt_manifest_file *file = &manifest->files[manifest->file_count];
    bt_str *head = &image->heads[manifest->file_count++]; // released with the image
    BT_TRY(bt_safetensors_head(entries, count, metadata, BT_SAFETENSORS_ALIGNMENT, head,
                               &file->size_bytes));
    (void)snprintf(file->name, sizeof file->name, "state-%05lld.safetensors",
                   (long long)manifest->file_count);
    bt_xxh3_hex(head->text, head->length_bytes, file->head_xxh3);
    for (int64_t i = 0; i < count; ++i) {
        bt_manifest_tensor *row = &manifest->tensors[manifest->tensor_count];
        row->dtype = entries[i].dtype;
        row->shape = entries[i].shape;
        row->file = manifest->file_count - 1;
        row->offset_bytes = entries[i].offset_bytes;
        row->size_bytes = entries[i].size_bytes;
        image->sources[manifest->tensor_count] = entries[i].index;
        image->data_bytes += entries[i].size_bytes;
        BT_TRY(bt_mem_strdup(entries[i].name, &row->name));
        ++manifest->tensor_count;
    }
    return BT_OK;
}

static bt_status copy_text(const char *text, const char *what, char *out)
{
    size_t length = text ? strlen(text) : 0;
    if (length >= BT_MANIFEST_TEXT_LIMIT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a %s of %zu bytes, allowed up to %d", what,
                        length, BT_MANIFEST_TEXT_LIMIT - 1);
    }
    memcpy(out, text ? text : "", length + 1);
    return BT_OK;
}

bt_status bt_image_make(const bt_checkpoint_options *options, const bt_state *state,
                        bt_image *image)
{
    void *block = NULL;
    size_t count = (size_t)state->count;
    bt_status status = BT_OK;
    *image = (bt_image){0};
    BT_TRY(copy_text(options->plan_hash, "plan hash", image->manifest.plan_hash));
    BT_TRY(copy_text(options->build, "build", image->manifest.build));
    BT_TRY(bt_mem_alloc(count + 1, sizeof *image->manifest.tensors, &block));
    image->manifest.tensors = block;
    BT_TRY(bt_mem_alloc(count + 1, sizeof *image->manifest.files, &block));
    image->manifest.files = block;
    BT_TRY(bt_mem_alloc(count + 1, sizeof *image->heads, &block));
    image->heads = block;
    BT_TRY(bt_mem_alloc(count + 1, sizeof *image->sources, &block));
    image->sources = block;
    BT_TRY(bt_mem_alloc(count + 1, sizeof(bt_safetensors_entry), &block));
    bt_safetensors_entry *entries = block;
    BT_TRY_GOTO(fill_entries(state, entries), done);
    int64_t first = 0;
    do { // a state without tensors has one file without tensors
        int64_t end = file_end(entries, state->count, first, options->file_bytes);
        BT_TRY_GOTO(add_file(image, entries + first, end - first), done);
        first = end;
    } while (first < state->count);
done:
    bt_mem_free(entries);
    return status;
}
