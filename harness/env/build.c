// harness/env/build.c - the generated header, as a struct
#include "harness/env/build.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "bt_build_info.h"

static const bt_build build = {BT_BUILD_VERSION,  BT_BUILD_GIT_COMMIT, BT_BUILD_GIT_DIFF,
                               BT_BUILD_COMPILER, BT_BUILD_FLAGS,      BT_BUILD_TYPE,
                               BT_BUILD_CUDA};

static const char everything[] =
    BT_BUILD_VERSION "\n" BT_BUILD_GIT_COMMIT "\n" BT_BUILD_GIT_DIFF "\n" BT_BUILD_COMPILER
                     "\n" BT_BUILD_FLAGS "\n" BT_BUILD_TYPE "\n" BT_BUILD_CUDA;

const bt_build *bt_build_get(void) { return &build; }

void bt_build_digest(char digest[33])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(everything, sizeof everything - 1));
    for (int i = 0; i < 16; ++i) {
        (void)snprintf(digest + 2 * i, 3, "%02x", canonical.digest[i]);
    }
}

void bt_build_describe(bt_str *out)
{
    bt_str_format(out, "bt-bench %s\n", build.version);
    if (*build.git_commit) {
        bt_str_format(out, "revision   %s%s%s\n", build.git_commit,
                      *build.git_diff ? ", changed: " : "", build.git_diff);
    }
    bt_str_format(out, "compiler   %s\n", build.compiler);
    bt_str_format(out, "flags      %s (%s)\n", build.flags, build.type);
    bt_str_format(out, "cuda       %s\n", *build.cuda ? build.cuda : "not built");
}
