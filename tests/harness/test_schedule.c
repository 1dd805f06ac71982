// tests/harness/test_schedule.c - the order of rounds, retries, growing numbers of rounds, resuming
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/run/schedule.h"

#define ROUNDS_MAX 24
#define TRACE_MAX  4096

static const char plan_text[] =
    "{\"cases\":[{\"name\":\"ceiling.hot\",\"kind\":\"kernel\",\"kernel\":{}},"
    "{\"name\":\"a\",\"kind\":\"kernel\",\"kernel\":{}},"
    "{\"name\":\"b\",\"kind\":\"kernel\",\"kernel\":{}},"
    "{\"name\":\"c\",\"kind\":\"train\",\"train\":{}},"
    "{\"name\":\"d\",\"kind\":\"kernel\",\"kernel\":{}}]}";
static const char *const names[] = {"ceiling.hot", "a", "b", "c", "d"};
static const char *const systems[] = {"base", "candidate"};

static bt_json_doc json;
static bt_plan plan;

static int set_up(void **state)
{
    (void)state;
    if (bt_json_parse("plan", plan_text, strlen(plan_text), &json) != BT_OK) {
        return -1;
    }
    plan.cases = bt_json_get(json.root, "cases");
    plan.case_count = 5;
    plan.rounds = 1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bt_json_doc_release(&json);
    return 0;
}

static bt_run_schedule make(int64_t system_count, int64_t rounds, uint64_t seed)
{
    bt_run_schedule schedule;
    ASSERT_OK(bt_run_schedule_make(&plan, system_count, rounds, ROUNDS_MAX, seed, &schedule));
    return schedule;
}

// Runs all that is open, every round kept; returns how many, and which.
static int64_t play(bt_run_schedule *schedule, bt_run_schedule_round *trace)
{
    int64_t count = 0;
    while (count < TRACE_MAX && bt_run_schedule_next(schedule, &trace[count])) {
        bt_run_schedule_note(schedule, &trace[count], BT_RUN_PASSED, 1.0 + (double)count);
        ++count;
    }
    return count;
}

static void a_case_runs_only_on_the_systems_that_it_names(void **state)
{
    (void)state;
    static const char text[] =
        "{\"systems\":[\"blutrain\",\"eager\",\"compile\"],\"cases\":["
        "{\"name\":\"a\",\"kind\":\"kernel\",\"kernel\":{}},"
        "{\"name\":\"b\",\"kind\":\"kernel\",\"kernel\":{},\"systems\":[\"blutrain\",\"compile\"]},"
        "{\"name\":\"c\",\"kind\":\"train\",\"train\":{},\"systems\":\"eager\"}]}";
    static const int64_t expected[][2] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 1},
                                          {0, 2}, {0, 1}, {0, 0}, {1, 2}, {1, 0}, {2, 1}};
    static bt_run_schedule_round trace[TRACE_MAX];
    bt_json_doc doc;
    bt_run_schedule schedule;
    int64_t wanted = 0, open = 0;
    ASSERT_OK(bt_json_parse("plan", text, strlen(text), &doc));
    const bt_plan own = {.cases = bt_json_get(doc.root, "cases"),
                         .case_count = 3,
                         .systems = bt_json_get(doc.root, "systems")};
    ASSERT_OK(bt_run_schedule_make(&own, 3, 2, 2, 0, &schedule));
    bt_run_schedule_count(&schedule, &wanted, &open);
    assert_int_equal(wanted, 12);
    assert_int_equal(open, 12);
    assert_int_equal(play(&schedule, trace), 12);
    for (int i = 0; i < 12; ++i) {
        assert_int_equal(trace[i].case_index, expected[i][0]);
        assert_int_equal(trace[i].system, expected[i][1]);
    }
    bt_run_schedule_release(&schedule);
    bt_json_doc_release(&doc);
}

