// harness/cli/verb_ab.c - two builds, or two systems, in turns
#include "harness/ab/ab.h"
#include "harness/ab/rounds.h"
#include "harness/ab/side.h"
#include "harness/cli/ab_options.h"
#include "harness/cli/run_suite.h"
#include "harness/report/report.h"

typedef struct comparing {
    const bt_cli_arguments *arguments;
    bool json;
    bt_policy policy;
    bt_ab_rounds rounds;
    bt_run_wish wish;
    bt_cli_suite suite;
    bt_ab_side sides[2];
    bt_peer systems[BT_CLI_AB_SYSTEMS_MAX]; // of two builds; texts borrowed
    bt_store_run record;                    // of a session that is resumed
    double slowdown;                        // injected into the candidate, to try this very verb
    bt_str rule_json;
} comparing;

// ---- what is asked -----------------------------------------------------------------------------

static bt_status check_words(const bt_cli_arguments *arguments)
{
    bool systems = bt_cli_value(arguments, "system") != NULL;
    if (arguments->word_count != (systems ? 1 : 3)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        systems ? "with --system A,B there is only a suite to name: ab SUITE"
                                : "ab takes two builds and a suite: ab BASE CANDIDATE SUITE");
    }
    return BT_OK;
}

static bt_status make_plan(comparing *self)
{
    const bt_cli_arguments *arguments = self->arguments;
    const bt_cli_suite_wishes wishes = {.rounds = bt_ab_rounds_first(&self->policy),
                                        .order_seed = true};
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[arguments->word_count - 1], &wishes,
                             &self->suite));
    const cJSON *systems = self->suite.plan.systems;
    if (arguments->word_count == 1 && (!systems || cJSON_GetArraySize(systems) != 2)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "--system %s: two systems are compared, the base first",
                        bt_cli_value(arguments, "system"));
    }
    return BT_OK;
}

// Finds, or builds, the two programs.
static bt_status find_sides(comparing *self)
{
    static char names[2][10] = {"base", "candidate"};
    const bt_cli_arguments *arguments = self->arguments;
    bt_progress_view view;
    bt_progress_open(&view, bt_cli_value(arguments, "quiet") != NULL);
    for (int i = 0; i < 2 && arguments->word_count == 3; ++i) {
        BT_TRY(bt_ab_side_find(arguments->words[i], &view, &self->sides[i]));
        self->systems[i] = (bt_peer){.name = names[i],
                                     .program = self->sides[i].program,
                                     .build = self->sides[i].program != NULL,
                                     .facts = &self->sides[i].build,
                                     .inject_slowdown = i == 1 ? self->slowdown : 0};
        self->suite.systems = self->systems;
        self->suite.system_count = i + 1;
    }
    return BT_OK;
}

// ---- what comes of it --------------------------------------------------------------------------

static bt_status write_result(const comparing *self, bt_store *store, const bt_gate_result *result,
                              bt_str *out)
{
    const bt_store_run *run = result->request.run;
    bt_str report = {0};
    bt_str_format(&report, "%s/report.html", run->info.out_dir);
    bt_status status = bt_str_status(&report);
    if (status == BT_OK) { // the run's own, now with the verdicts
        status = bt_report_write(store, &run->id, 1, bt_str_text(&report));
    }
    if (status == BT_OK) {
        status =
            self->json ? bt_ab_json(result, out) : bt_ab_text(result, bt_str_text(&report), out);
    }
    bt_str_release(&report);
    return status;
}

static bt_status judge(const comparing *self, int64_t number, bt_str *out, int *code)
{
    bt_store *store = NULL;
    bt_store_run run = {0};
    bt_gate_result result = {0};
    BT_TRY(bt_store_open(self->suite.database, BT_STORE_AMEND, &store));
    bt_status status = bt_ab_judge(store, number, &self->policy, &run, &result);
    if (status == BT_OK) {
        *code = result.exit_code;
        status = write_result(self, store, &result, out);
    }
    bt_gate_result_release(&result);
    bt_store_run_release(&run);
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

static bt_status run(comparing *self, int *code)
{
    bt_run_outcome outcome;
    bt_str out = {0};
    self->wish = bt_ab_rounds_wish(&self->rounds);
    BT_TRY(bt_ab_rule_json(&self->policy, &self->rule_json));
    self->wish.kind = BT_AB_KIND;
    self->wish.rule_json = bt_str_text(&self->rule_json);
    self->suite.wish = &self->wish;
    BT_TRY(bt_cli_suite_run(&self->suite, &outcome));
    if (outcome.status == BT_RUN_INTERRUPTED) {
        *code = bt_run_exit_code(&outcome);
        return BT_OK;
    }
    bt_status status = judge(self, outcome.run, &out, code);
    if (status != BT_OK) {
        bt_str_release(&out);
        return status;
    }
    int printed = bt_cli_print(&out);
    *code = printed ? printed : *code;
    return BT_OK;
}

static bt_status begin(comparing *self)
{
    BT_TRY(check_words(self->arguments));
    BT_TRY(bt_cli_ab_policy(self->arguments, &self->policy));
    BT_TRY(make_plan(self));
    BT_TRY(bt_cli_share(self->arguments, "inject-slowdown", 0, &self->slowdown));
    BT_TRY(bt_cli_order_seed(self->arguments, &self->suite.schedule_seed));
    return find_sides(self);
}

static bt_status compare(comparing *self, int *code)
{
    BT_TRY(bt_cli_wants_json(self->arguments, &self->json));
    BT_TRY(bt_cli_value(self->arguments, "resume")
               ? bt_cli_ab_resume(self->arguments, BT_AB_KIND, &self->suite, &self->policy,
                                  self->systems, &self->record)
               : begin(self));
    BT_TRY(bt_ab_rounds_make(&self->suite.plan, &self->policy, &self->rounds));
    return run(self, code);
}

int bt_verb_ab(const bt_cli_arguments *arguments)
{
    comparing self = {.arguments = arguments};
    int code = 0;
    bt_status status = compare(&self, &code);
    for (int i = 0; i < 2; ++i) {
        bt_ab_side_release(&self.sides[i]);
    }
    bt_store_run_release(&self.record);
    bt_ab_rounds_release(&self.rounds);
    bt_cli_suite_release(&self.suite);
    bt_policy_release(&self.policy);
    bt_str_release(&self.rule_json);
    return status == BT_OK ? code : bt_cli_fail(status);
}
