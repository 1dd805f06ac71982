// harness/cli/verb_run.c - run; the hidden verbs worker and probe
#include <unistd.h>

#include "framework/base/scoped.h"
#include "harness/cli/cli.h"
#include "harness/cli/run_suite.h"
#include "harness/report/report.h"
#include "harness/run/worker.h"

static void print_plan(const bt_plan *plan, bt_cli_call *call)
{
    if (call->json) {
        bt_str_format(&call->out, "%s\n", plan->text);
    } else {
        bt_plan_describe(plan, call->columns, &call->out);
        bt_json_write_pretty(plan->root, &call->out);
    }
}

// Runs, and prints the result from the record.
static bt_status run_and_show(const bt_cli_suite *suite, bt_cli_call *call)
{
    bt_run_outcome outcome;
    int64_t earlier = 0;
    bt_str *out = &call->out;
    BT_TRY(bt_cli_suite_run(suite, &outcome));
    BT_TRY(bt_store_open(suite->database, BT_STORE_READ, &call->store));
    BT_TRY(call->json ? bt_show_json(call->store, outcome.run, out)
                      : bt_show_text(call->store, outcome.run, call->columns, out));
    if (!call->json) {
        const bool resumes = outcome.status == BT_RUN_INTERRUPTED || outcome.resumable;
        bt_str_format(out, "next           bt-bench %s %lld", resumes ? "run --resume" : "show",
                      (long long)outcome.run);
        bt_cli_append_database(suite->database, out);
        BT_TRY(bt_store_run_before(call->store, outcome.run, &earlier));
        if (earlier > 0 && !resumes) {
            bt_str_format(out, " · bt-bench compare %lld %lld", (long long)earlier,
                          (long long)outcome.run);
            bt_cli_append_database(suite->database, out);
        }
        bt_str_append(out, "\n");
    }
    call->code = bt_run_exit_code(&outcome);
    return bt_cli_report_missing(call, &outcome);
}

bt_status bt_verb_run(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    const char *resumed = bt_cli_value(arguments, "resume");
    BT_SCOPED(bt_cli_suite) suite = {0};
    bt_status status = resumed ? bt_cli_suite_resume(arguments, resumed, &suite)
                       : arguments->word_count
                           ? bt_cli_suite_plan(arguments, arguments->words[0], NULL, &suite)
                           : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                      "bt-bench run: SUITE is missing\n"
                                      "usage: bt-bench run %s",
                                      arguments->verb->usage);
    if (status == BT_OK && bt_cli_value(arguments, "dry-run")) {
        print_plan(&suite.plan, call);
    } else {
        BT_IF_OK(status, bt_cli_suite_join(&suite));
        BT_IF_OK(status, run_and_show(&suite, call));
    }
    return status;
}

bt_status bt_verb_worker(bt_cli_call *call)
{
    call->code = bt_worker_main(STDIN_FILENO, STDOUT_FILENO);
    return BT_OK;
}

bt_status bt_verb_probe(bt_cli_call *call) { return bt_machine_probe(&call->out); }
