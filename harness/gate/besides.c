// harness/gate/besides.c - other differences between two sides than the measurements
#include <stdio.h>

#include "framework/base/scoped.h"
#include "harness/gate/differ.h"
#include "harness/gate/gate.h"

enum { HASH_BYTES = 8 }; // digits of a revision, as in the heading

// The first digits of a hash.
static void append_hash(const char *key, const char *base, const char *candidate, bt_str *out)
{
    char before[HASH_BYTES + 1], after[HASH_BYTES + 1];
    (void)snprintf(before, sizeof before, "%s", base ? base : "");
    (void)snprintf(after, sizeof after, "%s", candidate ? candidate : "");
    bt_gate_append_difference(key, before, after, out);
}

static void append_builds(const bt_store_build *base, const bt_store_build *candidate, bt_str *out)
{
    append_hash("revision", base->git_commit, candidate->git_commit, out);
    append_hash("uncommitted changes", base->git_diff, candidate->git_diff, out);
    bt_gate_append_difference("compiler", base->compiler, candidate->compiler, out);
    bt_gate_append_difference("flags", base->flags, candidate->flags, out);
    bt_gate_append_difference("build type", base->type, candidate->type, out);
    bt_gate_append_difference("cuda", base->cuda, candidate->cuda, out);
}

// The machine's own speed; if the whole machine was slower, that explains slower cases.
static bt_status append_ceilings(const bt_baseline *baseline, const bt_store_run *run, bt_str *out)
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_gate_ceilings ceilings;
    BT_TRY(bt_gate_ceilings_of_run(run, &arena, &ceilings));
    return bt_gate_ceilings_differ(&baseline->ceilings, &ceilings, out);
}

// The reason why the two machines cannot be compared, if there is one.
static bt_status append_hard_facts(const bt_store_env *base, const bt_store_env *env, bool whole,
                                   bt_str *out)
{
    BT_SCOPED(bt_str) facts = {0};
    bt_status status = bt_gate_append_facts(base, env, BT_FACT_HARD, NULL, whole, &facts);
    if (facts.length_bytes > 0) {
        bt_str_format(out, "not comparable: %s", bt_str_text(&facts));
    }
    return status;
}

static bt_status append_all(const bt_gate_result *result, bool whole, bt_str *out)
{
    const bt_store_run *run = result->request.run;
    const bt_baseline *baseline = result->request.baseline;
    const bt_store_system *systems = run->schedule.systems;
    if (!baseline) {
        if (run->schedule.system_count == 2) {
            append_builds(&systems[0].build, &systems[1].build, out);
        }
        return bt_str_status(out);
    }
    BT_TRY(append_hard_facts(&baseline->env, &run->info.env, whole, out));
    BT_TRY(append_ceilings(baseline, run, out));
    append_builds(&baseline->build, &run->info.build, out);
    return bt_gate_append_facts(&baseline->env, &run->info.env, BT_FACT_SOFT, NULL, whole, out);
}

bt_status bt_gate_besides(const bt_gate_result *result, bool whole, bt_str *out)
{
    BT_SCOPED(bt_str) text = {0}; // the separator depends on its contents
    BT_TRY(append_all(result, whole, &text));
    bt_str_append(out, bt_str_text(&text));
    return bt_str_status(out);
}
