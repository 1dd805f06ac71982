// harness/report/deviations.c - how this machine and the claims' cases differ from the paper's
//
// One list, written as Markdown and as HTML: the page and the README.md beside it say the same.
#include <stdarg.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"

typedef struct list_format {
    const char *before, *after; // markup of an item
    void (*escape)(bt_str *out, const char *text);
    bool links; // [text](address); the page has no links to other places
} list_format;

static const list_format markdown = {"- ", "\n", bt_markdown_text, true};
static const list_format html = {"<li>", "</li>\n", bt_html_text, false};

// A part of an item, whose %s are escaped.
static void write_part(const list_format *as, bt_str *out, const char *format, ...) BT_PRINTF(3, 4);
static void write_part(const list_format *as, bt_str *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_escape_format(out, as->escape, format, arguments);
    va_end(arguments);
}

// ---- the claims' cases -------------------------------------------------------------------------

static void write_rows(const ratio_list *list, const list_format *as, bt_str *out)
{
    for (int64_t i = 0; i < list->count; i++) {
        const ratio_row *row = &list->rows[i];
        const int64_t earlier = BT_FIND(list->rows, i, deviations, row->deviations);
        if (!row->deviations[0] || earlier >= 0) {
            continue; // nothing, or written with an earlier row
        }
        bt_str_append(out, as->before);
        write_part(as, out, "%s (", row->deviations);
        const char *comma = "";
        for (int64_t j = i; j < list->count; j++) {
            if (strcmp(list->rows[j].deviations, row->deviations) == 0) {
                write_part(as, out, "%s%s", comma, list->rows[j].name);
                comma = ", ";
            }
        }
        bt_str_append(out, ")");
        bt_str_append(out, as->after);
    }
}

// ---- the paper ---------------------------------------------------------------------------------

// The claims by which the run was judged, NULL if they are not known. `own`: holds those of the
// record.
static bt_status find_claims(const report_set *set, const bt_store_run *run, bt_json_doc *own,
                             const cJSON **out)
{
    const int64_t at = BT_FIND(run->files, run->file_count, kind, "claims");
    *out = set->claims ? set->claims->root : NULL;
    if (at < 0) {
        return BT_OK;
    }
    const bt_store_file *file = &run->files[at];
    bt_status status = bt_json_parse("claims", file->bytes, (size_t)file->size_bytes, own);
    *out = status == BT_OK ? own->root : *out;
    return status == BT_STATUS_INVALID_ARGUMENT ? BT_OK : status; // damaged in the record
}

static bool is_of_claim(const ratio_row *row, const char *id)
{
    const size_t length = strlen(id); // the row is "id", or "id/other"
    return strncmp(row->name, id, length) == 0 &&
           (row->name[length] == '\0' || row->name[length] == '/');
}

// Whether a claim of the list was made under these conditions.
static bool is_concerned(const ratio_list *list, const cJSON *claims, const char *conditions)
{
    const cJSON *claim = NULL;
    cJSON_ArrayForEach(claim, claims) {
        for (int64_t i = 0; bt_json_is_text(claim, "conditions", conditions) && i < list->count;
             i++) {
            if (is_of_claim(&list->rows[i], bt_json_text_of(claim, "id"))) {
                return true;
            }
        }
    }
    return false;
}

static void write_paper(const ratio_list *list, const cJSON *claims, const list_format *as,
                        bt_str *out)
{
    const cJSON *conditions = NULL;
    const char *url = bt_json_text_of(claims, "url");
    if (strncmp(url, "https://", 8) == 0 && !strpbrk(url, "()<> \n")) {
        bt_str_append(out, as->before);
        write_part(as, out, as->links ? "the paper: [%s, %s](" : "the paper: %s, %s (",
                   bt_json_text_of(claims, "title"), bt_json_text_of(claims, "paper"));
        if (as->links) {
            bt_str_append(out, url); // not escaped: it is an address
        } else {
            write_part(as, out, "%s", url);
        }
        bt_str_append(out, "); the first part of a claim's name is the table there");
        bt_str_append(out, as->after);
    }
    cJSON_ArrayForEach(conditions, bt_json_get(claims, "conditions")) {
        const char *name = bt_json_text_of(conditions, "name");
        if (is_concerned(list, bt_json_get(claims, "claims"), name)) {
            bt_str_append(out, as->before);
            write_part(as, out, "the paper (%s): %s", name, bt_json_text_of(conditions, "text"));
            bt_str_append(out, as->after);
        }
    }
}

// ---- the section -------------------------------------------------------------------------------

// Facts about this machine that may affect the paper's results.
static void write_here(const report_set *set, const bt_store_run *run, const list_format *as,
                       bt_str *out)
{
    static const char *const starts[] = {"gpu.", "cuda", "lib.", "data.", "peer."};
    bt_str_append(out, as->before);
    write_part(as, out, "here: %s", bt_report_device(set));
    BT_EACH(const bt_store_fact, fact, run->info.env.facts, run->info.env.fact_count) {
        for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
            if (strncmp(fact->key, starts[s], strlen(starts[s])) == 0 &&
                fact->level != BT_FACT_INFO) {
                write_part(as, out, "; %s %s", fact->key, fact->value);
            }
        }
    }
    bt_str_append(out, as->after);
}

static bt_status write_items(const report_set *set, const ratio_list *list, const list_format *as,
                             bt_str *out)
{
    BT_SCOPED(bt_json_doc) own = {0};
    const cJSON *claims = NULL;
    BT_TRY(find_claims(set, list->run, &own, &claims));
    if (claims) {
        write_paper(list, claims, as, out);
    }
    write_here(set, list->run, as, out);
    write_rows(list, as, out);
    return BT_OK;
}

static const char note[] = "This is not the paper's machine. A verdict refers to the ratio of two "
                           "systems that ran interleaved.";

bt_status bt_markdown_deviations(const report_set *set, bt_str *out)
{
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        if (strcmp(list->kind, "replicate") == 0) {
            bt_str_append(out, "\n## Deviations\n\n");
            bt_str_append(out, note);
            bt_str_append(out, "\n\n");
            BT_TRY(write_items(set, list, &markdown, out));
        }
    }
    return BT_OK;
}

bt_status bt_html_deviations(const report_set *set, const ratio_list *list, bt_str *out)
{
    if (strcmp(list->kind, "replicate") != 0) {
        return BT_OK;
    }
    bt_str_format(out, "<h3 id=\"deviations-%s\">Deviations</h3><p class=muted>%s</p>\n<ul>\n",
                  list->id, note);
    BT_TRY(write_items(set, list, &html, out));
    bt_str_append(out, "</ul>\n");
    return BT_OK;
}

void bt_html_deviations_note(const ratio_list *list, bt_str *out)
{
    long long count = 0;
    for (int64_t i = 0; i < list->count; i++) {
        count += list->rows[i].deviations[0] != '\0';
    }
    if (count > 0) {
        bt_str_format(out,
                      "<p>%lld of %s %s tested by a case that differs from the paper's, "
                      "marked with *: see <a href=\"#deviations-%s\">Deviations</a>.</p>\n",
                      count, bt_format_items(list->count, "claim").text, count == 1 ? "is" : "are",
                      list->id);
    }
}
