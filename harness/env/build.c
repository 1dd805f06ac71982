// harness/env/build.c - the generated header, as a struct
#include "harness/env/build.h"

#include "bt_build_info.h"
#include "harness/record/record.h"

static const bt_build build = {BT_BUILD_VERSION,  BT_BUILD_GIT_COMMIT, BT_BUILD_GIT_DIFF,
                               BT_BUILD_COMPILER, BT_BUILD_FLAGS,      BT_BUILD_TYPE,
                               BT_BUILD_CUDA};

static const char everything[] =
    BT_BUILD_VERSION "\n" BT_BUILD_GIT_COMMIT "\n" BT_BUILD_GIT_DIFF "\n" BT_BUILD_COMPILER
                     "\n" BT_BUILD_FLAGS "\n" BT_BUILD_TYPE "\n" BT_BUILD_CUDA;

const bt_build *bt_build_get(void) { return &build; }

void bt_build_digest(char digest[33])
{
    bt_record_digest(everything, sizeof everything - 1, digest);
}

bt_status bt_build_digest_of(const bt_build *of, char digest[33])
{
    bt_str text = {0};
    bt_str_format(&text, "%s\n%s\n%s\n%s\n%s\n%s\n%s", of->version, of->git_commit, of->git_diff,
                  of->compiler, of->flags, of->type, of->cuda);
    return bt_record_digest_str(&text, digest);
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
