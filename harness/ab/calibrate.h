// harness/ab/calibrate.h - how a rule fares on this machine: false alarms, and what it can find
//
// A session of 'calibrate' runs three systems in turns, all of them this very build: `a`, `b`, and
// `slowed`, whose timed regions are made longer by a known share. Of a case the log ratios of
// b to a are what noise alone does here; those of slowed to b show that a slowdown is seen as what
// it is. Both rates come from resampling those of a and b:
//   - a comparison is played by drawing pairs with replacement, each turned round by a coin (a and
//     b are the same, so either way is as likely), and deciding after each look as `ab` does;
//   - the false-alarm rate is the share of SLOWER among many such plays; the smallest slowdown
//     that is found nine times in ten is the least share which, added to every pair, makes nine
//     plays in ten SLOWER;
//   - the intervals come from doing all of it again on redrawn pairs (95 %, percentile); that of
//     the false-alarm rate reaches at least as far as the number of plays lets it (Wilson).
// What that cannot know: noise that was not there in these rounds. Rounds are taken as independent
// but for what their being paired takes away. A busy machine gets an honest answer: a large one.
//
// Invariant: a function of the recorded run, the rule and a seed; anyone can make it again.
#ifndef BT_HARNESS_AB_CALIBRATE_H
#define BT_HARNESS_AB_CALIBRATE_H

#include "harness/gate/policy.h"
#include "harness/stats/decide.h"
#include "harness/store/store.h"

#define BT_CALIBRATE_KIND        "calibrate" // of the schedule
#define BT_CALIBRATE_SLOWED      "slowed"    // systems: a, b, slowed
#define BT_CALIBRATE_FOUND_SHARE 0.9
#define BT_CALIBRATE_LARGEST     10.0 // slowdown that is looked for: eleven times the time

typedef struct bt_noise_rates {
    int64_t pairs;
    double deviation; // of the log ratios of a pair
    double false_alarm_rate, false_alarm_low, false_alarm_high;
    double smallest, smallest_low, smallest_high; // shares; infinite: not even ten times as slow
} bt_noise_rates;

// What a rule does with these log ratios [count] of pairs of equal builds. Fewer than four tell
// nothing: all NaN.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_noise_rates_of(const double *log_ratios, int64_t count,
                                       const bt_decision_rule *rule, uint64_t seed,
                                       bt_noise_rates *out);
// Share of plays that are SLOWER when pairs are drawn from log_ratios as they are.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_noise_found_rate(const double *log_ratios, int64_t count,
                                         const bt_decision_rule *rule, uint64_t seed,
                                         double *found);

typedef struct bt_calibrated_case {
    const char *bench, *name; // borrowed from the run
    bool training;
    double base_ns;        // median time on a; NaN: no round of it passed
    bt_decision_rule rule; // of the policy
    bt_noise_rates rates;
    double injected;                  // share by which `slowed` was made slower
    double seen, seen_low, seen_high; // share by which it was seen slower, 95 %
    double found;                     // share of plays on those pairs that are SLOWER
    bool misses;                      // the false-alarm rate is above the rule's alpha
    const char *message;              // of the first round that failed, "" without; borrowed
    bool failed;                      // a round crashed or was wrong
} bt_calibrated_case;

typedef struct bt_calibration_result {
    const bt_calibrated_case *items; // [count], in the order of the run, in the arena
    int64_t count;
    const bt_store_run *run; // borrowed
    bt_arena arena;
} bt_calibration_result;

// Judges a session of 'calibrate'.
// Owns    *out: the caller, bt_calibration_release; borrows from the run
// Errors  INVALID_ARGUMENT (it is none), OUT_OF_MEMORY
BT_CHECKED bt_status bt_calibrate(const bt_store_run *run, const bt_policy *policy,
                                  bt_calibration_result *out);
void bt_calibration_release(bt_calibration_result *result);
// Stores what was found out per case; of cases without enough rounds nothing.
BT_CHECKED bt_status bt_calibration_store(bt_store *store, const bt_calibration_result *result);
// 5 when a case failed, else 4 when a case has no answer, else 1 when one misses its rate, else 0.
int bt_calibration_exit_code(const bt_calibration_result *result);

BT_CHECKED bt_status bt_calibration_text(const bt_calibration_result *result, bt_str *out);
BT_CHECKED bt_status bt_calibration_json(const bt_calibration_result *result, bt_str *out);

#endif