// Two rounds on two systems of a ceiling and four cases; up to six rounds of each case.
static void what_remains_is_estimated_by_case(void **state)
{
    (void)state;
    bt_run_schedule schedule = make(2, 6, 0);
    bt_run_schedule_round next;
    bt_run_left left;
    for (int64_t i = 0; i < schedule.case_count; ++i) {
        bt_run_schedule_want(&schedule, i, schedule.alone[i] ? 1 : 2);
    }
    bt_run_schedule_left(&schedule, 6, &left);
    assert_int_equal(left.wanted, 17);
    assert_int_equal(left.open, 17);
    assert_true(isnan(left.left_ns) && isnan(left.left_most_ns) && !left.known);
    // The ceiling's duration says nothing of the others'.
    assert_true(bt_run_schedule_next(&schedule, &next) && schedule.alone[next.case_index]);
    bt_run_schedule_took(&schedule, next.case_index, 1e6);
    bt_run_schedule_note(&schedule, &next, BT_RUN_PASSED, 1);
    bt_run_schedule_left(&schedule, 6, &left);
    assert_true(isnan(left.left_ns));
    // One round of the first case stands for all.
    assert_true(bt_run_schedule_next(&schedule, &next));
    bt_run_schedule_took(&schedule, next.case_index, 10);
    bt_run_schedule_note(&schedule, &next, BT_RUN_PASSED, 1);
    bt_run_schedule_left(&schedule, 6, &left);
    assert_int_equal(left.open, 15);
    assert_true(!left.known && left.left_ns == 150 && left.left_most_ns == 150 + 4 * 8 * 10);
    bt_run_schedule_left(&schedule, 0, &left);
    assert_true(left.left_most_ns == 150);
    // A case that is done gets no more rounds; one that takes longer counts for itself.
    while (bt_run_schedule_next(&schedule, &next)) {
        bt_run_schedule_took(&schedule, next.case_index, next.case_index == 4 ? 40 : 10);
        bt_run_schedule_left(&schedule, 6, &left);
        bt_run_schedule_note(&schedule, &next, BT_RUN_PASSED, 1);
    }
    assert_true(left.known && left.open == 1); // before the last round, of the last case
    assert_true(left.left_ns == 40 && left.left_most_ns == 40 + 8 * 40);
    bt_run_schedule_left(&schedule, 6, &left);
    assert_true(left.open == 0 && left.left_ns == 0 && left.left_most_ns == 0);
    bt_run_schedule_release(&schedule);
}

static void seed_0_is_the_order_of_the_plan(void **state)
{
    (void)state;
    static bt_run_schedule_round trace[TRACE_MAX];
    bt_run_schedule schedule = make(2, 2, 0);
    // Case and system; the ceiling alone, odd passes backwards.
    static const int64_t expected[][2] = {{0, 0}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0},
                                          {3, 1}, {4, 0}, {4, 1}, {0, 0}, {1, 1}, {1, 0},
                                          {2, 1}, {2, 0}, {3, 1}, {3, 0}, {4, 1}, {4, 0}};
    assert_int_equal(play(&schedule, trace), 18);
    for (int i = 0; i < 18; ++i) {
        assert_int_equal(trace[i].case_index, expected[i][0]);
        assert_int_equal(trace[i].system, expected[i][1]);
        assert_int_equal(trace[i].ordinal, i / 9);
        assert_int_equal(trace[i].attempt, 0);
    }
    bt_run_schedule_release(&schedule);
}

// Whatever the seed: all rounds once, ceilings first, pairs next to each other and the other way
// round each time, orders and starts that differ between cases and passes.
static void seeds_shuffle_and_keep_the_rules(void **state)
{
    (void)state;
    static bt_run_schedule_round trace[TRACE_MAX];
    int backwards = 0, moved = 0;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        bt_run_schedule schedule = make(2, 4, seed);
        int64_t start[5] = {0};
        assert_int_equal(play(&schedule, trace), 4 * 9);
        for (int i = 0; i < 36; ++i) {
            bool alone = i % 9 == 0;
            assert_int_equal(trace[i].ordinal, i / 9);
            assert_int_equal(trace[i].case_index == 0, alone);
            if (alone || i % 9 % 2 == 0) {
                continue;
            }
            assert_int_equal(trace[i].case_index, trace[i + 1].case_index);
            assert_int_equal(trace[i].system + trace[i + 1].system, 1);
            int64_t *first = &start[trace[i].case_index];
            *first = i < 9 ? trace[i].system : *first;
            assert_int_equal(trace[i].system, (*first + trace[i].ordinal) % 2);
            backwards += i < 9 && trace[i].system == 1;
            assert_true(i >= 9 || trace[i].case_index == (i + 1) / 2);
            moved += i >= 9 && trace[i].case_index != trace[i - 9].case_index;
        }
        bt_run_schedule_release(&schedule);
    }
    // 200 starts: 100 +- 4 * sqrt(50). 600 places, of which 3/4 move: 450 +- 4 * sqrt(112.5),
    // more for their dependence.
    assert_in_range(backwards, 70, 130);
    assert_in_range(moved, 390, 510);
}

