// harness/gate/baseline_find.c - finds a baseline by name or file
#include "harness/gate/baseline_find.h"

#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/suite/suite.h"

// Reads a file. Errors  IO, INVALID_ARGUMENT (not a baseline)
static bt_status load(const char *path, bt_baseline *out)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    memset(out, 0, sizeof *out);
    BT_FAIL_IF(!bt_file_exists(path), BT_STATUS_IO,
               "%s: no such file; expected a baseline that 'bt-bench baseline export' wrote", path);
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    return bt_baseline_parse(path, bytes, size_bytes, out);
}

// The newest of that name in the database, if there is one.
static bt_status find_stored(bt_store *store, const char *name, const char *machine,
                             bt_baseline *out, bool *found)
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_store_baseline row;
    BT_SCOPED(bt_str) path = {0};
    *found = false;
    if (!store) {
        return BT_OK;
    }
    BT_TRY(bt_store_baseline_read(store, name, machine, &arena, &row, found));
    if (*found) {
        bt_str_format(&path, "%s: baseline %s", bt_store_path(store), name);
        BT_TRY(bt_baseline_parse(bt_str_text(&path), row.document, strlen(row.document), out));
    }
    return BT_OK;
}

static bt_status find_committed(const char *root, const char *name, const char *machine,
                                bt_baseline *out, bool *found)
{
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "%s/results/baselines/%s/%s.json", root, machine, name);
    BT_TRY(bt_str_status(&path));
    *found = bt_file_exists(bt_str_text(&path));
    return *found ? load(bt_str_text(&path), out) : BT_OK;
}

static bt_status none_of_that_name(bt_store *store, const char *name, const char *machine)
{
    BT_SCOPED(bt_store_baseline_list) list = {0};
    BT_SCOPED(bt_str) names = {0};
    if (store) {
        BT_TRY(bt_store_baseline_list_read(store, NULL, &list));
    }
    for (int64_t i = 0; i < list.count; ++i) {
        if (i == 0 || strcmp(list.rows[i].name, list.rows[i - 1].name) != 0) {
            bt_str_format(&names, "%s%s", names.length_bytes ? ", " : "", list.rows[i].name);
        }
    }
    return bt_error(
        BT_STATUS_INVALID_ARGUMENT,
        "no baseline \"%s\" in the database%s%s%s, nor results/baselines/%s/%s.json\ncreate it "
        "with bt-bench baseline set %s RUN --reason TEXT",
        name, names.length_bytes ? " (there: " : "", bt_str_text(&names),
        names.length_bytes ? ")" : "", machine ? machine : "<machine type>", name, name);
}

bt_status bt_baseline_find(bt_store *store, const char *given, const char *machine,
                           bt_baseline *out)
{
    bool found = false;
    memset(out, 0, sizeof *out);
    if (strchr(given, '/') || strstr(given, ".json")) {
        return load(given, out);
    }
    BT_TRY(bt_baseline_check_name(given));
    BT_TRY(find_stored(store, given, machine, out, &found));
    if (!found && machine) {
        BT_TRY(find_committed(".", given, machine, out, &found));
    }
    if (!found && machine) {
        BT_SCOPED(bt_str) home = {0};
        bt_home_path(&home);
        BT_TRY(bt_str_status(&home));
        BT_TRY(find_committed(bt_str_text(&home), given, machine, out, &found));
    }
    if (!found && machine) {
        BT_TRY(find_stored(store, given, NULL, out, &found));
    }
    return found ? BT_OK : none_of_that_name(store, given, machine);
}
