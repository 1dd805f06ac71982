// harness/cli/verb_gate.c - gate: judges a recorded run, or runs a suite and judges it
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/cli/gate_run.h"
#include "harness/cli/run_name.h"
#include "harness/cli/run_suite.h"
#include "harness/env/facts.h"
#include "harness/gate/baseline_find.h"
#include "harness/gate/gate.h"
#include "harness/text/wrap.h"

typedef struct gate_verb {
    bt_cli_call *call; // borrowed
    const bt_cli_arguments *arguments;
    bt_policy policy;
    bt_baseline baseline;
    const char *given; // the baseline's name or file; NULL: none
    bool has_baseline;
    bt_cli_gate_record record; // of a run that is resumed
    bt_run_outcome outcome;
} gate_verb;

// The requested baseline, of this type of machine if there is one.
static bt_status find_baseline(gate_verb *self, bt_store *store, const bt_store_env *env)
{
    BT_SCOPED(bt_str) machine = {0};
    if (!self->given) {
        return BT_OK;
    }
    bt_baseline_machine(env, &machine);
    bt_status status = bt_str_status(&machine);
    BT_IF_OK(status, bt_baseline_find(store, self->given, bt_str_text(&machine), &self->baseline));
    self->has_baseline = status == BT_OK;
    return status;
}

// ---- running -----------------------------------------------------------------------------------

static bt_status run_planned(gate_verb *self, bt_cli_suite *suite)
{
    bt_cli_gate_pace pace = {.policy = &self->policy,
                             .baseline = &self->baseline,
                             .plan = &suite->plan,
                             .fixed = self->record.fixed ||
                                      bt_cli_value(self->arguments, "rounds") != NULL};
    bt_run_wish wish = bt_cli_gate_wish(&pace);
    BT_SCOPED(bt_str) rule = {0};
    BT_TRY(bt_cli_gate_rule_write(&pace, self->given, &rule));
    wish.rule_json = bt_str_text(&rule);
    suite->wish = &wish;
    bt_status status = bt_cli_suite_run(suite, &self->outcome);
    suite->wish = NULL;
    return status;
}

// The baseline is looked up first: without it there is no reason to run.
static bt_status find_for_machine(gate_verb *self, const bt_cli_suite *suite)
{
    BT_SCOPED(bt_facts) facts = {0};
    BT_SCOPED(bt_store_reader) store = NULL;
    BT_TRY(bt_facts_gather(&suite->machine, strcmp(suite->plan.device, "cuda") == 0, &facts));
    bt_store_env env = {facts.digest, facts.rows, facts.count};
    if (bt_file_exists(suite->database)) {
        BT_TRY(bt_store_open(suite->database, BT_STORE_READ, &store));
    }
    return find_baseline(self, store, &env);
}

static bt_status plan(gate_verb *self, bt_cli_suite *suite)
{
    if (bt_cli_value(self->arguments, "resume")) {
        BT_TRY(bt_cli_gate_resume(self->arguments, suite, &self->policy, &self->record));
        self->given = self->record.baseline;
        BT_TRY(find_for_machine(self, suite));
        return bt_cli_gate_check_baseline(&self->record, suite->resume, &self->baseline);
    }
    BT_FAIL_IF(!self->given, BT_STATUS_INVALID_ARGUMENT,
               "bt-bench gate: --baseline is missing: a name (bt-bench baseline list) or "
               "a file. To compare two builds: bt-bench ab");
    BT_TRY(bt_cli_suite_plan(self->arguments, self->arguments->words[0], NULL, suite));
    return find_for_machine(self, suite);
}

static bt_status run_suite(gate_verb *self)
{
    BT_SCOPED(bt_cli_suite) suite = {0};
    BT_TRY(plan(self, &suite));
    return run_planned(self, &suite);
}

// ---- judging -----------------------------------------------------------------------------------

typedef bt_status (*writer)(const bt_gate_result *result, bt_str *out);

