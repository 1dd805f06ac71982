// tests/harness/test_ab.c - sides, policies, other programs, and how many rounds a case gets
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/ab/ab.h"
#include "harness/ab/command.h"
#include "harness/ab/rounds.h"
#include "harness/ab/side.h"
#include "harness/env/build.h"
#include "tests/support/test.h"

// ---- description of a build ------------------------------------------------------------------

static void versions_are_read_back(void **state)
{
    (void)state;
    char digest[33];
    const bt_build *own = bt_build_get();
    bt_str text = {0};
    bt_arena arena = {0};
    bt_store_build build;
    bt_build_describe(&text);
    ASSERT_OK(bt_ab_build_parse(bt_str_text(&text), &arena, &build));
    assert_string_equal(build.version, own->version);
    assert_string_equal(build.git_commit, own->git_commit);
    assert_string_equal(build.git_diff, own->git_diff);
    assert_string_equal(build.compiler, own->compiler);
    assert_string_equal(build.flags, own->flags);
    assert_string_equal(build.type, own->type);
    assert_string_equal(build.cuda, own->cuda);
    bt_build_digest(digest);
    assert_string_equal(build.digest, digest);
    bt_str_release(&text);
    ASSERT_OK(bt_ab_build_parse("bt-bench 9\nrevision   abc, changed: de\ncompiler   c 1\n"
                                "flags      -O2 (old) (Debug)\ncuda       13.0\n",
                                &arena, &build));
    assert_string_equal(build.git_commit, "abc");
    assert_string_equal(build.git_diff, "de");
    assert_string_equal(build.flags, "-O2 (old)");
    assert_string_equal(build.type, "Debug");
    assert_string_equal(build.cuda, "13.0");
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "expected the output of 'bt-bench version', got hello",
                 bt_ab_build_parse("hello", &arena, &build));
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "expected the output of 'bt-bench version'",
                 bt_ab_build_parse("", &arena, &build));
    bt_arena_release(&arena);
}

static void policies_are_made_and_checked(void **state)
{
    (void)state;
    const double none = (double)NAN;
    bt_policy policy;
    ASSERT_OK(bt_ab_policy(NULL, none, 0, &policy));
    assert_int_equal(policy.rounds, 24);
    assert_true(bt_policy_rule(&policy, "a", BT_GATE_TIME, false, 5e4).tolerance == 0.01);
    assert_true(bt_policy_rule(&policy, "a", BT_GATE_TIME, false, 5e3).tolerance == 0.02);
    assert_true(bt_policy_rule(&policy, "a", BT_GATE_STEP_TIME, true, none).tolerance == 0.005);
    bt_policy_release(&policy);
    ASSERT_OK(bt_ab_policy(NULL, 0.3, 12, &policy));
    assert_int_equal(policy.rounds, 12);
    assert_true(bt_policy_rule(&policy, "a", BT_GATE_TIME, false, 5e3).tolerance == 0.3);
    assert_int_equal(bt_ab_rounds_first(&policy), 8);
    bt_str json = {0};
    ASSERT_OK(bt_ab_rule_json(&policy, &json));
    assert_non_null(strstr(bt_str_text(&json), "{\"policy\":{"));
    bt_policy back;
    ASSERT_OK(bt_ab_policy_recorded(bt_str_text(&json), &back));
    assert_string_equal(back.digest, policy.digest);
    bt_policy_release(&back);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "has no policy", bt_ab_policy_recorded("{}", &back));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "", bt_ab_policy_recorded("{", &back));
    bt_str_release(&json);
    bt_policy_release(&policy);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "tolerance 0", bt_ab_policy(NULL, 0, 0, &policy));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"rounds\"", bt_ab_policy(NULL, none, 1, &policy));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "omit --tolerance",
                 bt_ab_policy("default", 0.1, 0, &policy));
}

// ---- other programs ----------------------------------------------------------------------------

