// tests/harness/test_loss.c - the three tiers of loss curves: what each accepts, and what it must
// reject, on curves of a real training
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/rng.h"
#include "harness/stats/loss.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 24, SEEDS = 4 };

typedef struct curve {
    bt_store_step steps[STEPS + 1];
    int64_t count;
    char digest[33];
} curve;

// What was trained, once for all tests.
static struct {
    curve plain, threads, split_2, split_4, rate, dropped;
    curve baseline_seeds[SEEDS], candidate_seeds[SEEDS];
    curve half_rate[SEEDS]; // learns worse by more than any margin here
} trained;

static bt_status on_step(void *self, const bt_train_step *event)
{
    curve *to = self;
    to->steps[to->count++] = (bt_store_step){
        .step = event->step, .loss = event->loss, .tokens = event->tokens, .host_ns = 1};
    return BT_OK;
}

static bt_status train(const bt_train_plan *plan, curve *out)
{
    bt_train_result result;
    const bt_train_observer observer = {.self = out, .step = on_step};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_train_run(plan, &observer, &result));
    memcpy(out->digest, result.state_digest, sizeof out->digest);
    return BT_OK;
}

static bt_train_plan plan_of(uint64_t seed)
{
    bt_train_plan plan = small_train_plan();
    plan.steps = STEPS;
    plan.eval_every = 0;
    plan.profile_steps = 0;
    plan.seed = seed;
    return plan;
}

static bt_status train_seeds(void)
{
    for (uint64_t i = 0; i < SEEDS; i++) {
        bt_train_plan plan = plan_of(100 + i);
        BT_TRY(train(&plan, &trained.baseline_seeds[i]));
        plan = plan_of(200 + i);
        plan.micro_batch = 4; // as other kernels might
        BT_TRY(train(&plan, &trained.candidate_seeds[i]));
        plan = plan_of(300 + i);
        plan.optimizer.lr /= 2;
        BT_TRY(train(&plan, &trained.half_rate[i]));
    }
    return BT_OK;
}

static bt_status train_all(void)
{
    bt_train_plan plan = plan_of(1337);
    omp_set_num_threads(1);
    BT_TRY(train(&plan, &trained.plain));
    omp_set_num_threads(2);
    BT_TRY(train(&plan, &trained.threads));
    omp_set_num_threads(1);
    plan.micro_batch = 2; // the same sequences a step, summed in another order
    BT_TRY(train(&plan, &trained.split_2));
    plan.micro_batch = 4;
    BT_TRY(train(&plan, &trained.split_4));
    plan = plan_of(1337);
    plan.optimizer.lr *= 1.02;
    plan.optimizer.min_lr *= 1.02;
    BT_TRY(train(&plan, &trained.rate));
    plan = plan_of(1337);
    plan.tokens_per_step /= 2; // the second micro-batch of each step is dropped ...
    BT_TRY(train(&plan, &trained.dropped));
    for (int64_t i = 0; i < trained.dropped.count; i++) {
        trained.dropped.steps[i].tokens *= 2; // ... and it is not reported
    }
    return train_seeds();
}

static int set_up(void **state)
{
    if (small_corpus_write(state) != 0) {
        return 1;
    }
    bt_status status = train_all();
    if (status != BT_OK) {
        printf("%s\n", bt_error_message());
    }
    return status != BT_OK;
}

static bt_loss_curve of(const curve *from)
{
    return (bt_loss_curve){from->steps, from->count, from->digest, 1};
}

static void expect(bt_loss_word word, int64_t step, const bt_loss_verdict *verdict,
                   const char *what)
{
    if (verdict->word != word || verdict->step != step || !verdict->reason[0]) {
        fail_msg("%s: expected %d at step %lld, got %d at step %lld: %s", what, (int)word,
                 (long long)step, (int)verdict->word, (long long)verdict->step, verdict->reason);
    }
}

// ---- corruptions -------------------------------------------------------------------------------

