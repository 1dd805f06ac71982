// harness/report/html.c - text that stays text in a page
#include <string.h>

#include "harness/report/internal.h"
#include "harness/text/utf8.h"

void bt_html_text(bt_str *out, const char *text)
{
    while (text && *text) {
        size_t length = bt_utf8_length(text);
        unsigned char first = (unsigned char)*text;
        const char *named = first == '&'    ? "&amp;"
                            : first == '<'  ? "&lt;"
                            : first == '>'  ? "&gt;"
                            : first == '"'  ? "&quot;"
                            : first == '\'' ? "&#39;"
                                            : NULL;
        if (length == 0 || (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f) {
            bt_str_append(out, "\xef\xbf\xbd"); // no valid character of a page
            length = 1;
        } else if (named) {
            bt_str_append(out, named);
        } else {
            bt_str_append_bytes(out, text, length);
        }
        text += length;
    }
}

void bt_html(bt_str *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_escape_format(out, bt_html_text, format, arguments);
    va_end(arguments);
}

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
