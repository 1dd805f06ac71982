// harness/stats/loss.c - the bitwise and numeric tiers, and code shared by all tiers
#include "harness/stats/loss.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/find.h"
#include "harness/stats/loss_internal.h"

// ---- words and rules ---------------------------------------------------------------------------

static const char *const tiers[] = {
#define TIER_WORD(name, word) word,
    BT_LOSS_TIER_LIST(TIER_WORD)
#undef TIER_WORD
};

bool bt_loss_tier_parse(const char *name, bt_loss_tier *tier)
{
    const int64_t at = BT_FIND_WORD(tiers, BT_LOSS_TIER_COUNT, name);
    if (at >= 0) {
        *tier = (bt_loss_tier)at;
    }
    return at >= 0;
}

// start: several roundings of the operands, averaged over many tokens; growth: what a step's
// difference adds to the next; limit: the maximum after any number of steps. All are bounded by
// half the statistical margin: 0.025 nats, 0.75 % of a loss of 3.3.
bt_loss_rule bt_loss_rule_default(const char *precision)
{
    static const struct {
        const char *precision;
        double start, growth, limit;
    } rows[] = {
        {"fp32", 1e-6, 1.0, 5e-3}, {"tf32", 5e-5, 0.1, 7.5e-3}, {"bf16", 3e-4, 0.05, 7.5e-3}};
    size_t chosen = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        chosen = precision && strcmp(precision, rows[i].precision) == 0 ? i : chosen;
    }
    return (bt_loss_rule){.start = rows[chosen].start,
                          .growth = rows[chosen].growth,
                          .limit = rows[chosen].limit,
                          .widen = 4.0,
                          .margin_nats = 0.05,
                          .alpha = 0.05,
                          .segments = 4};
}

bt_loss_curve bt_loss_curve_of(const bt_store_round *round)
{
    return (bt_loss_curve){round->steps, round->step_count, round->params_digest, 1};
}

// ---- shared ------------------------------------------------------------------------------------

uint32_t bt_loss_bits(float loss)
{
    uint32_t bits = 0;
    memcpy(&bits, &loss, sizeof bits);
    return bits;
}

void bt_loss_say(bt_loss_verdict *out, bt_loss_word word, int64_t step, const char *format, ...)
{
    va_list arguments;
    *out = (bt_loss_verdict){.word = word, .step = step};
    out->value = out->low = out->high = (double)NAN;
    va_start(arguments, format);
    (void)vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
}

static int64_t first_not_finite(const bt_loss_curve *curve)
{
    for (int64_t i = 0; i < curve->count; i++) {
        if (!isfinite(curve->steps[i].loss)) {
            return i;
        }
    }
    return -1;
}

bool bt_loss_all_finite(const bt_loss_curve *curve, const char *whose, bt_loss_word word,
                        bt_loss_verdict *out)
{
    int64_t at = first_not_finite(curve);
    if (at < 0) {
        return true;
    }
    const bt_store_step *step = &curve->steps[at];
    bt_loss_say(out, word, step->step, "step %lld: the %s's loss is %f", (long long)step->step,
                whose, (double)step->loss);
    out->value = (double)step->loss;
    return false;
}

// Whether step i is the same in both: its number and its tokens.
static bool same_step(const bt_store_step *expected, const bt_store_step *got, bt_loss_verdict *out)
{
    if (expected->step == got->step && expected->tokens == got->tokens) {
        return true;
    }
    bt_loss_say(out, BT_LOSS_FAIL, got->step,
                "step %lld of %lld tokens, expected step %lld of %lld tokens as in the baseline",
                (long long)got->step, (long long)got->tokens, (long long)expected->step,
                (long long)expected->tokens);
    return false;
}

static bool same_length(const bt_loss_curve *baseline, const bt_loss_curve *candidate,
                        bt_loss_verdict *out)
{
    if (baseline->count == candidate->count) {
        return true;
    }
    bt_loss_say(out, BT_LOSS_FAIL,
                baseline->count < candidate->count ? baseline->count : candidate->count,
                "%lld steps; the baseline has %lld", (long long)candidate->count,
                (long long)baseline->count);
    return false;
}

