// harness/cli/verb_history.c - one case over all sessions
#include "harness/cli/cli.h"
#include "harness/history/history.h"

int bt_verb_history(const bt_cli_arguments *arguments)
{
    const char *database = bt_cli_value(arguments, "db");
    bool json = false;
    bt_store *store = NULL;
    bt_history history = {0};
    bt_str out = {0};
    bt_status status = bt_cli_wants_json(arguments, &json);
    BT_IF_OK(status, bt_store_open(database ? database : BT_CLI_DATABASE, BT_STORE_READ, &store));
    BT_IF_OK(status, bt_history_read(store, arguments->words[0], bt_cli_value(arguments, "metric"),
                                     bt_cli_value(arguments, "system"), &history));
    BT_IF_OK(status, json ? bt_history_json(&history, &out) : bt_history_text(&history, &out));
    bt_history_release(&history);
    return bt_cli_finish(store, status, &out);
}
