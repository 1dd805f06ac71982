// harness/cli/verb_bundle.c - export, verify, import, keygen: runs as verifiable files
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/bundle/bundle.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/text/json_writer.h"

// The file of -o, which is required.
static bt_status output_of(const bt_cli_arguments *arguments, const char *what, const char **path)
{
    *path = bt_cli_value(arguments, "output");
    return *path ? BT_OK
                 : bt_error(BT_STATUS_INVALID_ARGUMENT, "bt-bench %s: -o FILE is missing: %s",
                            arguments->verb->name, what);
}

// Reads the key of an option if given.
static bt_status read_key(const bt_cli_arguments *arguments, const char *option, bool need_secret,
                          bt_bundle_key *key, const bt_bundle_key **out)
{
    const char *path = bt_cli_value(arguments, option);
    *out = NULL;
    if (path) {
        BT_TRY(bt_bundle_key_read(path, need_secret, key));
        *out = key;
    }
    return BT_OK;
}

static bt_status check_ending(const char *path)
{
    static const char ending[] = ".tar.zst";
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "-o %s: a bundle is a compressed tar; expected a name that ends in %s",
                          path, ending);
}

// ---- export ------------------------------------------------------------------------------------

static void describe_export(const char *path, const bt_bundle_key *key, bool json, bt_str *out)
{
    uint64_t size_bytes = 0;
    if (bt_file_size(path, &size_bytes) != BT_OK) {
        bt_error_clear(); // it was written; its size is informative
    }
    if (json) {
        bt_json_writer writer = {.out = out, .indent = 1};
        BT_JSON_OBJECT(&writer, NULL, BT_KV("bundle", path),
                       BT_KV("size_bytes", (int64_t)size_bytes),
                       BT_KV("key_id", key ? key->id : ""));
        bt_str_append(out, "\n");
        return;
    }
    bt_str_format(out, "bundle    %s, %llu bytes%s%.16s\n", path, (unsigned long long)size_bytes,
                  key ? ", signed by the key " : "", key ? key->id : "");
    bt_str_format(out, "next      bt-bench verify %s\n", path);
}

bt_status bt_verb_export(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    int64_t run = 0;
    const char *path = NULL;
    bt_bundle_key secret = {0};
    bt_bundle_options options = {.is_public = bt_cli_value(arguments, "public") != NULL};
    BT_SCOPED(bt_str) notes = {0};
    BT_TRY(bt_cli_open_runs(call, BT_STORE_READ, 0, 1, &run));
    BT_TRY(output_of(arguments, "expected an output file, as in -o run-3.tar.zst", &path));
    BT_TRY(check_ending(path));
    bt_status status = read_key(arguments, "sign", true, &secret, &options.key);
    BT_IF_OK(status, bt_bundle_export(call->store, run, &options, path, &notes));
    if (status == BT_OK) {
        fprintf(stderr, "%s", bt_str_text(&notes));
        describe_export(path, options.key, call->json, &call->out);
    }
    bt_bundle_key_forget(&secret);
    return status;
}

// ---- verify and import -------------------------------------------------------------------------

static bt_status verify(const bt_cli_arguments *arguments, bt_bundle_check *check)
{
    bt_bundle_key given = {0};
    const bt_bundle_key *key = NULL;
    BT_TRY(read_key(arguments, "key", false, &given, &key));
    bt_status status = bt_bundle_verify(arguments->words[0], key, check);
    bt_bundle_key_forget(&given);
    return status;
}

bt_status bt_verb_verify(bt_cli_call *call)
{
    BT_SCOPED(bt_bundle_check) check = {0};
    bt_status status = verify(call->arguments, &check);
    if (status == BT_OK) {
        (call->json ? bt_bundle_check_json : bt_bundle_check_text)(call->arguments->words[0],
                                                                   &check, &call->out);
    }
    call->code = check.finding_count > 0;
    return status;
}

static bt_status import_run(bt_cli_call *call, const bt_store_run *run)
{
    int64_t number = 0;
    BT_TRY(bt_cli_open(call, BT_STORE_WRITE));
    BT_TRY(bt_store_run_find(call->store, run, &number));
    const bool known = number > 0;
    if (!known) {
        BT_TRY(bt_store_run_import(call->store, run, false, &number));
    }
    if (call->json) {
        bt_str_format(&call->out, "{\"run\":%lld}\n", (long long)number);
        return BT_OK;
    }
    bt_str_format(&call->out, "imported  %s run %lld%s\nnext      bt-bench show %lld",
                  known ? "before, as" : "as", (long long)number,
                  known ? "; nothing was added" : "", (long long)number);
    bt_cli_append_database(bt_cli_database(call->arguments), &call->out);
    bt_str_append(&call->out, "\n");
    return BT_OK;
}

// Only a bundle that verifies is imported.
bt_status bt_verb_import(bt_cli_call *call)
{
    BT_SCOPED(bt_bundle_check) check = {0};
    BT_SCOPED(bt_str) findings = {0};
    bt_status status = verify(call->arguments, &check);
    call->code = check.finding_count > 0;
    if (status == BT_OK && call->code) {
        bt_bundle_check_text(call->arguments->words[0], &check, &findings);
        fprintf(stderr, "%snothing was imported\n", bt_str_text(&findings));
    } else {
        BT_IF_OK(status, import_run(call, &check.run));
    }
    return status;
}

// ---- keygen ------------------------------------------------------------------------------------

bt_status bt_verb_keygen(bt_cli_call *call)
{
    const char *name = NULL;
    BT_SCOPED(bt_str) secret = {0}, open = {0};
    bt_bundle_key key = {0};
    BT_TRY(output_of(call->arguments, "expected a name for the two files, as in -o mine", &name));
    bt_str_format(&secret, "%s.key", name);
    bt_str_format(&open, "%s.pub", name);
    BT_TRY(bt_str_status(&secret));
    BT_TRY(bt_str_status(&open));
    BT_TRY(bt_bundle_key_make(bt_str_text(&secret), bt_str_text(&open)));
    BT_TRY(bt_bundle_key_read(bt_str_text(&open), false, &key));
    bt_str_format(&call->out,
                  "key       %.16s\nsecret    %s: do not share it\npublic    %s\n"
                  "next      bt-bench export RUN -o FILE --sign %s\n",
                  key.id, bt_str_text(&secret), bt_str_text(&open), bt_str_text(&secret));
    return BT_OK;
}
