// tests/fuzz/fuzz_safetensors.c - any bytes as a safetensors file: read, or refused with a message;
// what is read covers the data exactly, and its head written again reads as the same
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void demand(int holds)
{
    if (!holds) {
        abort();
    }
}

static int compare_places(const void *a, const void *b)
{
    const bt_safetensors_entry *x = a;
    const bt_safetensors_entry *y = b;
    if (x->offset_bytes != y->offset_bytes) {
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    }
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static void check_cover(const bt_safetensors *file, bt_safetensors_entry *entries)
{
    uint64_t at = file->head_bytes;
    memcpy(entries, file->entries, (size_t)file->count * sizeof *entries);
    qsort(entries, (size_t)file->count, sizeof *entries, compare_places);
    for (int64_t i = 0; i < file->count; ++i) {
        uint64_t expected = 0;
        demand(entries[i].offset_bytes == at);
        demand(bt_safetensors_bytes(entries[i].dtype, &entries[i].shape, &expected));
        demand(entries[i].size_bytes == expected);
        demand(i == 0 || strcmp(file->entries[i - 1].name, file->entries[i].name) < 0);
        at += expected;
    }
    demand(at == file->file_bytes);
}

static void write_again(const bt_safetensors *file, bt_safetensors_entry *entries)
{
    bt_safetensors again;
    bt_str head = {0};
    uint64_t file_bytes = 0;
    demand(bt_safetensors_head(entries, file->count, NULL, 8, &head, &file_bytes) == BT_OK);
    demand(bt_safetensors_parse("again", head.text, head.length_bytes, file_bytes, &again) ==
           BT_OK);
    demand(again.count == file->count);
    for (int64_t i = 0; i < file->count; ++i) {
        demand(strcmp(again.entries[i].name, file->entries[i].name) == 0);
        demand(again.entries[i].dtype == file->entries[i].dtype);
        demand(bt_shape_equal(&again.entries[i].shape, &file->entries[i].shape));
    }
    bt_safetensors_release(&again);
    bt_str_release(&head);
}

// The same bytes as a manifest. The hash that guards it from accidents does not guard it from
// people, so it is made to be right.
static void read_manifest(const uint8_t *bytes, size_t size_bytes)
{
    bt_manifest manifest;
    bt_str json = {0};
    const bt_manifest empty = {0};
    demand(bt_manifest_print(&empty, &json) == BT_OK);
    bt_str text = {0};
    bt_str_append_bytes(&text, json.text, strcspn(json.text, "\n") + 1);
    bt_str_append_bytes(&text, bytes, size_bytes);
    demand(bt_str_status(&text) == BT_OK);
    bt_manifest_seal(&text);
    if (bt_manifest_parse("manifest", text.text, text.length_bytes, &manifest) == BT_OK) {
        bt_str again = {0};
        char digest[33];
        demand(bt_manifest_digest(&manifest, bytes[0] & 1, digest) == BT_OK &&
               strlen(digest) == 32);
        demand(bt_manifest_print(&manifest, &again) == BT_OK);
        bt_str_release(&again);
    } else {
        demand(*bt_error_message());
    }
    bt_manifest_release(&manifest);
    bt_str_release(&text);
    bt_str_release(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    int64_t before = bt_mem_live_count();
    bt_safetensors file;
    bt_error_clear();
    if (bt_safetensors_parse("input", bytes, size_bytes, size_bytes, &file) == BT_OK) {
        bt_safetensors_entry *entries = calloc((size_t)file.count + 1, sizeof *entries);
        demand(entries != NULL);
        check_cover(&file, entries);
        write_again(&file, entries);
        free(entries);
        bt_hugging_face_gpt2_config config;
        demand(bt_hugging_face_gpt2_shape("input", &file, &config) == BT_OK
                   ? config.layers > 0 && config.width > 0 && config.vocab > 0
                   : *bt_error_message());
    } else {
        demand(*bt_error_message());
    }
    bt_safetensors_release(&file);
    read_manifest(bytes, size_bytes);
    demand(bt_mem_live_count() == before);
    return 0;
}
