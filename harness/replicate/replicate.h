// harness/replicate/replicate.h - a verdict per claim of a paper, from a recorded run
//
// What a paper claims of two systems is a ratio; here the same two ran in turns, round by round.
// The advantage of ours is the other's time over ours, more than 1 where ours is faster. Per pair
// of rounds its logarithm is taken; the mean of those has a two-sided 95 % interval of Student's t.
//
// Invariants
//   1. One pair of rounds decides nothing: the round is the unit, not the sample.
//   2. Nothing is measured here, and no device touched.
#ifndef BT_HARNESS_REPLICATE_REPLICATE_H
#define BT_HARNESS_REPLICATE_REPLICATE_H

#include "framework/base/mem.h"
#include "harness/store/store.h"
#include "harness/suite/json.h"

// X(enumerator, word)
#define BT_VERDICT_LIST(X)                                                                         \
    X(REPLICATED, "REPLICATED")         /* at least the claimed advantage, within the margin */    \
    X(EXCEEDED, "EXCEEDED")             /* certainly more than that */                             \
    X(NOT_REPLICATED, "NOT REPLICATED") /* certainly less */                                       \
    X(INCONCLUSIVE, "INCONCLUSIVE")     /* the interval leaves both open, or one pair of rounds */ \
    X(NOT_TESTABLE, "NOT TESTABLE HERE")

typedef enum bt_verdict {
#define BT_VERDICT_ENUM(name, word) BT_VERDICT_##name,
    BT_VERDICT_LIST(BT_VERDICT_ENUM)
#undef BT_VERDICT_ENUM
        BT_VERDICT_COUNT
} bt_verdict;

const char *bt_verdict_name(bt_verdict verdict);

typedef struct bt_replication {
    const char *id;          // borrowed from the claims
    double claimed, margin;  // advantage; NaN: the claim compares no two systems
    double ratio, low, high; // advantage here; NaN: not known
    int64_t pairs;           // of rounds
    bt_verdict verdict;
    const char *reason; // borrowed: why it is not testable; "" otherwise
} bt_replication;

typedef struct bt_replications {
    bt_replication *items; // owned, [count], in the order of the claims
    int64_t count;
    int64_t verdicts[BT_VERDICT_COUNT]; // how many of each
} bt_replications;

// Judges every claim of a file (suites/schema/claims.schema.json).
// Owns    *out: the caller, bt_replications_release
// Errors  INVALID_ARGUMENT (no file of claims), OUT_OF_MEMORY
BT_CHECKED bt_status bt_replicate(const bt_json_doc *claims, const bt_store_run *run,
                                  bt_replications *out);
void bt_replications_release(bt_replications *replications);

// The verdict of `count` logarithms of the advantage, with its interval. For tests as well.
void bt_replication_judge(const double *logs, int64_t count, bt_replication *out);
// 1 when something is not replicated, else 3 when something is inconclusive, else 4 when nothing
// could be tested, else 0.
int bt_replications_exit_code(const bt_replications *replications);

BT_CHECKED bt_status bt_replications_text(const bt_json_doc *claims, const bt_store_run *run,
                                          const bt_replications *replications, bt_str *out);
BT_CHECKED bt_status bt_replications_json(const bt_json_doc *claims, const bt_store_run *run,
                                          const bt_replications *replications, bt_str *out);

#endif
