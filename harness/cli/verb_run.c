// harness/cli/verb_run.c - run a suite; the worker's and the probe's hidden verbs
#include <string.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/cli/run_suite.h"
#include "harness/report/report.h"
#include "harness/run/worker.h"

static int print_plan(const bt_plan *plan, bool json)
{
    bt_str out = {0};
    if (json) {
        bt_str_format(&out, "%s\n", plan->text);
    } else {
        bt_plan_describe(plan, &out);
        bt_json_write_pretty(plan->root, &out);
    }
    return bt_cli_print(&out);
}

// What came of it, from the record.
static bt_status append_result(const char *database, int64_t run, bool json, bt_str *out)
{
    bt_store *store = NULL;
    BT_TRY(bt_store_open(database, BT_STORE_READ, &store));
    bt_status status = json ? bt_show_json(store, run, out) : bt_show_text(store, run, out);
    if (status == BT_OK && !json) {
        bt_str_format(out, "next           bt-bench show %lld", (long long)run);
        bt_cli_append_database(database, out);
        if (run > 1) {
            bt_str_format(out, " · bt-bench compare %lld %lld", (long long)run - 1, (long long)run);
            bt_cli_append_database(database, out);
        }
        bt_str_append(out, "\n");
    }
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

static bt_status run_and_show(const bt_cli_suite *suite, bool json, int *code)
{
    bt_run_outcome outcome;
    bt_str out = {0};
    BT_TRY(bt_cli_suite_run(suite, &outcome));
    bt_status status = append_result(suite->database, outcome.run, json, &out);
    if (status != BT_OK) {
        bt_str_release(&out);
        return status;
    }
    *code = bt_cli_print(&out);
    *code = *code ? *code : bt_run_exit_code(&outcome);
    return BT_OK;
}

int bt_verb_run(const bt_cli_arguments *arguments)
{
    bool json = false;
    bt_cli_suite suite = {0};
    int code = 0;
    bt_status status = bt_cli_wants_json(arguments, &json);
    if (status == BT_OK) {
        const char *resumed = bt_cli_value(arguments, "resume");
        status = resumed ? bt_cli_suite_resume(arguments, resumed, &suite)
                 : arguments->word_count
                     ? bt_cli_suite_plan(arguments, arguments->words[0], NULL, &suite)
                     : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "bt-bench run: something is missing\n"
                                "usage: bt-bench run %s",
                                arguments->verb->usage);
    }
    if (status == BT_OK && bt_cli_value(arguments, "dry-run")) {
        code = print_plan(&suite.plan, json);
    } else if (status == BT_OK) {
        status = bt_cli_suite_join(&suite);
        status = status == BT_OK ? run_and_show(&suite, json, &code) : status;
    }
    bt_cli_suite_release(&suite);
    return status == BT_OK ? code : bt_cli_fail(status);
}

int bt_verb_worker(const bt_cli_arguments *arguments)
{
    (void)arguments;
    return bt_worker_main(STDIN_FILENO, STDOUT_FILENO);
}

int bt_verb_probe(const bt_cli_arguments *arguments)
{
    (void)arguments;
    bt_str out = {0};
    bt_status status = bt_machine_probe(&out);
    if (status != BT_OK) {
        bt_str_release(&out);
        return bt_cli_fail(status);
    }
    return bt_cli_print(&out);
}
