// harness/plan/plan.h - the exact description of a run: expanded, canonical, hashed
//
// suite file + profile + --set + --seed + machine -> one JSON document in which every key has a
// value. Its canonical text is recorded and hashed; workers get its cases.
//
// Invariants
//   1. Equal plans have equal text and hash, on every machine and from every folder.
//   2. A plan never changes after bt_plan_make; making it touches no device.
#ifndef BT_HARNESS_PLAN_PLAN_H
#define BT_HARNESS_PLAN_PLAN_H

#include "framework/base/recompute.h"
#include "framework/base/sharding.h"
#include "harness/env/machine.h"
#include "harness/plan/kernel.h"
#include "harness/record/record.h"
#include "harness/suite/schema.h"
#include "harness/suite/suite.h"
#include "harness/text/format.h"

typedef struct bt_plan_options {
    const char *profile;     // NULL: the first automatic one that the machine can run
    const char *filter;      // substring of case names, or a glob; NULL: all
    bt_plan_selects wants;   // additional selection; NULL: all
    const void *wants_by;    // its argument
    const char *wants_else;  // "expected ...": in the message if it selects no case
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
    char reason[512]; // why an earlier profile was skipped, "" if none was
} bt_plan;

// Owns    *out: the caller, bt_plan_release
// Errors  INVALID_ARGUMENT (unknown profile, no case matches, bad --set, impossible shape),
//         OUT_OF_MEMORY (also: not even the smallest micro-batch fits the device)
BT_CHECKED bt_status bt_plan_make(const bt_suite *suite, const bt_plan_options *options,
                                  const bt_machine *machine, bt_plan *out);
// Parses a recorded plan.
// Owns    *out: the caller, bt_plan_release
// Errors  INVALID_ARGUMENT, CORRUPT_DATA (not a plan), OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_read(const char *text, bt_plan *out);
// Derives hash, counts and the pointers into root from root and text.
BT_CHECKED bt_status bt_plan_index(bt_plan *plan);
void bt_plan_release(bt_plan *plan);

// The index-th case. Borrowed.
const cJSON *bt_plan_case(const bt_plan *plan, int64_t index);
// The index of the case of a name; -1: none.
int64_t bt_plan_find(const bt_plan *plan, const char *name);
// Whether calls are timed (a kernel or a command case), not training steps.
bool bt_plan_times_calls(const cJSON *item);
// Refuses a plan with command cases, whose programs the suite names, unless they are trusted.
// Errors  INVALID_ARGUMENT, with the program and the option to use
BT_CHECKED bt_status bt_plan_check_commands(const bt_plan *plan, bool trusted);
// A number in an object by its dotted path, as in bt_plan_number(item, "train.model.layers"); 0 if
// it is missing.
double bt_plan_number(const cJSON *object, const char *path);

// Some lines of text about the plan, for a terminal of so many columns; 0: any number.
void bt_plan_describe(const bt_plan *plan, int columns, bt_str *out);

// XXH3-128 of text as 32 hex digits.
void bt_plan_hash(const char *text, char hash[33]);

// ---- data_key.c --------------------------------------------------------------------------------

#define BT_PLAN_DATA_PREFIX "data."
enum { BT_PLAN_DATA_KEY_BYTES = 128 };

// The key of a case's data among the facts of an environment: data.NAME, or data.shards-HASH of the
// names of the files. Cases on the same data have the same key, independent of their names; "" for
// a case without data. The second function takes the case as JSON.
BT_CHECKED bt_status bt_plan_data_key(const cJSON *item, char key[BT_PLAN_DATA_KEY_BYTES]);
BT_CHECKED bt_status bt_plan_data_key_of(const char *axes_json, char key[BT_PLAN_DATA_KEY_BYTES]);
// Digest of the hard facts that affect a case: those of the machine, and of its own data.
// Errors  OUT_OF_MEMORY, those of bt_plan_data_key_of
BT_CHECKED bt_status bt_plan_environment(const bt_store_env *env, const char *name,
                                         const char *axes_json, char digest[33]);
// Whether a fact is among them. `data_key`: of the case (bt_plan_data_key). In earlier records the
// key of the data contains the name of the case.
bool bt_plan_fact_concerns(const bt_store_fact *fact, const char *name, const char *data_key);

// ---- memory.c: estimated memory of a training case ---------------------------------------------

// The recomputation mode of the first `blocks` blocks; the others use the next cheaper one.
typedef struct bt_plan_recompute {
    bt_recompute_mode mode;
    int64_t blocks;
} bt_plan_recompute;

