// harness/cli/ab_session.c - shared by ab and calibrate: options, and a session with its verdict
#include "harness/cli/ab_session.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/scoped.h"
#include "harness/ab/ab.h"

#define SEED_MASK ((1ULL << 53) - 1) // JSON's whole numbers

bt_status bt_cli_share(const bt_cli_arguments *arguments, const char *name, double fallback,
                       double *share)
{
    return bt_cli_real(arguments, name, -(double)INFINITY, (double)INFINITY, fallback,
                       "a fraction above 0, such as 0.01 for 1 %", share);
}

bt_status bt_cli_order_seed(const bt_cli_arguments *arguments, uint64_t *seed)
{
    int64_t given = 0;
    BT_TRY(bt_cli_number(arguments, "seed", 1, (int64_t)SEED_MASK, 0, &given));
    uint64_t drawn = ((uint64_t)bt_clock_wall_ns() ^ ((uint64_t)getpid() << 32)) & SEED_MASK;
    *seed = given ? (uint64_t)given : drawn ? drawn : 1;
    return BT_OK;
}

bt_status bt_cli_ab_policy(const bt_cli_arguments *arguments, bt_policy *out)
{
    double tolerance = 0;
    int64_t rounds_max = 0;
    BT_TRY(bt_cli_share(arguments, "tolerance", (double)NAN, &tolerance));
    BT_TRY(bt_cli_number(arguments, "rounds-max", 2, 24, 0, &rounds_max));
    return bt_ab_policy(bt_cli_value(arguments, "policy"), tolerance, rounds_max, out);
}

// ---- resuming ----------------------------------------------------------------------------------

// Is the program unchanged?
static bt_status check_program(const bt_cli_arguments *arguments, const bt_store_system *system,
                               int64_t run)
{
    bt_progress_view view;
    BT_SCOPED(bt_ab_side) side = {0};
    bt_progress_open(&view, bt_cli_value(arguments, "quiet") != NULL);
    BT_TRY(bt_ab_side_find(system->program, &view, &side));
    BT_FAIL_IF(strcmp(side.build.digest, system->build.digest) != 0, BT_STATUS_UNAVAILABLE,
               "run %lld cannot be resumed: its %s was rebuilt (digest was %.8s, is %.8s)",
               (long long)run, system->name, system->build.git_commit, side.build.git_commit);
    return BT_OK;
}

// Whether the recorded systems are those of the plan. In earlier versions sessions of builds
// recorded plans that named unused peers.
static bool are_of_plan(const bt_store_schedule *schedule, const cJSON *systems)
{
    int64_t count = 0;
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, systems) {
        const char *slash = strrchr(node->valuestring, '/');
        if (count >= schedule->system_count ||
            strcmp(slash ? slash + 1 : node->valuestring, schedule->systems[count].name) != 0) {
            return false;
        }
        ++count;
    }
    return systems && count == schedule->system_count;
}

// Peers of the plan are looked up again; builds are those of the record.
static bt_status take_systems(const bt_cli_arguments *arguments, const bt_store_run *record,
                              bt_cli_suite *suite, bt_peer systems[BT_CLI_AB_SYSTEMS_MAX])
{
    const bt_store_schedule *schedule = &record->schedule;
    if (are_of_plan(schedule, suite->plan.systems) ||
        schedule->system_count > BT_CLI_AB_SYSTEMS_MAX) {
        return BT_OK;
    }
    for (int64_t i = 0; i < schedule->system_count; ++i) {
        const bt_store_system *system = &schedule->systems[i];
        bool other = *system->program != '\0';
        BT_FAIL_IF(other && !suite->trusted, BT_STATUS_INVALID_ARGUMENT,
                   "run %lld was imported and names the program \"%s\", which was not started\nto "
                   "start it, read the program first, then add --trust",
                   (long long)record->id, system->program);
        if (other) {
            BT_TRY(check_program(arguments, system, record->id));
        }
        // Nobody writes to or frees the names of systems that a request lends.
        systems[i] = (bt_peer){.name = (char *)(uintptr_t)system->name,
                               .program = other ? (char *)(uintptr_t)system->program : NULL,
                               .build = other,
                               .facts = &system->build,
                               .inject_slowdown = system->inject_slowdown};
    }
    suite->systems = systems;
    suite->system_count = schedule->system_count;
    return BT_OK;
}

// Errors  INVALID_ARGUMENT (another kind of run; an option that the record says), UNAVAILABLE (a
//         program is another build by now), those of the store
static bt_status resume(const char *kind, bt_cli_ab_session *session)
{
    const bt_cli_arguments *arguments = session->arguments;
    bt_cli_suite *suite = &session->suite;
    bt_store_run *record = &session->record;
    BT_TRY(bt_cli_suite_resume(arguments, bt_cli_value(arguments, "resume"), suite));
    BT_TRY(bt_cli_suite_record(suite, kind, record));
    BT_TRY(bt_ab_policy_recorded(record->schedule.rule_json, &session->policy));
    suite->schedule_seed = record->schedule.seed;
    return take_systems(arguments, record, suite, session->systems);
}

// ---- from options to verdicts ------------------------------------------------------------------

static bt_status plan(const bt_cli_ab_verb *verb, bt_cli_ab_session *session)
{
    BT_TRY(bt_cli_value(session->arguments, "resume") ? resume(verb->kind, session)
                                                      : verb->begin(session));
    BT_TRY(bt_ab_rounds_make(&session->suite.plan, &session->policy, &session->rounds));
    session->rounds.fixed = verb->fixed_rounds;
    return BT_OK;
}

static bt_status run(const char *kind, bt_cli_ab_session *session, bt_run_outcome *outcome)
{
    BT_SCOPED(bt_str) rule = {0};
    bt_run_wish wish = bt_ab_rounds_wish(&session->rounds);
    bt_status status = bt_ab_rule_json(&session->policy, &rule);
    if (status == BT_OK) {
        wish.kind = kind;
        wish.rule_json = bt_str_text(&rule);
        session->suite.wish = &wish;
        status = bt_cli_suite_run(&session->suite, outcome);
        session->suite.wish = NULL;
    }
    return status;
}

static bt_status run_and_judge(const bt_cli_ab_verb *verb, bt_cli_ab_session *session)
{
    bt_run_outcome outcome;
    BT_TRY(plan(verb, session));
    BT_TRY(run(verb->kind, session, &outcome));
    if (outcome.status == BT_RUN_INTERRUPTED) {
        session->call->code = bt_run_exit_code(&outcome);
        return bt_cli_report_missing(session->call, &outcome);
    }
    BT_TRY(bt_cli_open(session->call, BT_STORE_AMEND));
    BT_TRY(verb->judge(session, outcome.run));
    return bt_cli_report_missing(session->call, &outcome);
}

bt_status bt_cli_ab(const bt_cli_ab_verb *verb, bt_cli_call *call)
{
    bt_cli_ab_session session = {.call = call, .arguments = call->arguments};
    bt_status status = run_and_judge(verb, &session);
    bt_ab_side_release(&session.sides[0]);
    bt_ab_side_release(&session.sides[1]);
    bt_store_run_release(&session.record);
    bt_ab_rounds_release(&session.rounds);
    bt_cli_suite_release(&session.suite);
    bt_policy_release(&session.policy);
    return status;
}
