// harness/report/publish.c - the files of a publication
#include "harness/report/publish.h"

#include <dirent.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/record/keep.h"
#include "harness/redact/redact.h"
#include "harness/report/publish_text.h"
#include "harness/report/report.h"
#include "harness/report/svg.h"

// ---- the folder --------------------------------------------------------------------------------

// Everything that a publication may consist of.
static const char *const names[] = {"index.html",   "README.md", "report.json", "environment.json",
                                    "roofline.svg", "loss.svg",  "speed.svg",   "bundle.tar.zst"};

static bool is_ours(const char *name)
{
    return BT_FIND_WORD(names, BT_COUNT(names), name) >= 0 || strncmp(name, "ratios-", 7) == 0;
}

static bt_status check_file(const bt_publication *publication, const char *name)
{
    BT_FAIL_IF(!is_ours(name), BT_STATUS_INVALID_ARGUMENT,
               "%s: contains '%s', which is not part of a publication; choose another folder",
               publication->folder, name);
    BT_FAIL_IF(!publication->force, BT_STATUS_INVALID_ARGUMENT,
               "%s: contains a publication ('%s'); --force replaces it", publication->folder, name);
    return BT_OK;
}

static bt_status remove_file(const bt_publication *publication, const char *name)
{
    BT_SCOPED(bt_str) file = {0};
    bt_str_format(&file, "%s/%s", publication->folder, name);
    BT_TRY(bt_str_status(&file));
    BT_FAIL_IF(is_ours(name) && remove(bt_str_text(&file)) != 0, BT_STATUS_IO,
               "%s: cannot be removed", bt_str_text(&file));
    return BT_OK;
}

static bt_status each_file(const bt_publication *publication,
                           bt_status (*take)(const bt_publication *, const char *name))
{
    DIR *folder = opendir(publication->folder);
    bt_status status = BT_OK;
    const struct dirent *entry = NULL;
    while (status == BT_OK && folder && (entry = readdir(folder)) != NULL) {
        const bool self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        status = self ? BT_OK : take(publication, entry->d_name);
    }
    if (folder) {
        (void)closedir(folder);
    }
    return status;
}

// ---- files -------------------------------------------------------------------------------------

typedef struct publishing {
    const char *folder;
    bool draft;
    publish_file files[PUBLISH_FILES_MAX];
    int count;
} publishing;

// The word DRAFT across the top of a plot.
static void mark_plot(const char *name, bt_str *text)
{
    static const char mark[] = "<text x=\"50%\" y=\"14\" text-anchor=\"middle\" fill=\"#c00\" "
                               "font-family=\"sans-serif\" font-size=\"14\">DRAFT</text></svg>\n";
    size_t length = strlen(name);
    char *end = NULL;
    if (length < 4 || strcmp(name + length - 4, ".svg") != 0 || bt_str_status(text) != BT_OK) {
        return;
    }
    for (char *at = strstr(text->text, "</svg>"); at; at = strstr(at + 1, "</svg>")) {
        end = at;
    }
    if (end) {
        text->length_bytes = (size_t)(end - text->text);
        bt_str_append(text, mark);
    }
}

// Writes one file and records its digest. `text` is emptied, also after a failure.
static bt_status put(publishing *self, const char *name, const char *what, bt_str *text)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/%s", self->folder, name);
    if (self->draft) {
        mark_plot(name, text);
    }
    bt_status status = bt_str_status(text);
    BT_IF_OK(status, bt_str_status(&path));
    if (status == BT_OK && self->count == PUBLISH_FILES_MAX) {
        status =
            bt_error(BT_STATUS_INTERNAL, "%s: more than %d files", self->folder, PUBLISH_FILES_MAX);
    }
    BT_IF_OK(status, bt_file_write(bt_str_text(&path), bt_str_text(text), text->length_bytes));
    if (status == BT_OK) {
        publish_file *file = &self->files[self->count++];
        (void)snprintf(file->name, sizeof file->name, "%s", name);
        file->what = what;
        (void)crypto_hash_sha256(digest, (const unsigned char *)bt_str_text(text),
                                 text->length_bytes);
        (void)sodium_bin2hex(file->digest, sizeof file->digest, digest, sizeof digest);
    }
    bt_str_release(text);
    return status;
}

static bt_status put_ratios(publishing *self, const report_set *set)
{
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        bt_text name;
        bt_str text = {0};
        if (list->count == 0) {
            continue;
        }
        (void)snprintf(name.text, sizeof name.text, "ratios-%s.svg", list->id);
        bt_svg_ratios(list, &text);
        BT_TRY(put(self, name.text, "ratios with their intervals", &text));
    }
    return BT_OK;
}