static void flip_bit(curve *self, int64_t step, unsigned bit)
{
    uint32_t bits = 0;
    memcpy(&bits, &self->steps[step].loss, sizeof bits);
    bits ^= UINT32_C(1) << bit;
    memcpy(&self->steps[step].loss, &bits, sizeof bits);
}

static void flip_last_bit(curve *self) { flip_bit(self, 17, 0); }

static void flip_high_bit(curve *self) { flip_bit(self, 17, 18); } // an eighth of a nat or so

static void drift(curve *self)
{
    for (int64_t i = 0; i < self->count; i++) {
        self->steps[i].loss += (float)i * 0.0005F;
    }
}

static void drift_far(curve *self)
{
    for (int64_t i = 0; i < self->count; i++) {
        self->steps[i].loss += (float)i * 0.03F;
    }
}

static void spike(curve *self) { self->steps[9].loss += 5.0F; }

static void put_nan(curve *self) { self->steps[13].loss = NAN; }

static void put_infinity(curve *self) { self->steps[0].loss = INFINITY; }

static void shift(curve *self)
{
    for (int64_t i = 0; i + 1 < self->count; i++) {
        self->steps[i].loss = self->steps[i + 1].loss;
    }
}

static void truncate_it(curve *self) { self->count -= 5; }

static void lengthen(curve *self)
{
    self->steps[self->count] = self->steps[self->count - 1];
    self->steps[self->count++].step++;
}

static void skip_a_step(curve *self)
{
    self->count--;
    memmove(&self->steps[6], &self->steps[7], (size_t)(self->count - 6) * sizeof self->steps[0]);
}

static void other_tokens(curve *self) { self->steps[3].tokens /= 2; }

static void empty(curve *self) { self->count = 0; }

static void other_parameters(curve *self) { self->digest[0] = self->digest[0] == '0' ? '1' : '0'; }

typedef struct corruption {
    const char *name;
    void (*corrupt)(curve *self);
    int64_t bitwise, numeric; // step at which the tier must reject it; SEEN_NOT: it cannot see it
} corruption;

enum { SEEN_NOT = -2 };

static const corruption corruptions[] = {
    {"one flipped bit", flip_last_bit, 17, SEEN_NOT},
    {"a high flipped bit", flip_high_bit, 17, 17},
    {"drift", drift, 1, 1},
    {"spike", spike, 9, 9},
    {"NaN", put_nan, 13, 13},
    {"infinity", put_infinity, 0, 0},
    {"shifted by a step", shift, 0, 0},
    {"truncated", truncate_it, STEPS - 5, STEPS - 5},
    {"too long", lengthen, STEPS, STEPS},
    {"a step missing", skip_a_step, 7, 7},
    {"other tokens", other_tokens, 3, 3},
    {"empty", empty, 0, 0},
    {"other parameters", other_parameters, -1, SEEN_NOT},
};
enum { CORRUPTIONS = sizeof corruptions / sizeof corruptions[0] };

// ---- bitwise -----------------------------------------------------------------------------------

static void bitwise_accepts_the_same_bits(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    bt_loss_curve plain = of(&trained.plain), threads = of(&trained.threads);
    bt_loss_check_bitwise(&plain, &threads, &verdict); // another thread count, a real run
    expect(BT_LOSS_PASS, -1, &verdict, "threads");
}

static void bitwise_rejects(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    bt_loss_curve plain = of(&trained.plain);
    for (int i = 0; i < CORRUPTIONS; i++) {
        curve bad = trained.plain;
        corruptions[i].corrupt(&bad);
        bt_loss_curve candidate = of(&bad);
        bt_loss_check_bitwise(&plain, &candidate, &verdict);
        expect(BT_LOSS_FAIL, corruptions[i].bitwise, &verdict, corruptions[i].name);
    }
    // The first loss is of the same parameters; from the second on, the rate matters.
    bt_loss_curve rate = of(&trained.rate), dropped = of(&trained.dropped);
    bt_loss_check_bitwise(&plain, &rate, &verdict);
    expect(BT_LOSS_FAIL, 1, &verdict, "rate");
    assert_true(verdict.value == (double)trained.rate.steps[1].loss);
    assert_true(verdict.low == (double)trained.plain.steps[1].loss && verdict.low == verdict.high);
    bt_loss_check_bitwise(&plain, &dropped, &verdict);
    expect(BT_LOSS_FAIL, 0, &verdict, "dropped micro-batch");
}

