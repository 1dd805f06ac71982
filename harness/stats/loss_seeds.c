// harness/stats/loss_seeds.c - the statistical tier: independent seeds at fixed tokens
//
// A curve becomes one number per segment of the tokens, its mean loss there. Two one-sided tests at
// alpha are the same as an interval of 1 - 2 alpha inside the margins; that all segments pass needs
// no correction (each must), that one fails does (any may).
#include <math.h>

#include "framework/base/idioms.h"
#include "harness/stats/decide.h"
#include "harness/stats/loss_internal.h"
#include "harness/stats/tdist.h"

typedef struct seeds {
    const bt_loss_curve *curves;
    int64_t count;
    const char *whose;
} seeds;

static int64_t tokens_of(const bt_loss_curve *curve)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < curve->count; i++) {
        sum += curve->steps[i].tokens;
    }
    return sum;
}

// ---- one number per curve and segment ----------------------------------------------------------

typedef struct segmenting {
    int64_t tokens;   // that all curves have
    int64_t segments; // equal shares of them
} segmenting;

// Mean loss over the tokens of the steps that end in the segment; NaN if there are none.
static double segment_mean(const segmenting *how, const bt_loss_curve *curve, int64_t segment,
                           int64_t *last_step)
{
    double from = (double)how->tokens * (double)segment / (double)how->segments;
    double to = (double)how->tokens * (double)(segment + 1) / (double)how->segments;
    double sum = 0.0, weight = 0.0;
    int64_t done = 0;
    BT_EACH(const bt_store_step, step, curve->steps, curve->count) {
        done += step->tokens;
        if ((double)done > from && (double)done <= to) {
            sum += (double)step->loss * (double)step->tokens;
            weight += (double)step->tokens;
            *last_step = step->step;
        }
    }
    return weight > 0.0 ? sum / weight : (double)NAN;
}

typedef struct sample {
    double values[BT_LOSS_RUNS_MAX]; // a mean loss per curve
    int64_t count, last_step;
    double mean;
} sample;

static sample sample_of(const segmenting *how, const seeds *side, int64_t segment)
{
    sample out = {.count = side->count};
    for (int64_t i = 0; i < side->count; i++) {
        out.values[i] = segment_mean(how, &side->curves[i], segment, &out.last_step);
        out.mean += out.values[i] / (double)out.count;
    }
    return out;
}

// ---- the tests ---------------------------------------------------------------------------------

// Half the width of the interval in which the difference is expected when one side has one seed,
// from the spread of the other; 0 when neither has a spread.
static double prediction_half(const sample *a, const sample *b, double tail)
{
    const sample *many = a->count > 1 ? a : b;
    double variance = 0.0, freedom = (double)many->count - 1.0;
    if (many->count < 2) {
        return 0.0;
    }
    for (int64_t i = 0; i < many->count; i++) {
        double off = many->values[i] - many->mean;
        variance += off * off / freedom;
    }
    return bt_t_upper_quantile(tail, freedom) *
           sqrt(variance * (1.0 / (double)a->count + 1.0 / (double)b->count));
}

static void say_segment(bt_loss_verdict *out, bt_loss_word word, int64_t step, double difference,
                        double low, double high, double margin, const char *what)
{
    bt_loss_say(out, word, step,
                "mean loss up to step %lld differs by %.4g nats [%.4g, %.4g], margin %.4g: %s",
                (long long)step, difference, low, high, margin, what);
    out->value = difference;
    out->low = -margin;
    out->high = margin;
}

static void check_seeds(const sample *base, const sample *got, const bt_loss_rule *rule,
                        bt_loss_verdict *out)
{
    double margin = rule->margin_nats, strict = rule->alpha / (double)rule->segments / 2.0;
    bt_equivalence test = bt_equivalence_test(base->values, base->count, got->values, got->count,
                                              margin, rule->alpha);
    bt_equivalence far =
        bt_equivalence_test(base->values, base->count, got->values, got->count, margin, strict);
    bool outside = far.low > margin || far.high < -margin;
    const bt_equivalence *shown = outside ? &far : &test;
    say_segment(out,
                test.equivalent ? BT_LOSS_PASS
                : outside       ? BT_LOSS_FAIL
                                : BT_LOSS_INCONCLUSIVE,
                got->last_step, test.difference, shown->low, shown->high, margin,
                test.equivalent ? "equal"
                : outside       ? "not equal"
                                : "too few seeds to decide");
}

