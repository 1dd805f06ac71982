// harness/report/html.c - small pieces of the page
#include <string.h>

#include "harness/report/internal.h"

void bt_html_anchor(bt_str *out, const char *prefix, const char *name, const char *metric)
{
    const char *const texts[] = {prefix, name, metric};
    for (int i = 0; i < 3; i++) {
        bt_str_append(out, i > 0 && texts[i][0] ? "-" : "");
        for (const char *at = texts[i]; *at; at++) {
            bool plain = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
                         (*at >= 'A' && *at <= 'Z') || strchr("._-", *at);
            bt_str_append_bytes(out, plain ? at : "_", 1);
        }
    }
}

void bt_html_case_id(bt_str *out, const report_set *set, const report_case *item)
{
    bt_str_format(out, "c%lld-row", (long long)(item - set->cases));
}

void bt_html_tag(bt_str *out, const report_case *item)
{
    if (item->tag[0]) {
        bt_str_format(out, "<b class=tag>%s</b> ", item->tag);
    }
}

void bt_html_label(bt_str *out, const report_case *item)
{
    bt_html_tag(out, item);
    bt_html_name(out, item->label);
}

void bt_html_case(bt_table *table, const report_case *item)
{
    bt_table_cells(table, "%s", item->label);
    if (item->tag[0]) {
        bt_html_label(bt_table_part(table, BT_CELL_MARKUP), item);
    }
}

void bt_html_number(bt_table *table, bool known, bt_unit unit, double value)
{
    if (known) {
        bt_table_number(table, unit, value);
    } else {
        bt_table_cells(table, "%s", "");
    }
}

void bt_html_details(const char *title, const report_case *item, const char *note, bt_table *table,
                     bt_str *out)
{
    bt_str_format(out, "<details><summary>%s ", title);
    if (item) {
        bt_html_label(out, item);
    }
    if (table->shown > 0) {
        const int64_t rows = table->count / table->columns - 1;
        bt_str_format(out, " <span class=muted>%s rows", bt_format_count(rows).text);
        bt_str_append(out, rows > table->shown ? ", some of them shown</span>" : "</span>");
    }
    bt_html(out, *note ? " <span class=muted>%s</span></summary>" : "%s</summary>", note);
    bt_table_html(table, out);
    bt_str_append(out, "</details>\n");
}

void bt_html_rows(const char *title, const report_case *item, bt_table *table, bt_str *out)
{
    if (table->count > table->columns || table->bytes.status != BT_OK) {
        bt_html_details(title, item, "", table, out);
    }
    bt_table_release(table);
}

enum { GROUP_ABOVE = 3 };

void bt_html_group_open(bt_str *out, const char *name, int64_t count)
{
    if (count > GROUP_ABOVE) {
        bt_str_format(out,
                      "<details class=group><summary>%s <span class=muted>%lld</span></summary>\n",
                      name, (long long)count);
    }
}

void bt_html_group_close(bt_str *out, int64_t count)
{
    if (count > GROUP_ABOVE) {
        bt_str_append(out, "</details>\n");
    }
}

void bt_html_open_case(const report_case *item, bool open, bt_str *out)
{
    bt_str_format(out, "<details%s><summary>", open ? " open" : "");
    bt_html_label(out, item);
    bt_str_append(out, " <span class=muted>");
}

bt_status bt_html_section(const report_section *section, const report_set *set, bt_str *out)
{
    const int64_t others = bt_report_count(set, section->has) - 1;
    int64_t first = 0;
    if (others < 0) {
        return BT_OK;
    }
    while (!section->has(&set->cases[first])) {
        first++;
    }
    bt_str_format(out, "<section id=%s><h2>%s</h2>\n<p class=muted>%s</p>\n", section->id,
                  section->title, section->note);
    BT_TRY(section->write(set, first, true, out));
    bt_html_group_open(out, "The other cases", others);
    for (int64_t i = first + 1; i < set->case_count; i++) {
        BT_TRY(section->has(&set->cases[i]) ? section->write(set, i, false, out) : BT_OK);
    }
    bt_html_group_close(out, others);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}
