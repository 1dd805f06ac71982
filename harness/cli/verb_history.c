// harness/cli/verb_history.c - one case over all sessions
#include "harness/cli/cli.h"
#include "harness/history/history.h"

bt_status bt_verb_history(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    bt_history history = {0};
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    bt_status status =
        bt_history_read(call->store, arguments->words[0], bt_cli_value(arguments, "metric"),
                        bt_cli_value(arguments, "system"), &history);
    BT_IF_OK(status, (call->json ? bt_history_json : bt_history_text)(&history, &call->out));
    bt_history_release(&history);
    return status;
}
