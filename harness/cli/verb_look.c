// harness/cli/verb_look.c - show, compare and the list of runs
#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_name.h"
#include "harness/compare/compare.h"
#include "harness/report/report.h"
#include "harness/text/json_writer.h"

bt_status bt_verb_show(bt_cli_call *call)
{
    int64_t run = 0;
    BT_TRY(bt_cli_open_runs(call, BT_STORE_READ, 0, 1, &run));
    return call->json ? bt_show_json(call->store, run, &call->out)
                      : bt_show_text(call->store, run, call->columns, &call->out);
}

bt_status bt_verb_compare(bt_cli_call *call)
{
    int64_t runs[2];
    bool comparable = true;
    BT_TRY(bt_cli_open_runs(call, BT_STORE_READ, 0, 2, runs));
    BT_TRY(call->json ? bt_compare_json(call->store, runs[0], runs[1], &call->out, &comparable)
                      : bt_compare_text(call->store, runs[0], runs[1], call->columns, &call->out,
                                        &comparable));
    call->code = comparable ? 0 : bt_status_exit_code(BT_STATUS_UNAVAILABLE);
    return BT_OK;
}

static bt_status append_rows(bt_store *store, bt_str *out)
{
    BT_SCOPED(bt_store_run_list) list = {0};
    bt_json_writer json = {.out = out};
    BT_TRY(bt_store_run_list_read(store, &list));
    bt_json_writer_open(&json, NULL, '[');
    BT_EACH(const bt_store_run_row, row, list.rows, list.count) {
        BT_JSON_OBJECT(&json, NULL, BT_KV("run", row->id), BT_OF(row, suite), BT_OF(row, name),
                       BT_OF(row, note), BT_OF(row, profile),
                       BT_KV("status", bt_run_status_name(row->status)), BT_OF(row, started_ns),
                       BT_OF(row, ended_ns), BT_KV("rounds", row->round_count),
                       BT_KV("steps", row->step_count));
    }
    return bt_json_writer_end(&json, ']');
}

bt_status bt_cli_list_runs(bt_cli_call *call)
{
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    return call->json ? append_rows(call->store, &call->out)
                      : bt_show_list_text(call->store, call->columns, &call->out);
}