static void invalid_rounds_are_run_again_at_once(void **state)
{
    (void)state;
    bt_run_schedule schedule = make(2, 2, 0);
    bt_run_schedule_round next;
    double logs[ROUNDS_MAX];
    int64_t wanted = 0, open = 0, count = 0;
    while (bt_run_schedule_next(&schedule, &next)) {
        bool bad = next.case_index == 1 && next.system == 0 && next.ordinal == 0;
        bool once = next.case_index == 2 && next.attempt == 0;
        if (bad) {
            assert_int_equal(next.attempt, count++);
        }
        bt_run_schedule_note(&schedule, &next, bad || once ? BT_RUN_INVALID : BT_RUN_PASSED,
                             next.system ? 2.0 : 1.0);
    }
    assert_int_equal(count, BT_ROUND_ATTEMPTS);
    assert_int_equal(bt_run_schedule_cell_of(&schedule, 1, 0, 0)->state, BT_ROUND_LOST);
    assert_int_equal(bt_run_schedule_cell_of(&schedule, 1, 1, 0)->state, BT_ROUND_KEPT);
    bt_run_schedule_logs(&schedule, 1, 0, logs);
    assert_true(isnan(logs[0]) && logs[1] == 0.0);
    bt_run_schedule_logs(&schedule, 2, 1, logs);
    assert_true(logs[0] == log(2.0) && logs[1] == log(2.0) && isnan(logs[2]));
    bt_run_schedule_count(&schedule, &wanted, &open);
    assert_int_equal(wanted, 18);
    assert_int_equal(open, 0);
    bt_run_schedule_release(&schedule);
}

static void failed_and_unavailable_rounds_are_settled(void **state)
{
    (void)state;
    bt_run_schedule schedule = make(2, 1, 0);
    double logs[ROUNDS_MAX];
    bt_run_schedule_note(&schedule, &(bt_run_schedule_round){1, 0, 0, 0}, BT_RUN_FAILED,
                         (double)NAN);
    bt_run_schedule_note(&schedule, &(bt_run_schedule_round){1, 1, 0, 0}, BT_RUN_UNAVAILABLE,
                         (double)NAN);
    bt_run_schedule_note(&schedule, &(bt_run_schedule_round){2, 0, 0, 0}, BT_RUN_INTERRUPTED, 5.0);
    bt_run_schedule_note(&schedule, &(bt_run_schedule_round){2, 1, 0, 0}, BT_RUN_PASSED,
                         (double)NAN);
    assert_true(bt_run_schedule_settled(&schedule, 1));
    assert_false(bt_run_schedule_settled(&schedule, 2));
    assert_int_equal(bt_run_schedule_cell_of(&schedule, 1, 0, 0)->state, BT_ROUND_FAILED);
    assert_int_equal(bt_run_schedule_cell_of(&schedule, 1, 1, 0)->state, BT_ROUND_UNAVAILABLE);
    // What is settled stays: a second word about a round is not heard.
    bt_run_schedule_note(&schedule, &(bt_run_schedule_round){1, 0, 0, 0}, BT_RUN_PASSED, 1.0);
    assert_int_equal(bt_run_schedule_cell_of(&schedule, 1, 0, 0)->state, BT_ROUND_FAILED);
    bt_run_schedule_note(&schedule, &(bt_run_schedule_round){2, 0, 0, 0}, BT_RUN_PASSED, 1.0);
    bt_run_schedule_logs(&schedule, 2, 1, logs);
    assert_true(isnan(logs[0])); // not timed
    bt_run_schedule_release(&schedule);
}

