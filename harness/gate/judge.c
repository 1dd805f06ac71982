// harness/gate/judge.c - judges one case and metric by its rule
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/gate/rule.h"
#include "harness/stats/pairs.h"
#include "harness/stats/sessions.h"
#include "harness/stats/stats.h"
#include "harness/text/format.h"

static const struct {
    const char *name;
    int exit_code;
} words[] = {
#define WORD_ROW(name, word, text, exit_code) {word, exit_code},
    BT_GATE_WORD_LIST(WORD_ROW)
#undef WORD_ROW
};

enum { EXIT_DISTURBED = 4 };

const char *bt_gate_word_name(bt_gate_word word)
{
    return (unsigned)word < BT_GATE_WORD_COUNT ? words[word].name : "?";
}

// Sets the verdict and, if the format is not NULL, the reason.
static void say(bt_gate_verdict *out, bt_gate_word word, const char *format, ...) BT_PRINTF(3, 4);

static void say(bt_gate_verdict *out, bt_gate_word word, const char *format, ...)
{
    va_list arguments;
    out->word = word;
    out->exit_code = words[word].exit_code;
    va_start(arguments, format);
    (void)vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
}

// The two sides: the run's, and the other.
typedef struct judging {
    const bt_rule *rule;
    const bt_gate_side *candidate;
    const bt_gate_side *base;     // of the run; NULL: a baseline's
    const bt_gate_side *recorded; // of the baseline; NULL: the rule contains copies of it
    bt_arena *arena;
    bt_gate_verdict *out;
} judging;

// ---- the case as a whole -----------------------------------------------------------------------

static bool check_presence(const judging *self)
{
    if (self->rule->presence == BT_GATE_PRESENCE_NEW) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "new: the baseline has no such case");
    } else if (self->rule->presence == BT_GATE_PRESENCE_MISSING || !self->candidate) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "missing: the run has no such case");
    } else if (*self->rule->base && !self->base) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "the run has no round of this case on %s",
            self->rule->base);
    } else {
        return true;
    }
    return false;
}

static bool check_rounds(const judging *self, const bt_gate_side *side, const char *which)
{
    bt_gate_verdict *out = self->out;
    if (side->failed > 0) {
        say(out, BT_GATE_INVALID, "%s%" PRId64 " of %" PRId64 " rounds failed: %.300s", which,
            side->failed, side->failed + side->round_count, side->message);
    } else if (side->round_count == 0 && side->unavailable > 0) {
        say(out, BT_GATE_NOT_COMPARABLE, "%sthe case cannot run here: %.300s", which,
            side->message);
    } else if (side->unavailable > 0 && self->rule->version > 2) {
        say(out, BT_GATE_NOT_COMPARABLE,
            "%s%" PRId64 " of %" PRId64 " rounds could not run: %.300s", which, side->unavailable,
            side->unavailable + side->round_count, side->message);
    } else if (side->round_count == 0 && side->invalid > 0) {
        say(out, BT_GATE_INVALID, "%sall %" PRId64 " rounds were disturbed: %.300s", which,
            side->invalid, side->message);
        out->exit_code = EXIT_DISTURBED;
    } else if (side->round_count == 0) {
        say(out, BT_GATE_NOT_COMPARABLE, "%sno round has finished", which);
    } else {
        return true;
    }
    return false;
}

static bool check_comparable(const judging *self)
{
    const bt_rule *rule = self->rule;
    const bt_gate_side *side = self->candidate;
    const bt_gate_side *recorded = self->recorded;
    const char *environment = recorded ? recorded->environment : rule->environment;
    const char *settings = recorded ? recorded->settings : rule->settings;
    double clock = self->base ? self->base->clock_mhz
                   : recorded ? recorded->clock_mhz
                              : rule->clock_mhz;
    if (!self->base && strcmp(environment, side->environment) != 0) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "hard facts of the environments differ");
    } else if (!self->base && strcmp(settings, side->settings) != 0) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "the settings of the case differ");
    } else if ((!self->base || rule->version == 1) && clock > 0 && side->clock_mhz > 0 &&
               !(fabs(side->clock_mhz / clock - 1) <= rule->clock_tolerance)) {
        say(self->out, BT_GATE_NOT_COMPARABLE,
            "median clocks differ by more than %.3g %%: %.0f and %.0f MHz",
            100 * rule->clock_tolerance, clock, side->clock_mhz);
    } else {
        return true;
    }
    return false;
}

