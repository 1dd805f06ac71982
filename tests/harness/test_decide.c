// tests/harness/test_decide.c - bounds against SciPy 1.10 and mpmath (the expression stands by
// each), and what the rule makes of them
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "harness/stats/decide.h"
#include "harness/stats/decide_json.h"
#include "harness/stats/pairs.h"
#include "harness/stats/tdist.h"

#define COUNT_OF(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))
// 1e-10: SciPy's t quantiles are right to 2e-11
#define CLOSE(actual, expected)                                                                    \
    do {                                                                                           \
        double close_actual = (actual), close_expected = (expected);                               \
        test_assert_close(&close_actual, &close_expected, 1, 1e-12, 1e-10, #actual);               \
    } while (0)

// x: log ratios of pairs, some 3 % slower; b: of a build and itself.
static const double slower[] = {0.031, 0.024, 0.028, 0.035, 0.022, 0.030, 0.027, 0.033};
static const double equal[] = {0.001, -0.004, 0.003, 0.000, 0.006, -0.002, 0.002, -0.001};

// mpmath with 40 digits: findroot(lambda t: log(betainc(v/2, 0.5, 0, v/(v + t*t),
// regularized=True)/2) - log(tail), start). SciPy's own isf is only right to some 1e-11 here.
static void quantiles_are_those_of_mpmath(void **state)
{
    (void)state;
    static const struct {
        double tail, freedom, t;
    } rows[] = {
        {0.025, 1, 12.706204736174704},
        {0.025, 2, 4.3026527297494637},
        {0.025, 7, 2.3646242515927853},
        {0.05, 7, 1.8945786050900074},
        {0.005, 23, 2.807335683769999},
        {5.555555555555556e-05, 7, 7.7550311188472074},
        {5.555555555555556e-05, 15, 5.1839685745928652},
        {5.555555555555556e-05, 23, 4.65090319541469},
        {1e-12, 3, 10331.108244292486},
        {0.3, 0.5, 1.0095258786071661},
        {0.05, 12.345, 1.7781466086094712},
        {0.01, 1000, 2.330082674755513},
        {0.9, 4, -1.5332062740589439},
    };
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        double t = bt_t_upper_quantile(rows[i].tail, rows[i].freedom);
        test_assert_close(&t, &rows[i].t, 1, 0, 1e-12, "quantile");
    }
    double many = bt_t_upper_quantile(0.01, 1e6), normal = 2.3263516031208054;
    test_assert_close(&many, &normal, 1, 0, 1e-9, "a million degrees");
    assert_true(bt_t_upper_quantile(0.5, 3) == 0.0);
    assert_true(isnan(bt_t_upper_quantile(0.0, 3)) && isnan(bt_t_upper_quantile(1.0, 3)));
    assert_true(isnan(bt_t_upper_quantile(0.1, 0)) && isnan(bt_t_upper_quantile((double)NAN, 3)));
}

// scipy.stats.t.sf(t, freedom)
static void tails_are_those_of_scipy(void **state)
{
    (void)state;
    static const struct {
        double t, freedom, tail;
    } rows[] = {
        {0, 5, 0.5},
        {1, 1, 0.25},
        {2.5, 7, 0.020496109292876437},
        {-2.5, 7, 0.97950389070712363},
        {40, 3, 1.719034039457927e-05},
        {0.001, 2.5, 0.49963819136039245},
        {8, 500, 4.3648313969401262e-15},
        {1e10, 2, 5e-21},
    };
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        double tail = bt_t_upper_tail(rows[i].t, rows[i].freedom);
        test_assert_close(&tail, &rows[i].tail, 1, 0, 1e-11, "tail");
    }
    assert_true(bt_t_upper_tail((double)INFINITY, 3) == 0.0);
    assert_true(bt_t_upper_tail(-(double)INFINITY, 3) == 1.0);
    assert_true(isnan(bt_t_upper_tail((double)NAN, 3)) && isnan(bt_t_upper_tail(1, -1)));
}