static void bitwise_says_what_it_does_not_know(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    curve unknown = trained.plain, nan = trained.plain;
    unknown.digest[0] = '\0';
    bt_loss_curve plain = of(&trained.plain), candidate = of(&unknown), none = {0};
    bt_loss_check_bitwise(&plain, &candidate, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, -1, &verdict, "no digest");
    assert_non_null(strstr(verdict.reason, "candidate's digest"));
    candidate = plain;
    candidate.params_digest = "state:00112233445566778899aabbccddeeff"; // of more than parameters
    bt_loss_check_bitwise(&plain, &candidate, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, -1, &verdict, "digests of different things");
    assert_non_null(strstr(verdict.reason, "cannot be compared"));
    bt_loss_check_bitwise(&none, &plain, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, -1, &verdict, "no baseline");
    put_nan(&nan);
    candidate = of(&nan);
    bt_loss_check_bitwise(&candidate, &candidate, &verdict); // equal, and broken
    expect(BT_LOSS_FAIL, 13, &verdict, "NaN on both sides");
}

// ---- numeric -----------------------------------------------------------------------------------

static void numeric_accepts_another_order_of_sums(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    const bt_loss_rule rule = bt_loss_rule_default("fp32");
    const bt_loss_curve runs[] = {of(&trained.plain), of(&trained.split_2), of(&trained.split_4)};
    for (int i = 0; i < 3; i++) {
        bt_loss_check_numeric(&runs[0], 1, &runs[i], &rule, &verdict); // declared tolerance
        expect(BT_LOSS_PASS, -1, &verdict, "one baseline run");
        bt_loss_check_numeric(runs, 3, &runs[i], &rule, &verdict);
        expect(BT_LOSS_PASS, -1, &verdict, "envelope");
    }
    // They do differ, or this would show nothing.
    bt_loss_check_bitwise(&runs[0], &runs[1], &verdict);
    assert_int_equal(verdict.word, BT_LOSS_FAIL);
}

static void numeric_rejects(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    const bt_loss_rule rule = bt_loss_rule_default("fp32");
    const bt_loss_curve runs[] = {of(&trained.plain), of(&trained.split_2), of(&trained.split_4)};
    for (int i = 0; i < CORRUPTIONS; i++) {
        curve bad = trained.plain;
        corruptions[i].corrupt(&bad);
        bt_loss_curve candidate = of(&bad);
        bool seen = corruptions[i].numeric != SEEN_NOT;
        for (int64_t count = 1; count <= 3; count += 2) {
            bt_loss_check_numeric(runs, count, &candidate, &rule, &verdict);
            expect(seen ? BT_LOSS_FAIL : BT_LOSS_PASS, seen ? corruptions[i].numeric : -1, &verdict,
                   corruptions[i].name);
        }
    }
    bt_loss_curve rate = of(&trained.rate), dropped = of(&trained.dropped);
    for (int64_t count = 1; count <= 3; count += 2) {
        bt_loss_check_numeric(runs, count, &rate, &rule, &verdict);
        expect(BT_LOSS_FAIL, 1, &verdict, "rate");
        assert_true(verdict.value < verdict.low && verdict.low < verdict.high);
        bt_loss_check_numeric(runs, count, &dropped, &rule, &verdict);
        expect(BT_LOSS_FAIL, 0, &verdict, "dropped micro-batch");
    }
}

