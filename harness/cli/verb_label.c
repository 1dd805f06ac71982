// harness/cli/verb_label.c - label: names a recorded run, or adds a note
#include "framework/base/idioms.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"

bt_status bt_verb_label(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    bt_str *out = &call->out;
    const char *name = bt_cli_value(arguments, "name"), *note = bt_cli_value(arguments, "note");
    int64_t run = 0;
    BT_FAIL_IF(!name && !note, BT_STATUS_INVALID_ARGUMENT,
               "bt-bench label: --name NAME or --note TEXT is missing (\"\" removes it)");
    BT_TRY(bt_cli_check_run_name(name && *name ? name : NULL));
    BT_TRY(bt_cli_open_runs(call, BT_STORE_AMEND, 0, 1, &run));
    BT_TRY(bt_store_run_label(call->store, run, name, note));
    bt_str_format(out, "run %lld", (long long)run);
    if (name) {
        bt_str_format(out, *name ? ", name %s" : ", no name%s", name);
    }
    if (note) {
        bt_str_format(out, *note ? ", note: %s" : ", no note%s", note);
    }
    bt_str_append(out, "\n");
    return BT_OK;
}