// scipy.special.betainc(a, b, x)
static void incomplete_beta_is_that_of_scipy(void **state)
{
    (void)state;
    CLOSE(bt_incomplete_beta(0.5, 0.5, 0.3), 0.36901011956554541);
    CLOSE(bt_incomplete_beta(2, 3, 0.5), 0.6875);
    CLOSE(bt_incomplete_beta(10, 0.5, 0.99), 0.65792817515678426);
    CLOSE(bt_incomplete_beta(100, 200, 0.4), 0.99168446492608575);
    assert_true(bt_incomplete_beta(3, 1, 0) == 0.0 && bt_incomplete_beta(3, 1, 1) == 1.0);
    assert_true(isnan(bt_incomplete_beta(0, 1, 0.5)) && isnan(bt_incomplete_beta(1, 1, 1.5)));
}

// The tail at its own quantile is the same number, over the whole range that decisions meet.
static void quantile_and_tail_are_inverse(void **state)
{
    (void)state;
    for (double freedom = 1; freedom < 2000; freedom *= 1.7) {
        for (double tail = 0.4; tail > 1e-14; tail /= 7) {
            double back = bt_t_upper_tail(bt_t_upper_quantile(tail, freedom), freedom);
            test_assert_close(&back, &tail, 1, 0, 1e-11, "tail");
        }
    }
}

// np.exp(x.mean() +- scipy.stats.t.isf(q, len(x) - 1) * scipy.stats.sem(x)), q of the bound
static void paired_bounds_are_those_of_scipy(void **state)
{
    (void)state;
    bt_decision_rule rule = bt_decision_rule_of(0.01, 60);
    bt_decision got = bt_decide_paired(&rule, slower, 8, 0);
    CLOSE(got.ratio, 1.02916727049335);
    CLOSE(got.low, 1.0253887196609);            // q = 0.025
    CLOSE(got.high, 1.0329597452612986);        //
    CLOSE(got.family_low, 1.0168268968884897);  // q = 0.01 / 3 / 60
    CLOSE(got.family_high, 1.0416574088429997); //
    CLOSE(got.lower, 1.0230930444201836);       // q = 0.01 / 3
    CLOSE(got.upper_sure, 1.0352775599750101);  //
    CLOSE(got.upper, 1.033405300330223);        // q = 0.05 / 3
    assert_int_equal(got.outcome, BT_OUTCOME_SLOWER);
    assert_int_equal(got.look, 1);
    assert_int_equal(got.next_rounds, 0);
    double low = 0, high = 0;
    CLOSE(bt_mean_interval(slower, 8, 0.95, &low, &high), log(1.02916727049335));
    CLOSE(low, log(1.0253887196609));
    CLOSE(high, log(1.0329597452612986));
}

// d = x[:5].mean() - b.mean(), s and the degrees of freedom (5.796) of
// scipy.stats.ttest_ind(x[:5], b, equal_var=False), np.exp(d +- t.isf(q, freedom) * s)
static void unpaired_bounds_are_those_of_scipy(void **state)
{
    (void)state;
    bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    bt_decision got = bt_decide_unpaired(&rule, equal, 8, slower, 5);
    CLOSE(got.ratio, 1.0277531379353548);
    CLOSE(got.low, 1.0212029123982154);
    CLOSE(got.high, 1.0343453780947272);
    CLOSE(got.lower, 1.0168312743650978);
    CLOSE(got.upper, 1.0351727638388284);
    assert_int_equal(got.outcome, BT_OUTCOME_SLOWER);
    assert_int_equal(got.rounds, 5);
    assert_int_equal(got.look, 0); // five rounds are fewer than the first look requires
}

static void shift(const double *from, double by, double *to)
{
    for (int i = 0; i < 8; ++i) {
        to[i] = from[i] + by;
    }
}