static bool check_case(const judging *self)
{
    return check_presence(self) && (!self->base || check_rounds(self, self->base, "base: ")) &&
           check_rounds(self, self->candidate, "") && check_comparable(self);
}

// ---- times and rates ---------------------------------------------------------------------------

static bool is_rate(bt_gate_metric metric)
{
    bt_metric of = bt_gate_metric_info(metric)->metric;
    return of < BT_METRIC_COUNT && bt_metric_info(of)->direction == BT_DIRECTION_HIGHER;
}

static bool check_calibration(const judging *self)
{
    const bt_gate_calibration *calibration = &self->rule->calibration;
    if (calibration->required && !calibration->known) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "the policy requires a calibration: %s",
            *calibration->why ? calibration->why
                              : "not calibrated in this environment; run 'bt-bench calibrate'");
    } else if (calibration->known &&
               !(calibration->false_alarm_rate <= calibration->false_alarm_limit)) {
        say(self->out, BT_GATE_NOT_COMPARABLE,
            "according to the calibration, up to %.3g %% of identical builds may be judged slower; "
            "the policy allows %.3g %%. Find what disturbs this machine, widen the tolerance, or "
            "run 'bt-bench calibrate' on more days; 'bt-bench calibrate rm CASE' removes the "
            "calibration",
            100 * calibration->false_alarm_rate, 100 * calibration->false_alarm_limit);
    } else if (calibration->known && !(calibration->smallest <= calibration->smallest_limit)) {
        say(self->out, BT_GATE_NOT_COMPARABLE,
            "according to the calibration, a slowdown below %.3g %% may be missed; the policy "
            "requires detection from %.3g %% on. Find what disturbs this machine, widen the "
            "tolerance, or run 'bt-bench calibrate' on more days; 'bt-bench calibrate rm CASE' "
            "removes the calibration",
            100 * calibration->smallest, 100 * calibration->smallest_limit);
    } else {
        return true;
    }
    return false;
}

// Logarithms, time-like: more is slower.
static double log_of(bt_gate_metric metric, double value)
{
    return is_rate(metric) ? -log(value) : log(value);
}

// The metric that represents a round, by the version of the rule.
static double value_of(const judging *self, const bt_gate_round *round)
{
    bt_gate_metric metric = self->rule->metric;
    return self->rule->version == 1 ? round->older[metric] : round->values[metric];
}

// Values of a side, [<= round_count] written; returns their number.
static int64_t values_of(const judging *self, const bt_gate_side *side, double *values)
{
    int64_t count = 0;
    for (int64_t i = 0; i < side->round_count; ++i) {
        double value = value_of(self, &side->rounds[i]);
        if (value > 0) {
            values[count++] = value;
        }
    }
    return count;
}

// The logarithm of a round's value; NaN if it lacks the metric.
static double round_log(const judging *self, const bt_gate_round *round)
{
    double value = value_of(self, round);
    return value > 0 ? log_of(self->rule->metric, value) : (double)NAN;
}

