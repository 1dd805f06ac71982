// harness/suite/suite.h - finds, reads and checks a suite file
//
// A checked suite obeys the schema; the plan expands its cases (profile, defaults, --set).
// suites/README.md describes how to write one.
#ifndef BT_HARNESS_SUITE_SUITE_H
#define BT_HARNESS_SUITE_SUITE_H

#include "harness/suite/json.h"

typedef struct bt_suite {
    bt_json_doc json; // owned; json.name is the path in messages and the record
    const char *name; // inside json
} bt_suite;

// Reads a suite: a file, a folder with suite.json, or the name of a folder under suites/. If it is
// not found from the working directory, the installation is searched (bt_home_path).
// Owns    *out: the caller, bt_suite_release
// Errors  INVALID_ARGUMENT (no such suite, with the nearest; file:line:column of a mistake), IO
BT_CHECKED bt_status bt_suite_load(const char *given, bt_suite *out);
// The same from text in memory; `path` is used in messages.
BT_CHECKED bt_status bt_suite_parse(const char *path, const char *text, size_t size_bytes,
                                    bt_suite *out);
void bt_suite_release(bt_suite *suite);
// Adds the profiles of included suites: a profile of the same name from several suites has the
// cases of all, each with the values of its own suite and profile. bt_suite_load calls it.
// Errors  those of `load`, which reads each of them; INVALID_ARGUMENT (suites that include each
// other)
typedef bt_status (*bt_suite_load_fn)(const char *path, bt_suite *out);
BT_CHECKED bt_status bt_suite_include(bt_suite *suite, bt_suite_load_fn load);

// The folder that contains suites/ and data/: $BT_ROOT, or the nearest ancestor folder of the
// program with suites/, or "." (false: none found). Without a trailing slash.
bool bt_home_path(bt_str *out);
bool bt_home_is_folder(const char *path);
// Appends the contents of a folder, sorted, as words (words.h): its files with the extension,
// without it, or its folders if the extension is "". Hidden ones are omitted.
void bt_home_list(const char *folder, const char *ending, bt_str *out);
// The same of a folder ("suites/policies") of the working directory or else the installation.
void bt_home_names(const char *folder, const char *ending, bt_str *out);
// For a message about `given`, which is none of the names (separated by '|'): "; did you mean "x"?"
// or nothing, and "x, y, z".
void bt_home_hint(const char *given, const char *names, bt_str *nearest, bt_str *listed);
// The suites under suites/ of the working directory or else the installation, sorted, separated by
// '|': "gpt2_124m", a folder with suite.json, or "kernels/gelu", a file of a folder without one.
void bt_suite_names(bt_str *out);

#endif