static void outcomes_follow_the_bounds(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    double values[8];
    assert_int_equal(bt_decide_paired(&rule, equal, 8, 0).outcome, BT_OUTCOME_SAME);
    assert_int_equal(bt_decide_paired(&rule, equal, 8, 0).next_rounds, 0);
    shift(equal, 0.012, values); // beyond the tolerance, but not surely
    bt_decision got = bt_decide_paired(&rule, values, 8, 0);
    assert_int_equal(got.outcome, BT_OUTCOME_INCONCLUSIVE);
    assert_int_equal(got.next_rounds, 16);
    shift(equal, -0.012, values); // not slower; perhaps faster
    got = bt_decide_paired(&rule, values, 8, 0);
    assert_int_equal(got.outcome, BT_OUTCOME_SAME);
    assert_int_equal(got.next_rounds, 16);
    shift(equal, -0.03, values);
    got = bt_decide_paired(&rule, values, 8, 0);
    assert_int_equal(got.outcome, BT_OUTCOME_FASTER);
    assert_int_equal(got.next_rounds, 0);
    // The sides exchanged: SLOWER becomes FASTER, with the bounds turned round.
    bt_decision there = bt_decide_paired(&rule, slower, 8, 0);
    for (int i = 0; i < 8; ++i) {
        values[i] = -slower[i];
    }
    bt_decision back = bt_decide_paired(&rule, values, 8, 0);
    assert_int_equal(back.outcome, BT_OUTCOME_FASTER);
    CLOSE(back.upper_sure, 1.0 / there.lower);
    CLOSE(back.ratio, 1.0 / there.ratio);
}

// Slower than the tolerance for one decision, but among many such a one turns up by chance.
static void a_family_asks_for_more(void **state)
{
    (void)state;
    const double wide[] = {0.07, 0.01, 0.05, 0.035, 0.06, 0.02, 0.05, 0.03};
    bt_decision_rule rule = bt_decision_rule_of(0.001, 1);
    assert_int_equal(bt_decide_paired(&rule, wide, 8, 0).outcome, BT_OUTCOME_SLOWER);
    rule.family = 1000;
    bt_decision got = bt_decide_paired(&rule, wide, 8, 0);
    assert_int_equal(got.outcome, BT_OUTCOME_INCONCLUSIVE);
    assert_true(got.lower > 1.001 && got.family_low < 1.0);
    assert_int_equal(got.next_rounds, 16);
}

static void looks_are_counted(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    static const struct {
        int64_t count, look, next_rounds;
    } rows[] = {{0, 0, 8},   {2, 0, 8},   {7, 0, 8},  {8, 1, 16}, {9, 1, 16},
                {16, 2, 24}, {23, 2, 24}, {24, 3, 0}, {30, 3, 0}};
    double values[30];
    for (int i = 0; i < 30; ++i) {
        values[i] = i % 2 ? 0.4 : -0.38; // never decided
    }
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        bt_decision got = bt_decide_paired(&rule, values, rows[i].count, 0);
        assert_int_equal(got.look, rows[i].look);
        assert_int_equal(got.next_rounds, rows[i].next_rounds);
        assert_int_equal(got.outcome, BT_OUTCOME_INCONCLUSIVE);
        assert_int_equal(got.rounds, rows[i].count);
    }
}

static void looks_are_limited(void **state)
{
    (void)state;
    static const struct {
        int64_t most, count, looks[3];
    } rows[] = {{24, 3, {8, 16, 24}}, {12, 2, {8, 12, 0}},  {8, 1, {8, 0, 0}},
                {5, 1, {5, 0, 0}},    {40, 3, {8, 16, 40}}, {0, 1, {2, 0, 0}}};
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
        bt_decision_rule_limit(&rule, rows[i].most);
        assert_int_equal(rule.look_count, rows[i].count);
        assert_memory_equal(rule.looks, rows[i].looks, sizeof(int64_t) * (size_t)rows[i].count);
    }
}

