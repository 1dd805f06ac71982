// tests/harness/test_decide_rates.c - how often the gate is right, over simulated suites
//
//   harness_decide_rates_test [SUITES]     so many suites of 64 cases per world; 4 by default
//
// Rounds are simulated step by step (worlds.h) and go the way of real ones: bt_gate_sides_of_run
// sums them up, bt_gate_rule_write states the rule under a policy with all defaults, bt_gate_judge
// decides, and a case continues to as many pairs as the verdict requires, as in 'ab'. Against a
// baseline of five sessions it is the same with the baseline's sides. What is printed is the table
// of harness/stats/RATES.md. Seeded: equal on every machine but for the last digits of logarithms.
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/gate/gate.h"
#include "tests/harness/worlds.h"

enum { CASES = 64, METRICS = 2, SUITES = 4 };

#define ALPHA     0.01 // of a suite, the default policy's
#define BAD_RATIO 1.3

static int suites = SUITES;
static bt_policy policy;
static world_case simulated; // too large for the stack

// ---- worlds ------------------------------------------------------------------------------------

// Nothing changed.
static const world nulls[] = {
    {.name = "independent, normal"},
    {.name = "rounds differ, sd 10 %, tolerance 0.01 %", .round = 0.1, .tolerance = 1e-4},
    {.name = "heavy tails (t, 3 degrees)", .tails = true},
    {.name = "drift 2 %", .drift = 0.02},
    {.name = "random walk 0.2 %", .walk = 0.002},
    {.name = "autocorrelation 0.3, sd 1.2 %", .rho = 0.3},
    {.name = "autocorrelation 0.6, sd 1.2 %", .rho = 0.6},
    {.name = "autocorrelation 0.95, sd 1.2 %", .rho = 0.95},
    {.name = "sessions differ, sd 0.2 %", .session = 0.002},
    {.name = "sessions differ, sd 0.8 %", .session = 0.008},
    {.name = "two cards, sd 1 %", .session = 0.003, .card = 0.01},
    {.name = "half of the rounds +3 %", .gap = 0.03},
    {.name = "2 % of the rounds +150 %", .stalls = 0.02, .stalled = 1.5},
    {.name = "10 % of the rounds +30 %", .stalls = 0.1, .stalled = 0.3},
    {.name = "the same, tolerance 10 %", .stalls = 0.1, .stalled = 0.3, .tolerance = 0.1},
    {.name = "the same, tolerance 20 %", .stalls = 0.1, .stalled = 0.3, .tolerance = 0.2},
};

// The candidate is slower.
static const world changes[] = {
    {.name = "+0.5 % (the tolerance)", .slower = 0.005},
    {.name = "+1 %", .slower = 0.01},
    {.name = "+1 %, heavy tails", .slower = 0.01, .tails = true},
    {.name = "+1 %, drift 2 %", .slower = 0.01, .drift = 0.02},
    {.name = "+1 %, autocorrelation 0.95", .slower = 0.01, .rho = 0.95},
    {.name = "+3 %", .slower = 0.03},
    {.name = "+3 %, half of the rounds +3 %", .slower = 0.03, .gap = 0.03},
    {.name = "+3 %, sessions differ, sd 0.3 %", .slower = 0.03, .session = 0.003},
    {.name = "10 % of the rounds +30 %", .bad_share = 0.1, .bad = 0.3},
    {.name = "the same, tolerance 10 %", .bad_share = 0.1, .bad = 0.3, .tolerance = 0.1},
    {.name = "2 % of the rounds +150 %", .bad_share = 0.02, .bad = 1.5},
    {.name = "the same, tolerance 10 %", .bad_share = 0.02, .bad = 1.5, .tolerance = 0.1},
};

// ---- judging -----------------------------------------------------------------------------------

typedef struct tally {
    int64_t cases, words[BT_GATE_WORD_COUNT]; // of totals
    int64_t p95_slower;
    int64_t suites_slower, suites_faster; // in which anything is so called
    int64_t rounds;                       // of the candidate
    int64_t blind;                        // SAME that do not state their blind spot
    int64_t bad, unexplained;             // cases with a bad round; SAME without an explanation
} tally;

