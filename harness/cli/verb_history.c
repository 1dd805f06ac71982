// harness/cli/verb_history.c - one case over all sessions
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/history/history.h"

bt_status bt_verb_history(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    BT_SCOPED(bt_history) history = {0};
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    BT_TRY(bt_history_read(call->store, arguments->words[0], bt_cli_value(arguments, "metric"),
                           bt_cli_value(arguments, "system"), &history));
    return call->json ? bt_history_json(&history, &call->out)
                      : bt_history_text(&history, call->columns, &call->out);
}