static void what_is_not_known_decides_nothing(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    const double bad[] = {0.0, (double)NAN, 0.001}, endless[] = {0.0, (double)INFINITY, 0.0};
    bt_decision got[] = {
        bt_decide_paired(&rule, NULL, 0, 0),          bt_decide_paired(&rule, bad, 3, 0),
        bt_decide_paired(&rule, endless, 3, 0),       bt_decide_unpaired(&rule, equal, 8, bad, 3),
        bt_decide_unpaired(&rule, NULL, 0, equal, 8),
    };
    for (int64_t i = 0; i < COUNT_OF(got); ++i) {
        assert_int_equal(got[i].outcome, BT_OUTCOME_INCONCLUSIVE);
        assert_true(isnan(got[i].ratio) && isnan(got[i].low) && isnan(got[i].upper));
    }
    bt_decision one = bt_decide_paired(&rule, slower, 1, 0);
    assert_int_equal(one.outcome, BT_OUTCOME_INCONCLUSIVE);
    CLOSE(one.ratio, exp(0.031));
    assert_true(isnan(one.low));
}

static void equal_values_decide_at_once(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.01, 60);
    const double same[] = {0, 0}, more[] = {0.02, 0.02}, less[] = {-0.02, -0.02};
    assert_int_equal(bt_decide_paired(&rule, same, 2, 0).outcome, BT_OUTCOME_SAME);
    assert_int_equal(bt_decide_paired(&rule, more, 2, 0).outcome, BT_OUTCOME_SLOWER);
    assert_int_equal(bt_decide_paired(&rule, less, 2, 0).outcome, BT_OUTCOME_FASTER);
    assert_int_equal(bt_decide_unpaired(&rule, same, 2, more, 2).outcome, BT_OUTCOME_SLOWER);
    CLOSE(bt_decide_unpaired(&rule, same, 2, more, 2).low, exp(0.02));
}

// max of scipy.stats.ttest_ind(right + margin, left, equal_var=False, alternative='greater') and
// ttest_ind(right - margin, left, equal_var=False, alternative='less'); interval with q = 0.05
static void equivalence_is_that_of_scipy(void **state)
{
    (void)state;
    const double left[] = {3.281, 3.284, 3.279, 3.283, 3.280};
    const double right[] = {3.282, 3.286, 3.281, 3.279};
    bt_equivalence got = bt_equivalence_test(left, 5, right, 4, 0.01, 0.05);
    CLOSE(got.p, 0.0012737228032024708);
    CLOSE(got.difference, 0.0005999999999999339);
    CLOSE(got.low, -0.002871102878818089);
    CLOSE(got.high, 0.004071102878817957);
    assert_true(got.equivalent);
    got = bt_equivalence_test(left, 5, right, 4, 0.003, 0.05);
    CLOSE(got.p, 0.11187414016622024);
    assert_false(got.equivalent);
    got = bt_equivalence_test(left, 1, right, 4, 10, 0.05); // one seed shows nothing
    assert_true(isnan(got.p) && !got.equivalent);
    const double flat[] = {3, 3}, higher[] = {3.5, 3.5}, bad[] = {3, (double)NAN};
    assert_true(bt_equivalence_test(flat, 2, flat, 2, 0.1, 0.05).equivalent);
    assert_false(bt_equivalence_test(flat, 2, higher, 2, 0.1, 0.05).equivalent);
    assert_false(bt_equivalence_test(flat, 2, bad, 2, 0.1, 0.05).equivalent);
}

static void words_and_defaults(void **state)
{
    (void)state;
    CLOSE(bt_blind_share(24), 0.125);
    CLOSE(bt_blind_share(2), 1.0);
    assert_int_equal(bt_decision_rule_of(0.01, 0).family, 1);
}

