// harness/text/escape.h - escapes text for Markdown, HTML and CSV
//
// Names of suites and cases and messages of peers are untrusted data. Escaped, a reader sees them
// unchanged and no program interprets them.
#ifndef BT_HARNESS_TEXT_ESCAPE_H
#define BT_HARNESS_TEXT_ESCAPE_H

#include <stdarg.h>

#include "framework/base/str.h"

// For a line or a table cell of Markdown, as GitHub and GitLab render it: no markup, no link, no
// mention of a user or a team, no reference to an issue. Control characters become spaces.
void bt_markdown_text(bt_str *out, const char *text);
// A format whose own text is markup, and whose %s are escaped as above.
void bt_markdown(bt_str *out, const char *format, ...) BT_PRINTF(2, 3);
// The same for HTML content and quoted attributes.
void bt_html_text(bt_str *out, const char *text);
void bt_html(bt_str *out, const char *format, ...) BT_PRINTF(2, 3);
// A name as HTML content: a line may also break after its dots and underscores.
void bt_html_name(bt_str *out, const char *text);
// A field of CSV without quotes, which a spreadsheet does not interpret as a formula: characters
// that would end the field, or the page's script element that contains it, become '_'.
void bt_csv_text(bt_str *out, const char *text);

// Appends a format as printf does, but escapes each %s with `escape`. Supports d, u, zu, lld, llu,
// %.8s and the conversions of a double, without '*'.
void bt_escape_format(bt_str *out, void (*escape)(bt_str *out, const char *text),
                      const char *format, va_list arguments);

#endif
