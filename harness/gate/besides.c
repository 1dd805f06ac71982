// harness/gate/besides.c - what differs between two sides besides what was measured
#include <string.h>

#include "harness/env/facts.h"
#include "harness/gate/gate.h"

enum { VALUE_BYTES = 60, BEFORE_BYTES = 12 }; // of a value that is shown; of what is equal in it

// Where to begin with two long values, so that what differs is seen; 0 for short ones.
static size_t start_of(const char *left, const char *right)
{
    size_t equal = 0;
    while (left[equal] && left[equal] == right[equal]) {
        ++equal;
    }
    return equal > VALUE_BYTES / 2 ? equal - BEFORE_BYTES : 0;
}

static void append_difference(const char *key, const char *base, const char *candidate, bt_str *out)
{
    const char *left = base && *base ? base : "none",
               *right = candidate && *candidate ? candidate : "none";
    if (strcmp(left, right) != 0) {
        size_t start = start_of(left, right);
        const char *gap = start > 0 ? "..." : "";
        bt_str_format(out, "%s%s %s%.*s -> %s%.*s", out->length_bytes ? "; " : "", key, gap,
                      VALUE_BYTES, left + start, gap, VALUE_BYTES, right + start);
    }
}

static void append_builds(const bt_store_build *base, const bt_store_build *candidate, bt_str *out)
{
    append_difference("revision", base->git_commit, candidate->git_commit, out);
    append_difference("uncommitted changes", base->git_diff, candidate->git_diff, out);
    append_difference("compiler", base->compiler, candidate->compiler, out);
    append_difference("flags", base->flags, candidate->flags, out);
    append_difference("build type", base->type, candidate->type, out);
    append_difference("cuda", base->cuda, candidate->cuda, out);
}

static const char *soft_fact(const bt_store_env *env, const char *key)
{
    for (int64_t i = 0; i < env->fact_count; ++i) {
        if (env->facts[i].level == BT_FACT_SOFT && strcmp(env->facts[i].key, key) == 0) {
            return env->facts[i].value;
        }
    }
    return NULL;
}

// Facts of the build say what the builds have said.
static bool is_shown(const bt_store_fact *fact)
{
    return fact->level == BT_FACT_SOFT && strncmp(fact->key, "build.", 6) != 0;
}

static void append_facts(const bt_store_env *base, const bt_store_env *env, bt_str *out)
{
    for (int64_t i = 0; i < base->fact_count; ++i) {
        const bt_store_fact *fact = &base->facts[i];
        if (is_shown(fact)) {
            append_difference(fact->key, fact->value, soft_fact(env, fact->key), out);
        }
    }
    for (int64_t i = 0; i < env->fact_count; ++i) {
        const bt_store_fact *fact = &env->facts[i];
        bool kept_back = bt_fact_is_private(fact->key); // a committed baseline does not have it
        if (is_shown(fact) && !kept_back && !soft_fact(base, fact->key)) {
            append_difference(fact->key, NULL, fact->value, out);
        }
    }
}

// How fast the machine itself was; slower as a whole, it explains much.
static bt_status append_ceilings(const bt_baseline *baseline, const bt_store_run *run, bt_str *out)
{
    bt_arena arena = {0};
    bt_gate_ceilings ceilings;
    bt_status status = bt_gate_ceilings_of_run(run, &arena, &ceilings);
    if (status == BT_OK) {
        status = bt_gate_ceilings_differ(&baseline->ceilings, &ceilings, out);
    }
    bt_arena_release(&arena);
    return status;
}

void bt_gate_besides(const bt_gate_result *result, bt_str *out)
{
    const bt_store_run *run = result->request.run;
    const bt_baseline *baseline = result->request.baseline;
    const bt_store_schedule *schedule = &run->schedule;
    bt_str text = {0};
    bt_status status = BT_OK;
    if (baseline) {
        status = append_ceilings(baseline, run, &text);
        append_builds(&baseline->build, &run->info.build, &text);
        append_facts(&baseline->env, &run->info.env, &text);
    } else if (schedule->system_count == 2) {
        append_builds(&schedule->systems[0].build, &schedule->systems[1].build, &text);
    }
    bt_str_append(out, bt_str_text(&text));
    status = status == BT_OK ? text.status : status;
    out->status = out->status == BT_OK ? status : out->status;
    bt_str_release(&text);
}
