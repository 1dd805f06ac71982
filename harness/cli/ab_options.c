// harness/cli/ab_options.c - options that ab and calibrate share
#include "harness/cli/ab_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "harness/ab/ab.h"
#include "harness/ab/side.h"

#define SEED_MASK ((1ULL << 53) - 1) // JSON's whole numbers

bt_status bt_cli_share(const bt_cli_arguments *arguments, const char *name, double fallback,
                       double *share)
{
    const char *text = bt_cli_value(arguments, name);
    char *end = NULL;
    *share = text ? strtod(text, &end) : fallback;
    if (text && (end == text || *end || isnan(*share))) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "--%s %s: a share is wanted, 0.01 for 1 %%",
                        name, text);
    }
    return BT_OK;
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

// ---- a session that goes on --------------------------------------------------------------------

static bt_status read_record(const bt_cli_suite *suite, const char *kind, bt_store_run *record)
{
    bt_store *store = NULL;
    BT_TRY(bt_store_open(suite->database, BT_STORE_READ, &store));
    bt_status status = bt_store_run_read(store, suite->resume, record);
    if (status == BT_OK && strcmp(record->schedule.kind, kind) != 0) {
        status = bt_error(
            BT_STATUS_INVALID_ARGUMENT, "run %lld was begun by 'bt-bench %s', not by %s",
            (long long)suite->resume, *record->schedule.kind ? record->schedule.kind : "run", kind);
    }
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

// Is the program still what it was?
static bt_status check_program(const bt_cli_arguments *arguments, const bt_store_system *system,
                               int64_t run)
{
    bt_progress_view view;
    bt_ab_side side;
    bt_progress_open(&view, bt_cli_value(arguments, "quiet") != NULL);
    bt_status status = bt_ab_side_find(system->program, &view, &side);
    if (status == BT_OK && strcmp(side.build.digest, system->build.digest) != 0) {
        status =
            bt_error(BT_STATUS_UNAVAILABLE,
                     "run %lld cannot go on: its %s is another build now (was %.8s, is %.8s)",
                     (long long)run, system->name, system->build.git_commit, side.build.git_commit);
    }
    bt_ab_side_release(&side);
    return status;
}

// Peers of the plan are found as in the first place; builds are those of the record.
static bt_status take_systems(const bt_cli_arguments *arguments, const bt_store_run *record,
                              bt_cli_suite *suite, bt_peer systems[BT_CLI_AB_SYSTEMS_MAX])
{
    const bt_store_schedule *schedule = &record->schedule;
    if (suite->plan.systems || schedule->system_count > BT_CLI_AB_SYSTEMS_MAX) {
        return BT_OK;
    }
    for (int64_t i = 0; i < schedule->system_count; ++i) {
        const bt_store_system *system = &schedule->systems[i];
        bool other = *system->program != '\0';
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

bt_status bt_cli_ab_resume(const bt_cli_arguments *arguments, const char *kind, bt_cli_suite *suite,
                           bt_policy *policy, bt_peer systems[BT_CLI_AB_SYSTEMS_MAX],
                           bt_store_run *record)
{
    BT_TRY(bt_cli_suite_resume(arguments, bt_cli_value(arguments, "resume"), suite));
    BT_TRY(read_record(suite, kind, record));
    BT_TRY(bt_ab_policy_recorded(record->schedule.rule_json, policy));
    suite->schedule_seed = record->schedule.seed;
    return take_systems(arguments, record, suite, systems);
}
