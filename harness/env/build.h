// harness/env/build.h - what this program was built from, and how
#ifndef BT_HARNESS_ENV_BUILD_H
#define BT_HARNESS_ENV_BUILD_H

#include "framework/base/str.h"

// Text, "" where unknown. git_diff is a digest of what was changed but not committed.
typedef struct bt_build {
    const char *version, *git_commit, *git_diff, *compiler, *flags, *type, *cuda;
} bt_build;

const bt_build *bt_build_get(void);
// XXH3-128 over all of the above, as 32 hex digits.
void bt_build_digest(char digest[33]);
// The same of another build.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_build_digest_of(const bt_build *of, char digest[33]);
// The lines of --version.
void bt_build_describe(bt_str *out);

#endif
