// harness/bundle/print.c - the result of a check as text and JSON
#include <string.h>

#include "harness/bundle/bundle.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

// The lines of `text`, each with the prefix `head`.
static void append_lines(const char *head, const bt_str *text, bt_str *out)
{
    for (const char *at = bt_str_text(text); *at;) {
        size_t length = strcspn(at, "\n");
        bt_str_append(out, head);
        bt_str_append_bytes(out, at, length);
        bt_str_append(out, "\n");
        at += length + (at[length] == '\n');
    }
}

void bt_bundle_check_text(const char *path, const bt_bundle_check *check, bt_str *out)
{
    if (check->finding_count == 0) {
        bt_str_format(out, "PASS      %s: run %lld of %s\n", path, (long long)check->run.id,
                      check->suite);
        bt_str_format(out,
                      "checked   %s, %s; %s and %s "
                      "follow from the raw samples\n",
                      bt_format_items(check->file_count, "file").text,
                      bt_format_items(check->round_count, "round").text,
                      bt_format_items(check->measurement_count, "measurement").text,
                      bt_format_items(check->verdict_count, "verdict").text);
    } else {
        bt_str_format(out, "FAIL      %s: %s failed\n", path,
                      bt_format_items(check->finding_count, "check").text);
        append_lines("          ", &check->findings, out);
    }
    if (check->digest[0]) {
        bt_str_format(out, "manifest  sha256 %s\n", check->digest);
    }
    bt_str_format(out, "signature %s%s\n",
                  check->signature_holds ? "valid, by the key "
                  : check->is_signed     ? "not verified; it names the key "
                                         : "none",
                  check->key_id);
    append_lines("note      ", &check->notes, out);
}

static void write_lines(bt_json_writer *json, const char *key, const bt_str *text)
{
    bt_json_writer_open(json, key, '[');
    for (const char *at = bt_str_text(text); *at;) {
        size_t length = strcspn(at, "\n");
        bt_str line = {0};
        bt_str_append_bytes(&line, at, length);
        bt_json_writer_text(json, NULL, bt_str_text(&line));
        bt_str_release(&line);
        at += length + (at[length] == '\n');
    }
    bt_json_writer_close(json, ']');
}

void bt_bundle_check_json(const char *path, const bt_bundle_check *check, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("bundle", path), BT_FLAG("passed", check->finding_count == 0),
            BT_OF(check, finding_count));
    write_lines(&json, "findings", &check->findings);
    write_lines(&json, "notes", &check->notes);
    BT_JSON(&json, BT_KV("files", check->file_count), BT_KV("rounds", check->round_count),
            BT_KV("measurements", check->measurement_count),
            BT_KV("verdicts", check->verdict_count), BT_KV("manifest_sha256", check->digest),
            BT_FLAG("signed", check->is_signed), BT_OF(check, signature_holds),
            BT_OF(check, key_id));
    bt_json_writer_close(&json, '}');
    bt_str_append(out, "\n");
}
