// harness/ab/build.h - a git revision as a program, built once and kept
//
// results/builds/<commit>/ has source/ (a clone that shares this repository's objects), build/,
// build.log, and `ready`, written last, with the options that it was built with. The options are
// those of the program that builds, as far as its build folder still tells (CMakeCache.txt): type,
// compiler, flags, CUDA and its architectures.
//
// Invariants
//   1. Nothing outside of results/builds is written, and the repository's own tree is not touched.
//   2. A build that was broken off, or made with other options, is made again.
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
// Builds a commit unless that was done; `program` becomes the path of its bt-bench. Says what it
// does, since that takes minutes.
// Errors  INTERNAL (it does not build: the end of the log), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_build_revision(const char *commit, bt_progress_view *view, bt_str *program);

#endif
