// harness/gate/publish.c - a gate's result for other programs: Markdown for a comment, JUnit for CI
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/gate/gate.h"
#include "harness/suite/utf8.h"
#include "harness/text/escape.h"
#include "harness/text/format.h"
#include "harness/text/table.h"

enum { ROWS_MAX = 100 }; // rows of a table; a comment may have 64 KiB

// ---- Markdown ----------------------------------------------------------------------------------

static void add_row(const bt_gate_item *item, bt_table *table)
{
    const bool metric = item->metric < BT_GATE_METRIC_COUNT;
    const bool changed = *item->changes && item->verdict.word != BT_GATE_SAME;
    bt_table_cells(
        table, "%s|%s|%s%s", item->subject, metric ? bt_gate_metric_info(item->metric)->words : "",
        bt_gate_word_name(item->verdict.word), item->excused ? " (allowed by policy)" : "");
    bt_text change = {""};
    if (!isnan(item->verdict.ratio)) {
        change = bt_textf("%+.2f %%", 100 * (item->verdict.ratio - 1));
    }
    bt_table_cells(table, "%s|%s%s%s", change.text, item->sentence, changed ? "; " : "",
                   changed ? item->changes : "");
}

// Rows that are SAME, or those that are not, the most severe first.
static void append_table(const bt_gate_result *result, bool same, bt_str *out)
{
    static const int exits[] = {5, 1, 4, 3, 0};
    bt_table table = {0};
    int64_t rows = 0;
    bt_table_heads(&table, "case|metric|verdict|>change|what");
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; ++i) {
        BT_EACH(const bt_gate_item, item, result->items, result->count) {
            bool is_same = item->verdict.word == BT_GATE_SAME;
            bool wanted = is_same == same && item->verdict.exit_code == exits[i];
            if (wanted && ++rows <= ROWS_MAX) {
                add_row(item, &table);
            }
        }
    }
    bt_table_markdown(&table, out);
    if (rows > ROWS_MAX) {
        bt_str_format(out, "\n%" PRId64 " more in the report\n", rows - ROWS_MAX);
    }
}

// "besides: ..." on a separate line, if there is something to report.
static void append_line(const char *name, const bt_str *text, bt_str *out)
{
    if (text->length_bytes > 0) {
        bt_str_format(out, "\n%s: ", name);
        bt_markdown(out, "%s\n", bt_str_text(text));
    }
    out->status = out->status == BT_OK ? text->status : out->status;
}

// Other differences, if not everything is the same, and a suggested next step.
static bt_status append_advice(const bt_gate_result *result, bt_str *out)
{
    BT_SCOPED(bt_str) warning = {0}, besides = {0}, next = {0};
    if (result->count > result->words[BT_GATE_SAME]) {
        BT_TRY(bt_gate_besides(result, false, &besides));
    }
    bt_gate_next(result, &next);
    bt_str_append(&warning, result->warning);
    append_line("warning", &warning, out);
    append_line("besides", &besides, out);
    append_line("next", &next, out);
    return BT_OK;
}

bt_status bt_gate_markdown(const bt_gate_result *result, bt_str *out)
{
    int64_t same = result->words[BT_GATE_SAME];
    BT_SCOPED(bt_str) heading = {0};
    bt_gate_heading(result, &heading);
    bt_str_format(out, "### bt-bench gate: %s (exit %d)\n\n**", bt_gate_outcome(result),
                  result->exit_code);
    bt_gate_counts(result, out);
    bt_str_append(out, "**");
    if (result->excused > 0) {
        bt_str_format(out, ", of which the policy allows %" PRId64, result->excused);
    }
    bt_markdown(out, "  \n%s\n", bt_str_text(&heading));
    BT_TRY(append_advice(result, out));
    if (result->count > same) {
        bt_str_append(out, "\n");
        append_table(result, false, out);
    }
    if (same > 0) {
        bt_str_format(out, "\n<details><summary>%" PRId64 " same</summary>\n\n", same);
        append_table(result, true, out);
        bt_str_append(out, "\n</details>\n");
    }
    BT_TRY(bt_str_status(&heading));
    return bt_str_status(out);
}

