// harness/bundle/verify.c - verifies the bytes of a bundle
//
// Order: container, manifest, statement and signature, contents written again, then everything that
// follows from raw data. If the run cannot be read, later checks are skipped.
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/bundle/content.h"
#include "harness/bundle/recompute.h"
#include "harness/bundle/sign.h"
#include "harness/suite/json.h"

// An error in a file of the bundle is a finding; any other error is returned.
static bt_status take_mistake(bt_bundle_check *check, bt_status status)
{
    if (status == BT_STATUS_INVALID_ARGUMENT) {
        bt_bundle_find(check, "%s", bt_error_message());
        bt_error_clear();
        return BT_OK;
    }
    return status;
}

// ---- manifest ----------------------------------------------------------------------------------

static bool is_statement(const char *name)
{
    return strcmp(name, BT_BUNDLE_STATEMENT) == 0 || strcmp(name, BT_BUNDLE_ENVELOPE) == 0;
}

static void check_listed(const bt_file *file, const cJSON *row, bt_bundle_check *check)
{
    char digest[65];
    bt_files_digest(file->bytes, file->size_bytes, digest);
    if ((double)file->size_bytes != bt_json_number_of(row, "size_bytes")) {
        bt_bundle_find(check, "%s has %zu bytes, the manifest states %.0f", file->name,
                       file->size_bytes, bt_json_number_of(row, "size_bytes"));
    } else if (strcmp(digest, bt_json_text_of(row, "sha256")) != 0) {
        bt_bundle_find(check, "%s has the SHA-256 %s, the manifest states %.64s", file->name,
                       digest, bt_json_text_of(row, "sha256"));
    }
}

// Rows and files are both sorted by name and are merged.
static void check_rows(const bt_files *files, const cJSON *rows, bt_bundle_check *check)
{
    const cJSON *row = cJSON_IsArray(rows) ? rows->child : NULL;
    for (int64_t i = 0; i < files->count || row;) {
        const bt_file *file = i < files->count ? &files->items[i] : NULL;
        if (file && (is_statement(file->name) || strcmp(file->name, "manifest.json") == 0)) {
            i++;
            continue;
        }
        int order = !file ? 1 : !row ? -1 : strcmp(file->name, bt_json_text_of(row, "name"));
        if (order < 0) {
            bt_bundle_find(check, "%s is not listed in the manifest", file->name);
        } else if (order > 0) {
            bt_bundle_find(check, "%.99s is listed in the manifest but missing",
                           bt_json_text_of(row, "name"));
        } else if (file) {
            check_listed(file, row, check);
        }
        i += order <= 0;
        row = row && order >= 0 ? row->next : row;
    }
}

static bt_status check_manifest(const bt_files *files, bt_bundle_check *check)
{
    const bt_file *file = bt_files_find(files, "manifest.json");
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_json_parse("manifest.json", file->bytes, file->size_bytes, &json));
    check_rows(files, bt_json_get(json.root, "files"), check);
    bt_files_digest(file->bytes, file->size_bytes, check->digest);
    return BT_OK;
}

// ---- contents ----------------------------------------------------------------------------------

static bt_status copy_file(const bt_files *from, const char *name, bt_files *to)
{
    const bt_file *file = bt_files_find(from, name);
    bt_str bytes = {0};
    if (!file) {
        return BT_OK;
    }
    bt_str_append_bytes(&bytes, file->bytes, file->size_bytes);
    return bt_files_add(to, name, &bytes);
}

static bool is_same_maker(const bt_content_maker *left, const bt_content_maker *right)
{
    return left->git_commit[0] && strcmp(left->git_commit, right->git_commit) == 0 &&
           strcmp(left->git_diff, right->git_diff) == 0 && strcmp(left->page, right->page) == 0;
}

// The files that export would write for the run that was read.
static bt_status write_expected(const bt_files *files, const bt_store_run *run,
                                bt_bundle_check *check, bt_files *out)
{
    bt_content_maker maker, self;
    BT_TRY(bt_content_read_maker(files, &maker));
    BT_TRY(bt_content_maker_self(&self));
    BT_TRY(bt_content_write(run, out));
    if (is_same_maker(&maker, &self)) {
        BT_TRY(bt_content_add_report(run, out));
    } else {
        bt_str_format(&check->notes,
                      "report.html was made by bt-bench %s %.12s, another build than this one: its "
                      "digest is in the manifest, but it was not generated again\n",
                      maker.version, maker.git_commit);
        BT_TRY(copy_file(files, "report.html", out));
        BT_TRY(copy_file(files, "FORMAT.md", out));
    }
    BT_TRY(bt_content_add_crate(run, &maker, out));
    BT_TRY(bt_content_add_manifest(&maker, out));
    bt_files_sort(out);
    return BT_OK;
}

static void compare_files(const bt_files *expected, const bt_files *files, bt_bundle_check *check)
{
    BT_EACH(const bt_file, wanted, expected->items, expected->count) {
        const bt_file *file = bt_files_find(files, wanted->name);
        if (!file) {
            bt_bundle_find(check, "%s is missing", wanted->name);
        } else if (file->size_bytes != wanted->size_bytes ||
                   memcmp(file->bytes, wanted->bytes, wanted->size_bytes) != 0) {
            bt_bundle_find(check, "%s differs from the file that export writes for this run",
                           wanted->name);
        }
    }
    for (int64_t i = 0; i < files->count; i++) {
        const char *name = files->items[i].name;
        if (!is_statement(name) && !bt_files_find(expected, name)) {
            bt_bundle_find(check, "%s does not belong to a bundle of this run", name);
        }
    }
}

