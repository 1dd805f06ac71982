// harness/replicate/claims.h - converts a file of claims to pairs of systems that can be tested
// here
//
// A claim gives values of several systems. Another machine can replicate the advantage of ours over
// each other one: more than 1 if ours is better. A claim is tested by a case of our suites, or by a
// stand-in, which lists its deviations from the paper.
//
// Invariants
//   1. A kernel case is identified by its name, which contains operation, direction, type and
//      shape; any other case by suite, profile and name.
//   2. Nothing is measured here.
#ifndef BT_HARNESS_REPLICATE_CLAIMS_H
#define BT_HARNESS_REPLICATE_CLAIMS_H

#include "framework/base/mem.h"
#include "harness/record/record.h"
#include "harness/suite/json.h"

// The rule of verdicts, recorded with them. Rule 1 had EXCEEDED, REPLICATED from the lower margin
// on for any width, and NOT REPLICATED; every claim counted.
#define BT_CLAIM_RULE 2
// For claims that one case of ours is the best of several: no ratio is claimed, except that it is
// at least 1.
#define BT_CLAIM_RULE_AT_LEAST 3

typedef struct bt_claim {
    const cJSON *node;      // borrowed: the claim in the file
    const char *id;         // borrowed
    const char *title;      // borrowed: its subject, for display; "" in files without titles
    const char *subject;    // its id, or "id/other" if it names several other systems
    const char *other;      // the system that represents the other one here; "" if none
    const char *over;       // borrowed: the other case of the same suite; "": the same case
    bt_metric metric;       // metric that is compared
    int rule;               // rule of the verdict: 1 for files that contain margins
    double claimed, margin; // NaN: it does not compare two systems
    const char *untested;   // borrowed: why it cannot be tested here; "" if it can
} bt_claim;

typedef struct bt_claims {
    const bt_json_doc *json; // borrowed, as long as this lives
    bt_claim *items;         // [count], in the order of the file
    int64_t count;
    bt_arena arena; // holds items and subjects
} bt_claims;

// Parses a file of claims (suites/schema/claims.schema.json).
// Owns    *out: the caller, bt_claims_release; also released on failure
// Errors  INVALID_ARGUMENT (not a file of claims), OUT_OF_MEMORY
BT_CHECKED bt_status bt_claims_read(const bt_json_doc *json, bt_claims *out);
void bt_claims_release(bt_claims *claims);

// The case of a suite's profile that tests a claim, or is a stand-in for it; NULL if there is none.
// Borrowed from the file; "deviations" lists how it differs from the paper's.
const cJSON *bt_claim_case(const bt_claim *claim, const char *suite, const char *profile,
                           const char *name);

// Whether a case or stand-in of the claim is in this suite, under any profile; those of kernels are
// in "kernels_all", too.
bool bt_claim_is_of_suite(const bt_claim *claim, const char *suite);

// A suite and its profile, for the functions below.
typedef struct bt_claims_suite {
    const bt_claims *claims;
    const char *suite, *profile;
} bt_claims_suite;

// Whether this case tests any claim; a bt_plan_selects, `by` is a bt_claims_suite.
bool bt_claims_want(const char *name, const void *by);
// Appends the systems that a run needs: "blutrain" and, separated by commas, every other system
// that a claim of this suite compares with.
void bt_claims_systems(const bt_claims_suite *suite, bt_str *out);
// The default profile for the claims of this suite: a stand-in's before the paper's own, which may
// take days. NULL: no claim names the suite.
const char *bt_claims_profile(const bt_claims *claims, const char *suite);
// For the message that a profile has no such cases: appends "expected --profile gpu" with every
// other profile of the suite to which claims refer; without any, a suite that has such cases.
BT_CHECKED bt_status bt_claims_expected(const bt_claims_suite *suite, bt_str *out);

#endif
