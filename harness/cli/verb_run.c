// harness/cli/verb_run.c - run a suite; the worker's and the probe's hidden verbs
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"
#include "harness/run/run.h"
#include "harness/run/worker.h"

static bt_status read_options(const bt_cli_arguments *arguments, bt_plan_options *options,
                              bool *json)
{
    BT_TRY(bt_cli_wants_json(arguments, json));
    options->profile = bt_cli_value(arguments, "profile");
    options->filter = bt_cli_value(arguments, "filter");
    options->systems = bt_cli_value(arguments, "system");
    options->sets = arguments->repeated;
    options->set_count = arguments->repeated_count;
    BT_TRY(bt_cli_number(arguments, "rounds", 1, 1000, 0, &options->rounds));
    return bt_cli_number(arguments, "seed", 0, (1LL << 53) - 1, -1, &options->seed);
}

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
        if (run > 1) {
            bt_str_format(out, " · bt-bench compare %lld %lld", (long long)run - 1, (long long)run);
        }
        bt_str_append(out, "\n");
    }
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

static int run_plan(const bt_cli_arguments *arguments, const bt_suite *suite, const bt_plan *plan,
                    const bt_machine *machine, bool json)
{
    const char *database = bt_cli_value(arguments, "db");
    bt_run_request request = {.suite = suite,
                              .plan = plan,
                              .machine = machine,
                              .database = database ? database : BT_CLI_DATABASE,
                              .out_dir = bt_cli_value(arguments, "out"),
                              .worker = bt_cli_value(arguments, "worker"),
                              .command = arguments->command,
                              .quiet = bt_cli_value(arguments, "quiet") != NULL};
    bool cuda = strcmp(plan->device, "cuda") == 0;
    if (cuda && !machine->has_cuda && !request.worker) {
        return bt_cli_fail(bt_error(BT_STATUS_UNAVAILABLE,
                                    "profile %s needs a CUDA GPU: %s\n'bt-bench doctor' says what "
                                    "is missing; --profile takes another",
                                    plan->profile, machine->cuda_reason));
    }
    bt_run_outcome outcome;
    bt_str out = {0};
    bt_status status = bt_run_execute(&request, &outcome);
    if (status == BT_OK) {
        status = append_result(request.database, outcome.run, json, &out);
    }
    if (status != BT_OK) {
        bt_str_release(&out);
        return bt_cli_fail(status);
    }
    int code = bt_cli_print(&out);
    return code ? code : bt_run_exit_code(&outcome);
}

// The plan for this machine. A GPU that is there but cannot be opened is no reason to fail when
// nobody asked for it: the next profile is taken.
static bt_status make_plan(const bt_cli_arguments *arguments, const bt_suite *suite,
                           const bt_plan_options *options, bt_machine *machine, bt_plan *plan)
{
    BT_TRY(bt_machine_look(machine));
    BT_TRY(bt_plan_make(suite, options, machine, plan));
    bool runs = !bt_cli_value(arguments, "dry-run") && !bt_cli_value(arguments, "worker");
    if (!runs || !machine->has_cuda || strcmp(plan->device, "cuda") != 0) {
        return BT_OK;
    }
    BT_TRY(bt_machine_open_cuda(machine));
    if (machine->has_cuda || !plan->chosen) {
        return BT_OK;
    }
    bt_plan_release(plan);
    return bt_plan_make(suite, options, machine, plan);
}

int bt_verb_run(const bt_cli_arguments *arguments)
{
    bt_plan_options options = {0};
    bool json = false;
    bt_machine machine;
    bt_suite suite = {0};
    bt_plan plan = {0};
    bt_status status = read_options(arguments, &options, &json);
    if (status == BT_OK) {
        status = bt_suite_load(arguments->words[0], &suite);
    }
    if (status == BT_OK) {
        status = make_plan(arguments, &suite, &options, &machine, &plan);
    }
    int code = status != BT_OK ? bt_cli_fail(status)
               : bt_cli_value(arguments, "dry-run") != NULL
                   ? print_plan(&plan, json)
                   : run_plan(arguments, &suite, &plan, &machine, json);
    bt_plan_release(&plan);
    bt_suite_release(&suite);
    return code;
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
