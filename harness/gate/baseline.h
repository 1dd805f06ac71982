// harness/gate/baseline.h - baselines: the documents that later runs are compared with
//
// For each case and system, a baseline has the values of all rounds of all its sessions, the exact
// loss curves, the kernels that ran, and the case's settings; also the hard and soft facts of the
// machine, a digest of the card, the build, the plan's hash, and the reason. A run is a session.
// The document is JSON with sorted keys and one form for equal contents, so that git shows changes;
// the same text is stored in the database and, without what identifies the machine, in
// results/baselines/ and with the verdicts that used it.
#ifndef BT_HARNESS_GATE_BASELINE_H
#define BT_HARNESS_GATE_BASELINE_H

#include "harness/gate/ceiling.h"
#include "harness/gate/side.h"
#include "harness/suite/json.h"

#define BT_BASELINE_FORMAT "bt-bench baseline 2"
#define BT_BASELINE_FORMAT_1                                                                       \
    "bt-bench baseline 1"                 // one session, losses in hexadecimal; can be
                                          // read
#define BT_BASELINE_ROUNDS_MIN 2          // minimum per session; fewer have no spread
#define BT_BASELINE_BYTES_MAX  (64 << 20) // of a document
#define BT_BASELINE_FILE_KIND  "baseline" // of a run's files (bt_store_file)

typedef struct bt_baseline_session {
    int64_t run;         // its number in the database where the baseline was set
    const char *started; // "2026-11-20 16:24:05 UTC"
    // The same in ns since 1970: identifies the session whatever number a database gives the run.
    const char *started_ns; // "" in documents without it
    int64_t disturbed;      // rounds with a label of noise
} bt_baseline_session;

typedef struct bt_baseline {
    const char *name, *reason;
    const char *created;         // "2026-11-20 16:24:05 UTC"
    const char *machine;         // the machine's type, usable as a file name: "nvidia-h200"
    const char *suite, *profile; // of the first run
    const char *plan_hash;
    const char *card;           // bt_gate_card; "": no GPU, or unknown
    const char *noise_accepted; // why disturbed rounds were accepted; "": there were none
    bt_store_build build;
    bt_store_env env;                    // hard and soft facts, by key; its digest is the run's
    const bt_baseline_session *sessions; // [session_count]; 0 in a document of format 1
    int64_t session_count;
    bt_gate_sides sides; // cases, by bench, name and system
    bt_gate_ceilings ceilings;
    const char *document; // the text as it may be published
    bt_arena arena;       // arena of all of the above
    char digest[33];      // of `document`
} bt_baseline;

typedef struct bt_baseline_wish {
    const char *name, *reason;
    const char *accept_noise;  // why disturbed rounds are accepted; NULL: they are refused
    int64_t created_ns;        // time since 1970, for the record
    const bt_baseline *before; // its sessions are kept and the runs added; NULL: a new baseline
} bt_baseline_wish;

// Appends the document of [count] runs, or of a baseline and these runs, to `out`. A run is a
// session of a case; if its build or settings differ, it only contributes loss curves (merge.h).
// Errors  INVALID_ARGUMENT (a run did not pass, was disturbed, or does not match the first; the
//         first has no case with enough rounds)
BT_CHECKED bt_status bt_baseline_write(const bt_store_run *const *runs, int64_t count,
                                       const bt_baseline_wish *wish, bt_str *out);
// The document as it may be committed: without the facts that identify the machine.
// Errors  INVALID_ARGUMENT (it is not JSON), OUT_OF_MEMORY
BT_CHECKED bt_status bt_baseline_write_public(const char *document, bt_str *out);
// Reads a document; `path` is used in messages.
// Owns    *out: the caller, bt_baseline_release; nothing on failure
// Errors  INVALID_ARGUMENT ("path:line:column: ..."), OUT_OF_MEMORY
BT_CHECKED bt_status bt_baseline_parse(const char *path, const char *text, size_t size_bytes,
                                       bt_baseline *out);
// A zeroed baseline is allowed.
void bt_baseline_release(bt_baseline *baseline);

// The smallest number of sessions of its cases.
int64_t bt_baseline_sessions(const bt_baseline *baseline);
// A machine's type as a file name, from the GPU's or else the processor's name: "nvidia-h200".
void bt_baseline_machine(const bt_store_env *env, bt_str *out);
// 1 to 64 letters, digits, '-', '_', '.'; the first is a letter or digit.
BT_CHECKED bt_status bt_baseline_check_name(const char *name);

#endif