// Pairs of rounds with the same ordinal.
static bt_status decide_pairs(const judging *self, bt_decision *out)
{
    const bt_gate_side *base = self->base, *side = self->candidate;
    const int64_t room = base->round_count + side->round_count;
    int64_t count = 0, lone = 0;
    double *before = NULL, *now = NULL, *logs = NULL;
    BT_TRY(BT_ARENA_ARRAY(self->arena, room, &before));
    BT_TRY(BT_ARENA_ARRAY(self->arena, room, &now));
    BT_TRY(BT_ARENA_ARRAY(self->arena, room, &logs));
    for (int64_t i = 0, j = 0; i < base->round_count || j < side->round_count; ++count) {
        const bt_gate_round *a = i < base->round_count ? &base->rounds[i] : NULL;
        const bt_gate_round *b = j < side->round_count ? &side->rounds[j] : NULL;
        const bool has_base = a && (!b || a->ordinal <= b->ordinal);
        const bool has_candidate = b && (!a || b->ordinal <= a->ordinal);
        before[count] = has_base ? round_log(self, a) : (double)NAN;
        now[count] = has_candidate ? round_log(self, b) : (double)NAN;
        i += has_base;
        j += has_candidate;
    }
    count = bt_pairs_of(before, now, count, logs, &lone);
    *out = bt_decide_paired(&self->rule->decision, logs, count, self->rule->version > 2 ? lone : 0);
    return BT_OK;
}

// By a rule of an earlier version, without sessions.
static bt_status decide_recorded(const judging *self, bt_decision *out)
{
    const bt_rule *rule = self->rule;
    const bt_gate_side *side = self->candidate;
    double *base_logs = NULL, *logs = NULL;
    BT_TRY(BT_ARENA_ARRAY(self->arena, rule->value_count, &base_logs));
    BT_TRY(BT_ARENA_ARRAY(self->arena, side->round_count, &logs));
    for (int64_t i = 0; i < rule->value_count; ++i) {
        base_logs[i] = log_of(rule->metric, rule->values[i]);
    }
    int64_t count = values_of(self, side, logs);
    for (int64_t i = 0; i < count; ++i) {
        logs[i] = log_of(rule->metric, logs[i]);
    }
    *out = bt_decide_unpaired(&rule->decision, base_logs, rule->value_count, logs, count);
    return BT_OK;
}

// Why the speed is advisory.
static void advise(const judging *self, const bt_session_decision *decision)
{
    if (decision->advisory == BT_ADVISORY_FEW_SESSIONS) {
        say(self->out, BT_GATE_ADVISORY,
            "the baseline has %s%s of the %d that a verdict needs: run its build "
            "on other days, then 'bt-bench baseline add NAME RUN...'",
            bt_format_items(decision->sessions, "session").text,
            bt_gate_metric_info(self->rule->metric)->way == BT_GATE_WAY_P95
                ? " with a 95th percentile"
                : "",
            BT_SESSIONS_MIN);
    } else {
        say(self->out, BT_GATE_ADVISORY,
            "the baseline was measured on another card, or its card is not recorded: measure a "
            "baseline on this card");
    }
}

// The metric's logarithms, session by session.
static bt_status take_sessions(const judging *self, const bt_gate_side *side, bt_sessions *out)
{
    bt_gate_metric metric = self->rule->metric;
    double *logs = NULL;
    int64_t *rounds = NULL;
    size_t room = (size_t)side->round_count;
    BT_TRY(BT_ARENA_ARRAY(self->arena, room, &logs));
    BT_TRY(BT_ARENA_ARRAY(self->arena, room, &rounds));
    int64_t count = bt_gate_side_values(side, metric, logs);
    *out = (bt_sessions){logs, rounds, bt_gate_side_sessions(side, metric, logs, rounds)};
    for (int64_t i = 0; i < count; ++i) {
        logs[i] = log_of(metric, logs[i]);
    }
    return BT_OK;
}

static int64_t count_rounds(const bt_sessions *sessions)
{
    int64_t count = 0;
    for (int64_t i = 0; i < sessions->count; ++i) {
        count += sessions->rounds[i];
    }
    return count;
}

