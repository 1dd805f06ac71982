// harness/stats/loss.h - compares loss curves, in three tiers
//
//   bitwise      the same build, device, plan and seed: every loss has the same bits, and so has
//                the digest of all parameters. Detects a single flipped bit.
//   numeric      other kernels or another order of summing, the same data: each loss is inside an
//                envelope around the baseline. Detects changes of the mathematics or the data (a
//                wrong learning rate, a dropped micro-batch, a shift), but not effects of the size
//                of rounding.
//   statistical  independent seeds: at fixed tokens the mean losses differ by less than a declared
//                margin, by two one-sided tests. Detects changes of the learning result, but none
//                smaller than the margin (one wrong step, 2 % of a learning rate).
//
// Invariants
//   1. Pure functions: no memory, no files; the caller ensures that the runs are of one kind
//      (same case, same environment for bitwise).
//   2. A loss that is not finite is never accepted, not even when the baseline has the same one.
//   3. The verdict is PASS only if everything was compared; one seed gives CONSISTENT at best.
#ifndef BT_HARNESS_STATS_LOSS_H
#define BT_HARNESS_STATS_LOSS_H

#include "harness/record/record.h"

// X(enumerator, word)
#define BT_LOSS_TIER_LIST(X)                                                                       \
    X(BITWISE, "bitwise") X(NUMERIC, "numeric") X(STATISTICAL, "statistical")

typedef enum bt_loss_tier {
#define BT_LOSS_TIER_ENUM(name, word) BT_LOSS_TIER_##name,
    BT_LOSS_TIER_LIST(BT_LOSS_TIER_ENUM)
#undef BT_LOSS_TIER_ENUM
        BT_LOSS_TIER_COUNT
} bt_loss_tier;

typedef enum bt_loss_word {
    BT_LOSS_PASS,
    BT_LOSS_FAIL,
    BT_LOSS_INCONCLUSIVE,
    BT_LOSS_CONSISTENT, // one seed: shown neither equal nor different
    BT_LOSS_WORD_COUNT
} bt_loss_word;

bool bt_loss_tier_parse(const char *name, bt_loss_tier *tier);

typedef struct bt_loss_curve {
    const bt_store_step *steps; // [count] ascending; step, loss and tokens are used
    int64_t count;
    const char *params_digest; // as recorded; "" or NULL: unknown
    int64_t rounds;            // number of rounds that have this curve
} bt_loss_curve;

// The curve of a round; borrows from it.
bt_loss_curve bt_loss_curve_of(const bt_store_round *round);

// Parameters that are declared in advance, and stored with the verdict.
typedef struct bt_loss_rule {
    // Numeric, fewer than BT_LOSS_ENVELOPE_RUNS baseline runs: around the first of them, relative,
    // at step s   min(limit, start * (1 + growth * s)), and at most BT_LOSS_NUMERIC_SHARE of
    // margin_nats: a tier that claims more than the statistical one must allow less.
    double start, growth, limit;
    // Numeric, else: around their mean, widen * (the largest range of the runs at any step up to
    // s, and at any of the first BT_LOSS_ENVELOPE_START), plus 8 ulp of the loss. Never narrower
    // later: two curves that cross do not show that noise has decreased. If that is wider than
    // BT_LOSS_NUMERIC_SHARE of margin_nats, the runs are unsuitable for this tier: INCONCLUSIVE.
    double widen;
    // Statistical: the mean loss of each of `segments` equal parts of the tokens.
    double margin_nats;
    double alpha;
    int64_t segments; // >= 1
} bt_loss_rule;

#define BT_LOSS_NUMERIC_SHARE 0.5

enum { BT_LOSS_ENVELOPE_RUNS = 3, BT_LOSS_ENVELOPE_START = 8, BT_LOSS_RUNS_MAX = 64 };

// The default of a precision ("fp32", "tf32", "bf16"); others, "" and NULL get that of fp32, the
// strictest.
bt_loss_rule bt_loss_rule_default(const char *precision);

typedef struct bt_loss_verdict {
    bt_loss_word word;
    int64_t step;     // the first violation (statistical: the last of its segment); -1: none
    double value;     // the value there; NaN: none
    double low, high; // the allowed range there (bitwise: the baseline's value, twice); NaN: none
    char reason[256]; // a sentence, never ""
} bt_loss_verdict;

void bt_loss_check_bitwise(const bt_loss_curve *baseline, const bt_loss_curve *candidate,
                           bt_loss_verdict *out);

// baseline [count >= 1]: several runs are of the same seed and data, their reductions permuted.
// A run with another split into micro-batches is such a run: the n-th sequence does not depend on
// the split.
void bt_loss_check_numeric(const bt_loss_curve *baseline, int64_t count,
                           const bt_loss_curve *candidate, const bt_loss_rule *rule,
                           bt_loss_verdict *out);

// baseline [baseline_count], candidate [candidate_count]: a curve per seed, 1 to BT_LOSS_RUNS_MAX
// a side. With two seeds or more on both sides PASS (Welch's interval at 1 - 2 alpha inside
// +-margin in every segment), FAIL (in one segment outside it, at alpha over the number of
// segments) or INCONCLUSIVE. With one seed on a side: CONSISTENT or FAIL by the prediction interval
// of the other's seeds, widened by the margin; with one on both sides CONSISTENT or INCONCLUSIVE by
// the margin alone.
void bt_loss_check_statistical(const bt_loss_curve *baseline, int64_t baseline_count,
                               const bt_loss_curve *candidate, int64_t candidate_count,
                               const bt_loss_rule *rule, bt_loss_verdict *out);

// A recorded digest is of the whole training state (parameters, optimizer, data position) after
// this prefix; without it, as in records of earlier builds, of the parameters alone.
#define BT_STATE_DIGEST_PREFIX "state:"

bool bt_digest_is_of_state(const char *digest);
// Whether two recorded digests are of the same kind, so that they can be compared.
bool bt_digests_comparable(const char *a, const char *b);

// The bits of a loss or a norm, which equality compares.
uint32_t bt_loss_bits(float value);

#endif