// `count` pairs that are equal but for noise, of which `bad` have a slow candidate and `bad_base` a
// slow base.
static bt_decision decide_with_bad(const bt_decision_rule *rule, int64_t count, int bad,
                                   int bad_base, double slow)
{
    double values[24];
    for (int64_t i = 0; i < count; ++i) {
        values[i] = equal[i % 8];
    }
    for (int i = 0; i < bad; ++i) {
        values[3 + i] += log1p(slow);
    }
    for (int i = 0; i < bad_base; ++i) {
        values[count - 1 - i] -= log1p(slow);
    }
    return bt_decide_paired(rule, values, count, 0);
}

// With a tolerance of 20 % the t bound lets one round of eight that took 40 % longer pass as SAME.
static void a_bad_round_is_never_the_same_without_more_rounds(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        int bad, bad_base;
        double slow;
        bt_outcome outcome;
        bt_doubt doubt;
        int64_t next_rounds;
    } rows[] = {
        {8, 0, 0, 0.4, BT_OUTCOME_SAME, BT_DOUBT_NONE, 0},
        {8, 1, 0, 0.4, BT_OUTCOME_INCONCLUSIVE, BT_DOUBT_BAD_ROUND, 16},
        {8, 1, 1, 0.4, BT_OUTCOME_INCONCLUSIVE, BT_DOUBT_BAD_ROUND, 16},
        {16, 1, 1, 0.4, BT_OUTCOME_INCONCLUSIVE, BT_DOUBT_BAD_ROUND, 24},
        {24, 1, 0, 0.4, BT_OUTCOME_INCONCLUSIVE, BT_DOUBT_BAD_ROUND, 0}, // not explained
        {24, 1, 1, 0.4, BT_OUTCOME_SAME, BT_DOUBT_NONE, 0},              // the machine does it
        {24, 2, 1, 0.4, BT_OUTCOME_SAME, BT_DOUBT_NONE, 0},
        {24, 3, 1, 0.4, BT_OUTCOME_INCONCLUSIVE, BT_DOUBT_BAD_ROUND, 0},
        {8, 0, 1, 0.9, BT_OUTCOME_INCONCLUSIVE, BT_DOUBT_MIXTURE, 16}, // of the base
        {24, 0, 1, 0.9, BT_OUTCOME_SAME, BT_DOUBT_NONE, 0},
        {24, 1, 0, 0.29, BT_OUTCOME_SAME, BT_DOUBT_NONE, 0},
    };
    bt_decision_rule rule = bt_decision_rule_of(0.2, 1);
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        bt_decision got =
            decide_with_bad(&rule, rows[i].count, rows[i].bad, rows[i].bad_base, rows[i].slow);
        if (got.outcome != rows[i].outcome || got.doubt != rows[i].doubt) {
            fail_msg("row %d: outcome %d, doubt %d", (int)i, (int)got.outcome, (int)got.doubt);
        }
        assert_int_equal(got.next_rounds, rows[i].next_rounds);
    }
    bt_decision got = decide_with_bad(&rule, 24, 3, 1, 0.4);
    assert_int_equal(got.bad_candidate, 3);
    assert_int_equal(got.bad_base, 1);
    assert_true(fabs(got.worst - 1.4) < 0.01);
    bt_decision_rule_limit(&rule, 8); // one look only: no more rounds that could explain it
    got = decide_with_bad(&rule, 8, 1, 1, 0.4);
    assert_int_equal(got.outcome, BT_OUTCOME_INCONCLUSIVE);
    assert_int_equal(got.next_rounds, 0);
    rule.bad_ratio = 0; // as rules of version 1 were
    assert_int_equal(decide_with_bad(&rule, 8, 1, 0, 0.4).outcome, BT_OUTCOME_SAME);
}

