// harness/env/facts.c - the list, its order and its digest
#include "harness/env/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"

static bt_status keep(bt_facts *facts, const char *text, const char **out)
{
    size_t size_bytes = strlen(text) + 1;
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(&facts->arena, size_bytes, &copy));
    memcpy(copy, text, size_bytes);
    *out = copy;
    return BT_OK;
}

// ---- the table ---------------------------------------------------------------------------------

typedef enum audience { OPEN, PRIVATE } audience;

typedef struct fact_kind {
    const char *key;
    bt_fact_level level;
    audience audience;
} fact_kind;

static const fact_kind kinds[] = {
#define X(key, level, audience) {key, BT_FACT_##level, audience},
#include "harness/env/facts.inl"
#undef X
};

// The row with the longest key that fits, NULL when there is none.
static const fact_kind *kind_of(const char *key)
{
    const fact_kind *found = NULL;
    size_t most = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        size_t length = strlen(kinds[i].key);
        bool fits = kinds[i].key[length - 1] == '.' ? strncmp(key, kinds[i].key, length) == 0
                                                    : strcmp(key, kinds[i].key) == 0;
        if (fits && length > most) {
            found = &kinds[i];
            most = length;
        }
    }
    return found;
}

bool bt_fact_is_private(const char *key)
{
    const fact_kind *kind = kind_of(key);
    return !kind || kind->audience == PRIVATE;
}

// ---- the list ----------------------------------------------------------------------------------

bt_status bt_facts_add(bt_facts *facts, const char *key, const char *value)
{
    const fact_kind *kind = kind_of(key);
    return kind ? bt_facts_add_as(facts, key, value, kind->level)
                : bt_error(BT_STATUS_INTERNAL, "facts.inl has no row for the fact %s", key);
}

bt_status bt_facts_add_as(bt_facts *facts, const char *key, const char *value, bt_fact_level level)
{
    if (!*value) {
        return BT_OK;
    }
    if (facts->count == facts->capacity) {
        int64_t capacity = facts->capacity ? 2 * facts->capacity : 64;
        void *block = facts->rows;
        BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *facts->rows));
        facts->rows = block;
        facts->capacity = capacity;
    }
    bt_store_fact fact = {.level = level};
    BT_TRY(keep(facts, key, &fact.key));
    BT_TRY(keep(facts, value, &fact.value));
    facts->rows[facts->count++] = fact;
    return BT_OK;
}

static int by_key(const void *left, const void *right)
{
    const bt_store_fact *a = left;
    const bt_store_fact *b = right;
    return strcmp(a->key, b->key);
}

bt_status bt_facts_finish(bt_facts *facts)
{
    if (facts->count) {
        qsort(facts->rows, (size_t)facts->count, sizeof *facts->rows, by_key);
    }
    bt_str hard = {0};
    for (int64_t i = 0; i < facts->count; ++i) {
        const bt_store_fact *fact = &facts->rows[i];
        if (i && strcmp(fact->key, facts->rows[i - 1].key) == 0) {
            bt_str_release(&hard);
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "the fact %s is given twice", fact->key);
        }
        if (fact->level == BT_FACT_HARD) {
            bt_str_format(&hard, "%s=%s\n", fact->key, fact->value);
        }
    }
    bt_status status = bt_str_status(&hard);
    if (status == BT_OK) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits(bt_str_text(&hard), hard.length_bytes));
        for (int i = 0; i < 16; ++i) {
            (void)snprintf(facts->digest + 2 * i, 3, "%02x", canonical.digest[i]);
        }
    }
    bt_str_release(&hard);
    return status;
}

bt_status bt_facts_gather(const bt_machine *machine, bool with_gpu, bt_facts *out)
{
    memset(out, 0, sizeof *out);
    bt_status status = bt_facts_add_host(out, machine);
    if (status == BT_OK) {
        status = bt_facts_add_software(out);
    }
    if (status == BT_OK && with_gpu) {
        status = machine->has_cuda ? bt_facts_add_gpu(out, machine)
                                   : bt_facts_add(out, "gpu.unavailable", machine->cuda_reason);
    }
    if (status != BT_OK) {
        bt_facts_release(out);
    }
    return status;
}

void bt_facts_release(bt_facts *facts)
{
    bt_mem_free(facts->rows);
    bt_arena_release(&facts->arena);
    memset(facts, 0, sizeof *facts);
}
