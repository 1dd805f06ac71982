// harness/record/record.c - helpers for records of runs
#include "harness/record/record.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "framework/base/find.h"

const char *bt_fact_of(const bt_store_env *env, const char *key)
{
    const int64_t at = BT_FIND(env->facts, env->fact_count, key, key);
    return at < 0 ? NULL : env->facts[at].value;
}

const char *bt_store_eager_reason(const bt_store_kernel *kernel)
{
    static const char eager[] = "eager: "; // framework/train/compiled.c
    const bool says_it =
        strcmp(kernel->op, "compile") == 0 && strncmp(kernel->kernel, eager, sizeof eager - 1) == 0;
    return says_it ? kernel->kernel + sizeof eager - 1 : NULL;
}

void bt_record_digest(const void *bytes, size_t size_bytes, char hex[33])
{
    const XXH128_hash_t hash = XXH3_128bits(bytes, size_bytes);
    (void)snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
}

bt_status bt_record_digest_str(bt_str *text, char hex[33])
{
    const bt_status status = bt_str_status(text);
    if (status == BT_OK) {
        bt_record_digest(bt_str_text(text), text->length_bytes, hex);
    }
    bt_str_release(text);
    return status;
}

// Only rounds that did not pass are ever repeated.
void bt_store_rounds_mark(bt_store_round *rounds, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bt_store_round *round = &rounds[i];
        for (int64_t j = i + 1; round->status != BT_RUN_PASSED && j < count; j++) {
            const bt_store_case *a = &round->what, *b = &rounds[j].what;
            round->superseded =
                round->superseded ||
                (rounds[j].ordinal == round->ordinal && strcmp(a->name, b->name) == 0 &&
                 strcmp(a->system, b->system) == 0 && strcmp(a->axes_json, b->axes_json) == 0);
        }
    }
}

void bt_store_run_release(bt_store_run *run)
{
    bt_arena_release(&run->arena);
    memset(run, 0, sizeof *run);
}