// As the case specifies; for "auto" that is not resolved yet: none.
bt_plan_recompute bt_plan_recompute_of(const cJSON *train);
// Peak bytes of a training case on the device at this micro-batch: parameters and moments; what
// blocks keep, and logits, at the end of the forward, or gradients at the end of the backward (both
// if gradients accumulate); plus 4 %; on a GPU the snapshot of asynchronous saves; on a CPU the
// workspaces of kernels with as many threads as this process has, and the rounding of blocks, so
// that it is an upper bound for tiny models too. For a mesh: of one rank. An estimate for choosing
// micro-batch and recomputation; the device may differ.
uint64_t bt_plan_memory_bytes(const cJSON *train, int64_t micro_batch, bt_plan_recompute how,
                              bool on_gpu);
int64_t bt_plan_parameters(const cJSON *train);

// ---- ranks.c: estimates for data parallel ranks ------------------------------------------------

enum { BT_PLAN_RESIDENT_BUCKETS = 6 }; // of zero3's weights: read, and gathered ahead

// Memory of one rank of a training case, and what it sends in a step over its link.
typedef struct bt_plan_ranks {
    int64_t ranks;
    bt_sharding sharding;
    bool parallel;          // gradients lie in buckets: several ranks, or virtual shards
    double state_bytes;     // weights, masters, moments
    double gradients_bytes; // of buckets; only if parallel
    double slots_bytes;     // on a GPU, for gradients that other ranks send
    double sent_bytes;      // 0 for one rank
} bt_plan_ranks;

bt_plan_ranks bt_plan_ranks_of(const cJSON *train);

// Whether the case saves checkpoints. If not, the launcher of several ranks keeps their state.
bool bt_plan_saves(const cJSON *train);

// ---- mesh.c ------------------------------------------------------------------------------------

// Degrees of train.mesh, 1 where they are left out, and the number of ranks, their product.
typedef struct bt_plan_mesh {
    int64_t data, tensor, context, ranks;
} bt_plan_mesh;

bt_plan_mesh bt_plan_mesh_of(const cJSON *train);
// "data 2 x tensor 2": the degrees above 1; "" for one rank.
bt_text bt_plan_degrees_text(const bt_plan_mesh *mesh);
// "data 2 x tensor 2, sequence parallel": also how tensor and context parallel ranks work, if it is
// not the default.
bt_text bt_plan_mesh_text(const cJSON *train);
// train.mesh.invariant where the suite does not set it: the largest value up to 8 that this mesh
// and this micro-batch allow; 0: none.
int64_t bt_plan_default_shards(const cJSON *train, int64_t micro_batch);

enum { BT_PLAN_FAULTS_MAX = 1024, BT_PLAN_AT_START = -1 };

// An entry of train.mesh.faults.
typedef struct bt_plan_fault {
    int signal;   // SIGKILL, SIGSTOP, SIGSEGV
    int64_t rank; // below the number of ranks
    int64_t step; // after this many steps of the rank; BT_PLAN_AT_START: when it is started
} bt_plan_fault;

// The faults to inject, of a text or a list of texts: "kill rank 1 at step 20", "kill rank 1 at
// start", also with stop and segv.
// Errors  INVALID_ARGUMENT: says what is allowed
BT_CHECKED bt_status bt_plan_faults_read(const cJSON *train,
                                         bt_plan_fault faults[BT_PLAN_FAULTS_MAX], int64_t *count);

// ---- set.c -------------------------------------------------------------------------------------

// The row of the key that "key.key=value" sets, NULL if there is none.
const bt_suite_key *bt_plan_set_key(const char *given);
// The length of the value at *value in "[f32, \"bf16\"]", without blanks and quotes: *value is
// moved to its first character, *end to the ',' or ']' after it.
size_t bt_plan_list_value(const char **value, const char **end);
// Applies "key.key=value" to an expanded case.
BT_CHECKED bt_status bt_plan_set(const char *given, cJSON *target);
// Whether the key belongs to cases of a kind: "train.steps" and "dataset" to "train".
bool bt_plan_set_concerns(const char *given, const char *kind);
// Checks that each key belongs to a case of the plan.
// Errors  INVALID_ARGUMENT, with the nearest key and those of its cases
BT_CHECKED bt_status bt_plan_set_check(const char *const *sets, int64_t set_count,
                                       const cJSON *cases);

#endif
