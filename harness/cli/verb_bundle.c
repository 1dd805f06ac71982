// harness/cli/verb_bundle.c - export, verify, import, keygen: runs as files that others can check
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "harness/bundle/bundle.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/text/json_writer.h"

// The file of -o, which must be given.
static bt_status output_of(const bt_cli_arguments *arguments, const char *what, const char **path)
{
    *path = bt_cli_value(arguments, "output");
    return *path ? BT_OK
                 : bt_error(BT_STATUS_INVALID_ARGUMENT, "bt-bench %s: -o FILE is missing: %s",
                            arguments->verb->name, what);
}

// Reads the key of an option where it is given.
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

static int print_or_fail(bt_status status, bt_str *out)
{
    if (status == BT_OK) {
        return bt_cli_print(out);
    }
    bt_str_release(out);
    return bt_cli_fail(status);
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
        bt_error_clear(); // it was written; its size is for reading
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

static bt_status export_run(const bt_cli_arguments *arguments, int64_t run, const char *path,
                            const bt_bundle_key *key, bt_str *notes)
{
    bt_store *store = NULL;
    const bt_bundle_options options = {.key = key,
                                       .is_public = bt_cli_value(arguments, "public") != NULL};
    BT_TRY(bt_store_open(bt_cli_database(arguments), BT_STORE_READ, &store));
    bt_status status = bt_bundle_export(store, run, &options, path, notes);
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

int bt_verb_export(const bt_cli_arguments *arguments)
{
    bool json = false;
    int64_t run = 0;
    const char *path = NULL;
    bt_bundle_key secret = {0};
    const bt_bundle_key *key = NULL;
    bt_str out = {0}, notes = {0};
    bt_status status = bt_cli_wants_json(arguments, &json);
    BT_IF_OK(status, bt_cli_run(arguments, arguments->words[0], &run));
    BT_IF_OK(status, output_of(arguments, "where to, as in -o run-3.tar.zst", &path));
    BT_IF_OK(status, check_ending(path));
    BT_IF_OK(status, read_key(arguments, "sign", true, &secret, &key));
    BT_IF_OK(status, export_run(arguments, run, path, key, &notes));
    if (status == BT_OK) {
        fprintf(stderr, "%s", bt_str_text(&notes));
        describe_export(path, key, json, &out);
        status = bt_str_status(&out);
    }
    bt_bundle_key_forget(&secret);
    bt_str_release(&notes);
    return print_or_fail(status, &out);
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

int bt_verb_verify(const bt_cli_arguments *arguments)
{
    bool json = false;
    bt_bundle_check check = {0};
    bt_str out = {0};
    bt_status status = bt_cli_wants_json(arguments, &json);
    BT_IF_OK(status, verify(arguments, &check));
    if (status == BT_OK) {
        (json ? bt_bundle_check_json : bt_bundle_check_text)(arguments->words[0], &check, &out);
        status = bt_str_status(&out);
    }
    int verdict = check.finding_count > 0;
    bt_bundle_check_release(&check);
    int code = print_or_fail(status, &out);
    return code ? code : verdict;
}

static bt_status import_run(const bt_cli_arguments *arguments, const bt_store_run *run,
                            int64_t *number, bool *known)
{
    bt_store *store = NULL;
    BT_TRY(bt_store_open(bt_cli_database(arguments), BT_STORE_WRITE, &store));
    bt_status status = bt_store_run_find(store, run, number);
    *known = *number > 0;
    if (status == BT_OK && !*known) {
        status = bt_store_run_import(store, run, false, number);
    }
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

static void describe_import(const bt_cli_arguments *arguments, int64_t number, bool known,
                            bool json, bt_str *out)
{
    if (json) {
        bt_str_format(out, "{\"run\":%lld}\n", (long long)number);
        return;
    }
    bt_str_format(out, "imported  %s run %lld%s\nnext      bt-bench show %lld",
                  known ? "before, as" : "as", (long long)number,
                  known ? "; nothing was added" : "", (long long)number);
    bt_cli_append_database(bt_cli_database(arguments), out);
    bt_str_append(out, "\n");
}

// Only a bundle that holds is taken in.
int bt_verb_import(const bt_cli_arguments *arguments)
{
    bool json = false;
    int64_t number = 0;
    bt_bundle_check check = {0};
    bt_str out = {0};
    bt_status status = bt_cli_wants_json(arguments, &json);
    BT_IF_OK(status, verify(arguments, &check));
    int verdict = check.finding_count > 0;
    if (status == BT_OK && verdict) {
        bt_bundle_check_text(arguments->words[0], &check, &out);
        fprintf(stderr, "%snothing was imported\n", bt_str_text(&out));
        bt_str_clear(&out);
    } else if (status == BT_OK) {
        bool known = false;
        status = import_run(arguments, &check.run, &number, &known);
        describe_import(arguments, number, known, json, &out);
    }
    bt_bundle_check_release(&check);
    int code = print_or_fail(status, &out);
    return code ? code : verdict;
}

// ---- keygen ------------------------------------------------------------------------------------

int bt_verb_keygen(const bt_cli_arguments *arguments)
{
    const char *name = NULL;
    bt_str secret = {0}, open = {0}, out = {0};
    bt_bundle_key key = {0};
    bt_status status = output_of(arguments, "the name of the pair, as in -o mine", &name);
    if (status == BT_OK) {
        bt_str_format(&secret, "%s.key", name);
        bt_str_format(&open, "%s.pub", name);
        status = bt_str_status(&secret);
    }
    BT_IF_OK(status, bt_str_status(&open));
    BT_IF_OK(status, bt_bundle_key_make(bt_str_text(&secret), bt_str_text(&open)));
    BT_IF_OK(status, bt_bundle_key_read(bt_str_text(&open), false, &key));
    if (status == BT_OK) {
        bt_str_format(&out, "key       %.16s\nsecret    %s: keep it to yourself\npublic    %s\n",
                      key.id, bt_str_text(&secret), bt_str_text(&open));
        bt_str_format(&out, "next      bt-bench export RUN -o FILE --sign %s\n",
                      bt_str_text(&secret));
        status = bt_str_status(&out);
    }
    bt_str_release(&secret);
    bt_str_release(&open);
    return print_or_fail(status, &out);
}
