// harness/cli/verb_calibrate.c - what a comparison can find on this machine
#include "harness/ab/calibrate.h"
#include "harness/cli/ab_session.h"

#define ROUNDS       24
#define SLOWDOWN     0.02
#define SLOWDOWN_MAX 100.0

static bt_status begin(bt_cli_ab_session *self)
{
    static char names[BT_CLI_AB_SYSTEMS_MAX][10] = {"a", "b", BT_CALIBRATE_SLOWED};
    const bt_cli_arguments *arguments = self->arguments;
    double slowdown = 0;
    const bt_cli_suite_wishes wishes = {.order_seed = true, .rounds = ROUNDS};
    if (arguments->word_count != 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "calibrate takes a suite: calibrate SUITE");
    }
    BT_TRY(bt_cli_ab_policy(arguments, &self->policy));
    BT_TRY(bt_cli_share(arguments, "slowdown", SLOWDOWN, &slowdown));
    if (!(slowdown > 0 && slowdown <= SLOWDOWN_MAX)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "--slowdown %g: a share above 0 is wanted, 0.02 for 2 %%", slowdown);
    }
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[0], &wishes, &self->suite));
    for (int i = 0; i < BT_CLI_AB_SYSTEMS_MAX; ++i) {
        self->systems[i] = (bt_peer){.name = names[i]};
    }
    self->systems[BT_CLI_AB_SYSTEMS_MAX - 1].inject_slowdown = slowdown;
    self->suite.systems = self->systems;
    self->suite.system_count = BT_CLI_AB_SYSTEMS_MAX;
    return bt_cli_order_seed(arguments, &self->suite.schedule_seed);
}

static bt_status judge(const bt_cli_ab_session *self, bt_store *store, int64_t number, bt_str *out,
                       int *code)
{
    bt_store_run run = {0};
    bt_calibration_result result = {0};
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
    return status;
}

int bt_verb_calibrate(const bt_cli_arguments *arguments)
{
    static const bt_cli_ab_verb verb = {
        .kind = BT_CALIBRATE_KIND, .fixed_rounds = true, .begin = begin, .judge = judge};
    return bt_cli_ab(&verb, arguments);
}
