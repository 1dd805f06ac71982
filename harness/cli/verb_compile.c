// harness/cli/verb_compile.c - shows the compiler's result for a suite's training cases
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/cases/compile.h"
#include "harness/cli/run_suite.h"
#include "harness/text/format.h"
#include "harness/text/table.h"

static void row(const char *name, const bt_case_compiled *x, bt_table *table)
{
    bt_table_cells(table, "%s|%s|%s|%s|%s|%s|%s", name, bt_format_count(x->calls).text,
                   bt_format_count(x->saved).text, bt_format_count(x->simple_calls).text,
                   bt_format_count(x->groups).text,
                   x->with_code < 0 ? "-" : bt_format_count(x->with_code).text,
                   bt_format_count(x->fused_calls).text);
    bt_table_number(table, BT_UNIT_BYTES, (double)x->bytes_before);
    bt_table_number(table, BT_UNIT_BYTES, (double)x->bytes_after);
}

static bt_status compile_cases(const bt_plan *plan, const char *target, const char *folder,
                               unsigned dumps, bt_table *table, bt_case_compiled *written)
{
    int64_t compiled = 0;
    for (int64_t i = 0; i < plan->case_count; ++i) {
        const cJSON *item = bt_plan_case(plan, i);
        bt_case_compiled result;
        const char *generated = bt_json_text_of(bt_json_get(item, "kernel"), "compile");
        if (!bt_plan_times_calls(item) || strcmp(generated, "on") == 0) {
            BT_TRY(bt_case_compile(item, target, folder, dumps, &result));
            row(bt_json_get(item, "name")->valuestring, &result, table);
            written->dump_files += result.dump_files;
            written->dump_bytes += result.dump_bytes;
            ++compiled;
        }
    }
    return compiled ? BT_OK
                    : bt_error(BT_STATUS_INVALID_ARGUMENT,
                               "suite %s, profile %s: no case trains or generates code, so there "
                               "is nothing to compile; choose another --profile",
                               plan->suite, plan->profile);
}

bt_status bt_verb_compile(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    const char *dump = bt_cli_value(arguments, "dump"), *folder = bt_cli_value(arguments, "output");
    unsigned dumps = 0;
    bt_case_compiled written = {0};
    BT_SCOPED(bt_cli_suite) suite = {0};
    BT_SCOPED(bt_table) table = {0};
    if (dump) {
        BT_TRY(bt_compile_dumps_parse(dump, &dumps));
    }
    BT_FAIL_IF(dumps && (!folder || !*folder), BT_STATUS_INVALID_ARGUMENT,
               "--dump %s: -o DIR, the output folder, is missing", dump);
    BT_FAIL_IF(folder && !dumps, BT_STATUS_INVALID_ARGUMENT,
               "-o %s: --dump LIST, what to write there, is missing", folder);
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[0], NULL, &suite));
    bt_table_heads(&table, "case|>calls|>saved|>simplified|>groups|>code|>fused|>before|"
                           ">after");
    BT_TRY(compile_cases(&suite.plan, bt_cli_value(arguments, "target"), folder, dumps, &table,
                         &written));
    BT_TRY(bt_table_print(&table, 0, &call->out));
    if (dumps) {
        bt_str_format(&call->out, "dumps     %s: %s, %s\n", folder,
                      bt_format_items(written.dump_files, "file").text,
                      bt_format_value(BT_UNIT_BYTES, (double)written.dump_bytes).text);
    }
    if (dumps >> BT_COMPILE_DUMP_BT & 1U && bt_compile_verifier()) {
        bt_str_format(&call->out, "The dumps 'bt' are not verified: %s\n", bt_error_message());
        bt_error_clear();
    }
    return BT_OK;
}
