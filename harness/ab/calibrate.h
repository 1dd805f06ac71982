// harness/ab/calibrate.h - error rates of a rule on this machine: false alarms, detectable
// slowdowns
//
// A 'calibrate' session runs three interleaved systems, all of them this build: `a`, `b`, and
// `slowed`, whose timed regions are made longer by a known fraction. The log ratios of b to a show
// the noise of this machine; those of slowed to b show whether a slowdown is detected. Sessions of
// other days on the same machine, of the same case, are judged together.
//   - Replays: every window of contiguous recorded pairs is decided as `ab` decides, with its
//     looks. Pairs are never shuffled or reversed, so bias, drift and correlation are kept. The
//     false-alarm rate is the fraction of windows that end as SLOWER or FASTER; the smallest
//     slowdown is the smallest fraction which, added to every pair, makes nine windows in ten
//     SLOWER.
//   - Bounds: windows overlap, so their fraction says little about rare events. The means of
//     contiguous blocks (as long as a first look) about 0, the expected value for equal builds,
//     give an upper 95 % bound of their spread by chi-square; the false-alarm bound is the
//     probability that a normal mean with that spread exceeds the tolerance, and the bound of the
//     smallest slowdown follows in the same way. Few blocks give wide bounds: more sessions narrow
//     them.
// It cannot include noise that did not occur in these rounds. A calibration is valid for its rule,
// tolerance, machine and card, for some days, and for paired gates.
//
// Invariant: a function of the recorded runs and the rule, hence reproducible.
#ifndef BT_HARNESS_AB_CALIBRATE_H
#define BT_HARNESS_AB_CALIBRATE_H

#include "harness/gate/policy.h"
#include "harness/stats/decide.h"
#include "harness/stats/sessions.h"
#include "harness/store/store.h"

#define BT_CALIBRATE_KIND         "calibrate" // of the schedule
#define BT_CALIBRATE_SLOWED       "slowed"    // systems: a, b, slowed
#define BT_CALIBRATE_FOUND_SHARE  0.9
#define BT_CALIBRATE_LARGEST      10.0 // largest slowdown that is tested: eleven times the time
#define BT_CALIBRATE_PAIRS_MIN    24   // minimum number of blocks
#define BT_CALIBRATE_SESSIONS_MAX 16   // sessions that are judged together, the newest ones

typedef struct bt_noise_rates {
    int64_t pairs, sessions; // number of blocks as long as a first look; shorter sessions do not
                             // count
    int64_t needed;          // pairs; with fewer the rates are NaN
    double deviation;        // of the log ratios of a pair
    double bias;             // their mean
    double block_deviation;  // of block means about 0
    double false_alarm_rate; // fraction of windows
    double false_alarm_high; // 95 % upper bound
    double smallest;         // a fraction; infinite: not even ten times as slow
    double smallest_high;    // 95 % upper bound
} bt_noise_rates;

// The results of a rule on the log ratios of pairs of equal builds, by session.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_noise_rates_of(const bt_sessions *pairs, const bt_decision_rule *rule,
                                       bt_noise_rates *out);
// Fraction of windows that are SLOWER; NaN if none is long enough.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_noise_found_rate(const bt_sessions *pairs, const bt_decision_rule *rule,
                                         double *found);

typedef struct bt_calibrated_case {
    const char *bench, *name; // borrowed from the run
    bool training;
    double base_ns;        // median time on a; NaN: none of its rounds passed
    bt_decision_rule rule; // of the policy
    bt_noise_rates rates;
    double injected;                  // fraction by which `slowed` was made slower
    double seen, seen_low, seen_high; // measured slowdown of `slowed`, 95 % interval
    double found;                     // fraction of windows of those pairs that are SLOWER
    bool misses;                      // the bound of the false-alarm rate is above the rule's alpha
    bool coarse;                      // the bound of the smallest slowdown is above the policy's
    const char *message;              // of the first round that failed, "" if none; borrowed
    bool failed;                      // a round crashed or was wrong
} bt_calibrated_case;

typedef struct bt_calibration_result {
    const bt_calibrated_case *items; // [count], in the order of the run, in the arena
    int64_t count;
    const bt_store_run *run; // the newest session; borrowed
    bt_arena arena;
} bt_calibration_result;

// Judges 'calibrate' sessions, [count >= 1], newest first: the cases of the newest, with the pairs
// of the others if case, environment and card are the same.
// Owns    *out: the caller, bt_calibration_release; borrows from the runs
// Errors  INVALID_ARGUMENT (not a calibration), OUT_OF_MEMORY
BT_CHECKED bt_status bt_calibrate(const bt_store_run *const *runs, int64_t count,
                                  const bt_policy *policy, bt_calibration_result *out);
void bt_calibration_release(bt_calibration_result *result);
// Stores the results per case; for cases with too few pairs their number.
BT_CHECKED bt_status bt_calibration_store(bt_store *store, const bt_calibration_result *result);
// 5 if a case failed, else 4 if a case has too few pairs, else 1 if one is refused, else 0.
int bt_calibration_exit_code(const bt_calibration_result *result);

BT_CHECKED bt_status bt_calibration_text(const bt_calibration_result *result, bt_str *out);
BT_CHECKED bt_status bt_calibration_json(const bt_calibration_result *result, bt_str *out);

#endif
