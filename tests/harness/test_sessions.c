// tests/harness/test_sessions.c - decisions against a stored baseline of several sessions
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

#include "framework/base/rng.h"
#include "harness/stats/sessions.h"

enum { ROUNDS = 8, SESSIONS_MAX = 8, CASES = 64 };

#define CLOSE(actual, expected)                                                                    \
    do {                                                                                           \
        double close_actual = (actual), close_expected = (expected);                               \
        test_assert_close(&close_actual, &close_expected, 1, 1e-12, 1e-9, #actual);                \
    } while (0)

static const int64_t eight[SESSIONS_MAX] = {ROUNDS, ROUNDS, ROUNDS, ROUNDS,
                                            ROUNDS, ROUNDS, ROUNDS, ROUNDS};

// Five sessions of two rounds whose means are 1 to 5 per mille, one candidate session of mean
// 53 per mille: v = 2.5e-6, no more noise within the candidate than within the baseline, so
// error = sqrt(2.5e-6 (1 / 5 + 1)) with 4 degrees of freedom.
static const double base_logs[] = {0.0009, 0.0011, 0.0019, 0.0021, 0.0029,
                                   0.0031, 0.0039, 0.0041, 0.0049, 0.0051};
static const double candidate_logs[] = {0.0529, 0.0531};
static const int64_t two[] = {2, 2, 2, 2, 2};

static void the_error_is_that_of_session_means(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    const bt_sessions base = {base_logs, two, 5}, candidate = {candidate_logs, two, 1};
    bt_session_decision got = bt_sessions_decide(&rule, &base, &candidate, true);
    double error = sqrt(2.5e-6 * 1.2);
    CLOSE(got.between, sqrt(2.5e-6));
    CLOSE(got.within, sqrt(2e-8));
    CLOSE(got.freedom, 4);
    CLOSE(log(got.decision.ratio), 0.05);
    // scipy.stats.t.isf(0.025, 4), isf(0.01, 4), isf(0.05, 4)
    CLOSE(log(got.decision.low), 0.05 - 2.7764451051977934 * error);
    CLOSE(log(got.decision.lower), 0.05 - 3.7469473879791960 * error);
    CLOSE(log(got.decision.upper), 0.05 + 2.1318467863266495 * error);
    assert_int_equal(got.decision.outcome, BT_OUTCOME_SLOWER);
    assert_int_equal(got.advisory, BT_ADVISORY_NONE);
    assert_int_equal(got.decision.rounds, 2);
    assert_int_equal(got.decision.next_rounds, 0);
    assert_int_equal(got.sessions, 5);
}

// A candidate whose rounds scatter more than the baseline's is known less well.
static void noise_within_the_candidate_widens_the_error(void **state)
{
    (void)state;
    static const double wild[] = {0.033, 0.073}; // variance of the mean: 4e-4
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    const bt_sessions base = {base_logs, two, 5}, candidate = {wild, two, 1};
    bt_session_decision got = bt_sessions_decide(&rule, &base, &candidate, true);
    double shared = 2.5e-6 * 1.2, extra = 4e-4 - 1e-8;
    CLOSE(got.freedom,
          (shared + extra) * (shared + extra) / (shared * shared / 4 + extra * extra / 1));
    assert_int_equal(got.decision.outcome, BT_OUTCOME_INCONCLUSIVE);
}

// Noise within the candidate adds to the error. It must not add degrees of freedom to it: with a
// quantile far out in the tail the bounds would come closer to the mean.
static void noise_within_the_candidate_narrows_no_bound(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 2 * CASES);
    const bt_sessions base = {base_logs, two, 5};
    double low = (double)INFINITY, high = 0;
    for (double off = 0; off < 0.02; off += 0.0005) {
        double logs[ROUNDS];
        for (int i = 0; i < ROUNDS; ++i) {
            logs[i] = 0.053 + (i % 2 ? off : -off);
        }
        const bt_sessions candidate = {logs, eight, 1};
        bt_session_decision got = bt_sessions_decide(&rule, &base, &candidate, true);
        assert_true(got.freedom <= 4);
        assert_true(got.decision.family_low <= low * (1 + 1e-12));
        assert_true(got.decision.family_high >= high * (1 - 1e-12));
        low = got.decision.family_low;
        high = got.decision.family_high;
    }
}

static void few_sessions_and_another_card_are_advisory(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    const bt_sessions candidate = {candidate_logs, two, 1};
    for (int64_t count = 1; count <= 5; ++count) {
        const bt_sessions base = {base_logs, two, count};
        bt_session_decision here = bt_sessions_decide(&rule, &base, &candidate, true);
        bt_session_decision there = bt_sessions_decide(&rule, &base, &candidate, false);
        bool few = count < BT_SESSIONS_MIN;
        assert_int_equal(here.advisory, few ? BT_ADVISORY_FEW_SESSIONS : BT_ADVISORY_NONE);
        assert_int_equal(there.advisory, few ? BT_ADVISORY_FEW_SESSIONS : BT_ADVISORY_OTHER_CARD);
        assert_int_equal(there.decision.outcome, BT_OUTCOME_INCONCLUSIVE);
        assert_int_equal(here.decision.outcome == BT_OUTCOME_SLOWER, !few);
        assert_true(here.decision.ratio > 1.04 && isfinite(here.decision.low));
        assert_int_equal(isnan(here.between), count == 1);
    }
}

