// harness/ab/calibrate.h - how a rule fares on this machine: false alarms, and what it can find
//
// A session of 'calibrate' runs three systems in turns, all of them this very build: `a`, `b`, and
// `slowed`, whose timed regions are made longer by a known share. Of a case the log ratios of
// b to a are what noise alone does here; those of slowed to b show that a slowdown is seen as what
// it is. Sessions of other days on the same machine, of the same case, are judged together.
//   - Replays: every window of contiguous recorded pairs is decided as `ab` decides, with its
//     looks. Pairs are never shuffled or turned round, so bias, drift and correlation stay. The
//     false-alarm rate is the share of windows that end as SLOWER or FASTER; the smallest slowdown
//     is the least share which, added to every pair, makes nine windows in ten SLOWER.
//   - Bounds: windows overlap, so their share says little about rare events. The means of
//     contiguous blocks (as long as a first look) about 0, where equal builds belong, give an upper
//     95 % bound of their spread by chi-square; the false-alarm bound is the chance that a normal
//     mean with that spread leaves the tolerance, and the bound of the smallest slowdown follows
//     likewise. Few blocks have wide bounds: more sessions narrow them.
// What that cannot know: noise that was not there in these rounds. A calibration holds for its
// rule, tolerance, machine and card, for some days, and for gates that judge pairs.
//
// Invariant: a function of the recorded runs and the rule; anyone can make it again.
#ifndef BT_HARNESS_AB_CALIBRATE_H
#define BT_HARNESS_AB_CALIBRATE_H

#include "harness/gate/policy.h"
#include "harness/stats/decide.h"
#include "harness/stats/sessions.h"
#include "harness/store/store.h"

#define BT_CALIBRATE_KIND         "calibrate" // of the schedule
#define BT_CALIBRATE_SLOWED       "slowed"    // systems: a, b, slowed
#define BT_CALIBRATE_FOUND_SHARE  0.9
#define BT_CALIBRATE_LARGEST      10.0 // slowdown that is looked for: eleven times the time
#define BT_CALIBRATE_PAIRS_MIN    24   // fewer tell nothing
#define BT_CALIBRATE_SESSIONS_MAX 16   // that are judged together, the newest ones

typedef struct bt_noise_rates {
    int64_t pairs, sessions; // of sessions as long as a first look; shorter ones do not count
    int64_t needed;          // pairs; with fewer the rates are NaN
    double deviation;        // of the log ratios of a pair
    double bias;             // their mean
    double block_deviation;  // of block means about 0
    double false_alarm_rate; // share of windows
    double false_alarm_high; // 95 % upper bound
    double smallest;         // share; infinite: not even ten times as slow
    double smallest_high;    // 95 % upper bound
} bt_noise_rates;

// What a rule does with the log ratios of pairs of equal builds, session by session.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_noise_rates_of(const bt_sessions *pairs, const bt_decision_rule *rule,
                                       bt_noise_rates *out);
// Share of windows that are SLOWER; NaN where none is long enough.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_noise_found_rate(const bt_sessions *pairs, const bt_decision_rule *rule,
                                         double *found);

typedef struct bt_calibrated_case {
    const char *bench, *name; // borrowed from the run
    bool training;
    double base_ns;        // median time on a; NaN: no round of it passed
    bt_decision_rule rule; // of the policy
    bt_noise_rates rates;
    double injected;                  // share by which `slowed` was made slower
    double seen, seen_low, seen_high; // share by which it was seen slower, 95 %
    double found;                     // share of windows of those pairs that are SLOWER
    bool misses;                      // the bound of the false-alarm rate is above the rule's alpha
    bool coarse;                      // the bound of the smallest slowdown is above the policy's
    const char *message;              // of the first round that failed, "" without; borrowed
    bool failed;                      // a round crashed or was wrong
} bt_calibrated_case;

typedef struct bt_calibration_result {
    const bt_calibrated_case *items; // [count], in the order of the run, in the arena
    int64_t count;
    const bt_store_run *run; // the newest session; borrowed
    bt_arena arena;
} bt_calibration_result;

// Judges sessions of 'calibrate', [count >= 1], the newest first: the cases of that one, with the
// pairs of the others where case, environment and card are the same.
// Owns    *out: the caller, bt_calibration_release; borrows from the runs
// Errors  INVALID_ARGUMENT (one is none), OUT_OF_MEMORY
BT_CHECKED bt_status bt_calibrate(const bt_store_run *const *runs, int64_t count,
                                  const bt_policy *policy, bt_calibration_result *out);
void bt_calibration_release(bt_calibration_result *result);
// Stores what was found out per case; of cases with too few pairs how many there are.
BT_CHECKED bt_status bt_calibration_store(bt_store *store, const bt_calibration_result *result);
// 5 when a case failed, else 4 when a case has too few pairs, else 1 when one is refused, else 0.
int bt_calibration_exit_code(const bt_calibration_result *result);

BT_CHECKED bt_status bt_calibration_text(const bt_calibration_result *result, bt_str *out);
BT_CHECKED bt_status bt_calibration_json(const bt_calibration_result *result, bt_str *out);

#endif
