// harness/suite/suite.h - a suite file: found, read, checked
//
// A checked suite obeys the schema; what its cases amount to (profile, defaults, --set) is the
// plan's business. See suites/README.md for how to write one.
#ifndef BT_HARNESS_SUITE_SUITE_H
#define BT_HARNESS_SUITE_SUITE_H

#include "harness/suite/json.h"

typedef struct bt_suite {
    bt_json_doc json; // owned; json.name is the path that messages and the record use
    const char *name; // inside json
} bt_suite;

// Reads a suite: a file, a folder with suite.json, or the name of a folder under suites/. What is
// not found from the working directory is looked for in the installation (bt_home_path).
// Owns    *out: the caller, bt_suite_release
// Errors  INVALID_ARGUMENT (no such suite, with the nearest; file:line:column of a mistake), IO
BT_CHECKED bt_status bt_suite_load(const char *given, bt_suite *out);
// The same from text in memory; `path` is what messages call it.
BT_CHECKED bt_status bt_suite_parse(const char *path, const char *text, size_t size_bytes,
                                    bt_suite *out);
void bt_suite_release(bt_suite *suite);
// Puts the profiles of the suites that this one includes into it: a profile of the same name from
// several suites has the cases of all, each with the values of its own suite and profile.
// bt_suite_load has done it already.
// Errors  those of `load`, which reads each of them; INVALID_ARGUMENT (suites that include each
// other)
typedef bt_status (*bt_suite_load_fn)(const char *path, bt_suite *out);
BT_CHECKED bt_status bt_suite_include(bt_suite *suite, bt_suite_load_fn load);

// Where suites/ and data/ of this installation are: $BT_ROOT, or the nearest folder above the
// program that holds suites/, or "." (false: there is none). Without a slash at the end.
bool bt_home_path(bt_str *out);
// What a folder ("suites/policies") of the working directory or else the installation holds: files
// with the ending, named without it, or its folders where the ending is "". Sorted, separated by
// '|'.
void bt_home_names(const char *folder, const char *ending, bt_str *out);
// For a message about `given`, which is none of the names (separated by '|'): "; did you mean
// "x"?" or nothing, and "x, y, z".
void bt_home_hint(const char *given, const char *names, bt_str *nearest, bt_str *listed);
// The folders under suites/ of the working directory or else the installation, separated by '|'.
void bt_suite_names(bt_str *out);

#endif