static void too_few_rounds_and_values_that_are_not_finite_decide_nothing(void **state)
{
    (void)state;
    static const int64_t one[] = {1, 1, 1, 1, 1};
    static const double broken[] = {(double)NAN, 0.05};
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    const bt_sessions base = {base_logs, two, 5}, single = {candidate_logs, one, 1};
    const bt_sessions singles = {base_logs, one, 5}, candidate = {candidate_logs, two, 1};
    const bt_sessions odd = {broken, two, 1}, none = {candidate_logs, two, 0};
    const struct {
        const bt_sessions *base, *candidate;
    } rows[] = {{&base, &single}, {&singles, &candidate}, {&base, &odd}, {&base, &none}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_session_decision got = bt_sessions_decide(&rule, rows[i].base, rows[i].candidate, true);
        assert_int_equal(got.decision.outcome, BT_OUTCOME_INCONCLUSIVE);
        assert_true(isnan(got.decision.ratio));
    }
}

// ---- false alarms ------------------------------------------------------------------------------

// Two of N(0, 1), by Box and Muller.
static double normal(bt_rng rng, uint64_t index)
{
    uint32_t words[4];
    bt_rng_block(rng, index, words);
    double radius = sqrt(-2 * log(((double)words[0] + 0.5) / 4294967296.0));
    return radius * cos(6.283185307179586 * ((double)words[1] / 4294967296.0));
}

// Rounds of a session: its effect, and noise that is correlated from round to round.
static void draw_session(bt_rng rng, double session_sd, double round_sd, double correlation,
                         double *logs)
{
    double effect = session_sd * normal(rng, 0), noise = normal(rng, 1);
    for (uint64_t i = 0; i < ROUNDS; ++i) {
        logs[i] = effect + round_sd * noise;
        noise = correlation * noise + sqrt(1 - correlation * correlation) * normal(rng, 2 + i);
    }
}

// Suites of equal builds in which a case was called SLOWER: by sessions, by rounds of two sessions.
static void count_alarms(double session_sd, double correlation, int suites, int *by_sessions,
                         int *by_rounds)
{
    const bt_decision_rule rule = bt_decision_rule_of(0.01, CASES);
    *by_sessions = *by_rounds = 0;
    for (int suite = 0; suite < suites; ++suite) {
        bool sessions_alarm = false, rounds_alarm = false;
        for (uint64_t item = 0; item < CASES; ++item) {
            double logs[(BT_SESSIONS_MIN + 1) * ROUNDS];
            for (uint64_t i = 0; i <= BT_SESSIONS_MIN; ++i) {
                const bt_rng rng = {(uint64_t)suite, (item << 8) + i};
                draw_session(rng, session_sd, 0.003, correlation, logs + i * ROUNDS);
            }
            const double *own = logs + BT_SESSIONS_MIN * ROUNDS;
            const bt_sessions base = {logs, eight, BT_SESSIONS_MIN}, candidate = {own, eight, 1};
            sessions_alarm = bt_sessions_decide(&rule, &base, &candidate, true).decision.outcome ==
                                 BT_OUTCOME_SLOWER ||
                             sessions_alarm;
            rounds_alarm =
                bt_decide_unpaired(&rule, logs, ROUNDS, own, ROUNDS).outcome == BT_OUTCOME_SLOWER ||
                rounds_alarm;
        }
        *by_sessions += sessions_alarm;
        *by_rounds += rounds_alarm;
    }
    printf("          session sd %.1f %%, correlation %.1f: %d of %d suites flagged by sessions, "
           "%d by rounds\n",
           100 * session_sd, correlation, *by_sessions, suites, *by_rounds);
}

static void equal_builds_of_other_days_are_not_called_slower(void **state)
{
    (void)state;
    static const struct {
        double session_sd, correlation;
        bool rounds_fail; // the rule that knows no sessions calls many suites slower
    } rows[] = {{0, 0, false},    {0.003, 0, false},  {0.005, 0, true},
                {0.008, 0, true}, {0.005, 0.6, true}, {0.02, 0.6, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        int by_sessions = 0, by_rounds = 0;
        count_alarms(rows[i].session_sd, rows[i].correlation, 300, &by_sessions, &by_rounds);
        assert_true(by_sessions <= 8); // 1 %, and Poisson's 99.6 % quantile of 3
        assert_true(!rows[i].rounds_fail || by_rounds > 150);
    }
}

// What it can find: a case 5 % slower, sessions 0.5 % apart.
static void a_large_slowdown_is_found(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    int found = 0;
    for (uint64_t play = 0; play < 200; ++play) {
        double logs[(BT_SESSIONS_MIN + 1) * ROUNDS];
        for (uint64_t i = 0; i <= BT_SESSIONS_MIN; ++i) {
            draw_session((bt_rng){play, i}, 0.005, 0.003, 0, logs + i * ROUNDS);
        }
        double *own = logs + BT_SESSIONS_MIN * ROUNDS;
        for (int i = 0; i < ROUNDS; ++i) {
            own[i] += log1p(0.05);
        }
        const bt_sessions base = {logs, eight, BT_SESSIONS_MIN}, candidate = {own, eight, 1};
        found += bt_sessions_decide(&rule, &base, &candidate, true).decision.outcome ==
                 BT_OUTCOME_SLOWER;
    }
    printf("          5 %% slower, session sd 0.5 %%: found in %d of 200\n", found);
    assert_true(found >= 170);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_is_that_of_session_means),
        cmocka_unit_test(noise_within_the_candidate_widens_the_error),
        cmocka_unit_test(noise_within_the_candidate_narrows_no_bound),
        cmocka_unit_test(few_sessions_and_another_card_are_advisory),
        cmocka_unit_test(too_few_rounds_and_values_that_are_not_finite_decide_nothing),
        cmocka_unit_test(equal_builds_of_other_days_are_not_called_slower),
        cmocka_unit_test(a_large_slowdown_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
