// harness/cli/verb_ab.c - compares two builds, or two systems, in interleaved rounds
#include "framework/base/scoped.h"
#include "harness/ab/ab.h"
#include "harness/cli/ab_session.h"
#include "harness/report/report.h"

// ---- options -----------------------------------------------------------------------------------

static bt_status check_words(const bt_cli_arguments *arguments)
{
    bool systems = bt_cli_value(arguments, "system") != NULL;
    BT_FAIL_IF(arguments->word_count != (systems ? 1 : 3), BT_STATUS_INVALID_ARGUMENT,
               systems ? "with --system A,B the only argument is the suite: ab SUITE"
                       : "expected two builds and a suite: ab BASE CANDIDATE SUITE");
    return BT_OK;
}

static bt_status make_plan(bt_cli_ab_session *self)
{
    const bt_cli_arguments *arguments = self->arguments;
    const bt_cli_suite_wishes wishes = {.rounds = bt_ab_rounds_first(&self->policy),
                                        .builds = arguments->word_count == 3,
                                        .order_seed = true};
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[arguments->word_count - 1], &wishes,
                             &self->suite));
    const cJSON *systems = self->suite.plan.systems;
    BT_FAIL_IF(arguments->word_count == 1 && (!systems || cJSON_GetArraySize(systems) != 2),
               BT_STATUS_INVALID_ARGUMENT, "--system %s: expected two systems, the base first",
               bt_cli_value(arguments, "system"));
    return BT_OK;
}

// Finds, or builds, the two programs. The candidate can be made slower, to test this verb.
static bt_status find_sides(bt_cli_ab_session *self, double slowdown)
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
                                     .inject_slowdown = i == 1 ? slowdown : 0};
        self->suite.systems = self->systems;
        self->suite.system_count = i + 1;
    }
    return BT_OK;
}

static bt_status begin(bt_cli_ab_session *self)
{
    double slowdown = 0;
    BT_TRY(check_words(self->arguments));
    BT_TRY(bt_cli_ab_policy(self->arguments, &self->policy));
    BT_TRY(make_plan(self));
    BT_TRY(bt_cli_share(self->arguments, "inject-slowdown", 0, &slowdown));
    BT_TRY(bt_cli_order_seed(self->arguments, &self->suite.schedule_seed));
    return find_sides(self, slowdown);
}

// ---- results -----------------------------------------------------------------------------------

static bt_status write_result(const bt_cli_ab_session *self, const bt_gate_result *result)
{
    bt_str *out = &self->call->out;
    const bt_store_run *run = result->request.run;
    BT_SCOPED(bt_str) report = {0};
    bt_str_format(&report, "%s/report.html", run->info.out_dir);
    bt_status status = bt_str_status(&report);
    if (status == BT_OK) { // the run's report, now with the verdicts
        status = bt_report_write(self->call->store, &run->id, 1, bt_str_text(&report));
    }
    BT_IF_OK(status, self->call->json ? bt_ab_json(result, out)
                                      : bt_ab_text(result, bt_str_text(&report), out));
    return status;
}

static bt_status judge(const bt_cli_ab_session *self, int64_t number)
{
    BT_SCOPED(bt_store_run) run = {0};
    BT_SCOPED(bt_gate_result) result = {0};
    bt_str database = {0}; // for printed commands
    bt_status status = bt_ab_judge(self->call->store, number, &self->policy, &run, &result);
    if (status == BT_OK) {
        self->call->code = result.exit_code;
        bt_cli_append_database(bt_cli_database(self->arguments), &database);
        result.request.database = bt_str_text(&database);
        result.request.columns = self->call->columns;
        status = bt_str_status(&database);
    }
    BT_IF_OK(status, write_result(self, &result));
    bt_str_release(&database);
    return status;
}

bt_status bt_verb_ab(bt_cli_call *call)
{
    static const bt_cli_ab_verb verb = {.kind = BT_AB_KIND, .begin = begin, .judge = judge};
    return bt_cli_ab(&verb, call);
}
