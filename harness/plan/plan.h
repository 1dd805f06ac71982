// harness/plan/plan.h - what exactly will run: expanded, canonical, hashed
//
// suite file + profile + --set + --seed + machine -> one JSON document in which nothing is left to
// a default. Its canonical text is what is recorded and hashed; workers get cases out of it.
//
// Invariants
//   1. Equal plans have equal text and hash, on every machine and from every folder.
//   2. A plan never changes after bt_plan_make; no device has been touched to make it.
#ifndef BT_HARNESS_PLAN_PLAN_H
#define BT_HARNESS_PLAN_PLAN_H

#include "framework/base/recompute.h"
#include "framework/base/sharding.h"
#include "harness/env/machine.h"
#include "harness/plan/kernel.h"
#include "harness/record/record.h"
#include "harness/suite/schema.h"
#include "harness/suite/suite.h"

typedef struct bt_plan_options {
    const char *profile;     // NULL: the first automatic one that the machine can run
    const char *filter;      // substring of case names, or a glob; NULL: all
    bt_plan_selects wants;   // asked of those as well; NULL: all
    const void *wants_by;    // handed to it
    const char *const *sets; // [set_count] "train.steps=3"
    int64_t set_count;
    const char *systems; // "blutrain,pytorch-eager"; NULL: the profile's, or blutrain
    bool builds; // builds of this program run every case: systems of profile and cases are dropped
    int64_t rounds; // 0: the profile's
    int64_t seed;   // -1: the file's
} bt_plan_options;

typedef struct bt_plan {
    cJSON *root; // owned: {version, suite, profile, device, rounds, cases: [{name, kind, ...}]}
    char *text;  // owned, canonical
    char hash[33];
    const char *suite, *profile, *device; // inside root
    const cJSON *cases;                   // inside root
    const cJSON *systems;                 // inside root: texts; NULL: blutrain alone
    int64_t case_count, rounds;
    bool chosen;      // the profile was chosen for the user
    char reason[512]; // why an earlier profile was passed over, "" when none was
} bt_plan;

// Owns    *out: the caller, bt_plan_release
// Errors  INVALID_ARGUMENT (unknown profile, no case matches, bad --set, impossible shape),
//         OUT_OF_MEMORY (also: not even the smallest micro-batch fits the device)
BT_CHECKED bt_status bt_plan_make(const bt_suite *suite, const bt_plan_options *options,
                                  const bt_machine *machine, bt_plan *out);
// The plan that a run has recorded, from its text.
// Owns    *out: the caller, bt_plan_release
// Errors  INVALID_ARGUMENT, CORRUPT_DATA (not a plan), OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_read(const char *text, bt_plan *out);
// Fills in hash, counts and what lies inside root, from root and text.
BT_CHECKED bt_status bt_plan_index(bt_plan *plan);
void bt_plan_release(bt_plan *plan);

// The index-th case. Borrowed.
const cJSON *bt_plan_case(const bt_plan *plan, int64_t index);
// Whether calls are timed (a kernel or a command case), not training steps.
bool bt_plan_times_calls(const cJSON *item);
// Refuses a plan with command cases, whose programs the suite names, unless they are trusted.
// Errors  INVALID_ARGUMENT, with the program and what to type
BT_CHECKED bt_status bt_plan_check_commands(const bt_plan *plan, bool trusted);
// A number in an object by its dotted path, as in bt_plan_number(item, "train.model.layers"); 0
// when it is not there.
double bt_plan_number(const cJSON *object, const char *path);

// Some lines about the plan, for people.
void bt_plan_describe(const bt_plan *plan, bt_str *out);

// XXH3-128 of text as 32 hex digits.
void bt_plan_hash(const char *text, char hash[33]);

// ---- data_key.c --------------------------------------------------------------------------------

#define BT_PLAN_DATA_PREFIX "data."
enum { BT_PLAN_DATA_KEY_BYTES = 128 };

// The key of a case's data among the facts of an environment: data.NAME, or data.shards-HASH of
// the names of the files. Cases on the same data have the same key, whatever they are called; ""
// for a case without data. The second takes the case as its JSON.
BT_CHECKED bt_status bt_plan_data_key(const cJSON *item, char key[BT_PLAN_DATA_KEY_BYTES]);
BT_CHECKED bt_status bt_plan_data_key_of(const char *axes_json, char key[BT_PLAN_DATA_KEY_BYTES]);
// Digest of the hard facts that concern a case: those of the machine, and of its own data.
// Errors  OUT_OF_MEMORY, those of bt_plan_data_key_of
BT_CHECKED bt_status bt_plan_environment(const bt_store_env *env, const char *name,
                                         const char *axes_json, char digest[33]);
// Whether that fact is among them. `data_key`: of the case (bt_plan_data_key). Earlier records have
// the data under the name of the case.
bool bt_plan_fact_concerns(const bt_store_fact *fact, const char *name, const char *data_key);

// ---- memory.c: how much a training case needs, roughly
// -------------------------------------------

// What is made again in the backward: by the first `blocks` blocks; the others are cheaper by one.
typedef struct bt_plan_recompute {
    bt_recompute_mode mode;
    int64_t blocks;
} bt_plan_recompute;

// As the case says; of "auto", which is not resolved yet, nothing.
bt_plan_recompute bt_plan_recompute_of(const cJSON *train);
// Bytes that a training case takes on the device at this micro-batch at the fullest moment of a
// step: parameters and moments; what blocks keep, and logits, at the end of the forward, or
// gradients at the end of the backward (both where gradients accumulate); plus 4 %. Of a mesh: of
// one of its ranks. An estimate, for choosing micro-batch and recomputation; the device has the
// last word.
uint64_t bt_plan_memory_bytes(const cJSON *train, int64_t micro_batch, bt_plan_recompute how);
int64_t bt_plan_parameters(const cJSON *train);

// ---- ranks.c: data parallel, by arithmetic ------------------------------------------------------

enum { BT_PLAN_RESIDENT_BUCKETS = 6 }; // of zero3's weights: read, and gathered ahead

// What one rank of a training case holds, and sends in a step over its link.
typedef struct bt_plan_ranks {
    int64_t ranks;
    bt_sharding sharding;
    bool parallel;          // gradients lie in buckets: several ranks, or virtual shards
    double state_bytes;     // weights, masters, moments
    double gradients_bytes; // of buckets; of no meaning unless parallel
    double whole_bytes;     // rank 0's room for the state of all ranks; 0 where it has that anyway
    double sent_bytes;      // 0 for one rank
} bt_plan_ranks;

bt_plan_ranks bt_plan_ranks_of(const cJSON *train);

// Degrees of train.mesh, 1 where they are left out, and the number of ranks, their product.
typedef struct bt_plan_mesh {
    int64_t data, tensor, context, ranks;
} bt_plan_mesh;

bt_plan_mesh bt_plan_mesh_of(const cJSON *train);

// ---- set.c
// ---------------------------------------------------------------------------------------

// The row of the key that "key.key=value" sets, NULL where there is none.
const bt_suite_key *bt_plan_set_key(const char *given);
// Applies "key.key=value" to an expanded case.
BT_CHECKED bt_status bt_plan_set(const char *given, cJSON *target);

#endif
