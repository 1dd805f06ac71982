// harness/cli/verb_label.c - name a run that is recorded, or note something about it
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"

static bt_status label(const bt_cli_arguments *arguments, bt_store *store, bt_str *out)
{
    const char *name = bt_cli_value(arguments, "name"), *note = bt_cli_value(arguments, "note");
    int64_t run = 0;
    if (!name && !note) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "bt-bench label: --name NAME or --note TEXT is missing (\"\" removes it)");
    }
    BT_TRY(bt_cli_check_run_name(name && *name ? name : NULL));
    BT_TRY(bt_cli_run_in(store, arguments->words[0], &run));
    BT_TRY(bt_store_run_label(store, run, name, note));
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

int bt_verb_label(const bt_cli_arguments *arguments)
{
    bt_store *store = NULL;
    bt_str out = {0};
    bt_status status = bt_store_open(bt_cli_database(arguments), BT_STORE_AMEND, &store);
    BT_IF_OK(status, label(arguments, store, &out));
    return bt_cli_finish(store, status, &out);
}