static bt_status put_chart(publishing *self, const report_set *set, const char *id,
                           const char *name, const char *what)
{
    enum { BUCKETS = 300 };
    chart drawn;
    BT_SCOPED(bt_str) text = {0};
    const int64_t kind = BT_FIND(bt_chart_kinds, bt_chart_kind_count, id, id);
    BT_FAIL_IF(kind < 0, BT_STATUS_INTERNAL, "no chart has the id %s", id);
    bt_status status = bt_chart_make(set, &bt_chart_kinds[kind], BUCKETS, &drawn);
    if (status == BT_OK && drawn.count > 0) {
        bt_svg_chart(set, &drawn, &text);
        status = put(self, name, what, &text);
    }
    bt_arena_release(&drawn.arena);
    return status;
}

static bt_status put_roofline(publishing *self, const report_set *set)
{
    roofline drawn;
    BT_SCOPED(bt_str) text = {0};
    bt_status status = bt_roofline_make(set, &drawn);
    if (status == BT_OK && drawn.count > 0) {
        bt_svg_roofline(&drawn, &text);
        status = put(self, "roofline.svg", "kernel cases and the limits of the machine", &text);
    }
    bt_arena_release(&drawn.arena);
    return status;
}

// Reads the bundle, if there is one: it must be that of the run, without what identifies the
// machine.
static bt_status read_bundle(const report_set *set, const bt_publication *publication, bt_str *out)
{
    const char *path = publication->bundle;
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    if (!path) {
        return BT_OK;
    }
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    BT_TRY(publication->check_bundle(path, bytes, size_bytes, &set->runs[0]));
    bt_str_append_bytes(out, bytes, size_bytes);
    return bt_str_status(out);
}

static bt_status put_texts(publishing *self, const report_set *set, bt_str *text)
{
    BT_TRY(bt_page_write(set, text));
    BT_TRY(put(self, "index.html", "the report as one page, works offline", text));
    BT_TRY(bt_json_write_report(set, text));
    BT_TRY(put(self, "report.json", "the same as JSON, with every step of every round", text));
    BT_TRY(bt_publish_environment(set, text));
    return put(self, "environment.json", "machine, build and libraries", text);
}

// `bundle` is emptied.
static bt_status put_all(publishing *self, const report_set *set, const bt_publication *publication,
                         bt_str *bundle)
{
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(put_texts(self, set, &text));
    BT_TRY(put_ratios(self, set));
    BT_TRY(put_roofline(self, set));
    BT_TRY(put_chart(self, set, "loss", "loss.svg", "loss over the steps"));
    BT_TRY(put_chart(self, set, "speed", "speed.svg", "tokens per second over the steps"));
    if (publication->bundle) {
        BT_TRY(
            put(self, "bundle.tar.zst", "raw samples, to be checked by bt-bench verify", bundle));
    }
    BT_TRY(bt_publish_readme(set, publication, self->files, self->count, &text));
    return put(self, "README.md", "", &text);
}

// Removes what identifies the machine, and shortens its paths.
static bt_status make_public(bt_store_run *run)
{
    BT_SCOPED(bt_str) kinds = {0};
    return bt_redact_run(run, true, &kinds);
}

// What the runs and the request lack, "" if nothing; each reason is preceded by "; ".
static void find_faults(const report_set *set, const bt_publication *publication, bt_str *out)
{
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_publish_faults(&set->runs[i], out);
    }
    if (!publication->bundle) {
        bt_str_append(out, "; the bundle is missing: --bundle FILE, made by 'bt-bench export "
                           "--public'");
    } else if (set->run_count > 1) {
        bt_str_append(out, "; a bundle contains one run: publish each run in a folder of its own");
    }
}

// A publication that breaks rules is refused, or becomes a draft that lists them.
static bt_status apply_rules(report_set *set, const bt_publication *publication)
{
    BT_SCOPED(bt_str) faults = {0};
    find_faults(set, publication, &faults);
    bt_status status = bt_str_status(&faults);
    const char *text = bt_str_text(&faults);
    text += *text ? 2 : 0;
    if (status == BT_OK && *text && !publication->draft) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "not published: %s; --draft publishes it marked as a draft", text);
    } else if (status == BT_OK && publication->draft) {
        status = bt_keep_part(&set->arena, *text ? text : "--draft was given",
                              *text ? strlen(text) : strlen("--draft was given"), &set->draft);
    }
    return status;
}

bt_status bt_report_publish(bt_store *store, const int64_t *runs, int64_t count,
                            const bt_publication *publication)
{
    report_set set;
    publishing self = {.folder = publication->folder, .draft = publication->draft};
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    BT_TRY(bt_report_set_read(store, runs, count, make_public, &set));
    BT_SCOPED(bt_str) bundle = {0};
    set.claims = publication->claims;
    bt_status status = apply_rules(&set, publication);
    if (status == BT_OK) { // before the folder is touched
        status = read_bundle(&set, publication, &bundle);
    }
    // An empty or missing folder is accepted; one with a publication only if it may be replaced;
    // one with anything else never.
    BT_IF_OK(status, each_file(publication, check_file));
    BT_IF_OK(status, bt_dir_make(publication->folder));
    BT_IF_OK(status, each_file(publication, remove_file));
    BT_IF_OK(status, put_all(&self, &set, publication, &bundle));
    bt_report_set_release(&set);
    return status;
}
