// harness/bundle/export.c - exports a run of the store as a bundle
#include <sodium.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/bundle/sign.h"
#include "harness/env/facts.h"
#include "harness/redact/redact.h"

// What the run lacks, one line each.
static void note_missing(const bt_store_run *run, bt_str *notes)
{
    if (BT_FIND(run->files, run->file_count, kind, "suite") < 0) {
        bt_str_append(
            notes, "the run was recorded without its suite file; the bundle contains its plan\n");
    }
    if (run->verdict_count == 0) {
        bt_str_append(notes,
                      "the run has no verdicts: 'verify' recomputes its measurements only\n");
    }
}

// The statement, plain or in a signed envelope.
static bt_status add_statement(const bt_store_run *run, const bt_bundle_key *key, bt_files *files)
{
    BT_SCOPED(bt_str) statement = {0}, envelope = {0};
    BT_TRY(bt_content_statement(run, files, &statement));
    if (key) {
        BT_TRY(bt_sign_envelope(&statement, key, &envelope));
    }
    return key ? bt_files_add(files, BT_BUNDLE_ENVELOPE, &envelope)
               : bt_files_add(files, BT_BUNDLE_STATEMENT, &statement);
}

// Derived files are made from the run as read back from its files, so that a verifier makes the
// same ones.
static bt_status add_generated(const bt_store_run *run, const bt_bundle_key *key, bt_files *files)
{
    bt_content_maker maker = {0};
    BT_TRY(bt_content_maker_self(&maker));
    BT_TRY(bt_content_add_report(run, files));
    BT_TRY(bt_content_add_crate(run, &maker, files));
    BT_TRY(bt_content_add_manifest(&maker, files));
    return add_statement(run, key, files);
}

bt_status bt_content_build(const bt_store_run *run, const bt_bundle_key *key, bt_files *files)
{
    BT_SCOPED(bt_store_run) again = {0};
    BT_TRY(bt_content_write(run, files));
    BT_TRY(bt_content_read(files, &again));
    return add_generated(&again, key, files);
}

static bt_status build(bt_store_run *run, const bt_bundle_options *options, bt_str *notes,
                       bt_files *files)
{
    BT_SCOPED(bt_str) kinds = {0};
    BT_TRY(bt_redact_run(run, options->is_public, &kinds));
    if (kinds.length_bytes) {
        bt_str_format(notes, "paths%s of this machine were %s in: %s\n",
                      options->is_public ? " and names" : "",
                      options->is_public ? "shortened or omitted" : "shortened",
                      bt_str_text(&kinds));
    }
    return bt_content_build(run, options->key, files);
}

bt_status bt_bundle_export(bt_store *store, int64_t run, const bt_bundle_options *options,
                           const char *path, bt_str *notes)
{
    BT_SCOPED(bt_store_run) record = {0};
    BT_SCOPED(bt_files) files = {0};
    BT_SCOPED(bt_str) packed = {0};
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    BT_TRY(bt_store_run_read(store, run, &record));
    BT_FAIL_IF(record.status == BT_RUN_RUNNING, BT_STATUS_INVALID_ARGUMENT,
               "run %lld is still running; export it after it has ended", (long long)run);
    note_missing(&record, notes);
    BT_TRY(build(&record, options, notes, &files));
    BT_TRY(bt_files_pack(&files, &packed));
    BT_TRY(bt_file_write(path, bt_str_text(&packed), packed.length_bytes));
    return bt_str_status(notes);
}

bt_status bt_bundle_check_public(const char *name, const void *bytes, size_t size_bytes,
                                 const bt_store_run *of)
{
    BT_SCOPED(bt_files) files = {0};
    BT_SCOPED(bt_store_run) run = {0};
    BT_TRY(bt_error_context(bt_files_unpack(bytes, size_bytes, &files), "%s", name));
    BT_TRY(bt_error_context(bt_content_read(&files, &run), "%s", name));
    BT_EACH(const bt_store_fact, fact, run.info.env.facts, run.info.env.fact_count) {
        BT_FAIL_IF(bt_fact_is_private(fact->key) && strcmp(fact->value, BT_REDACT_LEFT_OUT) != 0,
                   BT_STATUS_INVALID_ARGUMENT,
                   "%s: contains %s, which identifies the machine; 'bt-bench export --public' "
                   "omits such facts",
                   name, fact->key);
    }
    BT_FAIL_IF(of && (run.started_ns != of->started_ns || run.round_count != of->round_count ||
                      strcmp(run.info.suite.plan_hash, of->info.suite.plan_hash) != 0),
               BT_STATUS_INVALID_ARGUMENT,
               "%s: contains another run than run %lld, or its state before it ended", name,
               (long long)of->id);
    return BT_OK;
}