static void check_one_seed(const sample *base, const sample *got, const bt_loss_rule *rule,
                           bt_loss_verdict *out)
{
    double margin = rule->margin_nats, difference = got->mean - base->mean;
    double half = prediction_half(base, got, rule->alpha / (double)rule->segments / 2.0);
    bool inside = fabs(difference) <= margin + half, known = base->count + got->count > 2;
    say_segment(out,
                inside  ? BT_LOSS_CONSISTENT
                : known ? BT_LOSS_FAIL
                        : BT_LOSS_INCONCLUSIVE,
                got->last_step, difference, difference - half, difference + half, margin,
                inside  ? "one seed, consistent with equal"
                : known ? "outside of the spread of seeds"
                        : "one seed per side, so the spread of seeds is unknown");
}

static void check_segment(const sample *base, const sample *got, const bt_loss_rule *rule,
                          bt_loss_verdict *out)
{
    if (!isfinite(base->mean) || !isfinite(got->mean)) {
        bt_loss_say(out, BT_LOSS_INCONCLUSIVE, got->last_step, "fewer steps than %lld segments",
                    (long long)rule->segments);
    } else if (base->count > 1 && got->count > 1) {
        check_seeds(base, got, rule, out);
    } else {
        check_one_seed(base, got, rule, out);
    }
}

// Severity of a verdict, to keep the worst of all segments; the first among equals.
static int rank(bt_loss_word word)
{
    return word == BT_LOSS_FAIL ? 2 : word == BT_LOSS_INCONCLUSIVE ? 1 : 0;
}

// ---- preconditions ------------------------------------------------------------------------------

// Two runs with the same losses are one run, not two seeds.
static bool are_independent(const seeds *side, bt_loss_verdict *out)
{
    for (int64_t a = 0; a < side->count; a++) {
        for (int64_t b = a + 1; b < side->count; b++) {
            const bt_loss_curve *left = &side->curves[a], *right = &side->curves[b];
            bool same = left->count == right->count;
            for (int64_t i = 0; same && i < left->count; i++) {
                same = bt_loss_bits(left->steps[i].loss) == bt_loss_bits(right->steps[i].loss);
            }
            if (same) {
                bt_loss_say(
                    out, BT_LOSS_INCONCLUSIVE, -1,
                    "runs %lld and %lld of the %s are identical: their seeds are not independent",
                    (long long)a + 1, (long long)b + 1, side->whose);
                return false;
            }
        }
    }
    return true;
}

static bool are_usable(const seeds *base, const seeds *got, const bt_loss_rule *rule,
                       int64_t *tokens, bt_loss_verdict *out)
{
    *tokens = 0;
    if (base->count < 1 || got->count < 1 || base->count > BT_LOSS_RUNS_MAX ||
        got->count > BT_LOSS_RUNS_MAX || rule->segments < 1) {
        bt_loss_say(out, BT_LOSS_INCONCLUSIVE, -1,
                    "%lld and %lld runs in %lld segments; allowed: 1 to %d runs a side, at least "
                    "one segment",
                    (long long)base->count, (long long)got->count, (long long)rule->segments,
                    (int)BT_LOSS_RUNS_MAX);
        return false;
    }
    for (int64_t i = 0; i < base->count; i++) {
        int64_t these = tokens_of(&base->curves[i]);
        *tokens = i == 0 || these < *tokens ? these : *tokens;
        if (!bt_loss_all_finite(&base->curves[i], base->whose, BT_LOSS_INCONCLUSIVE, out)) {
            return false;
        }
    }
    for (int64_t i = 0; i < got->count; i++) {
        const bt_loss_curve *curve = &got->curves[i];
        if (!bt_loss_all_finite(curve, got->whose, BT_LOSS_FAIL, out)) {
            return false;
        }
        if (tokens_of(curve) < *tokens) {
            bt_loss_say(out, BT_LOSS_FAIL, curve->count ? curve->steps[curve->count - 1].step : -1,
                        "run %lld ends after %lld tokens; the baseline has %lld", (long long)i + 1,
                        (long long)tokens_of(curve), (long long)*tokens);
            return false;
        }
    }
    return are_independent(base, out) && are_independent(got, out);
}

void bt_loss_check_statistical(const bt_loss_curve *baseline, int64_t baseline_count,
                               const bt_loss_curve *candidate, int64_t candidate_count,
                               const bt_loss_rule *rule, bt_loss_verdict *out)
{
    const seeds base = {baseline, baseline_count, "baseline"};
    const seeds got = {candidate, candidate_count, "candidate"};
    segmenting how = {.segments = rule->segments};
    if (!are_usable(&base, &got, rule, &how.tokens, out)) {
        return;
    }
    for (int64_t segment = 0; segment < how.segments; segment++) {
        bt_loss_verdict one;
        sample of_base = sample_of(&how, &base, segment);
        sample of_got = sample_of(&how, &got, segment);
        check_segment(&of_base, &of_got, rule, &one);
        if (segment == 0 || rank(one.word) > rank(out->word)) {
            *out = one;
        }
    }
    if (rank(out->word) == 0) {
        out->step = -1; // no violation
    }
}
