// harness/gate/baseline.h - what a later run is compared with: a document made from runs
//
// A baseline keeps, per case and system, the values of all rounds of all its sessions, the loss
// curves bit by bit, the kernels that ran, the case's settings; besides, the hard and soft facts of
// the machine, a digest of the card, the build, the plan's hash, and why it was set. A run is a
// session. The document is JSON: keys sorted, one form for equal contents, so that git shows what
// changed; the same text lies in the database and, without what identifies the machine, in
// results/baselines/ and beside the verdicts that were made with it.
#ifndef BT_HARNESS_GATE_BASELINE_H
#define BT_HARNESS_GATE_BASELINE_H

#include "harness/gate/ceiling.h"
#include "harness/gate/side.h"
#include "harness/suite/json.h"

#define BT_BASELINE_FORMAT     "bt-bench baseline 2"
#define BT_BASELINE_FORMAT_1   "bt-bench baseline 1" // one session, losses in hexadecimal; is read
#define BT_BASELINE_ROUNDS_MIN 2                     // of a session; fewer have no spread
#define BT_BASELINE_BYTES_MAX  (64 << 20)            // of a document
#define BT_BASELINE_FILE_KIND  "baseline"            // of a run's files (bt_store_file)

typedef struct bt_baseline_session {
    int64_t run;         // its number where the baseline was made
    const char *started; // "2026-11-20 16:24:05 UTC"
    // The same in ns since 1970: tells the session under whatever number a database gives the run.
    const char *started_ns; // "" in documents that do not say it
    int64_t disturbed;      // rounds with a label of noise
} bt_baseline_session;

typedef struct bt_baseline {
    const char *name, *reason;
    const char *created;         // "2026-11-20 16:24:05 UTC"
    const char *machine;         // its type, usable as a file name: "nvidia-h200"
    const char *suite, *profile; // of the first run
    const char *plan_hash;
    const char *card;           // bt_gate_card; "": no GPU, or not known
    const char *noise_accepted; // why disturbed rounds were taken; "": there were none
    bt_store_build build;
    bt_store_env env;                    // hard and soft facts, by key; its digest is the run's
    const bt_baseline_session *sessions; // [session_count]; none in a document of format 1
    int64_t session_count;
    bt_gate_sides sides; // cases, by bench, name and system
    bt_gate_ceilings ceilings;
    const char *document; // as it may be published
    bt_arena arena;       // holds all of it
    char digest[33];      // of `document`
} bt_baseline;

typedef struct bt_baseline_wish {
    const char *name, *reason;
    const char *accept_noise;  // why disturbed rounds are taken; NULL: they are refused
    int64_t created_ns;        // since 1970, for the record
    const bt_baseline *before; // its sessions stay and the runs are added; NULL: a new baseline
} bt_baseline_wish;

// The document of [count] runs, or of a baseline and these runs, appended to `out`. A run is a
// session of a case; where its build or settings differ it only gives loss curves (merge.h).
// Errors  INVALID_ARGUMENT (a run did not pass, was disturbed, or does not fit beside the first;
//         the first has no case with rounds enough)
BT_CHECKED bt_status bt_baseline_write(const bt_store_run *const *runs, int64_t count,
                                       const bt_baseline_wish *wish, bt_str *out);
// The document as it may be committed: without the facts that identify the machine.
// Errors  INVALID_ARGUMENT (it is no JSON), OUT_OF_MEMORY
BT_CHECKED bt_status bt_baseline_write_public(const char *document, bt_str *out);
// Reads a document; `path` is what messages call it.
// Owns    *out: the caller, bt_baseline_release; nothing on failure
// Errors  INVALID_ARGUMENT ("path:line:column: ..."), OUT_OF_MEMORY
BT_CHECKED bt_status bt_baseline_parse(const char *path, const char *text, size_t size_bytes,
                                       bt_baseline *out);
// A zeroed baseline is fine.
void bt_baseline_release(bt_baseline *baseline);

// The fewest sessions that a case of it has.
int64_t bt_baseline_sessions(const bt_baseline *baseline);
// A machine's type as a file name, from the GPU's or else the processor's name: "nvidia-h200".
void bt_baseline_machine(const bt_store_env *env, bt_str *out);
// 1 to 64 letters, digits, '-', '_', '.', the first a letter or digit.
BT_CHECKED bt_status bt_baseline_check_name(const char *name);

#endif