// A round whose pair was lost to noise has no part in the mean. It is still not passed over.
static void a_lone_bad_round_is_seen(void **state)
{
    (void)state;
    const double nan = (double)NAN;
    double base[26], candidate[26], logs[26];
    int64_t lone = 0;
    bt_decision_rule rule = bt_decision_rule_of(0.2, 1);
    for (int i = 0; i < 26; ++i) {
        base[i] = i % 2 ? 5.01 : 5.0; // the lower median is 5
        candidate[i] = base[i] + equal[i % 8];
    }
    base[3] = nan;
    candidate[3] = 5.0 + log(1.3); // exactly 30 %
    assert_int_equal(bt_pairs_of(base, candidate, 9, logs, &lone), 8);
    assert_int_equal(lone, 1);
    CLOSE(logs[8], log(1.3));
    CLOSE(logs[3], equal[4]);
    bt_decision got = bt_decide_paired(&rule, logs, 8, lone);
    assert_int_equal(got.outcome, BT_OUTCOME_INCONCLUSIVE);
    assert_int_equal(got.doubt, BT_DOUBT_BAD_ROUND);
    assert_int_equal(got.next_rounds, 16);
    assert_int_equal(got.rounds, 8);
    const bt_decision without = bt_decide_paired(&rule, logs, 8, 0);
    assert_int_equal(without.outcome, BT_OUTCOME_SAME);
    assert_true(got.ratio == without.ratio && got.upper == without.upper);
    // All looks, and a lone round of the base as bad: the machine does it.
    assert_int_equal(bt_pairs_of(base, candidate, 25, logs, &lone), 24);
    assert_int_equal(bt_decide_paired(&rule, logs, 24, lone).doubt, BT_DOUBT_BAD_ROUND);
    candidate[25] = nan;
    base[25] = 5.5;
    assert_int_equal(bt_pairs_of(base, candidate, 26, logs, &lone), 24);
    assert_int_equal(lone, 2);
    assert_true(logs[25] < -0.45);
    assert_int_equal(bt_decide_paired(&rule, logs, 24, lone).outcome, BT_OUTCOME_SAME);
    // Nothing to compare it with.
    assert_int_equal(bt_pairs_of(&(double){nan}, &(double){1.0}, 1, logs, &lone), 0);
    assert_int_equal(lone, 0);
}

// 130 over 100 is 30 % in a rule's words, whatever their logarithms round to.
static void exactly_the_limit_is_bad(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.2, 1);
    double values[8];
    for (double time = 1; time < 1e4; time *= 1.37) {
        shift(equal, 0, values);
        values[3] = log(1.3 * time) - log(time);
        assert_int_equal(bt_decide_paired(&rule, values, 8, 0).doubt, BT_DOUBT_BAD_ROUND);
    }
}

static void a_mixture_does_not_end_early(void **state)
{
    (void)state;
    const bt_decision_rule rule = bt_decision_rule_of(0.02, 1);
    bt_decision got = decide_with_bad(&rule, 8, 1, 0, 0.065);
    assert_int_equal(got.outcome, BT_OUTCOME_INCONCLUSIVE);
    got = decide_with_bad(&rule, 16, 1, 0, 0.065);
    assert_int_equal(got.doubt, BT_DOUBT_MIXTURE);
    assert_int_equal(got.next_rounds, 24);
    assert_int_equal(decide_with_bad(&rule, 24, 1, 0, 0.065).outcome, BT_OUTCOME_SAME);
    assert_int_equal(decide_with_bad(&rule, 16, 1, 0, 0.03).outcome, BT_OUTCOME_SAME);
    // Groups: each side about its own median, bad rounds about the base's.
    double wide[16], slow[16];
    const bt_decision_rule lax = bt_decision_rule_of(0.2, 1);
    for (int i = 0; i < 16; ++i) {
        wide[i] = slow[i] = equal[i % 8];
    }
    slow[5] += log(1.35);
    assert_int_equal(bt_decide_unpaired(&lax, wide, 16, wide, 16).outcome, BT_OUTCOME_SAME);
    assert_int_equal(bt_decide_unpaired(&lax, wide, 16, slow, 16).doubt, BT_DOUBT_BAD_ROUND);
    assert_int_equal(bt_decide_unpaired(&lax, wide, 8, slow, 8).doubt, BT_DOUBT_BAD_ROUND);
    assert_int_equal(bt_decide_unpaired(&rule, slow, 16, wide, 16).outcome,
                     BT_OUTCOME_INCONCLUSIVE);
}

