// harness/cli/verb_replicate.c - run the cases that a paper's claims are about, and judge them
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/cli/claims_file.h"
#include "harness/cli/run_name.h"
#include "harness/cli/run_suite.h"
#include "harness/replicate/replicate.h"
#include "harness/report/report.h"

#define ROUNDS_DEFAULT 4

// ---- running -----------------------------------------------------------------------------------

// Runs those cases of the suite that claims are about, on the systems that they compare.
static bt_status run_cases(const bt_cli_arguments *arguments, const bt_claims *claims,
                           const char *suite_name, bt_run_outcome *outcome)
{
    const char *profile = bt_cli_value(arguments, "profile");
    bt_str systems = {0};
    bt_cli_suite suite = {0};
    if (!profile) {
        profile = bt_claims_profile(claims, suite_name);
    }
    bt_claims_suite wanted = {claims, suite_name, profile ? profile : ""};
    bt_claims_systems(&wanted, &systems);
    bt_status status = bt_str_status(&systems);
    if (status == BT_OK) {
        bt_cli_suite_wishes wishes = {.profile = profile,
                                      .systems = bt_str_text(&systems),
                                      .rounds = ROUNDS_DEFAULT,
                                      .wants = bt_claims_want,
                                      .wants_by = &wanted};
        status = bt_cli_suite_plan(arguments, arguments->words[0], &wishes, &suite);
    }
    BT_IF_OK(status, bt_cli_suite_run(&suite, outcome));
    bt_cli_suite_release(&suite);
    bt_str_release(&systems);
    return status;
}

static bt_status run_suite(const bt_cli_arguments *arguments, const bt_claims *claims,
                           bt_run_outcome *outcome)
{
    bt_suite suite;
    BT_TRY(bt_suite_load(arguments->words[0], &suite));
    const cJSON *name = bt_json_get(suite.json.root, "name");
    bt_status status = run_cases(arguments, claims, name->valuestring, outcome);
    bt_suite_release(&suite);
    return status;
}

// The run that the words name: one in the record, or a new one of the suite.
static bt_status find_run(const bt_cli_arguments *arguments, const bt_claims *claims,
                          bt_run_outcome *outcome)
{
    const char *word = arguments->words[0];
    *outcome = (bt_run_outcome){.status = BT_RUN_PASSED};
    return bt_cli_is_run(arguments, word) ? bt_cli_run(arguments, word, &outcome->run)
                                          : run_suite(arguments, claims, outcome);
}

// ---- judging -----------------------------------------------------------------------------------

static bt_status keep_verdicts(const bt_claims *claims, bt_store *store, const bt_store_run *run,
                               bt_replications *got)
{
    const bt_json_doc *json = claims->json;
    const bt_store_file file = {"claims", json->name, json->text, (int64_t)strlen(json->text)};
    const bt_store_verdict *verdicts = NULL;
    bt_str page = {0};
    BT_TRY(bt_replications_verdicts(got, &verdicts));
    BT_TRY(bt_store_verdicts_set(store, run->id, "replicate", verdicts, got->count));
    BT_TRY(bt_store_file_set(store, run->id, &file));
    bt_str_format(&page, "%s/report.html", run->info.out_dir);
    bt_status status = bt_str_status(&page);
    if (status == BT_OK && access(bt_str_text(&page), W_OK) == 0) {
        status = bt_report_write(store, &run->id, 1, bt_str_text(&page)); // now with verdicts
    }
    bt_str_release(&page);
    return status;
}

static bt_status judge(const bt_claims *claims, bt_store *store, int64_t number, bool json,
                       bt_str *out, int *verdict)
{
    bt_store_run run;
    bt_replications got = {0};
    BT_TRY(bt_store_run_read(store, number, &run));
    bt_status status = bt_replicate(claims, &run, &got);
    BT_IF_OK(status, keep_verdicts(claims, store, &run, &got));
    BT_IF_OK(status, json ? bt_replications_json(claims, &run, &got, out)
                          : bt_replications_text(claims, &run, &got, out));
    *verdict = bt_replications_exit_code(&got);
    bt_replications_release(&got);
    bt_store_run_release(&run);
    return status;
}

static bt_status replicate(const bt_cli_arguments *arguments, const bt_json_doc *json,
                           bt_run_outcome *outcome, bt_str *out, int *verdict)
{
    const char *database = bt_cli_value(arguments, "db");
    bool wants_json = false;
    bt_claims claims;
    bt_store *store = NULL;
    BT_TRY(bt_cli_wants_json(arguments, &wants_json));
    BT_TRY(bt_claims_read(json, &claims));
    bt_status status = find_run(arguments, &claims, outcome);
    if (status == BT_OK && outcome->status != BT_RUN_INTERRUPTED) {
        status = bt_store_open(database ? database : BT_CLI_DATABASE, BT_STORE_AMEND, &store);
        BT_IF_OK(status, judge(&claims, store, outcome->run, wants_json, out, verdict));
        bt_status closed = bt_store_close(store);
        status = status == BT_OK ? closed : status;
    }
    bt_claims_release(&claims);
    return status;
}

int bt_verb_replicate(const bt_cli_arguments *arguments)
{
    bt_json_doc json = {0};
    bt_run_outcome outcome;
    bt_str out = {0};
    int verdict = 0;
    bt_status status = bt_cli_claims_read(arguments, &json);
    BT_IF_OK(status, replicate(arguments, &json, &outcome, &out, &verdict));
    bt_json_release(&json);
    if (status != BT_OK) {
        bt_str_release(&out);
        return bt_cli_fail(status);
    }
    int code = bt_cli_print(&out);
    int run_code = bt_run_exit_code(&outcome);
    return code ? code : run_code ? run_code : verdict;
}
