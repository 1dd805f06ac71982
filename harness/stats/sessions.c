// harness/stats/sessions.c - a t test on session means
#include "harness/stats/sessions.h"

#include <math.h>
#include <stddef.h>

#include "harness/stats/stats.h"

// Statistics of one side.
typedef struct summary {
    double mean;           // of session means
    double between;        // sample variance of session means; 0 with one session
    double round_variance; // within sessions, pooled
    double within;         // part of the variance of a session's mean due to the rounds' noise
    double round_freedom;  // of round_variance
    bool finite;
} summary;

static summary summarise(const bt_sessions *side)
{
    summary out = {0};
    const double *at = side->logs;
    double squares = 0, sum = 0, inverse_rounds = 0;
    for (int64_t i = 0; i < side->count; at += side->rounds[i++]) {
        double mean = bt_mean_of(at, side->rounds[i]);
        sum += mean;
        squares += bt_squares_about(at, side->rounds[i], mean);
        inverse_rounds += 1.0 / (double)side->rounds[i];
        out.round_freedom += (double)(side->rounds[i] - 1);
    }
    out.mean = sum / (double)side->count;
    at = side->logs;
    for (int64_t i = 0; i < side->count; at += side->rounds[i++]) {
        double off = bt_mean_of(at, side->rounds[i]) - out.mean;
        out.between += off * off;
    }
    out.between /= side->count > 1 ? (double)(side->count - 1) : 1.0;
    out.round_variance = out.round_freedom > 0 ? squares / out.round_freedom : 0.0;
    out.within = out.round_variance * inverse_rounds / (double)side->count;
    out.finite = side->count > 0 && isfinite(squares) && isfinite(out.between);
    return out;
}

// a + b, variances with their degrees of freedom. Fractions keep tiny values from underflowing.
static double satterthwaite(double a, double a_freedom, double b, double b_freedom)
{
    if (!(a + b > 0)) {
        return a_freedom + b_freedom;
    }
    double share = a / (a + b), other = 1 - share;
    return 1.0 / ((share > 0 ? share * share / a_freedom : 0) +
                  (other > 0 ? other * other / b_freedom : 0));
}

// The squared error of the difference of both means, and its degrees of freedom: at most those of
// the variance between sessions. Satterthwaite's formula can give more, and is then too optimistic
// for bounds far in the tail, as in a family of many decisions.
static double squared_error(const bt_sessions *base_side, const summary *base,
                            const bt_sessions *candidate_side, const summary *candidate,
                            double *freedom)
{
    const double base_count = (double)base_side->count, count = (double)candidate_side->count;
    const double sessions = base_count + count - 2;
    if (!(sessions > 0)) { // one session per side: only the noise within sessions is known
        *freedom = satterthwaite(base->within, base->round_freedom, candidate->within,
                                 candidate->round_freedom);
        return base->within + candidate->within;
    }
    double variance =
        ((base_count - 1) * base->between + (count - 1) * candidate->between) / sessions;
    variance = fmax(variance, base->within);
    double shared = variance * (1 / base_count + 1 / count);
    double extra = fmax(0, candidate->within - base->within) / count;
    *freedom = fmin(sessions, satterthwaite(shared, sessions, extra, candidate->round_freedom));
    return shared + extra;
}

bt_session_decision bt_sessions_decide(const bt_decision_rule *rule, const bt_sessions *base,
                                       const bt_sessions *candidate, bool same_card)
{
    const summary left = summarise(base), right = summarise(candidate);
    int64_t rounds = 0;
    bool known = left.finite && right.finite && left.round_freedom > 0 && right.round_freedom > 0;
    bt_decision_rule once = *rule;
    bt_session_decision out = {.sessions = base->count,
                               .between = base->count > 1 ? sqrt(left.between) : (double)NAN,
                               .within =
                                   left.round_freedom > 0 ? sqrt(left.round_variance) : (double)NAN,
                               .freedom = (double)NAN,
                               .advisory = base->count < BT_SESSIONS_MIN ? BT_ADVISORY_FEW_SESSIONS
                                           : !same_card                  ? BT_ADVISORY_OTHER_CARD
                                                                         : BT_ADVISORY_NONE};
    for (int64_t i = 0; i < candidate->count; ++i) {
        rounds += candidate->rounds[i];
    }
    once.look_count = 1;
    once.looks[0] = 1;
    if (known) {
        double error = sqrt(squared_error(base, &left, candidate, &right, &out.freedom));
        bt_decision_levels levels = bt_decision_levels_of(&once, out.freedom);
        out.decision = bt_decide_mean(&once, &levels, right.mean - left.mean, error, rounds);
    } else {
        out.decision = bt_decide_paired(&once, NULL, 0, 0);
        out.decision.rounds = rounds;
    }
    out.decision.next_rounds = 0;
    if (out.advisory != BT_ADVISORY_NONE) {
        out.decision.outcome = BT_OUTCOME_INCONCLUSIVE;
    }
    return out;
}
