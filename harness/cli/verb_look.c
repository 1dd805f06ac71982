// harness/cli/verb_look.c - show, compare, report and the list of runs: read the record
#include <string.h>

#include "framework/base/mem.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/compare/compare.h"
#include "harness/report/report.h"
#include "harness/suite/json.h"

// The database for reading. Errors  INVALID_ARGUMENT when nothing has been recorded yet
static bt_status open_database(const bt_cli_arguments *arguments, bt_store **store)
{
    const char *path = bt_cli_value(arguments, "db");
    return bt_store_open(path ? path : BT_CLI_DATABASE, BT_STORE_READ, store);
}

int bt_verb_show(const bt_cli_arguments *arguments)
{
    bool json = false;
    int64_t run = 0;
    bt_store *store = NULL;
    bt_str out = {0};
    bt_status status = bt_cli_wants_json(arguments, &json);
    BT_IF_OK(status, bt_cli_run(arguments, arguments->words[0], &run));
    BT_IF_OK(status, open_database(arguments, &store));
    BT_IF_OK(status, json ? bt_show_json(store, run, &out) : bt_show_text(store, run, &out));
    return bt_cli_finish(store, status, &out);
}

int bt_verb_compare(const bt_cli_arguments *arguments)
{
    bool json = false;
    int64_t left = 0, right = 0;
    bt_store *store = NULL;
    bt_str out = {0};
    bt_status status = bt_cli_wants_json(arguments, &json);
    BT_IF_OK(status, bt_cli_run(arguments, arguments->words[0], &left));
    BT_IF_OK(status, bt_cli_run(arguments, arguments->words[1], &right));
    BT_IF_OK(status, open_database(arguments, &store));
    BT_IF_OK(status, json ? bt_compare_json(store, left, right, &out)
                          : bt_compare_text(store, left, right, &out));
    return bt_cli_finish(store, status, &out);
}

static void append_row(const bt_store_run_row *row, bt_str *out)
{
    bt_str_format(out, "%s{\"run\":%lld,\"suite\":", out->length_bytes > 1 ? "," : "",
                  (long long)row->id);
    bt_json_string(row->suite, out);
    bt_str_append(out, ",\"name\":");
    bt_json_string(row->name, out);
    bt_str_append(out, ",\"note\":");
    bt_json_string(row->note, out);
    bt_str_append(out, ",\"profile\":");
    bt_json_string(row->profile, out);
    bt_str_format(out,
                  ",\"status\":\"%s\",\"started_ns\":%lld,\"ended_ns\":%lld,\"rounds\":%lld,"
                  "\"steps\":%lld}",
                  bt_run_status_name(row->status), (long long)row->started_ns,
                  (long long)row->ended_ns, (long long)row->round_count,
                  (long long)row->step_count);
}

static bt_status append_rows(bt_store *store, bt_str *out)
{
    bt_store_run_list list;
    BT_TRY(bt_store_run_list_read(store, &list));
    bt_str_append(out, "[");
    for (int64_t i = 0; i < list.count; ++i) {
        append_row(&list.rows[i], out);
    }
    bt_str_append(out, "]\n");
    bt_store_run_list_release(&list);
    return bt_str_status(out);
}

int bt_cli_list_runs(const bt_cli_arguments *arguments, bool json)
{
    bt_store *store = NULL;
    bt_str out = {0};
    bt_status status = open_database(arguments, &store);
    BT_IF_OK(status, json ? append_rows(store, &out) : bt_show_list_text(store, &out));
    return bt_cli_finish(store, status, &out);
}
