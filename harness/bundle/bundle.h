// harness/bundle/bundle.h - a run as one file that anybody can check: export, verify, sign
//
// A bundle is a tar.zst with everything that a run's verdicts rest on: raw samples, steps,
// environment, plan, suite, verdicts with their rules, report, manifest with SHA-256 of every file.
// FORMAT.md describes it; it lies in every bundle.
//
// Invariants
//   1. Equal runs give equal bytes: names sorted, no owners, no times of packing, pinned level.
//   2. Every byte of the file is under a digest: one over the file as it is packed, one per file in
//      the manifest, one of the manifest in the statement, which a signature covers.
//   3. What verify accepts is exactly what export would write for the run that it reads: each file
//      that says something about the run is written again and compared.
//   4. Nothing read from a bundle is trusted before it was checked; nothing is written to disk.
#ifndef BT_HARNESS_BUNDLE_BUNDLE_H
#define BT_HARNESS_BUNDLE_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "harness/store/store.h"

#define BT_BUNDLE_FORMAT    "bt-bench bundle 1"
#define BT_BUNDLE_STATEMENT "statement.intoto.json" // of a bundle that is not signed
#define BT_BUNDLE_ENVELOPE  "statement.dsse.json"   // of one that is

// ---- keys: Ed25519, in the PEM files that openssl makes and reads -------------------------------

typedef struct bt_bundle_key {
    unsigned char secret[64], open[32];
    bool has_secret;
    char id[65]; // SHA-256 of the public key's DER form, in hex
} bt_bundle_key;

// Makes a pair; the secret file can be read by its owner only. Existing files are left alone.
// Errors  INVALID_ARGUMENT (a file exists), IO
BT_CHECKED bt_status bt_bundle_key_make(const char *secret_path, const char *open_path);
// Reads a file with a secret key or with a public one.
// Errors  INVALID_ARGUMENT (no such key in it, or only the public one and need_secret), IO
BT_CHECKED bt_status bt_bundle_key_read(const char *path, bool need_secret, bt_bundle_key *out);
// Overwrites the secret.
void bt_bundle_key_forget(bt_bundle_key *key);

// ---- export ------------------------------------------------------------------------------------

typedef struct bt_bundle_options {
    const bt_bundle_key *key; // NULL: not signed
    bool is_public;           // leave out what identifies the machine; no verdict rests on it
} bt_bundle_options;

// Writes a run of the store as a bundle. Paths of the machine are shortened to their last part;
// `notes` gets a line about the kinds of text in which that happened, and for what the run lacks.
// Errors  INVALID_ARGUMENT (no such run, it still goes on), IO
BT_CHECKED bt_status bt_bundle_export(bt_store *store, int64_t run,
                                      const bt_bundle_options *options, const char *path,
                                      bt_str *notes);
// For a bundle of `of` (NULL: of any run) that goes among what others read; `name` is what messages
// call it. Errors  INVALID_ARGUMENT (it says what identifies the machine, it holds another run),
//         CORRUPT_DATA (it is no bundle)
BT_CHECKED bt_status bt_bundle_check_public(const char *name, const void *bytes, size_t size_bytes,
                                            const bt_store_run *of);

// ---- verify ------------------------------------------------------------------------------------

typedef struct bt_bundle_check {
    bt_str findings; // owned; a line each: what does not hold
    int64_t finding_count;
    bt_str notes; // owned; a line each: what could not be checked here, and why
    int64_t file_count, round_count, measurement_count, verdict_count; // that were checked
    int64_t size_bytes;
    bool is_signed, signature_holds;
    char key_id[65];             // who signed; "" when nobody did
    char suite[128], digest[65]; // of the run; SHA-256 of the manifest
    bt_store_run run;            // owned; as read, when nothing was found
} bt_bundle_check;

// Checks a bundle from its bytes on. What does not hold becomes a finding; BT_OK is returned with
// findings, too. `key` NULL: the signature, if there is one, is not checked.
// Owns    *out: the caller, bt_bundle_check_release
// Errors  INVALID_ARGUMENT (no such file), CORRUPT_DATA (damaged, or no bundle), UNSUPPORTED (of
//         another format), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_bundle_verify(const char *path, const bt_bundle_key *key,
                                      bt_bundle_check *out);
// The same from memory; `name` is what messages call it.
BT_CHECKED bt_status bt_bundle_verify_bytes(const char *name, const void *bytes, size_t size_bytes,
                                            const bt_bundle_key *key, bt_bundle_check *out);
void bt_bundle_check_release(bt_bundle_check *check);
// The result as lines for people, or as a JSON object.
void bt_bundle_check_text(const char *path, const bt_bundle_check *check, bt_str *out);
void bt_bundle_check_json(const char *path, const bt_bundle_check *check, bt_str *out);

#endif