static void only_cases_that_want_more_go_on(void **state)
{
    (void)state;
    static bt_run_schedule_round trace[TRACE_MAX];
    bt_run_schedule schedule = make(2, 8, 3);
    assert_int_equal(play(&schedule, trace), 8 * 9);
    bt_run_schedule_want(&schedule, 2, 16);
    bt_run_schedule_want(&schedule, 4, 1000); // is cut to what there is room for
    assert_int_equal(schedule.wanted[4], ROUNDS_MAX);
    int64_t count = play(&schedule, trace);
    assert_int_equal(count, 2 * (8 + 16));
    for (int64_t i = 0; i < count; ++i) {
        assert_true(trace[i].case_index == 2 || trace[i].case_index == 4);
        assert_true(trace[i].ordinal >= 8);
    }
    bt_run_schedule_release(&schedule);
    schedule = make(2, 8, 3);
    for (int64_t i = 0; i < 5; ++i) {
        bt_run_schedule_want(&schedule, i, i == 1 ? 3 : 0);
    }
    assert_int_equal(play(&schedule, trace), 6);
    bt_run_schedule_release(&schedule);
}

// A session interrupted anywhere, and given the finished rounds in another order, continues as if
// nothing had been.
static void resuming_goes_on_where_it_stopped(void **state)
{
    (void)state;
    static bt_run_schedule_round whole[TRACE_MAX], rest[TRACE_MAX];
    bt_run_schedule schedule = make(2, 3, 11);
    int64_t count = play(&schedule, whole);
    bt_run_schedule_release(&schedule);
    for (int64_t stop = 0; stop <= count; ++stop) {
        bt_store_round rounds[64];
        bt_store_run run = {.rounds = rounds};
        memset(rounds, 0, sizeof rounds);
        for (int64_t i = stop; i-- > 0;) {
            bool alone = whole[i].case_index == 0;
            rounds[run.round_count++] =
                (bt_store_round){.ordinal = whole[i].ordinal,
                                 .status = BT_RUN_PASSED,
                                 .what = {.name = names[whole[i].case_index],
                                          .system = alone ? "blutrain" : systems[whole[i].system]}};
        }
        // The round in flight, one of a case that is not of the plan, and one of another system.
        rounds[run.round_count++] =
            (bt_store_round){.status = BT_RUN_INTERRUPTED, .what = {.name = "a", .system = "base"}};
        rounds[run.round_count++] =
            (bt_store_round){.status = BT_RUN_PASSED, .what = {.name = "z", .system = "base"}};
        rounds[run.round_count++] =
            (bt_store_round){.status = BT_RUN_PASSED, .what = {.name = "a", .system = "other"}};
        schedule = make(2, 3, 11);
        ASSERT_OK(bt_run_schedule_note_run(&schedule, &plan, systems, &run));
        assert_int_equal(play(&schedule, rest), count - stop);
        for (int64_t i = stop; i < count; ++i) {
            assert_int_equal(rest[i - stop].case_index, whole[i].case_index);
            assert_int_equal(rest[i - stop].system, whole[i].system);
            assert_int_equal(rest[i - stop].ordinal, whole[i].ordinal);
        }
        bt_run_schedule_release(&schedule);
    }
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    int64_t live = bt_mem_live_count();
    for (int64_t n = 1; n <= 4; ++n) {
        bt_run_schedule schedule;
        bt_mem_fail_at(n);
        ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "",
                     bt_run_schedule_make(&plan, 2, 3, ROUNDS_MAX, 1, &schedule));
        bt_mem_fail_at(0);
        bt_run_schedule_release(&schedule);
        assert_int_equal(bt_mem_live_count(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_remains_is_estimated_by_case),
        cmocka_unit_test(seed_0_is_the_order_of_the_plan),
        cmocka_unit_test(a_case_runs_only_on_the_systems_that_it_names),
        cmocka_unit_test(seeds_shuffle_and_keep_the_rules),
        cmocka_unit_test(invalid_rounds_are_run_again_at_once),
        cmocka_unit_test(failed_and_unavailable_rounds_are_settled),
        cmocka_unit_test(only_cases_that_want_more_go_on),
        cmocka_unit_test(resuming_goes_on_where_it_stopped),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