static void numeric_says_when_the_baseline_is_unfit(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    const bt_loss_rule rule = bt_loss_rule_default("fp32");
    bt_loss_curve plain = of(&trained.plain), none = {0};
    curve shorter = trained.plain, nan = trained.plain;
    truncate_it(&shorter);
    put_nan(&nan);
    const bt_loss_curve uneven[] = {plain, of(&shorter), plain};
    const bt_loss_curve broken[] = {plain, plain, of(&nan)};
    bt_loss_check_numeric(uneven, 3, &plain, &rule, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, -1, &verdict, "uneven");
    bt_loss_check_numeric(broken, 3, &plain, &rule, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, 13, &verdict, "broken");
    bt_loss_check_numeric(&none, 1, &plain, &rule, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, -1, &verdict, "none");
}

// Whether a candidate passes that has the first run's losses but for one step.
static bool allows(const bt_loss_curve *runs, int64_t count, const bt_loss_rule *rule, int step,
                   double loss)
{
    bt_loss_verdict verdict;
    curve candidate = {.count = (int)runs[0].count};
    memcpy(candidate.steps, runs[0].steps, (size_t)runs[0].count * sizeof candidate.steps[0]);
    candidate.steps[step].loss = (float)loss;
    const bt_loss_curve of_candidate = of(&candidate);
    bt_loss_check_numeric(runs, count, &of_candidate, rule, &verdict);
    return verdict.word == BT_LOSS_PASS;
}

static void expect_envelope(const bt_loss_curve *runs, int64_t count, const bt_loss_rule *rule,
                            const double low[3], const double high[3])
{
    for (int step = 0; step < 3; step++) {
        assert_true(allows(runs, count, rule, step, low[step] + 1e-5));
        assert_false(allows(runs, count, rule, step, low[step] - 1e-5));
        assert_true(allows(runs, count, rule, step, high[step] - 1e-5));
        assert_false(allows(runs, count, rule, step, high[step] + 1e-5));
    }
}

static void tolerance_and_envelope_follow_their_rules(void **state)
{
    (void)state;
    bt_loss_rule rule = {
        .start = 0.01, .growth = 0.5, .limit = 0.018, .widen = 2.0, .margin_nats = 1.0};
    curve a = {.count = 3}, b = {.count = 3}, c = {.count = 3};
    const float losses[3][3] = {{2.0F, 2.0F, 1.0F}, {2.0F, 2.1F, 1.0F}, {2.0F, 1.9F, 1.0F}};
    curve *curves[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++) {
        for (int step = 0; step < 3; step++) {
            curves[i]->steps[step] = (bt_store_step){.step = step, .loss = losses[i][step]};
        }
    }
    const bt_loss_curve runs[] = {of(&a), of(&b), of(&c)};
    // 1 % at step 0, 1.5 % at step 1, 2 % at step 2 but for the limit of 1.8 %.
    expect_envelope(runs, 1, &rule, (double[]){1.98, 1.97, 0.982}, (double[]){2.02, 2.03, 1.018});
    // Twice the range of 0.2 at step 1, which holds for the first eight steps.
    expect_envelope(runs, 3, &rule, (double[]){1.6, 1.6, 0.6}, (double[]){2.4, 2.4, 1.4});
}

// The numeric tier must allow less than the statistical one, at every step and loss.
static void the_numeric_tier_is_tighter_than_the_statistical(void **state)
{
    (void)state;
    static const char *const precisions[] = {"fp32", "tf32", "bf16"};
    static const float losses[] = {11.0F, 6.0F, 3.3F, 2.5F};
    bt_loss_verdict verdict;
    for (int p = 0; p < 3; p++) {
        bt_loss_rule rule = bt_loss_rule_default(precisions[p]);
        for (int64_t step = 0; step < 20000; step += 37) {
            bt_store_step at = {.step = step, .loss = losses[step % 4]};
            bt_loss_curve run = {.steps = &at, .count = 1};
            // What the statistical margin would let pass at a stretch is rejected in one step.
            bt_store_step off = at;
            off.loss += (float)(0.6 * rule.margin_nats);
            bt_loss_curve candidate = {.steps = &off, .count = 1};
            bt_loss_check_numeric(&run, 1, &candidate, &rule, &verdict);
            assert_int_equal(verdict.word, BT_LOSS_FAIL);
        }
    }
}