static bt_status decide_sessions(const judging *self, bt_decision *out)
{
    bt_sessions base, candidate;
    BT_TRY(take_sessions(self, self->recorded, &base));
    BT_TRY(take_sessions(self, self->candidate, &candidate));
    bt_session_decision decision =
        bt_sessions_decide(&self->rule->decision, &base, &candidate, !self->rule->other_card);
    *out = decision.decision;
    bt_decision_guard(&self->rule->decision, base.logs, count_rounds(&base), candidate.logs,
                      count_rounds(&candidate), out);
    if (decision.advisory != BT_ADVISORY_NONE) {
        advise(self, &decision);
    } else if (out->outcome == BT_OUTCOME_INCONCLUSIVE) {
        say(self->out, BT_GATE_INCONCLUSIVE,
            "add sessions to the baseline, or compare pairs: 'bt-bench ab'");
    }
    return BT_OK;
}

// Why it is not SAME, although the numbers alone would give SAME.
static void say_doubt(const bt_decision_rule *rule, const bt_decision *decision,
                      bt_gate_verdict *out)
{
    const double least = fmax(rule->bad_ratio - 1, rule->tolerance);
    if (decision->doubt == BT_DOUBT_BAD_ROUND) {
        (void)snprintf(out->doubt, sizeof out->doubt,
                       "%" PRId64 " of %" PRId64 " rounds of the candidate %s slower by %.3g %% or "
                       "more, the worst by %.0f %%, and %" PRId64 " of the base",
                       decision->bad_candidate, decision->rounds,
                       decision->bad_candidate == 1 ? "was" : "were", 100 * least,
                       100 * (decision->worst - 1), decision->bad_base);
    } else if (decision->doubt == BT_DOUBT_MIXTURE) {
        (void)snprintf(out->doubt, sizeof out->doubt,
                       "the worst round is an outlier: some rounds may be slower");
    }
}

// The number of rounds to continue to, plus those that lack the metric; 0 if the rule's last look
// does not allow as many.
static int64_t next_rounds_of(const judging *self, const bt_decision *decision)
{
    const bt_decision_rule *rule = &self->rule->decision;
    int64_t lacking = self->candidate->round_count - decision->rounds;
    int64_t wanted = decision->next_rounds + lacking;
    return decision->next_rounds > 0 && wanted <= rule->looks[rule->look_count - 1] ? wanted : 0;
}

static bt_status judge_time(const judging *self)
{
    static const bt_gate_word of_outcome[BT_OUTCOME_COUNT] = {[BT_OUTCOME_SAME] = BT_GATE_SAME,
                                                              [BT_OUTCOME_FASTER] = BT_GATE_FASTER,
                                                              [BT_OUTCOME_SLOWER] = BT_GATE_SLOWER,
                                                              [BT_OUTCOME_INCONCLUSIVE] =
                                                                  BT_GATE_INCONCLUSIVE};
    bt_decision decision;
    bt_gate_verdict *out = self->out;
    if (!check_calibration(self)) {
        return BT_OK;
    }
    BT_TRY(self->base       ? decide_pairs(self, &decision)
           : self->recorded ? decide_sessions(self, &decision)
                            : decide_recorded(self, &decision));
    if (!*out->reason) {
        say(out, of_outcome[decision.outcome], "%s", "");
    }
    say_doubt(&self->rule->decision, &decision, out);
    out->ratio = decision.ratio;
    out->low = decision.low;
    out->high = decision.high;
    out->rounds = decision.rounds;
    out->next_rounds = next_rounds_of(self, &decision);
    return BT_OK;
}

// ---- memory ------------------------------------------------------------------------------------

static void judge_memory(const judging *self)
{
    bt_gate_verdict *out = self->out;
    double grown = out->candidate - out->base;
    double allowed = self->rule->memory_tolerance_bytes;
    out->ratio = out->candidate / out->base;
    out->rounds = self->candidate->round_count;
    if (fabs(grown) <= allowed) {
        say(out, BT_GATE_SAME, "%s", "");
        return;
    }
    bool older = self->rule->version == 1;
    say(out,
        grown > 0 ? (older ? BT_GATE_SLOWER : BT_GATE_LARGER)
                  : (older ? BT_GATE_FASTER : BT_GATE_SMALLER),
        "%s", "");
}