static void programs_end_with_a_code(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int code;
    } rows[] = {{"echo out; echo err >&2", 0}, {"exit 7", 7}, {"kill -9 $$", 137}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        const char *const arguments[] = {"sh", "-c", rows[i].script, NULL};
        int code = -1;
        ASSERT_OK(bt_command_run(arguments, NULL, NULL, &code));
        assert_int_equal(code, rows[i].code);
    }
    const char *const missing[] = {"/no/such/program", NULL};
    int code = -1;
    ASSERT_OK(bt_command_run(missing, NULL, NULL, &code));
    assert_int_equal(code, 127);
    const char *const says[] = {"sh", "-c", "echo out; echo err >&2", NULL};
    bt_str output = {0};
    ASSERT_OK(bt_command_run(says, NULL, &output, &code));
    assert_string_equal(bt_str_text(&output), "out\n");
    bt_str_release(&output);
    ASSERT_FAILS(BT_STATUS_IO, "/no/such/folder/log",
                 bt_command_run(says, "/no/such/folder/log", NULL, &code));
}

// A revision's build scripts and its program are code proposed by others.
static void programs_get_no_secrets(void **state)
{
    (void)state;
    const char *const says[] = {
        "sh", "-c", "echo \"$CI_TOKEN|$BT_UPLOAD_KEY|$MAIL|$BT_PLAIN|${PATH:+path}\"", NULL};
    bt_str output = {0};
    int code = -1;
    assert_int_equal(setenv("CI_TOKEN", "a", 1) | setenv("BT_UPLOAD_KEY", "b", 1) |
                         setenv("MAIL", "c", 1) | setenv("BT_PLAIN", "d", 1),
                     0);
    ASSERT_OK(bt_command_run(says, NULL, &output, &code));
    assert_string_equal(bt_str_text(&output), "|||d|path\n");
    bt_str_release(&output);
}

static void expect_waits(const char *expected)
{
    const char *const says[] = {"sh", "-c", "echo \"$GOMP_SPINCOUNT|$OMP_WAIT_POLICY\"", NULL};
    bt_str output = {0};
    int code = -1;
    ASSERT_OK(bt_command_run(says, NULL, &output, &code));
    assert_string_equal(bt_str_text(&output), expected);
    bt_str_release(&output);
}

static void threads_wait_briefly_unless_the_user_chooses(void **state)
{
    (void)state;
    unsetenv("GOMP_SPINCOUNT"), unsetenv("OMP_WAIT_POLICY");
    expect_waits("10000|\n");
    setenv("OMP_WAIT_POLICY", "active", 1);
    expect_waits("|active\n");
    unsetenv("OMP_WAIT_POLICY");
    setenv("GOMP_SPINCOUNT", "7", 1);
    expect_waits("7|\n");
    unsetenv("GOMP_SPINCOUNT");
}

// ---- how many rounds ---------------------------------------------------------------------------

static const char plan_text[] = "{\"cases\":[{\"name\":\"ceiling.hot\",\"kind\":\"kernel\","
                                "\"kernel\":{}},{\"name\":\"a\",\"kind\":\"kernel\",\"kernel\":{}},"
                                "{\"name\":\"b\",\"kind\":\"train\",\"train\":{}}]}";

typedef struct session {
    bt_json_doc json;
    bt_plan plan;
    bt_policy policy;
    bt_ab_rounds rounds;
    bt_run_wish wish;
    bt_run_schedule schedule;
} session;

static void open_session(session *s, double tolerance)
{
    memset(s, 0, sizeof *s);
    ASSERT_OK(bt_json_parse("plan", plan_text, strlen(plan_text), &s->json));
    s->plan = (bt_plan){.cases = bt_json_get(s->json.root, "cases"), .case_count = 3, .rounds = 8};
    ASSERT_OK(bt_ab_policy(NULL, tolerance, 0, &s->policy));
    ASSERT_OK(bt_ab_rounds_make(&s->plan, &s->policy, &s->rounds));
    s->wish = bt_ab_rounds_wish(&s->rounds);
    ASSERT_OK(bt_run_schedule_make(&s->plan, 2, 8, s->wish.rounds_max, 3, &s->schedule));
    assert_int_equal(s->rounds.family, 4); // total and 95th percentile of each
}

static void close_session(session *s)
{
    bt_run_schedule_release(&s->schedule);
    bt_ab_rounds_release(&s->rounds);
    bt_policy_release(&s->policy);
    bt_json_doc_release(&s->json);
}