static bt_status write_files(const gate_verb *self, const bt_gate_result *result)
{
    static const struct {
        const char *option;
        writer write;
    } files[] = {{"junit", bt_gate_junit}, {"markdown", bt_gate_markdown}, {"json", bt_gate_json}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; ++i) {
        const char *path = bt_cli_value(self->arguments, files[i].option);
        BT_SCOPED(bt_str) text = {0};
        if (path) {
            BT_TRY(files[i].write(result, &text));
            BT_TRY(bt_file_write(path, bt_str_text(&text), text.length_bytes));
        }
    }
    return BT_OK;
}

static bt_status say(gate_verb *self, bt_store *store, const bt_gate_result *result)
{
    BT_SCOPED(bt_str) page = {0};
    BT_TRY(bt_gate_store(store, BT_GATE_KIND, result));
    BT_TRY(bt_cli_page_renew(store, result->request.run, &page));
    BT_TRY(write_files(self, result));
    self->call->code = result->exit_code;
    if (self->call->json) {
        return bt_gate_json(result, &self->call->out);
    }
    BT_TRY(bt_gate_text(result, bt_str_text(&page), &self->call->out));
    bt_wrap_from(&self->call->out, 0, self->call->columns);
    return bt_str_status(&self->call->out);
}

static bt_status judge_run(gate_verb *self, bt_store *store, const bt_store_run *run)
{
    BT_SCOPED(bt_gate_result) result = {0};
    if (!self->has_baseline) {
        BT_TRY(find_baseline(self, store, &run->info.env));
    }
    bt_gate_request request = {.run = run,
                               .baseline = self->has_baseline ? &self->baseline : NULL,
                               .policy = &self->policy,
                               .filter = bt_cli_value(self->arguments, "filter"),
                               .calibration = bt_gate_calibration_find,
                               .calibration_self = store};
    BT_SCOPED(bt_str) database = {0};
    bt_cli_append_database(bt_cli_database(self->arguments), &database);
    request.database = bt_str_text(&database);
    BT_TRY(bt_str_status(&database));
    BT_TRY(bt_gate_run(&request, &result));
    return say(self, store, &result);
}

static bt_status judge(gate_verb *self)
{
    BT_SCOPED(bt_store_run) run = {0};
    BT_TRY(bt_cli_open(self->call, BT_STORE_AMEND));
    BT_TRY(bt_store_run_read(self->call->store, self->outcome.run, &run));
    return judge_run(self, self->call->store, &run);
}

static bt_status gate(gate_verb *self)
{
    const bt_cli_arguments *arguments = self->arguments;
    bool resumes = bt_cli_value(arguments, "resume") != NULL;
    BT_FAIL_IF(arguments->word_count == 0 && !resumes, BT_STATUS_INVALID_ARGUMENT,
               "bt-bench gate: SUITE or RUN is missing\nusage: bt-bench gate %s",
               arguments->verb->usage);
    self->given = bt_cli_value(arguments, "baseline");
    if (!resumes) {
        BT_TRY(bt_policy_load(bt_cli_value(arguments, "policy"), &self->policy));
    }
    self->outcome.status = BT_RUN_PASSED;
    BT_TRY(!resumes && bt_cli_is_run(arguments, arguments->words[0])
               ? bt_cli_run(arguments, arguments->words[0], &self->outcome.run)
               : run_suite(self));
    if (self->outcome.status == BT_RUN_INTERRUPTED) {
        self->call->code = bt_run_exit_code(&self->outcome);
        return bt_cli_report_missing(self->call, &self->outcome);
    }
    BT_TRY(judge(self));
    return bt_cli_report_missing(self->call, &self->outcome);
}

bt_status bt_verb_gate(bt_cli_call *call)
{
    gate_verb self = {.call = call, .arguments = call->arguments};
    bt_status status = gate(&self);
    bt_policy_release(&self.policy);
    bt_baseline_release(&self.baseline);
    bt_cli_gate_record_release(&self.record);
    return status;
}
