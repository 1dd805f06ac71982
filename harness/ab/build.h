// harness/ab/build.h - builds a git revision once and keeps it
//
// results/builds/<commit>/ has source/ (a clone that shares this repository's objects), build/,
// build.log, and `ready`, written last, with the options that it was built with. The options are
// those of this program's build, if its build folder still exists (CMakeCache.txt): type, compiler,
// flags, CUDA and its architectures.
//
// Invariants
//   1. Nothing outside of results/builds is written, and the repository's own tree is not touched.
//   2. An interrupted build, or one with other options, is repeated.
#ifndef BT_HARNESS_AB_BUILD_H
#define BT_HARNESS_AB_BUILD_H

#include "framework/base/str.h"
#include "harness/run/progress.h"

// The repository: that of this program's sources, or else the working directory.
BT_CHECKED bt_status bt_build_root(bt_str *root);
// The commit, 40 hex digits, that a revision names in the repository of this program's sources, or
// else of the working directory.
// Errors  INVALID_ARGUMENT (no such revision, no repository)
BT_CHECKED bt_status bt_build_commit(const char *revision, bt_str *commit);
// Builds a commit unless it is built; `program` becomes the path of its bt-bench. Prints progress,
// since a build takes minutes.
// Errors  INTERNAL (it does not build: the end of the log), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_build_revision(const char *commit, bt_progress_view *view, bt_str *program);

#endif