// Runs of the baseline that differ by more than the tier may allow cannot carry it.
static void wide_baselines_are_inconclusive(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    const bt_loss_rule rule = bt_loss_rule_default("bf16");
    curve runs[3] = {trained.plain, trained.plain, trained.plain};
    runs[1].steps[4].loss += 0.01F; // times 4: +-0.04 nats
    const bt_loss_curve baseline[] = {of(&runs[0]), of(&runs[1]), of(&runs[2])};
    bt_loss_check_numeric(baseline, 3, &baseline[0], &rule, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, 0, &verdict, "a wide baseline");
    assert_non_null(strstr(verdict.reason, "statistical"));
    runs[1].steps[4].loss -= 0.005F; // +-0.02
    bt_loss_check_numeric(baseline, 3, &baseline[0], &rule, &verdict);
    expect(BT_LOSS_PASS, -1, &verdict, "a baseline that carries it");
}

// Deviations that walk, as rounding's do: how often is one more run of the same kind rejected?
// Three runs give a range of few degrees of freedom, hence the 2 %; with five it is far less.
static void numeric_seldom_rejects_a_run_like_the_others(void **state)
{
    (void)state;
    enum { TRIALS = 2000, RUNS = 5, LENGTH = STEPS };
    const bt_loss_rule rule = bt_loss_rule_default("fp32");
    static float noise[TRIALS * (RUNS + 1) * LENGTH];
    bt_rng_normal_fill((bt_rng){11, 1}, noise, TRIALS * (RUNS + 1) * LENGTH, 0.0, 1e-4);
    int rejected[2] = {0};
    for (int trial = 0; trial < TRIALS; trial++) {
        curve curves[RUNS + 1] = {0};
        bt_loss_curve runs[RUNS + 1];
        bt_loss_verdict verdict;
        for (int run = 0; run <= RUNS; run++) {
            double walk = 0.0;
            curves[run].count = LENGTH;
            for (int i = 0; i < LENGTH; i++) {
                walk += (double)noise[(trial * (RUNS + 1) + run) * LENGTH + i];
                curves[run].steps[i] =
                    (bt_store_step){.step = i, .loss = (float)(4.0 - 0.05 * i + walk)};
            }
            runs[run] = of(&curves[run]);
        }
        for (int k = 0; k < 2; k++) {
            bt_loss_check_numeric(runs, k ? RUNS : 3, &runs[RUNS], &rule, &verdict);
            rejected[k] += verdict.word == BT_LOSS_FAIL;
        }
    }
    if (!(rejected[0] <= TRIALS / 50) || !(rejected[1] <= TRIALS / 1000)) {
        fail_msg("%d and %d of %d rejected", rejected[0], rejected[1], TRIALS);
    }
}

// ---- statistical -------------------------------------------------------------------------------

static void seeds_of(const curve *from, bt_loss_curve out[SEEDS])
{
    for (int i = 0; i < SEEDS; i++) {
        out[i] = of(&from[i]);
    }
}

static bt_loss_rule seeds_rule(void)
{
    bt_loss_rule rule = bt_loss_rule_default("fp32");
    rule.margin_nats = 0.1;
    return rule;
}

