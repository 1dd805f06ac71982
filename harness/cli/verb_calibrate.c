// harness/cli/verb_calibrate.c - what a comparison can find on this machine
#include <math.h>

#include "harness/ab/ab.h"
#include "harness/ab/calibrate.h"
#include "harness/ab/rounds.h"
#include "harness/cli/ab_options.h"
#include "harness/cli/run_suite.h"

#define ROUNDS       24
#define SLOWDOWN     0.02
#define SLOWDOWN_MAX 100.0

typedef struct calibrating {
    const bt_cli_arguments *arguments;
    bool json;
    double slowdown;
    bt_policy policy;
    bt_ab_rounds rounds;
    bt_run_wish wish;
    bt_cli_suite suite;
    bt_str rule_json;
    bt_peer systems[BT_CLI_AB_SYSTEMS_MAX]; // texts borrowed
    bt_store_run record;                    // of a session that is resumed
} calibrating;

static bt_status begin(calibrating *self)
{
    static char names[BT_CLI_AB_SYSTEMS_MAX][10] = {"a", "b", BT_CALIBRATE_SLOWED};
    const bt_cli_arguments *arguments = self->arguments;
    const bt_cli_suite_wishes wishes = {.order_seed = true, .rounds = ROUNDS};
    if (arguments->word_count != 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "calibrate takes a suite: calibrate SUITE");
    }
    BT_TRY(bt_cli_ab_policy(arguments, &self->policy));
    BT_TRY(bt_cli_share(arguments, "slowdown", SLOWDOWN, &self->slowdown));
    if (!(self->slowdown > 0 && self->slowdown <= SLOWDOWN_MAX)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "--slowdown %g: a share above 0 is wanted, 0.02 for 2 %%", self->slowdown);
    }
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[0], &wishes, &self->suite));
    for (int i = 0; i < BT_CLI_AB_SYSTEMS_MAX; ++i) {
        self->systems[i] = (bt_peer){.name = names[i]};
    }
    self->systems[BT_CLI_AB_SYSTEMS_MAX - 1].inject_slowdown = self->slowdown;
    self->suite.systems = self->systems;
    self->suite.system_count = BT_CLI_AB_SYSTEMS_MAX;
    return bt_cli_order_seed(arguments, &self->suite.schedule_seed);
}

static bt_status plan(calibrating *self)
{
    BT_TRY(bt_cli_wants_json(self->arguments, &self->json));
    BT_TRY(bt_cli_value(self->arguments, "resume")
               ? bt_cli_ab_resume(self->arguments, BT_CALIBRATE_KIND, &self->suite, &self->policy,
                                  self->systems, &self->record)
               : begin(self));
    BT_TRY(bt_ab_rounds_make(&self->suite.plan, &self->policy, &self->rounds));
    self->rounds.fixed = true;
    return bt_ab_rule_json(&self->policy, &self->rule_json);
}

static bt_status judge(const calibrating *self, int64_t number, bt_str *out, int *code)
{
    bt_store *store = NULL;
    bt_store_run run = {0};
    bt_calibration_result result = {0};
    BT_TRY(bt_store_open(self->suite.database, BT_STORE_AMEND, &store));
    bt_status status = bt_store_run_read(store, number, &run);
    if (status == BT_OK) {
        status = bt_calibrate(&run, &self->policy, &result);
    }
    if (status == BT_OK) {
        status = bt_calibration_store(store, &result);
    }
    if (status == BT_OK) {
        *code = bt_calibration_exit_code(&result);
        status = self->json ? bt_calibration_json(&result, out) : bt_calibration_text(&result, out);
    }
    bt_calibration_release(&result);
    bt_store_run_release(&run);
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

static bt_status run(calibrating *self, int *code)
{
    bt_run_outcome outcome;
    bt_str out = {0};
    self->wish = bt_ab_rounds_wish(&self->rounds);
    self->wish.kind = BT_CALIBRATE_KIND;
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

int bt_verb_calibrate(const bt_cli_arguments *arguments)
{
    calibrating self = {.arguments = arguments};
    int code = 0;
    bt_status status = plan(&self);
    if (status == BT_OK) {
        status = run(&self, &code);
    }
    bt_store_run_release(&self.record);
    bt_ab_rounds_release(&self.rounds);
    bt_cli_suite_release(&self.suite);
    bt_policy_release(&self.policy);
    bt_str_release(&self.rule_json);
    return status == BT_OK ? code : bt_cli_fail(status);
}
