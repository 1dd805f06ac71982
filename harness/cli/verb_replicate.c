// harness/cli/verb_replicate.c - replicate: runs the cases of a paper's claims, and judges them
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/cli/run_name.h"
#include "harness/cli/run_suite.h"
#include "harness/replicate/replicate.h"

#define ROUNDS_DEFAULT 4

// ---- running -----------------------------------------------------------------------------------

// Runs the cases of the suite that claims refer to, on the systems that they compare.
static bt_status run_cases(const bt_cli_arguments *arguments, const bt_claims *claims,
                           const char *suite_name, bt_run_outcome *outcome)
{
    const char *profile = bt_cli_value(arguments, "profile");
    BT_SCOPED(bt_str) systems = {0}, expected = {0};
    BT_SCOPED(bt_cli_suite) suite = {0};
    if (!profile) {
        profile = bt_claims_profile(claims, suite_name);
    }
    bt_claims_suite wanted = {claims, suite_name, profile ? profile : ""};
    bt_claims_systems(&wanted, &systems);
    BT_TRY(bt_str_status(&systems));
    BT_TRY(bt_claims_expected(&wanted, &expected));
    bt_cli_suite_wishes wishes = {.profile = profile,
                                  .systems = bt_str_text(&systems),
                                  .rounds = ROUNDS_DEFAULT,
                                  .wants = bt_claims_want,
                                  .wants_by = &wanted,
                                  .wants_else = bt_str_text(&expected)};
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[0], &wishes, &suite));
    return bt_cli_suite_run(&suite, outcome);
}

static bt_status run_suite(const bt_cli_arguments *arguments, const bt_claims *claims,
                           bt_run_outcome *outcome)
{
    BT_SCOPED(bt_suite) suite = {0};
    BT_TRY(bt_suite_load(arguments->words[0], &suite));
    const cJSON *name = bt_json_get(suite.json.root, "name");
    return run_cases(arguments, claims, name->valuestring, outcome);
}

// The run that the arguments name: a recorded one, or a new one of the suite.
static bt_status find_run(const bt_cli_arguments *arguments, const bt_claims *claims,
                          bt_run_outcome *outcome)
{
    const char *word = arguments->words[0];
    *outcome = (bt_run_outcome){.status = BT_RUN_PASSED};
    return bt_cli_is_run(arguments, word) ? bt_cli_run(arguments, word, &outcome->run)
                                          : run_suite(arguments, claims, outcome);
}

// ---- judging -----------------------------------------------------------------------------------

// A run that tests no claim keeps its record and report as they are.
static bt_status keep_verdicts(const bt_claims *claims, bt_store *store, const bt_store_run *run,
                               bt_replications *got)
{
    if (got->verdicts[BT_VERDICT_NOT_TESTABLE] == got->count) {
        return BT_OK;
    }
    const bt_json_doc *json = claims->json;
    const bt_store_file file = {"claims", json->name, json->text, (int64_t)strlen(json->text)};
    const bt_store_verdict *verdicts = NULL;
    BT_SCOPED(bt_str) page = {0};
    BT_TRY(bt_replications_verdicts(got, &verdicts));
    BT_TRY(bt_store_verdicts_set(store, run->id, "replicate", verdicts, got->count));
    BT_TRY(bt_store_file_set(store, run->id, &file));
    return bt_cli_page_renew(store, run, &page);
}

static bt_status judge(const bt_claims *claims, int64_t number, bt_cli_call *call)
{
    BT_SCOPED(bt_store_run) run = {0};
    BT_SCOPED(bt_replications) got = {0};
    BT_TRY(bt_store_run_read(call->store, number, &run));
    bt_status status = bt_replicate(claims, &run, &got);
    BT_IF_OK(status, keep_verdicts(claims, call->store, &run, &got));
    BT_IF_OK(status, call->json
                         ? bt_replications_json(claims, &run, &got, &call->out)
                         : bt_replications_text(claims, &run, &got, call->columns, &call->out));
    call->code = bt_replications_exit_code(&got);
    return status;
}

static bt_status replicate(bt_cli_call *call, const bt_json_doc *json)
{
    bt_run_outcome outcome;
    BT_SCOPED(bt_claims) claims = {0};
    BT_TRY(bt_claims_read(json, &claims));
    bt_status status = find_run(call->arguments, &claims, &outcome);
    if (status == BT_OK && outcome.status != BT_RUN_INTERRUPTED) {
        status = bt_cli_open(call, BT_STORE_AMEND);
        BT_IF_OK(status, judge(&claims, outcome.run, call));
    }
    const int run_code = bt_run_exit_code(&outcome);
    call->code = run_code ? run_code : call->code;
    BT_IF_OK(status, bt_cli_report_missing(call, &outcome));
    return status;
}

bt_status bt_verb_replicate(bt_cli_call *call)
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_cli_claims_read(call->arguments, &json));
    return replicate(call, &json);
}