static void ask(session *s, int64_t case_index)
{
    int64_t rounds = -1;
    ASSERT_OK(s->wish.rounds(s->wish.self, &s->schedule, case_index, &rounds));
    bt_run_schedule_want(&s->schedule, case_index, rounds);
}

// Status and time of a round, by what is run.
typedef bt_run_status (*runner)(const bt_run_schedule_round *what, double *time_ns);

// Plays the session as a run does; returns how many rounds it took.
static int64_t play(session *s, runner run)
{
    bt_run_schedule_round next;
    int64_t count = 0;
    for (int64_t i = 0; i < 3; ++i) {
        ask(s, i);
    }
    for (; bt_run_schedule_next(&s->schedule, &next); ++count) {
        double time_ns = (double)NAN;
        bt_run_status status = run(&next, &time_ns);
        bt_run_schedule_note(&s->schedule, &next, status, time_ns);
        ask(s, next.case_index);
    }
    return count;
}

static bt_run_status steady(const bt_run_schedule_round *what, double *time_ns)
{
    *time_ns = 1e6 + (double)(what->ordinal % 3);
    return BT_RUN_PASSED;
}

// The training case is 0.5 % off, which is its tolerance: it never ends by itself.
static bt_run_status undecided(const bt_run_schedule_round *what, double *time_ns)
{
    bool slow = what->case_index == 2 && what->system == 1;
    *time_ns = slow ? 1e6 + 5000 + (what->ordinal % 2 ? 900 : -900) : 1e6;
    return BT_RUN_PASSED;
}

// Every attempt of two rounds is disturbed.
static bt_run_status disturbed(const bt_run_schedule_round *what, double *time_ns)
{
    *time_ns = 1e6;
    bool bad = what->case_index == 1 && what->system == 1 && what->ordinal < 2;
    return bad ? BT_RUN_INVALID : BT_RUN_PASSED;
}

// The candidate's third round crashes; the training case cannot run on the base.
static bt_run_status broken(const bt_run_schedule_round *what, double *time_ns)
{
    bool crash = what->case_index == 1 && what->system == 1 && what->ordinal == 2;
    bool cannot = what->case_index == 2 && what->system == 0;
    *time_ns = crash || cannot ? (double)NAN : 1e6;
    return crash ? BT_RUN_FAILED : cannot ? BT_RUN_UNAVAILABLE : BT_RUN_PASSED;
}

static void only_the_undecided_go_on(void **state)
{
    (void)state;
    session s;
    open_session(&s, (double)NAN);
    assert_int_equal(play(&s, steady), 1 + 2 * 2 * 8); // one copy, eight pairs of two cases
    close_session(&s);
    open_session(&s, (double)NAN);
    assert_int_equal(play(&s, undecided), 1 + 2 * 8 + 2 * 24);
    close_session(&s);
    open_session(&s, 0.02);
    assert_int_equal(play(&s, undecided), 1 + 2 * 2 * 8);
    close_session(&s);
}

static void disturbed_pairs_are_made_up_for(void **state)
{
    (void)state;
    session s;
    open_session(&s, (double)NAN);
    // Six whole pairs decide as well when nothing differs: the look is at what there is.
    assert_int_equal(play(&s, disturbed), 1 + 2 * 2 * 8 + 2 * 2);
    assert_int_equal(s.schedule.wanted[1], 8);
    close_session(&s);
}

static void broken_cases_stop(void **state)
{
    (void)state;
    session s;
    open_session(&s, (double)NAN);
    assert_int_equal(play(&s, broken), 1 + 2 * 3 + 2);
    close_session(&s);
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    bt_arena arena = {0};
    bt_store_build build;
    bt_mem_fail_at(1);
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "",
                 bt_ab_build_parse("bt-bench 9\ncompiler c\n", &arena, &build));
    bt_mem_fail_at(0);
    bt_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_read_back),
        cmocka_unit_test(policies_are_made_and_checked),
        cmocka_unit_test(programs_end_with_a_code),
        cmocka_unit_test(programs_get_no_secrets),
        cmocka_unit_test(threads_wait_briefly_unless_the_user_chooses),
        cmocka_unit_test(only_the_undecided_go_on),
        cmocka_unit_test(disturbed_pairs_are_made_up_for),
        cmocka_unit_test(broken_cases_stop),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