static void statistical_accepts_other_seeds(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    bt_loss_curve baseline[SEEDS], candidate[SEEDS];
    const bt_loss_rule rule = seeds_rule();
    seeds_of(trained.baseline_seeds, baseline);
    seeds_of(trained.candidate_seeds, candidate);
    bt_loss_check_statistical(baseline, SEEDS, candidate, SEEDS, &rule, &verdict);
    expect(BT_LOSS_PASS, -1, &verdict, "seeds");
    bt_loss_check_statistical(baseline, SEEDS, candidate, 1, &rule, &verdict);
    expect(BT_LOSS_CONSISTENT, -1, &verdict, "one seed");
    bt_loss_check_statistical(baseline, 1, candidate, SEEDS, &rule, &verdict);
    expect(BT_LOSS_CONSISTENT, -1, &verdict, "one seed of the baseline");
    bt_loss_check_statistical(baseline, 1, candidate, 1, &rule, &verdict);
    expect(BT_LOSS_CONSISTENT, -1, &verdict, "one seed per side");
}

static void statistical_rejects(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*corrupt)(curve *self);
        int64_t step;
    } cases[] = {{"drift", drift_far, 11}, // the second quarter is where it leaves the margin
                 {"spike", spike, 11},
                 {"NaN", put_nan, 13},
                 {"infinity", put_infinity, 0},
                 {"truncated", truncate_it, STEPS - 6}};
    bt_loss_verdict verdict;
    bt_loss_curve baseline[SEEDS], candidate[SEEDS];
    const bt_loss_rule rule = seeds_rule();
    seeds_of(trained.baseline_seeds, baseline);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        curve bad[SEEDS];
        memcpy(bad, trained.candidate_seeds, sizeof bad);
        for (int i = 0; i < SEEDS; i++) {
            cases[k].corrupt(&bad[i]);
        }
        seeds_of(bad, candidate);
        bt_loss_check_statistical(baseline, SEEDS, candidate, SEEDS, &rule, &verdict);
        expect(BT_LOSS_FAIL, cases[k].step, &verdict, cases[k].name);
        bt_loss_check_statistical(baseline, SEEDS, candidate, 1, &rule, &verdict);
        expect(BT_LOSS_FAIL, cases[k].step, &verdict, cases[k].name);
    }
    seeds_of(trained.half_rate, candidate);
    bt_loss_check_statistical(baseline, SEEDS, candidate, SEEDS, &rule, &verdict);
    assert_int_equal(verdict.word, BT_LOSS_FAIL);
    assert_true(verdict.value > verdict.high);
}

static void statistical_is_inconclusive_rather_than_wrong(void **state)
{
    (void)state;
    bt_loss_verdict verdict;
    bt_loss_curve baseline[SEEDS], candidate[SEEDS];
    bt_loss_rule rule = seeds_rule();
    seeds_of(trained.baseline_seeds, baseline);
    seeds_of(trained.candidate_seeds, candidate);
    rule.margin_nats = 0.001; // seeds differ by more than that
    bt_loss_check_statistical(baseline, SEEDS, candidate, SEEDS, &rule, &verdict);
    assert_int_equal(verdict.word, BT_LOSS_INCONCLUSIVE);
    rule = seeds_rule();
    bt_loss_check_statistical(baseline, 0, candidate, 1, &rule, &verdict);
    assert_int_equal(verdict.word, BT_LOSS_INCONCLUSIVE);
    rule.segments = 0;
    bt_loss_check_statistical(baseline, SEEDS, candidate, SEEDS, &rule, &verdict);
    assert_int_equal(verdict.word, BT_LOSS_INCONCLUSIVE);
    rule = seeds_rule();
    candidate[2] = candidate[1]; // the same run twice is not a second seed
    bt_loss_check_statistical(baseline, SEEDS, candidate, SEEDS, &rule, &verdict);
    expect(BT_LOSS_INCONCLUSIVE, -1, &verdict, "one run twice");
    curve tiny = {.count = 2};
    tiny.steps[0] = (bt_store_step){.step = 0, .loss = 1.0F, .tokens = 10};
    tiny.steps[1] = (bt_store_step){.step = 1, .loss = 1.0F, .tokens = 10};
    bt_loss_curve one = of(&tiny);
    bt_loss_check_statistical(&one, 1, &one, 1, &rule, &verdict);
    assert_int_equal(verdict.word, BT_LOSS_INCONCLUSIVE);
    assert_non_null(strstr(verdict.reason, "fewer steps than 4 segments"));
}

