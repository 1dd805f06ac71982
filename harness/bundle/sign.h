// harness/bundle/sign.h - a statement in a DSSE envelope, signed with Ed25519
// Source: github.com/secure-systems-lab/dsse, protocol and envelope v1.0
#ifndef BT_HARNESS_BUNDLE_SIGN_H
#define BT_HARNESS_BUNDLE_SIGN_H

#include "harness/bundle/bundle.h"

// Appends the envelope of a statement. The same key and statement give the same bytes.
BT_CHECKED bt_status bt_sign_envelope(const bt_str *statement, const bt_bundle_key *key,
                                      bt_str *out);
// Parses an envelope: the statement and the claimed signer. With a key the signature is checked:
// *holds; without one *holds is false.
// Errors  INVALID_ARGUMENT (not an envelope), OUT_OF_MEMORY
BT_CHECKED bt_status bt_sign_open(const char *name, const char *text, size_t size_bytes,
                                  const bt_bundle_key *key, bt_str *statement, char key_id[65],
                                  bool *holds);

#endif