// ---- loss --------------------------------------------------------------------------------------

static void take_loss(const judging *self, const bt_loss_verdict *loss)
{
    static const bt_gate_word of_word[BT_LOSS_WORD_COUNT] = {[BT_LOSS_PASS] = BT_GATE_SAME,
                                                             [BT_LOSS_CONSISTENT] = BT_GATE_SAME,
                                                             [BT_LOSS_FAIL] = BT_GATE_DIFFERENT,
                                                             [BT_LOSS_INCONCLUSIVE] =
                                                                 BT_GATE_INCONCLUSIVE};
    bt_gate_word word = of_word[loss->word];
    word = word == BT_GATE_DIFFERENT && self->rule->version == 1 ? BT_GATE_INVALID : word;
    say(self->out, word, "%s: %s", self->rule->tier, loss->reason);
    self->out->rounds = self->candidate->round_count;
}

// Every different curve of the run is compared with the base; the first that fails decides.
static void judge_curves(const judging *self, const bt_gate_side *base, bt_loss_tier tier)
{
    bt_loss_verdict loss = {0};
    BT_EACH(const bt_loss_curve, curve, self->candidate->curves, self->candidate->curve_count) {
        if (tier == BT_LOSS_TIER_BITWISE) {
            bt_loss_check_bitwise(&base->curves[0], curve, &loss);
        } else {
            bt_loss_check_numeric(base->curves, base->data_count, curve, &self->rule->loss, &loss);
        }
        take_loss(self, &loss);
        if (self->out->word != BT_GATE_SAME) {
            return;
        }
    }
}

// One curve per seed. Other curves of the side's own seed give no information about seeds.
static bt_status curves_of_seeds(const judging *self, const bt_gate_side *side,
                                 const bt_loss_curve **out, int64_t *count)
{
    int64_t others = side->curve_count - side->data_count;
    bt_loss_curve *curves = NULL;
    BT_TRY(BT_ARENA_ARRAY(self->arena, 1 + others, &curves));
    curves[0] = side->curves[0];
    for (int64_t i = 0; i < others; ++i) {
        curves[1 + i] = side->curves[side->data_count + i];
    }
    *out = curves;
    *count = 1 + others;
    return BT_OK;
}

static bt_status judge_seeds(const judging *self, const bt_gate_side *base)
{
    const bt_loss_curve *before = NULL, *now = NULL;
    int64_t before_count = 0, now_count = 0;
    bt_loss_verdict loss = {0};
    BT_TRY(curves_of_seeds(self, base, &before, &before_count));
    BT_TRY(curves_of_seeds(self, self->candidate, &now, &now_count));
    bt_loss_check_statistical(before, before_count, now, now_count, &self->rule->loss, &loss);
    take_loss(self, &loss);
    return BT_OK;
}

static bt_status judge_loss(const judging *self)
{
    const bt_gate_side *base = self->base       ? self->base
                               : self->recorded ? self->recorded
                                                : &self->rule->recorded;
    const bt_gate_side *side = self->candidate;
    bt_loss_tier tier = BT_LOSS_TIER_BITWISE;
    BT_FAIL_IF(!bt_loss_tier_parse(self->rule->tier, &tier), BT_STATUS_INVALID_ARGUMENT,
               "\"%s\" is not a loss tier", self->rule->tier);
    if (base->curve_count == 0 || side->curve_count == 0) {
        say(self->out, BT_GATE_NOT_COMPARABLE, "%s has no loss curve",
            base->curve_count == 0 ? "the base" : "the run");
    } else if (tier == BT_LOSS_TIER_STATISTICAL) {
        return judge_seeds(self, base);
    } else if (tier == BT_LOSS_TIER_BITWISE && base->own_count > 1) {
        say(self->out, BT_GATE_NOT_COMPARABLE,
            "bitwise: the base's own rounds have %" PRId64 " different loss curves",
            base->own_count);
    } else {
        judge_curves(self, base, tier);
    }
    return BT_OK;
}

