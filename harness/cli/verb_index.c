// harness/cli/verb_index.c - one page over all runs
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"

// Up to the last slash, with it.
static void append_folder(const char *path, bt_str *out)
{
    const char *slash = strrchr(path, '/');
    bt_str_append_bytes(out, path, slash ? (size_t)(slash - path) + 1 : 0);
}

static bt_status write_index(bt_cli_call *call, const char *path)
{
    BT_SCOPED(bt_str) folder = {0}, page = {0};
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    append_folder(path, &folder);
    BT_TRY(bt_str_status(&folder));
    BT_TRY(bt_report_index(call->store, bt_str_text(&folder), &page));
    BT_TRY(bt_file_write(path, bt_str_text(&page), page.length_bytes));
    bt_str_format(&call->out, "index          %s\n", path);
    return BT_OK;
}

bt_status bt_verb_index(bt_cli_call *call)
{
    const char *given = bt_cli_value(call->arguments, "output");
    BT_SCOPED(bt_str) path = {0};
    const char *extension = given ? strrchr(given, '.') : NULL;
    BT_FAIL_IF(given && (!extension || strcmp(extension, ".html") != 0), BT_STATUS_INVALID_ARGUMENT,
               "index '%s': the extension selects the format; expected .html", given);
    if (given) {
        bt_str_append(&path, given);
    } else {
        append_folder(bt_cli_database(call->arguments), &path);
        bt_str_append(&path, "index.html");
    }
    BT_TRY(bt_str_status(&path));
    return write_index(call, bt_str_text(&path));
}