// ---- JUnit -------------------------------------------------------------------------------------

// Escaped for an attribute; characters that XML cannot represent become '?'.
static void append_xml(const char *text, bt_str *out)
{
    for (const char *at = text; *at;) {
        unsigned char byte = (unsigned char)*at;
        size_t length = bt_utf8_length(at);
        if (byte == '&' || byte == '<' || byte == '>' || byte == '"') {
            bt_str_append(out, byte == '&'   ? "&amp;"
                               : byte == '<' ? "&lt;"
                               : byte == '>' ? "&gt;"
                                             : "&quot;");
            length = 1;
        } else if (length == 0 || byte < 0x20) {
            bt_str_append(out, "?");
            length = 1;
        } else {
            bt_str_append_bytes(out, at, length);
        }
        at += length;
    }
}

static void append_attribute(const char *name, const char *value, bt_str *out)
{
    bt_str_format(out, " %s=\"", name);
    append_xml(value, out);
    bt_str_append(out, "\"");
}

// The JUnit result for an exit code: a regression is a failure, a case that cannot be judged an
// error.
static const char *element_of(const bt_gate_item *item)
{
    int code = item->verdict.exit_code;
    return code == 0 ? NULL : item->excused ? "skipped" : code == 1 ? "failure" : "error";
}

static void append_testcase(const bt_gate_item *item, bt_str *out)
{
    const char *element = element_of(item);
    bool metric = item->metric < BT_GATE_METRIC_COUNT;
    BT_SCOPED(bt_str) message = {0};
    bt_str_format(&message, "%s: %s%s%s", bt_gate_word_name(item->verdict.word), item->sentence,
                  *item->changes ? "; " : "", item->changes);
    bt_str_append(out, "    <testcase");
    append_attribute("classname", item->subject, out);
    append_attribute("name", metric ? bt_gate_metric_info(item->metric)->tag : "case", out);
    bt_str_append(out, ">");
    if (element) {
        bt_str_format(out, "<%s", element);
        append_attribute("message", bt_str_text(&message), out);
        bt_str_append(out, "/>");
    } else {
        bt_str_append(out, "<system-out>");
        append_xml(bt_str_text(&message), out);
        bt_str_append(out, "</system-out>");
    }
    bt_str_append(out, "</testcase>\n");
    out->status = out->status == BT_OK ? message.status : out->status;
}

bt_status bt_gate_junit(const bt_gate_result *result, bt_str *out)
{
    int64_t failures = 0, errors = 0, skipped = 0;
    for (int64_t i = 0; i < result->count; ++i) {
        const char *element = element_of(&result->items[i]);
        failures += element && strcmp(element, "failure") == 0;
        errors += element && strcmp(element, "error") == 0;
        skipped += element && strcmp(element, "skipped") == 0;
    }
    BT_SCOPED(bt_str) name = {0};
    bt_str_append(&name, "bt-bench gate: ");
    bt_gate_heading(result, &name);
    bt_str_append(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite");
    append_attribute("name", bt_str_text(&name), out);
    bt_str_format(out,
                  " tests=\"%" PRId64 "\" failures=\"%" PRId64 "\" errors=\"%" PRId64
                  "\" skipped=\"%" PRId64 "\">\n",
                  result->count, failures, errors, skipped);
    for (int64_t i = 0; i < result->count; ++i) {
        append_testcase(&result->items[i], out);
    }
    if (*result->warning) {
        bt_str_append(out, "    <system-err>");
        append_xml(result->warning, out);
        bt_str_append(out, "</system-err>\n");
    }
    bt_str_append(out, "  </testsuite>\n</testsuites>\n");
    BT_TRY(bt_str_status(&name));
    return bt_str_status(out);
}
