// harness/bundle/describe.c - derived files: report, RO-Crate metadata, manifest, in-toto statement
//
// Sources: RO-Crate 1.1 (w3id.org/ro/crate/1.1); in-toto attestation framework, Statement v1 and
// the predicate test-result v0.1.
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "bt_bundle_format.h" // generated from FORMAT.md
#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "framework/base/scoped.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/content.h"
#include "harness/env/build.h"
#include "harness/report/report.h"
#include "harness/text/record_json.h"

#define CRATE "ro-crate-metadata.json"

// ---- the packer --------------------------------------------------------------------------------

static void set_text(char *out, size_t size_bytes, const char *text)
{
    (void)snprintf(out, size_bytes, "%s", text);
}

bt_status bt_content_maker_self(bt_content_maker *out)
{
    const bt_build *build = bt_build_get();
    set_text(out->version, sizeof out->version, build->version);
    set_text(out->git_commit, sizeof out->git_commit, build->git_commit);
    set_text(out->git_diff, sizeof out->git_diff, build->git_diff);
    set_text(out->zstd, sizeof out->zstd, ZSTD_versionString());
    return bt_report_page_digest(out->page);
}

bt_status bt_content_read_maker(const bt_files *files, bt_content_maker *out)
{
    const bt_file *file = bt_files_find(files, "manifest.json");
    const struct {
        const char *key;
        char *text;
        size_t size_bytes;
    } rows[] = {{"version", out->version, sizeof out->version},
                {"git_commit", out->git_commit, sizeof out->git_commit},
                {"git_diff", out->git_diff, sizeof out->git_diff},
                {"zstd", out->zstd, sizeof out->zstd},
                {"page", out->page, sizeof out->page}};
    BT_SCOPED(bt_json_doc) json = {0};
    BT_FAIL_IF(!file, BT_STATUS_INVALID_ARGUMENT, "manifest.json is missing");
    BT_TRY(bt_json_parse("manifest.json", file->bytes, file->size_bytes, &json));
    for (int64_t i = 0; i < BT_COUNT(rows); i++) {
        const char *text = bt_json_text_or_null(bt_json_get(json.root, "made_by"), rows[i].key);
        BT_FAIL_IF(!text || strlen(text) >= rows[i].size_bytes, BT_STATUS_INVALID_ARGUMENT,
                   "manifest.json, made_by: \"%s\" is missing, or too long", rows[i].key);
        set_text(rows[i].text, rows[i].size_bytes, text);
    }
    return BT_OK;
}

// ---- report ------------------------------------------------------------------------------------

// The page is made from a database that contains only this run, so that nothing else gets into it.
static bt_status make_page(const bt_store_run *run, bt_str *out)
{
    bt_store *store = NULL;
    int64_t id = 0;
    BT_TRY(bt_store_open(":memory:", BT_STORE_WRITE, &store));
    bt_status status = bt_store_run_import(store, run, true, &id);
    BT_IF_OK(status, bt_report_html(store, &id, 1, out));
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

bt_status bt_content_add_report(const bt_store_run *run, bt_files *files)
{
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(make_page(run, &text));
    BT_TRY(bt_files_add(files, "report.html", &text));
    bt_str_append_bytes(&text, bt_format_md, bt_format_md_size);
    return bt_files_add(files, "FORMAT.md", &text);
}

// ---- RO-Crate ----------------------------------------------------------------------------------

static void write_reference(bt_json_writer *json, const char *key, const char *id)
{
    BT_JSON_OBJECT(json, key, BT_KV("@id", id));
}

static void open_entity(bt_json_writer *json, const char *id, const char *type)
{
    bt_json_writer_open(json, NULL, '{');
    BT_JSON(json, BT_KV("@id", id), BT_KV("@type", type));
}

static const char *encoding_of(const char *name)
{
    static const struct {
        const char *ending, *encoding;
    } rows[] = {{".json", "application/json"},
                {".ndjson", "application/x-ndjson"},
                {".f64", "application/octet-stream"},
                {".html", "text/html"},
                {".md", "text/markdown"}};
    const int64_t at = BT_FIND(rows, BT_COUNT(rows), ending, strrchr(name, '.'));
    return at < 0 ? "application/octet-stream" : rows[at].encoding;
}

static void write_file_entity(bt_json_writer *json, const bt_file *file)
{
    char text[72];
    open_entity(json, file->name, "File");
    BT_JSON(json, BT_OF(file, name), BT_KV("encodingFormat", encoding_of(file->name)));
    (void)snprintf(text, sizeof text, "%zu", file->size_bytes);
    bt_json_writer_text(json, "contentSize", text);
    bt_files_digest(file->bytes, file->size_bytes, text);
    bt_json_writer_text(json, "sha256", text);
    bt_json_writer_close(json, '}');
}

static void write_root(bt_json_writer *json, const bt_store_run *run, const bt_files *files)
{
    char text[512], time[40];
    int64_t time_ns = run->ended_ns ? run->ended_ns : run->started_ns;
    bt_fields_time(time_ns, time);
    open_entity(json, "./", "Dataset");
    (void)snprintf(text, sizeof text, "bt-bench run %lld of %.200s", (long long)run->id,
                   run->info.suite.name);
    bt_json_writer_text(json, "name", text);
    (void)snprintf(text, sizeof text,
                   "Raw samples, steps, environment, plan and verdicts of %lld rounds of the suite "
                   "%.200s, profile %.100s. FORMAT.md says how to read them.",
                   (long long)run->round_count, run->info.suite.name, run->info.suite.profile);
    BT_JSON(json, BT_KV("description", text), BT_KV("datePublished", time[0] ? time : "1970-01-01"),
            BT_KV("license", "Not stated: ask whoever published this bundle"));
    BT_JSON_LIST(json, "hasPart", i, files->count) {
        write_reference(json, NULL, files->items[i].name);
    }
    write_reference(json, "mentions", "#run");
    bt_json_writer_close(json, '}');
}

static void write_action(bt_json_writer *json, const bt_store_run *run,
                         const bt_content_maker *maker)
{
    char time[40];
    open_entity(json, "#run", "CreateAction");
    bt_json_writer_text(json, "name", run->info.command);
    bt_fields_time(run->started_ns, time);
    bt_json_writer_text(json, "startTime", time);
    bt_fields_time(run->ended_ns, time);
    bt_json_writer_text(json, "endTime", time);
    write_reference(json, "instrument", "#bt-bench");
    write_reference(json, "object", "plan.json");
    write_reference(json, "result", "./");
    bt_json_writer_close(json, '}');
    open_entity(json, "#bt-bench", "SoftwareApplication");
    BT_JSON(json, BT_KV("name", "bt-bench"),
            BT_KV("softwareVersion", run->info.build.git_commit[0] ? run->info.build.git_commit
                                                                   : run->info.build.version));
    bt_json_writer_close(json, '}');
    open_entity(json, "#packer", "SoftwareApplication");
    BT_JSON(json, BT_KV("name", "bt-bench export"),
            BT_KV("softwareVersion", maker->git_commit[0] ? maker->git_commit : maker->version));
    bt_json_writer_close(json, '}');
}

bt_status bt_content_add_crate(const bt_store_run *run, const bt_content_maker *maker,
                               bt_files *files)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text, .indent = 1};
    bt_files_sort(files);
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "@context", "https://w3id.org/ro/crate/1.1/context");
    bt_json_writer_open(&json, "@graph", '[');
    open_entity(&json, CRATE, "CreativeWork");
    write_reference(&json, "conformsTo", "https://w3id.org/ro/crate/1.1");
    write_reference(&json, "about", "./");
    bt_json_writer_close(&json, '}');
    write_root(&json, run, files);
    for (int64_t i = 0; i < files->count; i++) {
        write_file_entity(&json, &files->items[i]);
    }
    write_action(&json, run, maker);
    bt_json_writer_close(&json, ']');
    bt_json_writer_close(&json, '}');
    bt_str_append(&text, "\n");
    return bt_files_add(files, CRATE, &text);
}

