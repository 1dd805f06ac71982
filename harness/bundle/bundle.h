// harness/bundle/bundle.h - a run as one verifiable file: export, verify, sign
//
// A bundle is a tar.zst with everything that a run's verdicts depend on: raw samples, steps,
// environment, plan, suite, verdicts with their rules, report, manifest with SHA-256 of every file.
// FORMAT.md describes it; every bundle contains it.
//
// Invariants
//   1. Equal runs give equal bytes: names sorted, no owners, no times of packing, pinned level.
//   2. Every byte of the file is covered by a digest: one over the packed file, one per file in the
//      manifest, one of the manifest in the statement, which a signature covers.
//   3. verify accepts exactly what export would write for the run: each file about the run is
//      written again and compared.
//   4. Contents of a bundle are untrusted until checked; nothing is written to disk.
#ifndef BT_HARNESS_BUNDLE_BUNDLE_H
#define BT_HARNESS_BUNDLE_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "harness/store/store.h"

#define BT_BUNDLE_FORMAT    "bt-bench bundle 1"
#define BT_BUNDLE_STATEMENT "statement.intoto.json" // of an unsigned bundle
#define BT_BUNDLE_ENVELOPE  "statement.dsse.json"   // of a signed one

// ---- keys: Ed25519, in the PEM files that openssl makes and reads -------------------------------

typedef struct bt_bundle_key {
    unsigned char secret[64], open[32];
    bool has_secret;
    char id[65]; // SHA-256 of the public key's DER form, in hex
} bt_bundle_key;

// Makes a key pair; only the owner can read the secret file. Existing files are not overwritten.
// Errors  INVALID_ARGUMENT (a file exists), IO
BT_CHECKED bt_status bt_bundle_key_make(const char *secret_path, const char *open_path);
// Reads a file with a secret key or with a public one.
// Errors  INVALID_ARGUMENT (no such key in it, or need_secret and only the public one), IO
BT_CHECKED bt_status bt_bundle_key_read(const char *path, bool need_secret, bt_bundle_key *out);
// Overwrites the secret.
void bt_bundle_key_forget(bt_bundle_key *key);

// ---- export ------------------------------------------------------------------------------------

typedef struct bt_bundle_options {
    const bt_bundle_key *key; // NULL: not signed
    bool is_public;           // omit what identifies the machine; no verdict depends on it
} bt_bundle_options;

// Writes a run of the store as a bundle. Paths of the machine are shortened to their last part;
// `notes` gets a line about the kinds of text that were shortened, and one per item that the run
// lacks. Errors: INVALID_ARGUMENT (no such run, it is still running), IO
BT_CHECKED bt_status bt_bundle_export(bt_store *store, int64_t run,
                                      const bt_bundle_options *options, const char *path,
                                      bt_str *notes);
// Checks that a bundle of `of` (NULL: of any run) may be published; `name` is used in messages.
// Errors: INVALID_ARGUMENT (it identifies the machine, it contains another run), CORRUPT_DATA (not
// a bundle)
BT_CHECKED bt_status bt_bundle_check_public(const char *name, const void *bytes, size_t size_bytes,
                                            const bt_store_run *of);

// ---- verify ------------------------------------------------------------------------------------

typedef struct bt_bundle_check {
    bt_str findings; // owned; one line per failed check
    int64_t finding_count;
    bt_str notes; // owned; one line per item that could not be checked, with the reason
    int64_t file_count, round_count, measurement_count, verdict_count; // number of checks
    int64_t size_bytes;
    bool is_signed, signature_holds;
    char key_id[65];             // the signer; "" if unsigned
    char suite[128], digest[65]; // of the run; SHA-256 of the manifest
    bt_store_run run;            // owned; as read, if nothing failed
} bt_bundle_check;

// Checks a bundle, starting from its bytes. A failed check becomes a finding; BT_OK is returned
// with findings, too. `key` NULL: the signature, if there is one, is not checked.
// Owns    *out: the caller, bt_bundle_check_release
// Errors  INVALID_ARGUMENT (no such file), CORRUPT_DATA (damaged, or no bundle), UNSUPPORTED (of
//         another format), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_bundle_verify(const char *path, const bt_bundle_key *key,
                                      bt_bundle_check *out);
// The same from memory; `name` is used in messages.
BT_CHECKED bt_status bt_bundle_verify_bytes(const char *name, const void *bytes, size_t size_bytes,
                                            const bt_bundle_key *key, bt_bundle_check *out);
void bt_bundle_check_release(bt_bundle_check *check);
// The result as lines of text, or as a JSON object.
void bt_bundle_check_text(const char *path, const bt_bundle_check *check, bt_str *out);
void bt_bundle_check_json(const char *path, const bt_bundle_check *check, bt_str *out);

#endif