// ---- one metric --------------------------------------------------------------------------------

// Median, or for memory the peak.
static bt_status typical(const judging *self, const double *values, int64_t count, double *out)
{
    if (self->rule->metric != BT_GATE_MEMORY) {
        return bt_stats_median(values, count, out);
    }
    *out = (double)NAN;
    for (int64_t i = 0; i < count; ++i) {
        *out = fmax(*out, values[i]);
    }
    return BT_OK;
}

static bt_status typical_of_side(const judging *self, const bt_gate_side *side, double *out)
{
    double *values = NULL;
    BT_TRY(BT_ARENA_ARRAY(self->arena, side->round_count, &values));
    return typical(self, values, values_of(self, side, values), out);
}

static bt_status judge_metric(const judging *self)
{
    bt_gate_verdict *out = self->out;
    const bt_rule *rule = self->rule;
    if (rule->metric == BT_GATE_LOSS) {
        return judge_loss(self);
    }
    const bt_gate_side *base = self->base ? self->base : self->recorded;
    BT_TRY(base ? typical_of_side(self, base, &out->base)
                : typical(self, rule->values, rule->value_count, &out->base));
    BT_TRY(typical_of_side(self, self->candidate, &out->candidate));
    if (!(out->base > 0) || !(out->candidate > 0)) {
        say(out, BT_GATE_NOT_COMPARABLE, "%s has no %s of this case",
            out->base > 0 ? "the run" : "the base", bt_gate_metric_info(rule->metric)->tag);
        return BT_OK;
    }
    if (rule->metric == BT_GATE_MEMORY) {
        judge_memory(self);
        return BT_OK;
    }
    return judge_time(self);
}

// The baseline's side that the rule names; NULL if it names none.
static bt_status find_recorded(const bt_gate_sides *recorded, const bt_rule *rule,
                               const bt_gate_side **out)
{
    *out = NULL;
    if (!*rule->baseline_system) {
        return BT_OK;
    }
    if (recorded) {
        *out = bt_gate_side_find(recorded, rule->bench, rule->name, rule->baseline_system);
    }
    return *out ? BT_OK
                : bt_error(BT_STATUS_INVALID_ARGUMENT,
                           "the record lacks the case %s of the baseline that the rule names",
                           rule->name);
}

static bt_status judge_rule(const bt_gate_sides *sides, const bt_gate_sides *recorded,
                            const bt_rule *rule, bt_arena *arena, bt_gate_verdict *out)
{
    judging self = {
        .rule = rule,
        .candidate = bt_gate_side_find(sides, rule->bench, rule->name, rule->candidate),
        .base = *rule->base ? bt_gate_side_find(sides, rule->bench, rule->name, rule->base) : NULL,
        .arena = arena,
        .out = out};
    BT_TRY(find_recorded(recorded, rule, &self.recorded));
    if (!check_case(&self)) {
        return BT_OK;
    }
    if (rule->metric == BT_GATE_METRIC_COUNT) {
        say(out, BT_GATE_SAME, "%s", "");
        return BT_OK;
    }
    return judge_metric(&self);
}

bt_status bt_gate_judge(const bt_gate_sides *sides, const bt_gate_sides *recorded,
                        const char *rule_json, bt_gate_verdict *out)
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_rule rule;
    *out = (bt_gate_verdict){.ratio = (double)NAN,
                             .low = (double)NAN,
                             .high = (double)NAN,
                             .base = (double)NAN,
                             .candidate = (double)NAN,
                             .blind_share = (double)NAN};
    BT_TRY(bt_rule_read(rule_json, &arena, &rule));
    BT_TRY(judge_rule(sides, recorded, &rule, &arena, out));
    if (out->word == BT_GATE_SAME && out->rounds > 0 && rule.version > 1) {
        out->blind_share = bt_blind_share(out->rounds);
    }
    return BT_OK;
}
