// harness/text/escape.h - text of the record inside Markdown and CSV
//
// Names of suites and cases and messages of peers are data that somebody else wrote. Here they
// become text that a reader sees as it is and that nothing acts on.
#ifndef BT_HARNESS_TEXT_ESCAPE_H
#define BT_HARNESS_TEXT_ESCAPE_H

#include "framework/base/str.h"

// For a line or a table's cell of Markdown, as GitHub and GitLab render it: no markup, no link, no
// mention of a user or a team, no reference to an issue. Control characters become spaces.
void bt_markdown_text(bt_str *out, const char *text);
// A field of CSV without quotes, which a spreadsheet does not take for a formula: what would end
// the field, or the script element of a page in which it stands, becomes '_'.
void bt_csv_text(bt_str *out, const char *text);

#endif
