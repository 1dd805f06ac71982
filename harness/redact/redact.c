// harness/redact/redact.c - removes private data from a run
//
// Two rules apply to every text of the run: paths are shortened (paths.c), and, if requested, what
// identifies the machine is removed (private.c).
#include <string.h>

#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/redact/private.h"
#include "harness/redact/redact.h"

typedef struct redaction {
    bt_arena *arena;
    bt_str masked, text; // owned
    bt_str *kinds;
    bool identity;      // also what identifies the machine
    bt_secrets secrets; // none without
} redaction;

// Applies the rules to *text; `kind` describes it, and is reported once per kind.
static bt_status shorten(redaction *self, const char *kind, const char **text, int64_t *size_bytes)
{
    size_t length = size_bytes ? (size_t)*size_bytes : strlen(*text);
    bt_str_clear(&self->masked);
    bt_str_clear(&self->text);
    bool masked = self->identity && bt_secrets_mask(&self->secrets, *text, length, &self->masked);
    BT_TRY(bt_str_status(&self->masked));
    const char *from = masked ? bt_str_text(&self->masked) : *text;
    length = masked ? self->masked.length_bytes : length;
    if (!bt_redact_shorten(from, length, &self->text) && !masked) {
        return bt_str_status(&self->text);
    }
    BT_TRY(bt_str_status(&self->text));
    if (!strstr(bt_str_text(self->kinds), kind)) {
        bt_str_format(self->kinds, "%s%s", self->kinds->length_bytes ? ", " : "", kind);
    }
    BT_TRY(bt_keep_part(self->arena, bt_str_text(&self->text), self->text.length_bytes, text));
    if (size_bytes) {
        *size_bytes = (int64_t)self->text.length_bytes;
    }
    return BT_OK;
}

// A mutable copy of a list of the run, in its arena.
static bt_status own_list(redaction *self, const void *list, int64_t count, size_t item_bytes,
                          void **out)
{
    BT_TRY(bt_arena_alloc(self->arena, (size_t)count * item_bytes + 1, out));
    if (count) {
        memcpy(*out, list, (size_t)count * item_bytes);
    }
    return BT_OK;
}

static bt_status redact_rounds(redaction *self, bt_store_run *run)
{
    void *block = NULL;
    BT_TRY(own_list(self, run->rounds, run->round_count, sizeof *run->rounds, &block));
    bt_store_round *rounds = block;
    run->rounds = rounds;
    for (int64_t i = 0; i < run->round_count; i++) {
        BT_TRY(shorten(self, "messages", &rounds[i].message, NULL));
        BT_TRY(own_list(self, rounds[i].faults, rounds[i].fault_count, sizeof *rounds[i].faults,
                        &block));
        bt_store_fault *faults = block;
        rounds[i].faults = faults;
        for (int64_t at = 0; at < rounds[i].fault_count; at++) {
            BT_TRY(shorten(self, "messages", &faults[at].message, NULL));
        }
        BT_TRY(own_list(self, rounds[i].launches, rounds[i].launch_count,
                        sizeof *rounds[i].launches, &block));
        bt_store_launch *launches = block;
        rounds[i].launches = launches;
        for (int64_t at = 0; at < rounds[i].launch_count; at++) {
            BT_TRY(shorten(self, "messages", &launches[at].message, NULL));
        }
        BT_TRY(shorten(self, "plan", &rounds[i].what.axes_json, NULL));
        BT_TRY(shorten(self, "plan", &rounds[i].shape.dataset, NULL));
    }
    return BT_OK;
}

static bt_status redact_facts(redaction *self, bt_store_run *run)
{
    void *block = NULL;
    BT_TRY(own_list(self, run->info.env.facts, run->info.env.fact_count, sizeof(bt_store_fact),
                    &block));
    bt_store_fact *facts = block;
    run->info.env.facts = facts;
    for (int64_t i = 0; i < run->info.env.fact_count; i++) {
        if (self->identity && bt_fact_is_private(facts[i].key)) {
            facts[i].value = BT_REDACT_LEFT_OUT;
        }
        BT_TRY(shorten(self, "environment", &facts[i].value, NULL));
    }
    return BT_OK;
}

static bt_status redact_lists(redaction *self, bt_store_run *run)
{
    void *block = NULL;
    BT_TRY(own_list(self, run->schedule.systems, run->schedule.system_count,
                    sizeof *run->schedule.systems, &block));
    bt_store_system *systems = block;
    run->schedule.systems = systems;
    for (int64_t i = 0; i < run->schedule.system_count; i++) {
        BT_TRY(shorten(self, "systems", &systems[i].program, NULL));
        BT_TRY(shorten(self, "build", &systems[i].build.flags, NULL));
    }
    BT_TRY(shorten(self, "systems", &run->schedule.rule_json, NULL));
    BT_TRY(own_list(self, run->verdicts, run->verdict_count, sizeof *run->verdicts, &block));
    bt_store_verdict *verdicts = block;
    run->verdicts = verdicts;
    for (int64_t i = 0; i < run->verdict_count; i++) {
        BT_TRY(shorten(self, "verdicts", &verdicts[i].reason, NULL));
        BT_TRY(shorten(self, "verdicts", &verdicts[i].rule_json, NULL));
    }
    BT_TRY(own_list(self, run->artifacts, run->artifact_count, sizeof *run->artifacts, &block));
    bt_store_artifact *artifacts = block;
    run->artifacts = artifacts;
    for (int64_t i = 0; i < run->artifact_count; i++) {
        BT_TRY(shorten(self, "files", &artifacts[i].path, NULL));
    }
    BT_TRY(own_list(self, run->files, run->file_count, sizeof *run->files, &block));
    bt_store_file *files = block;
    run->files = files;
    for (int64_t i = 0; i < run->file_count; i++) {
        BT_TRY(shorten(self, "files", &files[i].name, NULL));
        BT_TRY(shorten(self, "files", &files[i].bytes, &files[i].size_bytes));
    }
    return BT_OK;
}

// The hash is that of the published text, so that it can be checked.
static bt_status redact_plan(redaction *self, bt_store_run *run)
{
    bt_store_suite *suite = &run->info.suite;
    const char *before = suite->plan_json;
    void *hash = NULL;
    BT_TRY(shorten(self, "plan", &suite->plan_json, NULL));
    if (suite->plan_json == before) {
        return BT_OK;
    }
    BT_TRY(bt_arena_alloc(self->arena, 33, &hash));
    bt_plan_hash(suite->plan_json, hash);
    suite->plan_hash = hash;
    return BT_OK;
}

static bt_status redact_all(redaction *self, bt_store_run *run)
{
    BT_TRY(shorten(self, "command", &run->info.command, NULL));
    BT_TRY(shorten(self, "suite", &run->info.suite.path, NULL));
    BT_TRY(redact_plan(self, run));
    BT_TRY(shorten(self, "build", &run->info.build.flags, NULL));
    BT_TRY(shorten(self, "messages", &run->message, NULL));
    BT_TRY(redact_rounds(self, run));
    BT_TRY(redact_facts(self, run));
    BT_TRY(redact_lists(self, run));
    return bt_str_status(self->kinds);
}

bt_status bt_redact_run(bt_store_run *run, bool identity, bt_str *kinds)
{
    redaction self = {.arena = &run->arena, .kinds = kinds, .identity = identity};
    bt_status status =
        identity ? bt_secrets_gather(&run->info.env, &run->arena, &self.secrets) : BT_OK;
    BT_IF_OK(status, redact_all(&self, run));
    bt_str_release(&self.masked);
    bt_str_release(&self.text);
    return status;
}