// Against a t distribution integrated by Simpson's rule in Python: of {3.00, 3.02, 2.98, 3.01} and
// {3.03, 3.00, 3.07, 3.02} the means differ by 0.0275, Welch's freedom is 4.813803, and the 90 %
// interval's far end is 0.062085; of one seed of the latter the prediction is +-0.060766.
static void statistical_agrees_with_worked_values(void **state)
{
    (void)state;
    static const float losses[2][4] = {{3.00F, 3.02F, 2.98F, 3.01F}, {3.03F, 3.00F, 3.07F, 3.02F}};
    curve curves[2][4] = {0};
    bt_loss_curve sides[2][4];
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 4; i++) {
            curves[side][i].count = 1;
            curves[side][i].steps[0] = (bt_store_step){.loss = losses[side][i], .tokens = 8};
            sides[side][i] = of(&curves[side][i]);
        }
    }
    bt_loss_verdict verdict;
    bt_loss_rule rule = {.alpha = 0.05, .segments = 1};
    const struct {
        double margin;
        int64_t candidates;
        float shift;
        bt_loss_word word;
    } cases[] = {
        {0.06210, 4, 0.0F, BT_LOSS_PASS},        {0.06207, 4, 0.0F, BT_LOSS_INCONCLUSIVE},
        {0.18320, 4, 0.2F, BT_LOSS_FAIL},        {0.18330, 4, 0.2F, BT_LOSS_INCONCLUSIVE},
        {0.11676, 1, 0.15F, BT_LOSS_CONSISTENT}, {0.11670, 1, 0.15F, BT_LOSS_FAIL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        rule.margin_nats = cases[k].margin;
        for (int i = 0; i < 4; i++) {
            curves[1][i].steps[0].loss = losses[1][i] + cases[k].shift;
        }
        bt_loss_check_statistical(sides[0], 4, sides[1], cases[k].candidates, &rule, &verdict);
        if (verdict.word != cases[k].word) {
            fail_msg("margin %g: %d: %s", cases[k].margin, (int)verdict.word, verdict.reason);
        }
    }
}

static void words_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"bitwise", "numeric", "statistical"};
    for (int i = 0; i < BT_LOSS_TIER_COUNT; i++) {
        bt_loss_tier tier = BT_LOSS_TIER_COUNT;
        assert_true(bt_loss_tier_parse(names[i], &tier));
        assert_int_equal(tier, i);
    }
    bt_loss_tier tier = BT_LOSS_TIER_COUNT;
    assert_false(bt_loss_tier_parse("exact", &tier));
    assert_true(bt_loss_rule_default("bf16").start > bt_loss_rule_default("fp32").start);
    assert_true(bt_loss_rule_default(NULL).start == bt_loss_rule_default("fp32").start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bitwise_accepts_the_same_bits),
        cmocka_unit_test(bitwise_rejects),
        cmocka_unit_test(bitwise_says_what_it_does_not_know),
        cmocka_unit_test(numeric_accepts_another_order_of_sums),
        cmocka_unit_test(numeric_rejects),
        cmocka_unit_test(numeric_says_when_the_baseline_is_unfit),
        cmocka_unit_test(tolerance_and_envelope_follow_their_rules),
        cmocka_unit_test(the_numeric_tier_is_tighter_than_the_statistical),
        cmocka_unit_test(wide_baselines_are_inconclusive),
        cmocka_unit_test(numeric_seldom_rejects_a_run_like_the_others),
        cmocka_unit_test(statistical_accepts_other_seeds),
        cmocka_unit_test(statistical_rejects),
        cmocka_unit_test(statistical_is_inconclusive_rather_than_wrong),
        cmocka_unit_test(statistical_agrees_with_worked_values),
        cmocka_unit_test(words_have_names),
    };
    return cmocka_run_group_tests(tests, set_up, small_corpus_remove);
}
