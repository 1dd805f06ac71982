// harness/gate/baseline.h - what a later run is held against: a document made from a run
//
// A baseline keeps, per case and system, the medians of all rounds, the loss curves bit by bit, the
// kernels that ran, the case's settings; besides, the hard and soft facts of the machine, the
// build, the plan's hash, and why it was set. The document is JSON: keys sorted, one form for equal
// contents, so that git shows what changed; the same text lies in the database and in
// results/baselines/.
#ifndef BT_HARNESS_GATE_BASELINE_H
#define BT_HARNESS_GATE_BASELINE_H

#include "harness/gate/ceiling.h"
#include "harness/gate/side.h"
#include "harness/suite/json.h"

#define BT_BASELINE_FORMAT     "bt-bench baseline 1"
#define BT_BASELINE_ROUNDS_MIN 2 // fewer have no spread

typedef struct bt_baseline {
    const char *name, *reason;
    const char *created;         // "2026-11-20 16:24:05 UTC"
    const char *machine;         // its type, usable as a file name: "nvidia-h200"
    const char *suite, *profile; // of the run
    const char *plan_hash;
    bt_store_build build;
    bt_store_env env;    // hard and soft facts, by key; its digest is the run's
    bt_gate_sides sides; // cases, by bench, name and system
    bt_gate_ceilings ceilings;
    bt_arena arena;  // holds all of it
    char digest[33]; // of the document
} bt_baseline;

// The document of runs[0], with the loss curves of all [count] runs (merge.h), appended to `out`.
// created_ns  since 1970, for the record
// Errors  INVALID_ARGUMENT (a run did not pass, or does not fit beside the first; the first has no
//         case with rounds enough)
BT_CHECKED bt_status bt_baseline_write(const bt_store_run *const *runs, int64_t count,
                                       const char *name, const char *reason, int64_t created_ns,
                                       bt_str *out);
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

// A machine's type as a file name, from the GPU's or else the processor's name: "nvidia-h200".
void bt_baseline_machine(const bt_store_env *env, bt_str *out);
// 1 to 64 letters, digits, '-', '_', '.', the first a letter or digit.
BT_CHECKED bt_status bt_baseline_check_name(const char *name);

#endif
