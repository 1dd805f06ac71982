// tests/harness/test_kill.c - kill -9 at random points: the record stays intact, and the run can be
// resumed
//
// Sessions of quick rounds are run in a child, which is killed after a random time (seeded), a
// hundred times; the next child resumes what the last one left, or begins anew where that was
// complete. After each kill the database is checked; each session must end as if nothing had
// happened.
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/rng.h"
#include "harness/run/run.h"
#include "harness/store/live.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"

enum { KILLS = 100, LIFE_MAX_US = 120000, SHORT_LIVES = 10, ROUNDS = 40, CASES = 3 };

static bt_suite suite;
static bt_plan plan;
static const bt_machine machine = {.host_memory_bytes = 1ULL << 34};

static int set_up(void **state)
{
    static const char text[] = SCRATCH_GELU_SUITE("[\"4x5\", \"8x8\"]");
    if (scratch_database_name(state) != 0 ||
        scratch_plan_make(text, ROUNDS, &machine, &suite, &plan) != BT_OK) {
        print_error("%s\n", bt_error_message());
        return -1;
    }
    return plan.case_count == CASES ? 0 : -1;
}

static int tear_down(void **state)
{
    bt_plan_release(&plan);
    bt_suite_release(&suite);
    return scratch_database_remove(state);
}

// ---- the record --------------------------------------------------------------------------------

// Whole pages, whole references, whole rounds; at most one round was lost.
static void check_whole(void)
{
    assert_int_equal(
        scratch_query("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check<>'ok'"),
        0);
    assert_int_equal(scratch_query("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    assert_int_equal(
        scratch_query("SELECT count(*) FROM round r WHERE status=1 AND (ended_ns=0 OR NOT EXISTS"
                      " (SELECT 1 FROM measurement m JOIN samples s ON s.measurement_id=m.id"
                      " WHERE m.round_id=r.id AND m.metric='time_ns' AND s.count=3))"),
        0);
    assert_true(scratch_query("SELECT count(*) FROM round WHERE status=0") <= 1);
    assert_int_equal(scratch_query("SELECT count(*) FROM round WHERE status NOT IN (0, 1, 3)"), 0);
}

// Whether there are tables yet: the very first child may have been killed before it made them.
static bool is_made(void)
{
    return access(scratch_database, F_OK) == 0 &&
           scratch_query("SELECT count(*) FROM sqlite_schema WHERE name='session'") == 1;
}

// The session that a next child must go on with, 0: none is open.
static int64_t open_session(void)
{
    return is_made() ? scratch_query("SELECT ifnull((SELECT id FROM session WHERE status<>1), 0)")
                     : 0;
}

static int64_t passed_rounds(void)
{
    return is_made() ? scratch_query("SELECT count(*) FROM round WHERE status=1") : 0;
}

static void check_complete(void)
{
    assert_int_equal(scratch_query("SELECT count(*) FROM session WHERE status<>1"), 0);
    int64_t sessions = scratch_query("SELECT count(*) FROM session");
    assert_int_equal(scratch_query("SELECT count(*) FROM round WHERE status=1"),
                     sessions * CASES * ROUNDS);
    // Each ordinal of each case once; nothing was run again that had ended.
    assert_int_equal(
        scratch_query("SELECT count(*) FROM (SELECT 1 FROM round WHERE status=1 GROUP BY"
                      " session_id, case_id, ordinal)"),
        sessions * CASES * ROUNDS);
}

// ---- lives -------------------------------------------------------------------------------------

static void live(int64_t resumed)
{
    bt_run_outcome outcome;
    bt_run_request request = scratch_run_request(&suite, &plan, &machine, SCRATCH_KERNEL_PEER);
    request.resume = resumed;
    bt_status status = bt_run_execute(&request, &outcome);
    if (status != BT_OK || outcome.status != BT_RUN_PASSED) {
        fprintf(stderr, "%s%s\n", bt_error_message(), outcome.message);
    }
    _exit(status == BT_OK && outcome.status == BT_RUN_PASSED ? 0 : 1);
}

// Lets a child run for so long (0: to its end); true when it was killed, false when it had ended
// well before.
static bool run_for(int64_t life_us)
{
    struct timespec life = {life_us / 1000000, life_us % 1000000 * 1000};
    int64_t resumed = open_session();
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        live(resumed);
    }
    if (life_us > 0) {
        (void)nanosleep(&life, NULL);
        (void)kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &state, 0), child);
    if (WIFSIGNALED(state)) {
        return true;
    }
    assert_int_equal(WEXITSTATUS(state), 0);
    return false;
}

static void a_hundred_kills(void **state)
{
    (void)state;
    const bt_rng rng = {.seed = 2026, .stream = 1};
    int kills = 0, lost = 0, idle = 0;
    int64_t life_max_us = LIFE_MAX_US, passed = 0;
    for (uint64_t i = 0; kills < KILLS && i < 10 * KILLS; i++) {
        kills += run_for((int64_t)bt_rng_below(rng, i, (uint64_t)life_max_us) + 1);
        // On a slow machine a child needs longer to begin: SHORT_LIVES in a row passed no round.
        idle = passed_rounds() > passed ? 0 : idle + 1;
        passed = passed_rounds();
        if (idle == SHORT_LIVES && life_max_us < 16 * LIFE_MAX_US) {
            life_max_us *= 2;
            idle = 0;
        }
        if (is_made()) {
            check_whole();
        }
    }
    assert_int_equal(kills, KILLS);
    while (open_session()) {
        assert_false(run_for(0));
    }
    check_whole();
    check_complete();
    lost = (int)scratch_query("SELECT count(*) FROM round WHERE status=3");
    print_message("%d kills: %lld sessions, %lld rounds, %d rounds in flight lost, %lld resumed\n",
                  kills, (long long)scratch_query("SELECT count(*) FROM session"),
                  (long long)scratch_query("SELECT count(*) FROM round WHERE status=1"), lost,
                  (long long)scratch_query("SELECT count(*) FROM session_gap"));
    assert_in_range(lost, 1, KILLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_hundred_kills)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
