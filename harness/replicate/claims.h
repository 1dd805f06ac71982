// harness/replicate/claims.h - a file of claims, as pairs of systems that something here can test
//
// A claim names values of several systems; what can be replicated elsewhere is the advantage of
// ours over each other one: more than 1 where ours is better. A claim is tested by a case of our
// suites, or by a stand-in for it, which says in what it deviates from the paper.
//
// Invariants
//   1. A case of kernels is known by its name, which says operation, direction, type and shape; any
//      other by suite, profile and name.
//   2. Nothing is measured here.
#ifndef BT_HARNESS_REPLICATE_CLAIMS_H
#define BT_HARNESS_REPLICATE_CLAIMS_H

#include "framework/base/mem.h"
#include "harness/record/record.h"
#include "harness/suite/json.h"

// The rule by which verdicts are given, as recorded with them. Rule 1 had EXCEEDED, REPLICATED from
// the lower margin on whatever its width, and NOT REPLICATED; every claim counted.
#define BT_CLAIM_RULE 2
// Of claims that one case of ours is the best of several: no ratio is claimed, but at least 1.
#define BT_CLAIM_RULE_AT_LEAST 3

typedef struct bt_claim {
    const cJSON *node;      // borrowed: the claim in the file
    const char *id;         // borrowed
    const char *title;      // borrowed: what it is about, for people; "" in files without titles
    const char *subject;    // its id, or "id/other" where it names several other systems
    const char *other;      // the system that stands for the other one here; "" without one
    const char *over;       // borrowed: the other case of the same suite; "": the same case
    bt_metric metric;       // that is compared
    int rule;               // by which it is judged: 1 for files that state margins themselves
    double claimed, margin; // NaN: it compares no two systems
    const char *untested;   // borrowed: why nothing here tests it; "" where something does
} bt_claim;

typedef struct bt_claims {
    const bt_json_doc *json; // borrowed, as long as this lives
    bt_claim *items;         // [count], in the order of the file
    int64_t count;
    bt_arena arena; // holds items and subjects
} bt_claims;

// Understands a file of claims (suites/schema/claims.schema.json).
// Owns    *out: the caller, bt_claims_release; also released on failure
// Errors  INVALID_ARGUMENT (no file of claims), OUT_OF_MEMORY
BT_CHECKED bt_status bt_claims_read(const bt_json_doc *json, bt_claims *out);
void bt_claims_release(bt_claims *claims);

// The case of a suite's profile that tests a claim, or stands in for it; NULL when it does not.
// Borrowed from the file; its "deviations" say in what it is not the paper's.
const cJSON *bt_claim_case(const bt_claim *claim, const char *suite, const char *profile,
                           const char *name);

// A suite and its profile, for what follows.
typedef struct bt_claims_suite {
    const bt_claims *claims;
    const char *suite, *profile;
} bt_claims_suite;

// Whether any claim is tested by this case; a bt_plan_selects, `by` is a bt_claims_suite.
bool bt_claims_want(const char *name, const void *by);
// Appends the systems that a run must have: "blutrain" and, by commas, every other one that a claim
// compares with in a case of this suite.
void bt_claims_systems(const bt_claims_suite *suite, bt_str *out);
// The profile that tests claims of this suite when nobody names one: a stand-in's before the
// paper's own, which may take days. NULL: no claim names the suite.
const char *bt_claims_profile(const bt_claims *claims, const char *suite);

#endif
