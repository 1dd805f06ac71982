// harness/text/escape.h - text of the record inside Markdown, HTML and CSV
//
// Names of suites and cases and messages of peers are data that somebody else wrote. Here they
// become text that a reader sees as it is and that nothing acts on.
#ifndef BT_HARNESS_TEXT_ESCAPE_H
#define BT_HARNESS_TEXT_ESCAPE_H

#include <stdarg.h>

#include "framework/base/str.h"

// For a line or a table's cell of Markdown, as GitHub and GitLab render it: no markup, no link, no
// mention of a user or a team, no reference to an issue. Control characters become spaces.
void bt_markdown_text(bt_str *out, const char *text);
// A format whose own text is markup, and whose %s are text as above.
void bt_markdown(bt_str *out, const char *format, ...) BT_PRINTF(2, 3);
// The same for HTML content and quoted attributes.
void bt_html_text(bt_str *out, const char *text);
void bt_html(bt_str *out, const char *format, ...) BT_PRINTF(2, 3);
// A field of CSV without quotes, which a spreadsheet does not take for a formula: what would end
// the field, or the script element of a page in which it stands, becomes '_'.
void bt_csv_text(bt_str *out, const char *text);

// Appends a format as printf does, but each %s by `escape`. Takes d, u, zu, lld, llu, %.8s
// and the conversions of a double, without '*'.
void bt_escape_format(bt_str *out, void (*escape)(bt_str *out, const char *text),
                      const char *format, va_list arguments);

#endif