// ---- manifest and statement --------------------------------------------------------------------

bt_status bt_content_add_manifest(const bt_content_maker *maker, bt_files *files)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text, .indent = 1};
    bt_files_sort(files);
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "format", BT_BUNDLE_FORMAT);
    BT_JSON_OBJECT(&json, "made_by", BT_OF(maker, version), BT_OF(maker, git_commit),
                   BT_OF(maker, git_diff), BT_OF(maker, zstd), BT_OF(maker, page));
    BT_JSON_LIST(&json, "files", i, files->count) {
        char digest[65];
        bt_files_digest(files->items[i].bytes, files->items[i].size_bytes, digest);
        BT_JSON_OBJECT(&json, NULL, BT_OF(&files->items[i], name),
                       BT_KV("size_bytes", (int64_t)files->items[i].size_bytes),
                       BT_KV("sha256", digest));
    }
    bt_json_writer_close(&json, '}');
    bt_str_append(&text, "\n");
    return bt_files_add(files, "manifest.json", &text);
}

static void write_digest_of(bt_json_writer *json, const bt_file *file)
{
    char digest[65] = "";
    if (file) {
        bt_files_digest(file->bytes, file->size_bytes, digest);
    }
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "name", file ? file->name : "");
    BT_JSON_OBJECT(json, "digest", BT_KV("sha256", digest));
    bt_json_writer_close(json, '}');
}

// Rounds of one outcome by name: passed, could not run here, or anything else.
static void write_tests(bt_json_writer *json, const char *key, const bt_store_run *run, int outcome)
{
    BT_JSON_LIST(json, key, i, run->round_count) {
        const bt_store_round *round = &run->rounds[i];
        int mine = round->status == BT_RUN_PASSED ? 0 : round->status == BT_RUN_UNAVAILABLE ? 1 : 2;
        char name[512];
        (void)snprintf(name, sizeof name, "%.200s, %.200s, round %lld", round->what.name,
                       round->what.system, (long long)round->ordinal);
        if (mine == outcome) {
            bt_json_writer_text(json, NULL, name);
        }
    }
}

bt_status bt_content_statement(const bt_store_run *run, const bt_files *files, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "_type", "https://in-toto.io/Statement/v1");
    bt_json_writer_open(&json, "subject", '[');
    write_digest_of(&json, bt_files_find(files, "manifest.json"));
    bt_json_writer_close(&json, ']');
    bt_json_writer_text(&json, "predicateType", "https://in-toto.io/attestation/test-result/v0.1");
    bt_json_writer_open(&json, "predicate", '{');
    bt_json_writer_text(&json, "result", run->status == BT_RUN_PASSED ? "PASSED" : "FAILED");
    bt_json_writer_open(&json, "configuration", '[');
    write_digest_of(&json, bt_files_find(files, "plan.json"));
    bt_json_writer_close(&json, ']');
    write_tests(&json, "passedTests", run, 0);
    write_tests(&json, "warnedTests", run, 1);
    write_tests(&json, "failedTests", run, 2);
    bt_json_writer_close(&json, '}');
    return bt_json_writer_end(&json, '}');
}
