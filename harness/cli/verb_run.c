// harness/cli/verb_run.c - run a suite
#include <string.h>

#include "framework/base/mem.h"
#include "harness/cli/cli.h"
#include "harness/plan/plan.h"

static bt_status read_options(const bt_cli_arguments *arguments, bt_plan_options *options,
                              bool *json)
{
    BT_TRY(bt_cli_wants_json(arguments, json));
    options->profile = bt_cli_value(arguments, "profile");
    options->filter = bt_cli_value(arguments, "filter");
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
        status = bt_machine_look(&machine);
    }
    if (status == BT_OK) {
        status = bt_plan_make(&suite, &options, &machine, &plan);
    }
    int code = status == BT_OK ? print_plan(&plan, json) : bt_cli_fail(status);
    bt_plan_release(&plan);
    bt_suite_release(&suite);
    return code;
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