// ---- bitwise -----------------------------------------------------------------------------------

static bool same_bits(const bt_store_step *expected, const bt_store_step *got, bt_loss_verdict *out)
{
    if (bt_loss_bits(expected->loss) == bt_loss_bits(got->loss)) {
        return true;
    }
    bt_loss_say(out, BT_LOSS_FAIL, got->step, "step %lld: loss %a; the baseline has %a",
                (long long)got->step, (double)got->loss, (double)expected->loss);
    out->value = (double)got->loss;
    out->low = out->high = (double)expected->loss;
    return false;
}

bool bt_digest_is_of_state(const char *digest)
{
    return strncmp(digest, BT_STATE_DIGEST_PREFIX, sizeof BT_STATE_DIGEST_PREFIX - 1) == 0;
}

bool bt_digests_comparable(const char *a, const char *b)
{
    return *a && *b && bt_digest_is_of_state(a) == bt_digest_is_of_state(b);
}

static bool same_digest(const bt_loss_curve *baseline, const bt_loss_curve *candidate,
                        bt_loss_verdict *out)
{
    const char *expected = baseline->params_digest ? baseline->params_digest : "";
    const char *got = candidate->params_digest ? candidate->params_digest : "";
    if (!*expected || !*got) {
        bt_loss_say(out, BT_LOSS_INCONCLUSIVE, -1,
                    "all losses have the same bits; the %s's digest of the training state is not "
                    "known",
                    *expected ? "candidate" : "baseline");
        return false;
    }
    if (!bt_digests_comparable(expected, got)) {
        bt_loss_say(out, BT_LOSS_INCONCLUSIVE, -1,
                    "all losses have the same bits; the digests %.40s and %.40s cannot be "
                    "compared: one covers the training state, the other only the parameters",
                    expected, got);
        return false;
    }
    if (strcmp(expected, got) != 0) {
        bt_loss_say(out, BT_LOSS_FAIL, -1,
                    "all losses have the same bits, but the digest is %.40s; the baseline has "
                    "%.40s",
                    got, expected);
        return false;
    }
    return true;
}

void bt_loss_check_bitwise(const bt_loss_curve *baseline, const bt_loss_curve *candidate,
                           bt_loss_verdict *out)
{
    if (baseline->count == 0) {
        bt_loss_say(out, BT_LOSS_INCONCLUSIVE, -1, "the baseline has no steps");
        return;
    }
    for (int64_t i = 0; i < baseline->count && i < candidate->count; i++) {
        if (!same_step(&baseline->steps[i], &candidate->steps[i], out) ||
            !same_bits(&baseline->steps[i], &candidate->steps[i], out)) {
            return;
        }
    }
    if (bt_loss_all_finite(candidate, "candidate", BT_LOSS_FAIL, out) &&
        same_length(baseline, candidate, out) && same_digest(baseline, candidate, out)) {
        bt_loss_say(out, BT_LOSS_PASS, -1, "all %lld losses and the parameters have the same bits",
                    (long long)baseline->count);
    }
}

// ---- numeric -----------------------------------------------------------------------------------

// The envelope, step by step: `range` is the largest range so far.
typedef struct envelope {
    const bt_loss_curve *runs;
    int64_t run_count, count; // steps of the shortest
    const bt_loss_rule *rule;
    double range;
} envelope;

static double range_at(const envelope *self, int64_t i, double *mean)
{
    double low = (double)self->runs[0].steps[i].loss, high = low, sum = 0.0;
    for (int64_t run = 0; run < self->run_count; run++) {
        double loss = (double)self->runs[run].steps[i].loss;
        low = loss < low ? loss : low;
        high = loss > high ? loss : high;
        sum += loss;
    }
    *mean = sum / (double)self->run_count;
    return high - low;
}

static envelope begin_envelope(const bt_loss_curve *runs, int64_t run_count,
                               const bt_loss_rule *rule)
{
    envelope self = {.runs = runs, .run_count = run_count, .rule = rule, .count = runs[0].count};
    double mean = 0.0;
    for (int64_t run = 1; run < run_count; run++) {
        self.count = runs[run].count < self.count ? runs[run].count : self.count;
    }
    for (int64_t i = 0; i < self.count && i < BT_LOSS_ENVELOPE_START; i++) {
        self.range = fmax(self.range, range_at(&self, i, &mean));
    }
    return self;
}

