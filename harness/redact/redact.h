// harness/redact/redact.h - removes private data from a run, for bundles and publications
#ifndef BT_HARNESS_REDACT_REDACT_H
#define BT_HARNESS_REDACT_REDACT_H

#include <stdbool.h>

#include "harness/record/record.h"

// Replacement for what identifies a machine.
#define BT_REDACT_LEFT_OUT "(left out)"

// Shortens the paths of the exporting machine in every text of the run (see paths.c), in place;
// with `identity` also removes what identifies the machine (private.c). `kinds` gets the words for
// what was changed, separated by ", ".
BT_CHECKED bt_status bt_redact_run(bt_store_run *run, bool identity, bt_str *kinds);
// Appends `text` with its paths shortened; true if that changed it.
bool bt_redact_shorten(const char *text, size_t length, bt_str *out);

// Whether a text looks as if something in it had been shortened or removed.
bool bt_redact_is_short(const char *text);

#endif
