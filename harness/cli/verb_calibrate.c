// harness/cli/verb_calibrate.c - calibrate: what a comparison can detect on this machine
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/ab/calibrate.h"
#include "harness/cli/ab_session.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"

#define ROUNDS       24
#define SLOWDOWN     0.02
#define SLOWDOWN_MAX 100.0
#define DAY_NS       (INT64_C(86400) * 1000000000)

static bt_status begin(bt_cli_ab_session *self)
{
    static char names[BT_CLI_AB_SYSTEMS_MAX][10] = {"a", "b", BT_CALIBRATE_SLOWED};
    const bt_cli_arguments *arguments = self->arguments;
    double slowdown = 0;
    const bt_cli_suite_wishes wishes = {.builds = true, .order_seed = true, .rounds = ROUNDS};
    BT_FAIL_IF(arguments->word_count != 1, BT_STATUS_INVALID_ARGUMENT,
               "expected a suite: calibrate SUITE");
    BT_TRY(bt_cli_ab_policy(arguments, &self->policy));
    BT_TRY(bt_cli_share(arguments, "slowdown", SLOWDOWN, &slowdown));
    BT_FAIL_IF(!(slowdown > 0 && slowdown <= SLOWDOWN_MAX), BT_STATUS_INVALID_ARGUMENT,
               "--slowdown %g: expected a fraction above 0, such as 0.02 for 2 %%", slowdown);
    BT_TRY(bt_cli_suite_plan(arguments, arguments->words[0], &wishes, &self->suite));
    for (int i = 0; i < BT_CLI_AB_SYSTEMS_MAX; ++i) {
        self->systems[i] = (bt_peer){.name = names[i]};
    }
    self->systems[BT_CLI_AB_SYSTEMS_MAX - 1].inject_slowdown = slowdown;
    self->suite.systems = self->systems;
    self->suite.system_count = BT_CLI_AB_SYSTEMS_MAX;
    return bt_cli_order_seed(arguments, &self->suite.schedule_seed);
}

// ---- judging -----------------------------------------------------------------------------------

// The session that ran and those before it that have not expired; the newest first.
typedef struct session_list {
    bt_store_run runs[BT_CALIBRATE_SESSIONS_MAX];
    const bt_store_run *in_turn[BT_CALIBRATE_SESSIONS_MAX];
    int64_t count;
} session_list;

static bt_status read_session(bt_store *store, int64_t number, session_list *out)
{
    BT_TRY(bt_store_run_read(store, number, &out->runs[out->count]));
    out->in_turn[out->count] = &out->runs[out->count];
    ++out->count;
    return BT_OK;
}

static bt_status read_sessions(bt_store *store, int64_t number, int64_t days, session_list *out)
{
    int64_t numbers[BT_CALIBRATE_SESSIONS_MAX - 1], count = 0;
    BT_TRY(read_session(store, number, out));
    BT_TRY(bt_store_sessions_of(store, BT_CALIBRATE_KIND, out->runs[0].started_ns - days * DAY_NS,
                                number, numbers, BT_CALIBRATE_SESSIONS_MAX - 1, &count));
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(read_session(store, numbers[i], out));
    }
    return BT_OK;
}

static bt_status judge_sessions(const bt_cli_ab_session *self, const session_list *list)
{
    bt_calibration_result result = {0};
    bt_status status = bt_calibrate(list->in_turn, list->count, &self->policy, &result);
    BT_IF_OK(status, bt_calibration_store(self->call->store, &result));
    if (status == BT_OK) {
        self->call->code = bt_calibration_exit_code(&result);
        status = (self->call->json ? bt_calibration_json : bt_calibration_text)(&result,
                                                                                &self->call->out);
    }
    bt_calibration_release(&result);
    return status;
}

static bt_status judge(const bt_cli_ab_session *self, int64_t number)
{
    BT_SCOPED_MEM(session_list *) list = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &list));
    bt_status status =
        read_sessions(self->call->store, number, self->policy.calibration_days, list);
    BT_IF_OK(status, judge_sessions(self, list));
    for (int64_t i = 0; i < list->count; ++i) {
        bt_store_run_release(&list->runs[i]);
    }
    return status;
}

// ---- recorded calibrations ---------------------------------------------------------------------

static void print_row(const bt_store_calibration *row, bt_str *out)
{
    bt_str_format(out, "%s   %s   run %lld, %s, ", row->name, row->metric, (long long)row->run,
                  bt_format_date(row->made_ns).text);
    if (row->pairs < row->needed) {
        bt_str_format(out, "not calibrated (%lld of %lld pairs)\n", (long long)row->pairs,
                      (long long)row->needed);
    } else {
        bt_str_format(out,
                      "%lld pairs of %lld sessions: false alarms at most %.3g %%, detects a "
                      "slowdown of %.3g %%\n",
                      (long long)row->pairs, (long long)row->sessions, 100 * row->false_alarm_high,
                      100 * row->smallest_high);
    }
}

static bt_status write_rows(const bt_store_calibration *rows, int64_t count, bt_str *out)
{
    bt_json_writer json = {.out = out};
    bt_json_writer_open(&json, NULL, '[');
    BT_EACH(const bt_store_calibration, row, rows, count) {
        BT_JSON_OBJECT(&json, NULL, BT_KV("case", row->name), BT_OF(row, metric), BT_OF(row, run),
                       BT_OF(row, made_ns), BT_OF(row, pairs), BT_OF(row, needed),
                       BT_OF(row, sessions), BT_OF(row, false_alarm_rate),
                       BT_OF(row, false_alarm_high), BT_OF(row, smallest),
                       BT_OF(row, smallest_high));
    }
    return bt_json_writer_end(&json, ']');
}

static bt_status list_rows(bt_cli_call *call)
{
    BT_SCOPED(bt_arena) arena = {0};
    const bt_store_calibration *rows = NULL;
    int64_t count = 0;
    BT_TRY(bt_cli_open(call, BT_STORE_READ));
    BT_TRY(bt_store_calibrations_list(call->store, &arena, &rows, &count));
    if (call->json) {
        return write_rows(rows, count, &call->out);
    }
    BT_EACH(const bt_store_calibration, row, rows, count) {
        print_row(row, &call->out);
    }
    bt_str_append(&call->out, count ? "" : "no calibrations; bt-bench calibrate SUITE\n");
    return BT_OK;
}

static bt_status remove_rows(bt_cli_call *call)
{
    int64_t removed = 0;
    const char *glob = call->arguments->words[1];
    BT_TRY(bt_cli_open(call, BT_STORE_AMEND));
    BT_TRY(bt_store_calibrations_remove(call->store, glob, &removed));
    BT_FAIL_IF(removed == 0, BT_STATUS_INVALID_ARGUMENT,
               "no calibration of a case \"%s\"; 'bt-bench calibrate list' names them", glob);
    bt_str_format(&call->out, "removed %s of %s; the recorded sessions stay\n",
                  bt_format_items(removed, "calibration").text, glob);
    return BT_OK;
}

bt_status bt_verb_calibrate(bt_cli_call *call)
{
    static const bt_cli_ab_verb verb = {
        .kind = BT_CALIBRATE_KIND, .fixed_rounds = true, .begin = begin, .judge = judge};
    const bt_cli_arguments *arguments = call->arguments;
    if (arguments->word_count == 1 && strcmp(arguments->words[0], "list") == 0) {
        return list_rows(call);
    }
    if (arguments->word_count == 2 && strcmp(arguments->words[0], "rm") == 0) {
        return remove_rows(call);
    }
    return bt_cli_ab(&verb, call);
}
