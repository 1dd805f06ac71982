// harness/env/build.h - how this program was built, and from what
#ifndef BT_HARNESS_ENV_BUILD_H
#define BT_HARNESS_ENV_BUILD_H

#include "framework/base/str.h"

// Texts, "" if unknown. git_diff is a digest of uncommitted changes.
typedef struct bt_build {
    const char *version, *git_commit, *git_diff, *compiler, *flags, *type, *cuda;
} bt_build;

const bt_build *bt_build_get(void);
// XXH3-128 over all of the above, as 32 hex digits.
void bt_build_digest(char digest[33]);
// The same for another build.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_build_digest_of(const bt_build *of, char digest[33]);
// The output of --version.
void bt_build_describe(bt_str *out);

#endif
