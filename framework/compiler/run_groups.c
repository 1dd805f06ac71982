// framework/compiler/run_groups.c - compiles a graph's groups at their first run
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"
#include "framework/compiler/run.h"

typedef struct bt_compiler_entry {
    char key[BT_CODE_KEY_BYTES]; // hash of the group's text
    bt_compiled *compiled;       // owned; NULL: there is no code
    char reason[256];            // why there is none; "": there is code
} bt_compiler_entry;

void bt_compiler_init(bt_compiler *compiler, bt_code_cache *cache)
{
    memset(compiler, 0, sizeof *compiler);
    compiler->cache = cache;
}

void bt_compiler_release(bt_compiler *compiler)
{
    for (int i = 0; i < compiler->count; ++i) {
        bt_compiled_release(compiler->entries[i].compiled);
    }
    bt_mem_free(compiler->entries);
    memset(compiler, 0, sizeof *compiler);
}

static bt_status key_of(const bt_fused *group, char key[BT_CODE_KEY_BYTES])
{
    bt_str text = {0};
    bt_fused_print(group, &text);
    const bt_status status = bt_str_status(&text);
    if (status == BT_OK) {
        bt_xxh3_hex(bt_str_text(&text), text.length_bytes, key);
    }
    bt_str_release(&text);
    return status;
}

// Compiles a group, or records why there is no code for it.
static bt_status add(bt_compiler *c, const bt_device *device, const bt_fused *group,
                     const char *key)
{
    if (c->count == c->capacity) {
        const int capacity = c->capacity ? 2 * c->capacity : 16;
        void *grown = c->entries;
        BT_TRY(bt_mem_resize(&grown, (size_t)capacity, sizeof *c->entries));
        c->entries = grown;
        c->capacity = capacity;
    }
    bt_compiler_entry *entry = &c->entries[c->count];
    entry->reason[0] = '\0';
    if (bt_compile_for(device, group, c->cache, &entry->compiled)) {
        (void)snprintf(entry->reason, sizeof entry->reason, "%s", bt_error_message());
        bt_error_clear();
    }
    (void)snprintf(entry->key, sizeof entry->key, "%s", key);
    ++c->count;
    return BT_OK;
}

bt_status bt_compiler_get(bt_compiler *c, const bt_device *device, const bt_fused *group,
                          bt_compiled **out)
{
    char key[BT_CODE_KEY_BYTES];
    int found = 0;
    *out = NULL;
    BT_TRY(key_of(group, key));
    while (found < c->count && strcmp(c->entries[found].key, key) != 0) {
        ++found;
    }
    if (found == c->count) {
        BT_TRY(add(c, device, group, key));
    }
    *out = c->entries[found].compiled;
    if (!*out) {
        memcpy(c->reason, c->entries[found].reason, sizeof c->reason);
    }
    return BT_OK;
}

bt_status bt_compiler_launch(void *self, bt_context *context, const bt_fused *group,
                             void *const *at)
{
    bt_compiler *c = self;
    bt_compiled *compiled = NULL;
    BT_TRY(bt_compiler_get(c, context->device, group, &compiled));
    ++c->runs;
    if (compiled) {
        return bt_compiled_run_in(context, compiled, group->shape[0], at);
    }
    ++c->fallbacks;
    return bt_fused_interpret(NULL, context, group, at);
}
