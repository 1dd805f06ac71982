// harness/redact/private.h - finds what identifies a machine in texts; private to this folder
#ifndef BT_HARNESS_REDACT_PRIVATE_H
#define BT_HARNESS_REDACT_PRIVATE_H

#include <stdbool.h>

#include "harness/env/facts.h"

// Words of a run's private facts (harness/env/facts.inl) that are long enough to be unambiguous.
typedef struct bt_secrets {
    const struct bt_secret *words; // [count], longest first
    int64_t count;
} bt_secrets;

// Owns    in the arena; borrows the facts' values. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_secrets_gather(const bt_store_env *env, bt_arena *arena, bt_secrets *out);
// Appends `text` with those words, every UUID and every MAC address replaced by BT_REDACT_LEFT_OUT;
// true if that changed it.
bool bt_secrets_mask(const bt_secrets *secrets, const char *text, size_t length, bt_str *out);

#endif