static double widest(const bt_loss_rule *rule) { return BT_LOSS_NUMERIC_SHARE * rule->margin_nats; }

// Steps are requested in order.
static void envelope_at(envelope *self, int64_t i, double *low, double *high)
{
    const bt_loss_rule *rule = self->rule;
    double centre = (double)self->runs[0].steps[i].loss, half = 0.0;
    if (self->run_count < BT_LOSS_ENVELOPE_RUNS) {
        double step = (double)self->runs[0].steps[i].step;
        half = fabs(centre) * fmin(rule->limit, rule->start * (1.0 + rule->growth * step));
        half = fmin(half, widest(rule));
    } else {
        self->range = fmax(self->range, range_at(self, i, &centre));
        half = rule->widen * self->range + 8.0 * (double)FLT_EPSILON * fabs(centre);
    }
    *low = centre - half;
    *high = centre + half;
}

// The baseline's runs must themselves be complete and on the same data.
static bool usable_baseline(const bt_loss_curve *baseline, int64_t count, bt_loss_verdict *out)
{
    if (count < 1 || baseline[0].count == 0) {
        bt_loss_say(out, BT_LOSS_INCONCLUSIVE, -1, "the baseline has no steps");
        return false;
    }
    for (int64_t run = 0; run < count; run++) {
        if (!bt_loss_all_finite(&baseline[run], "baseline", BT_LOSS_INCONCLUSIVE, out)) {
            return false;
        }
        bool same = baseline[run].count == baseline[0].count;
        for (int64_t i = 0; same && i < baseline[0].count; i++) {
            same = same_step(&baseline[0].steps[i], &baseline[run].steps[i], out);
        }
        if (!same) {
            bt_loss_say(out, BT_LOSS_INCONCLUSIVE, -1,
                        "run %lld of the baseline has other steps than the baseline's first run",
                        (long long)run + 1);
            return false;
        }
    }
    return true;
}

void bt_loss_check_numeric(const bt_loss_curve *baseline, int64_t count,
                           const bt_loss_curve *candidate, const bt_loss_rule *rule,
                           bt_loss_verdict *out)
{
    if (!usable_baseline(baseline, count, out) ||
        !bt_loss_all_finite(candidate, "candidate", BT_LOSS_FAIL, out)) {
        return;
    }
    envelope self = begin_envelope(baseline, count, rule);
    for (int64_t i = 0; i < self.count && i < candidate->count; i++) {
        const bt_store_step *step = &candidate->steps[i];
        double low = 0.0, high = 0.0, loss = (double)step->loss;
        if (!same_step(&baseline[0].steps[i], step, out)) {
            return;
        }
        envelope_at(&self, i, &low, &high);
        if (!(high - low <= 2.0 * widest(rule) * (1.0 + 1e-12))) {
            bt_loss_say(out, BT_LOSS_INCONCLUSIVE, step->step,
                        "step %lld: the baseline's own runs differ by %.3g nats, and their "
                        "envelope of +-%.3g is wider than half of the statistical margin of %.3g: "
                        "compare seeds (\"loss\": \"statistical\")",
                        (long long)step->step, self.range, (high - low) / 2, rule->margin_nats);
            out->low = low;
            out->high = high;
            return;
        }
        if (!(loss >= low && loss <= high)) {
            bt_loss_say(out, BT_LOSS_FAIL, step->step,
                        "step %lld: loss %.9g is outside [%.9g, %.9g]", (long long)step->step, loss,
                        low, high);
            out->value = loss;
            out->low = low;
            out->high = high;
            return;
        }
    }
    if (same_length(&baseline[0], candidate, out)) {
        bt_loss_say(out, BT_LOSS_PASS, -1, "all %lld losses are inside the envelope of %lld run%s",
                    (long long)candidate->count, (long long)count, count == 1 ? "" : "s");
    }
}
