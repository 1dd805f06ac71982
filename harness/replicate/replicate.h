// harness/replicate/replicate.h - a verdict per claim of a paper, from a recorded run
//
// A paper claims a ratio of two systems; here the same two ran in interleaved rounds. Our advantage
// is more than 1 if ours is better: the other's time over ours, our rate over the other's. Per pair
// of rounds its logarithm is taken; the mean of those has a two-sided
// 95 % interval of Student's t.
//
// Invariants
//   1. One pair of rounds is not sufficient: the round is the unit, not the sample.
//   2. Nothing is measured here, and no device touched.
//   3. A recorded verdict can be recomputed from the rounds and its rule alone.
//   4. Claims about one measurement, such as the time and the bandwidth of a case, count once: the
//      one with the smallest margin.
#ifndef BT_HARNESS_REPLICATE_REPLICATE_H
#define BT_HARNESS_REPLICATE_REPLICATE_H

#include "harness/replicate/claims.h"

// A wider margin is uninformative.
#define BT_REPLICATION_MARGIN_MAX 0.10

// X(enumerator, word, words in text)
#define BT_VERDICT_LIST(X)                                                                         \
    /* the whole interval is inside the margin; for claims without a ratio: not below it */        \
    X(REPLICATED, "REPLICATED", "replicated")                                                      \
    X(HIGHER, "HIGHER", "higher") /* the whole interval is above the margin */                     \
    X(LOWER, "LOWER", "lower")    /* the whole interval is below the margin */                     \
    /* the interval crosses an edge, or one pair of rounds */                                      \
    X(INCONCLUSIVE, "INCONCLUSIVE", "inconclusive")                                                \
    X(UNINFORMATIVE, "UNINFORMATIVE", "uninformative") /* the paper's rounding: too wide */        \
    X(NOT_TESTABLE, "NOT TESTABLE HERE", "not testable here")                                      \
    /* of old records: more or less than the margin */                                             \
    X(EXCEEDED, "EXCEEDED", "exceeded")                                                            \
    X(NOT_REPLICATED, "NOT REPLICATED", "not replicated")

typedef enum bt_verdict {
#define BT_VERDICT_ENUM(name, word, text) BT_VERDICT_##name,
    BT_VERDICT_LIST(BT_VERDICT_ENUM)
#undef BT_VERDICT_ENUM
        BT_VERDICT_COUNT
} bt_verdict;

const char *bt_verdict_name(bt_verdict verdict);

typedef struct bt_replication {
    const char *subject;     // the claim's, see claims.h; borrowed
    const char *title;       // likewise
    const char *case_name;   // the case that tests it in this run; "" none; borrowed
    const char *other;       // system; borrowed
    const char *over;        // the case of ours that it is compared with; "": the same case;
                             // borrowed
    bt_metric metric;        // metric that is compared
    double claimed, margin;  // advantage; NaN: the claim does not compare two systems
    double ratio, low, high; // advantage here; NaN: unknown
    int64_t pairs;           // of rounds
    bt_verdict verdict;
    int rule;               // BT_CLAIM_RULE, BT_CLAIM_RULE_AT_LEAST; 1: of old records, one-sided
    bool counted;           // false: another claim is about the same measurement
    const char *reason;     // why it is not testable, or not decided; "" otherwise; borrowed
    const char *deviations; // "corpus: books; one GPU": how the case differs from the paper's
} bt_replication;

typedef struct bt_replications {
    bt_replication *items; // [count], in the order of the claims
    int64_t count;
    int64_t verdicts[BT_VERDICT_COUNT]; // number of each, among those that count
    bt_arena arena;                     // arena of items and their texts
} bt_replications;

// Judges every claim.
// Owns    *out: the caller, bt_replications_release; borrows from claims and run
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_replicate(const bt_claims *claims, const bt_store_run *run,
                                  bt_replications *out);
void bt_replications_release(bt_replications *replications);

// The verdict for `count` logarithms of the advantage, with its interval. Also used by tests.
void bt_replication_judge(const double *logs, int64_t count, bt_replication *out);
// 1 if something is lower than claimed, else 3 if something is inconclusive, else 4 if nothing
// could be tested, else 0.
int bt_replications_exit_code(const bt_replications *replications);

// ---- verdicts.c: verdicts of the record ---------------------------------------------------------

// All of them as verdicts of kind "replicate", texts in the replications' arena.
BT_CHECKED bt_status bt_replications_verdicts(bt_replications *replications,
                                              const bt_store_verdict **verdicts);
// Recomputes a verdict from the rounds of the run and the recorded rule.
// Errors  CORRUPT_DATA (the rule is incomplete), OUT_OF_MEMORY
BT_CHECKED bt_status bt_replication_again(const bt_store_run *run, const bt_store_verdict *recorded,
                                          bt_arena *arena, bt_replication *out);
// Pairs the rounds of a case on our system and the other, and judges; the parameters are in *out
// (case_name, other, metric, claimed, margin).
BT_CHECKED bt_status bt_replication_of_rounds(const bt_store_run *run, bt_replication *out);

// ---- print.c -----------------------------------------------------------------------------------

// In `columns` of a terminal (0: any number).
BT_CHECKED bt_status bt_replications_text(const bt_claims *claims, const bt_store_run *run,
                                          const bt_replications *replications, int columns,
                                          bt_str *out);
BT_CHECKED bt_status bt_replications_json(const bt_claims *claims, const bt_store_run *run,
                                          const bt_replications *replications, bt_str *out);

#endif
