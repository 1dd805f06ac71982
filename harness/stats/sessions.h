// harness/stats/sessions.h - decides whether a build is slower than a stored baseline; the unit is
// the session
//
// Rounds of one session share the state of the machine on that day. So a round of a session is
//
//   value = mean of the build + effect of the session + noise of the round
//
// where session effects are independent draws with one variance for both sides, and the noise of a
// session's rounds may be correlated. Only session means are compared. With K baseline and J
// candidate sessions, the sample variance v of session means, pooled over both sides (at least what
// the noise within sessions explains), and candidate means that have the within-session error w,
//
//   error^2 = v / K + (v + max(0, w - w of the baseline)) / J
//
// with Satterthwaite's degrees of freedom, but at most the K + J - 2 of v. The bounds of decide.h
// follow at one look: more rounds of the same session do not reduce v.
//
// Invariants
//   1. In a family of equal builds the probability that any is called SLOWER is at most alpha, for
//      any variance between sessions, if session means are normal.
//   2. With fewer than BT_SESSIONS_MIN baseline sessions, or on another card, the result is
//      advisory: its outcome is INCONCLUSIVE; ratio and interval are for display.
//   3. With fewer than two rounds in the candidate's session, or in every baseline session, there
//      is no decision.
#ifndef BT_HARNESS_STATS_SESSIONS_H
#define BT_HARNESS_STATS_SESSIONS_H

#include "harness/stats/decide.h"

enum { BT_SESSIONS_MIN = 5 };

typedef struct bt_sessions {
    const double *logs;    // logarithms of the rounds' values, session after session; borrowed
    const int64_t *rounds; // [count]: rounds of each session, >= 1; borrowed
    int64_t count;         // sessions
} bt_sessions;

// Why a result is advisory.
typedef enum bt_advisory {
    BT_ADVISORY_NONE,
    BT_ADVISORY_FEW_SESSIONS,
    BT_ADVISORY_OTHER_CARD
} bt_advisory;

typedef struct bt_session_decision {
    bt_decision decision; // advisory: INCONCLUSIVE; its next_rounds is 0
    bt_advisory advisory; // NONE: the outcome is valid
    int64_t sessions;     // of the baseline
    double between;       // standard deviation of session means; NaN: fewer than two sessions
    double within;        // standard deviation of the baseline's rounds within sessions; NaN: none
    double freedom;       // of the error; NaN: unknown
} bt_session_decision;

// Decides about a candidate against a baseline, each of one or more sessions.
// rule       its looks are not used
// same_card  whether all sessions ran on one card
bt_session_decision bt_sessions_decide(const bt_decision_rule *rule, const bt_sessions *base,
                                       const bt_sessions *candidate, bool same_card);

#endif