static void judge(const bt_gate_sides *sides, const bt_gate_sides *recorded, const world *of,
                  bt_gate_metric metric, bool other_card, bt_gate_verdict *out)
{
    bt_gate_rule rule = bt_policy_rule(&policy, "case", metric, true, (double)NAN);
    bt_str text = {0};
    rule.tolerance = of->tolerance > 0 ? of->tolerance : rule.tolerance;
    bt_rule terms = bt_rule_of(&policy, &rule, metric, "fp32", CASES * METRICS);
    terms.presence = BT_GATE_PRESENCE_BOTH;
    terms.bench = "worlds";
    terms.name = "case";
    terms.candidate = "candidate";
    terms.base = recorded ? "" : "base";
    terms.baseline = "main";
    terms.baseline_digest = "";
    terms.baseline_system = recorded ? recorded->items[0].system : "";
    terms.other_card = other_card;
    terms.calibration = (bt_gate_calibration){.false_alarm_limit = 1, .smallest_limit = 1};
    ASSERT_OK(bt_rule_write(&terms, &text));
    ASSERT_OK(bt_gate_judge(sides, recorded, bt_str_text(&text), out));
    bt_str_release(&text);
}

// Bad rounds of a side, by the numbers of the simulation: slower than the pair by 30 % or more.
static int count_bad(const bt_store_run *run, const char *slow)
{
    int count = 0;
    for (int64_t i = 0; i + 1 < run->round_count; i += 2) {
        const bt_store_round *first = &run->rounds[i], *second = &run->rounds[i + 1];
        bool is_first = strcmp(first->what.system, slow) == 0;
        double ratio = world_round_mean(second) / world_round_mean(first);
        count += (is_first ? 1 / ratio : ratio) >= BAD_RATIO;
    }
    return count;
}

static void take(const bt_gate_verdict *total, const bt_gate_verdict *p95, tally *out,
                 bool alarms[2])
{
    ++out->cases;
    ++out->words[total->word];
    out->p95_slower += p95->word == BT_GATE_SLOWER;
    out->rounds += total->rounds;
    out->blind += total->word == BT_GATE_SAME &&
                  !(fabs(total->blind_share - 3.0 / (double)total->rounds) <= 1e-12);
    alarms[0] = alarms[0] || total->word == BT_GATE_SLOWER || p95->word == BT_GATE_SLOWER;
    alarms[1] = alarms[1] || total->word == BT_GATE_FASTER || p95->word == BT_GATE_FASTER;
}