static bt_status check_contents(const bt_files *files, const bt_store_run *run,
                                bt_bundle_check *check)
{
    BT_SCOPED(bt_files) expected = {0};
    BT_TRY(write_expected(files, run, check, &expected));
    compare_files(&expected, files, check);
    return BT_OK;
}

// ---- statement and signature -------------------------------------------------------------------

static bt_status open_statement(const bt_files *files, const bt_bundle_key *key,
                                bt_bundle_check *check, bt_str *statement)
{
    const bt_file *bare = bt_files_find(files, BT_BUNDLE_STATEMENT);
    const bt_file *envelope = bt_files_find(files, BT_BUNDLE_ENVELOPE);
    BT_FAIL_IF(!bare == !envelope, BT_STATUS_INVALID_ARGUMENT,
               "there must be one statement, %s or %s", BT_BUNDLE_STATEMENT, BT_BUNDLE_ENVELOPE);
    if (bare) {
        bt_str_append_bytes(statement, bare->bytes, bare->size_bytes);
        return bt_str_status(statement);
    }
    check->is_signed = true;
    return bt_sign_open(BT_BUNDLE_ENVELOPE, envelope->bytes, envelope->size_bytes, key, statement,
                        check->key_id, &check->signature_holds);
}

static bt_status check_statement(const bt_files *files, const bt_store_run *run,
                                 const bt_bundle_key *key, bt_bundle_check *check)
{
    BT_SCOPED(bt_str) found = {0}, expected = {0};
    BT_TRY(open_statement(files, key, check, &found));
    BT_TRY(bt_content_statement(run, files, &expected));
    if (found.length_bytes != expected.length_bytes ||
        memcmp(bt_str_text(&found), bt_str_text(&expected), expected.length_bytes) != 0) {
        bt_bundle_find(check, "the statement does not refer to this manifest and this run");
    }
    if (key && !check->is_signed) {
        bt_bundle_find(check, "not signed, but a key was given");
    } else if (key && strcmp(key->id, check->key_id) != 0) {
        bt_bundle_find(check, "signed by the key %.16s, not by the given key, %.16s", check->key_id,
                       key->id);
    } else if (key && !check->signature_holds) {
        bt_bundle_find(check, "the signature is invalid");
    } else if (check->is_signed && !key) {
        bt_str_format(&check->notes, "signed by the key %.16s; --key FILE checks the signature\n",
                      check->key_id);
    }
    return BT_OK;
}

// ---- the whole ---------------------------------------------------------------------------------

static bt_status check_run(const bt_files *files, const bt_bundle_key *key, bt_bundle_check *check)
{
    const bt_store_run *run = &check->run;
    (void)snprintf(check->suite, sizeof check->suite, "%s", run->info.suite.name);
    BT_TRY(take_mistake(check, check_contents(files, run, check)));
    BT_TRY(take_mistake(check, check_statement(files, run, key, check)));
    BT_TRY(take_mistake(check, bt_recompute_hashes(run, check)));
    BT_TRY(take_mistake(check, bt_recompute_measurements(run, check)));
    return take_mistake(check, bt_recompute_verdicts(run, check));
}

static bt_status check_files(const bt_files *files, const bt_bundle_key *key,
                             bt_bundle_check *check)
{
    check->file_count = files->count;
    if (!bt_files_find(files, "manifest.json")) {
        bt_bundle_find(check, "manifest.json is missing");
        return BT_OK;
    }
    BT_TRY(take_mistake(check, check_manifest(files, check)));
    bt_status status = bt_content_read(files, &check->run);
    if (status == BT_STATUS_UNSUPPORTED && check->finding_count > 0) {
        status = BT_STATUS_INVALID_ARGUMENT; // a damaged file, not a later format
    }
    if (status != BT_OK) {
        return take_mistake(check, status);
    }
    return check_run(files, key, check);
}

bt_status bt_bundle_verify_bytes(const char *name, const void *bytes, size_t size_bytes,
                                 const bt_bundle_key *key, bt_bundle_check *out)
{
    BT_SCOPED(bt_files) files = {0};
    memset(out, 0, sizeof *out);
    out->size_bytes = (int64_t)size_bytes;
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    BT_TRY(bt_error_context(bt_files_unpack(bytes, size_bytes, &files), "%s", name));
    bt_status status = check_files(&files, key, out);
    BT_IF_OK(status, bt_str_status(&out->findings));
    BT_IF_OK(status, bt_str_status(&out->notes));
    if (status != BT_OK) {
        bt_bundle_check_release(out);
        return bt_error_context(status, "%s", name);
    }
    return BT_OK;
}

bt_status bt_bundle_verify(const char *path, const bt_bundle_key *key, bt_bundle_check *out)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    memset(out, 0, sizeof *out);
    BT_FAIL_IF(!bt_file_exists(path), BT_STATUS_IO,
               "%s: no such file; expected a bundle that 'bt-bench export' wrote", path);
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    return bt_bundle_verify_bytes(path, bytes, size_bytes, key, out);
}

void bt_bundle_check_release(bt_bundle_check *check)
{
    bt_str_release(&check->findings);
    bt_str_release(&check->notes);
    bt_store_run_release(&check->run);
    memset(check, 0, sizeof *check);
}