static void rules_survive_json(void **state)
{
    (void)state;
    bt_decision_rule rule = bt_decision_rule_of(0.005, 63), back;
    bt_str text = {0};
    bt_json_writer json = {.out = &text};
    bt_json_writer_open(&json, NULL, '{');
    bt_decision_rule_write(&rule, &json);
    bt_json_writer_close(&json, '}');
    ASSERT_OK(bt_str_status(&text));
    assert_string_equal(bt_str_text(&text),
                        "{\"tolerance\":0.005,\"alpha\":0.01,\"miss\":0.05,\"bad_ratio\":1.3,"
                        "\"far_spreads\":6,\"family\":63,\"looks\":[8,16,24]}");
    cJSON *tree = cJSON_Parse(bt_str_text(&text));
    bt_str_release(&text);
    ASSERT_OK(bt_decision_rule_read(tree, &back));
    cJSON_Delete(tree);
    assert_memory_equal(&rule, &back, sizeof rule);
    // A rule of version 1 has no guards.
    tree = cJSON_Parse("{\"tolerance\":0.005,\"alpha\":0.01,\"miss\":0.05,\"family\":63,"
                       "\"looks\":[8,16,24]}");
    ASSERT_OK(bt_decision_rule_read(tree, &back));
    cJSON_Delete(tree);
    assert_true(back.bad_ratio == 0.0);
}

static void bad_rules_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"{}", "\"tolerance\""},
        {"{\"tolerance\":-1}", "\"tolerance\""},
        {"{\"tolerance\":0.01,\"alpha\":\"0.01\"}", "\"alpha\""},
        {"{\"tolerance\":0.01,\"alpha\":0.01,\"miss\":0}", "\"miss\""},
        {"{\"tolerance\":0.01,\"alpha\":0.01,\"miss\":0.1,\"family\":0}", "\"family\""},
        {"{\"tolerance\":0.01,\"alpha\":0.01,\"miss\":0.1,\"family\":1,\"looks\":[]}", "1 to 8"},
        {"{\"tolerance\":0.01,\"alpha\":0.01,\"miss\":0.1,\"family\":1,\"looks\":[8,8]}",
         "number 2"},
        {"{\"tolerance\":0.01,\"alpha\":0.01,\"miss\":0.1,\"family\":1,\"looks\":[1]}", "number 1"},
    };
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        bt_decision_rule rule;
        cJSON *tree = cJSON_Parse(rows[i].text);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, rows[i].words, bt_decision_rule_read(tree, &rule));
        cJSON_Delete(tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_mpmath),
        cmocka_unit_test(tails_are_those_of_scipy),
        cmocka_unit_test(incomplete_beta_is_that_of_scipy),
        cmocka_unit_test(quantile_and_tail_are_inverse),
        cmocka_unit_test(paired_bounds_are_those_of_scipy),
        cmocka_unit_test(unpaired_bounds_are_those_of_scipy),
        cmocka_unit_test(outcomes_follow_the_bounds),
        cmocka_unit_test(a_family_asks_for_more),
        cmocka_unit_test(looks_are_counted),
        cmocka_unit_test(looks_are_limited),
        cmocka_unit_test(what_is_not_known_decides_nothing),
        cmocka_unit_test(equal_values_decide_at_once),
        cmocka_unit_test(equivalence_is_that_of_scipy),
        cmocka_unit_test(words_and_defaults),
        cmocka_unit_test(a_bad_round_is_never_the_same_without_more_rounds),
        cmocka_unit_test(a_lone_bad_round_is_seen),
        cmocka_unit_test(exactly_the_limit_is_bad),
        cmocka_unit_test(a_mixture_does_not_end_early),
        cmocka_unit_test(rules_survive_json),
        cmocka_unit_test(bad_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