static void play_pairs(const world *of, uint64_t seed, tally *out, bool alarms[2])
{
    bt_gate_verdict total = {.next_rounds = 8}, p95 = {0};
    world_case_begin(&simulated, of, seed);
    while (total.next_rounds > 0) {
        bt_arena arena = {0};
        bt_gate_sides sides;
        world_case_pairs(&simulated, total.next_rounds);
        ASSERT_OK(bt_gate_sides_of_run(&simulated.run, &arena, &sides));
        judge(&sides, NULL, of, BT_GATE_STEP_TIME, false, &total);
        if (total.next_rounds == 0) {
            judge(&sides, NULL, of, BT_GATE_STEP_TIME_P95, false, &p95);
        }
        bt_arena_release(&arena);
    }
    take(&total, &p95, out, alarms);
    int bad = count_bad(&simulated.run, "candidate");
    bool explained = total.rounds > 8 && 2 * count_bad(&simulated.run, "base") >= bad;
    out->bad += bad > 0;
    out->unexplained += bad > 0 && total.word == BT_GATE_SAME && !explained;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// The same of rounds [from, to) against the median of the base's.
static int count_bad_rounds(const bt_store_run *run, int64_t from, int64_t to)
{
    enum { BASE = WORLD_SESSIONS * WORLD_SESSION_ROUNDS };
    double base[BASE];
    int count = 0;
    for (int64_t i = 0; i < BASE; ++i) {
        base[i] = world_round_mean(&run->rounds[i]);
    }
    qsort(base, BASE, sizeof base[0], by_value);
    for (int64_t i = from; i < to; ++i) {
        count += world_round_mean(&run->rounds[i]) / base[(BASE - 1) / 2] >= BAD_RATIO;
    }
    return count;
}

// The base's side with its rounds in sessions, as a baseline's document reads.
static void play_sessions(const world *of, uint64_t seed, tally *out, bool alarms[2])
{
    bt_gate_verdict total, p95;
    bt_arena arena = {0};
    bt_gate_sides sides;
    bt_gate_round rounds[WORLD_SESSIONS * WORLD_SESSION_ROUNDS];
    world_case_begin(&simulated, of, seed);
    for (int i = 0; i < WORLD_SESSIONS; ++i) {
        world_case_session(&simulated, "base", WORLD_SESSION_ROUNDS, false);
    }
    bool other_card = of->card > 0;
    world_case_session(&simulated, "candidate", WORLD_SESSION_ROUNDS, other_card);
    for (int64_t i = 0; i < WORLD_SESSIONS * WORLD_SESSION_ROUNDS; ++i) {
        simulated.rounds[i].ordinal = i;
    }
    ASSERT_OK(bt_gate_sides_of_run(&simulated.run, &arena, &sides));
    bt_gate_side base = *bt_gate_side_find(&sides, "worlds", "case", "base");
    assert_int_equal(base.round_count, WORLD_SESSIONS * WORLD_SESSION_ROUNDS);
    for (int64_t i = 0; i < base.round_count; ++i) {
        rounds[i] = base.rounds[i];
        rounds[i].session = i / WORLD_SESSION_ROUNDS;
    }
    base.rounds = rounds;
    const bt_gate_sides recorded = {&base, 1};
    judge(&sides, &recorded, of, BT_GATE_STEP_TIME, other_card, &total);
    judge(&sides, &recorded, of, BT_GATE_STEP_TIME_P95, other_card, &p95);
    assert_true(!other_card || total.word == BT_GATE_ADVISORY);
    take(&total, &p95, out, alarms);
    int64_t base_rounds = base.round_count, end = simulated.run.round_count;
    int bad = count_bad_rounds(&simulated.run, base_rounds, end);
    int bad_base = count_bad_rounds(&simulated.run, 0, base_rounds);
    bool explained = 2 * bad_base * WORLD_SESSION_ROUNDS >= bad * base_rounds;
    out->bad += bad > 0;
    out->unexplained += bad > 0 && total.word == BT_GATE_SAME && !explained;
    bt_arena_release(&arena);
}

// ---- tallies -----------------------------------------------------------------------------------

static double percent(int64_t part, int64_t whole) { return 100.0 * (double)part / (double)whole; }

static void print_row(const world *of, const char *rule, const tally *got)
{
    printf("| %s | %s | %.1f | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f |\n", of->name, rule,
           percent(got->suites_slower, suites), percent(got->suites_faster, suites),
           percent(got->words[BT_GATE_SLOWER], got->cases), percent(got->p95_slower, got->cases),
           percent(got->words[BT_GATE_SAME] + got->words[BT_GATE_FASTER], got->cases),
           percent(got->words[BT_GATE_INCONCLUSIVE], got->cases),
           percent(got->words[BT_GATE_ADVISORY], got->cases),
           (double)got->rounds / (double)got->cases);
}

typedef void (*play_case)(const world *of, uint64_t seed, tally *out, bool alarms[2]);

static tally play(const world *of, play_case play_one)
{
    tally out = {0};
    for (int suite = 0; suite < suites; ++suite) {
        bool alarms[2] = {false, false};
        for (int i = 0; i < CASES; ++i) {
            play_one(of, (uint64_t)(suite * CASES + i) + 1, &out, alarms);
        }
        out.suites_slower += alarms[0];
        out.suites_faster += alarms[1];
    }
    print_row(of, play_one == play_pairs ? "pairs" : "sessions", &out);
    return out;
}

// The most alarms that `suites` suites may have if each has one with probability ALPHA: more would
// come in one run of a thousand.
static int64_t most_alarms(void)
{
    double term = pow(1 - ALPHA, suites), below = term;
    int64_t most = 0;
    while (below < 0.999) {
        term *= (double)(suites - most) / (double)(most + 1) * ALPHA / (1 - ALPHA);
        below += term;
        ++most;
    }
    return most;
}

static void check_always(const tally *got)
{
    assert_int_equal(got->blind, 0);
    assert_int_equal(got->unexplained, 0);
}

// ---- tests -------------------------------------------------------------------------------------

static void nulls_raise_no_alarms(void **state)
{
    (void)state;
    printf("\n| machine, no change | rule | suites SLOWER %% | suites FASTER %% | SLOWER %% | p95 "
           "SLOWER %% | SAME, FASTER %% | INCONCLUSIVE %% | ADVISORY %% | rounds |\n"
           "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; ++i) {
        static const play_case both[] = {play_pairs, play_sessions};
        for (int j = 0; j < 2; ++j) {
            tally got = play(&nulls[i], both[j]);
            assert_true(got.suites_slower <= most_alarms());
            assert_true(got.suites_faster <= most_alarms());
            check_always(&got);
        }
    }
}

static void changes_are_found(void **state)
{
    (void)state;
    printf("\n| change of the candidate | rule | suites SLOWER %% | suites FASTER %% | SLOWER %% | "
           "p95 SLOWER %% | SAME, FASTER %% | INCONCLUSIVE %% | ADVISORY %% | rounds |\n"
           "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; ++i) {
        const world *of = &changes[i];
        tally pairs = play(of, play_pairs);
        tally sessions = play(of, play_sessions);
        check_always(&pairs);
        check_always(&sessions);
        assert_int_equal(pairs.suites_faster, 0);
        if (of->bad_share > 0) { // the guard had something to do
            assert_true(pairs.bad > pairs.cases / 10);
        }
        if (of->slower >= 0.01 && !of->tails && of->rho <= 0 && of->gap <= 0) {
            assert_true(pairs.words[BT_GATE_SLOWER] > pairs.cases * 9 / 10);
        }
    }
}

// A slowdown that leaves the median where it was.
static void slow_steps_are_never_the_same(void **state)
{
    (void)state;
    static const world of = {.name = "40 % of the steps +10 %", .step_share = 0.4, .steps = 0.1};
    tally pairs = play(&of, play_pairs), sessions = play(&of, play_sessions);
    assert_int_equal(pairs.words[BT_GATE_SAME], 0);
    assert_int_equal(sessions.words[BT_GATE_SAME], 0);
    assert_true(pairs.words[BT_GATE_SLOWER] > pairs.cases * 9 / 10);
    assert_true(pairs.p95_slower > pairs.cases * 9 / 10);
}

// The check can fail: taken one by one, without the family, some 1 % of the cases have an alarm.
static void without_the_family_suites_are_flagged(void **state)
{
    (void)state;
    static const world noisy = {.name = "noisy", .round = 0.03, .tolerance = 1e-4};
    int64_t flagged = 0;
    for (uint64_t item = 0; item < CASES * 8; ++item) {
        bt_arena arena = {0};
        bt_gate_sides sides;
        double logs[WORLD_PAIRS];
        world_case_begin(&simulated, &noisy, 900000 + item);
        world_case_pairs(&simulated, WORLD_PAIRS);
        ASSERT_OK(bt_gate_sides_of_run(&simulated.run, &arena, &sides));
        for (int i = 0; i < WORLD_PAIRS; ++i) {
            logs[i] = log(sides.items[1].rounds[i].values[BT_GATE_STEP_TIME] /
                          sides.items[0].rounds[i].values[BT_GATE_STEP_TIME]);
        }
        bt_decision_rule rule = bt_decision_rule_of(noisy.tolerance, 1);
        bool slower = false;
        for (int64_t look = 0; look < rule.look_count; ++look) {
            slower = slower || bt_decide_paired(&rule, logs, rule.looks[look], 0).outcome ==
                                   BT_OUTCOME_SLOWER;
        }
        flagged += slower;
        bt_arena_release(&arena);
    }
    assert_true(flagged > 2); // of 512 that are judged one by one, each with 1 %
}

int main(int argc, char **argv)
{
    static const char text[] = "{\"name\":\"defaults\"}";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nulls_raise_no_alarms),
        cmocka_unit_test(changes_are_found),
        cmocka_unit_test(slow_steps_are_never_the_same),
        cmocka_unit_test(without_the_family_suites_are_flagged),
    };
    suites = argc > 1 ? atoi(argv[1]) : SUITES;
    if (suites < 1 || bt_policy_parse("defaults", text, sizeof text - 1, &policy) != BT_OK) {
        fprintf(stderr, "usage: %s [SUITES]\n", argv[0]);
        return 2;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bt_policy_release(&policy);
    return failed;
}
