// harness/env/facts.c - the list, its order and its digest
#include "harness/env/facts.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "harness/record/keep.h"

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

// The row with the longest matching key, NULL if there is none.
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
    BT_TRY(BT_MEM_GROW(facts->count + 1, &facts->capacity, &facts->rows));
    bt_store_fact fact = {.level = level};
    BT_TRY(bt_keep(&facts->arena, key, &fact.key));
    BT_TRY(bt_keep(&facts->arena, value, &fact.value));
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
    return bt_record_digest_str(&hard, facts->digest);
}

void bt_facts_release(bt_facts *facts)
{
    bt_mem_free(facts->rows);
    bt_arena_release(&facts->arena);
    memset(facts, 0, sizeof *facts);
}
