// harness/cli/cli.h - the program's verbs: a table, their options, and help made from both
//
// A verb is a row in verbs.c and one function in a file verb_<name>.c. It returns the process's
// exit code (METHOD: 0 pass, 1 regression, 2 usage or suite, 3 inconclusive, 4 environment,
// 5 crash, 130 interrupted). Data goes to standard output, everything else to standard error.
#ifndef BT_HARNESS_CLI_CLI_H
#define BT_HARNESS_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

#define BT_CLI_OPTIONS_MAX 32
#define BT_CLI_DATABASE    "results/bt.sqlite"

typedef struct bt_cli_option {
    const char *name;     // without the dashes
    char letter;          // short form, or 0
    const char *argument; // "FILE"; NULL: a flag
    const char *meaning;  // NULL: works, but is not in the help
} bt_cli_option;

struct bt_store;

typedef struct bt_cli_arguments {
    const struct bt_cli_verb *verb;
    const char *values[BT_CLI_OPTIONS_MAX]; // last value of each option, "" for a flag, or NULL
    const char **repeated;                  // owned: all values of --set, in order
    int64_t repeated_count;
    const char **words; // owned: what is no option
    int64_t word_count;
    const char *command; // the command line as typed
} bt_cli_arguments;

typedef struct bt_cli_verb {
    const char *name;
    const char *usage;            // behind the name
    const char *summary;          // one line; NULL: hidden
    const char *details;          // further help, may be NULL
    const bt_cli_option *options; // ends with a zero row; NULL: none
    int64_t words_min, words_max;
    int (*run)(const bt_cli_arguments *arguments);
} bt_cli_verb;

extern const bt_cli_verb bt_cli_verbs[];
extern const int bt_cli_verb_count;

// The whole program.
int bt_cli_main(int argc, char **argv);

// Value of an option of the verb, NULL when it was not given.
const char *bt_cli_value(const bt_cli_arguments *arguments, const char *name);
// A whole number in [minimum, maximum], or the fallback.
// Errors  INVALID_ARGUMENT naming the option
BT_CHECKED bt_status bt_cli_number(const bt_cli_arguments *arguments, const char *name,
                                   int64_t minimum, int64_t maximum, int64_t fallback,
                                   int64_t *out);
// Whether --format is json. Errors  INVALID_ARGUMENT for other words than text and json
BT_CHECKED bt_status bt_cli_wants_json(const bt_cli_arguments *arguments, bool *out);

// Prints this thread's message on standard error and returns the exit code of the status.
int bt_cli_fail(bt_status status);
// The database of --db, or the default.
const char *bt_cli_database(const bt_cli_arguments *arguments);
// Appends " --db FILE", quoted for a shell, unless it is the default: for commands that are
// printed.
void bt_cli_append_database(const char *database, bt_str *out);
// Prints data on standard output; the exit code, 4 when it cannot be written.
int bt_cli_print(bt_str *text);
// Closes the store, which may be NULL, and prints the text, or the error of the status or of
// closing. The text is released. Returns the exit code
int bt_cli_finish(struct bt_store *store, bt_status status, bt_str *text);

// The list of runs, for bt-bench list.
int bt_cli_list_runs(const bt_cli_arguments *arguments, bool json);

int bt_verb_run(const bt_cli_arguments *arguments);
int bt_verb_list(const bt_cli_arguments *arguments);
int bt_verb_show(const bt_cli_arguments *arguments);
int bt_verb_label(const bt_cli_arguments *arguments);
int bt_verb_rm(const bt_cli_arguments *arguments);
int bt_verb_compare(const bt_cli_arguments *arguments);
int bt_verb_watch(const bt_cli_arguments *arguments);
int bt_verb_history(const bt_cli_arguments *arguments);
int bt_verb_report(const bt_cli_arguments *arguments);
int bt_verb_index(const bt_cli_arguments *arguments);
int bt_verb_calibrate(const bt_cli_arguments *arguments);
int bt_verb_ab(const bt_cli_arguments *arguments);
int bt_verb_bisect(const bt_cli_arguments *arguments);
int bt_verb_replicate(const bt_cli_arguments *arguments);
int bt_verb_gate(const bt_cli_arguments *arguments);
int bt_verb_baseline(const bt_cli_arguments *arguments);
int bt_verb_export(const bt_cli_arguments *arguments);
int bt_verb_verify(const bt_cli_arguments *arguments);
int bt_verb_import(const bt_cli_arguments *arguments);
int bt_verb_keygen(const bt_cli_arguments *arguments);
int bt_verb_data(const bt_cli_arguments *arguments);
int bt_verb_checkpoint(const bt_cli_arguments *arguments);
int bt_verb_compile(const bt_cli_arguments *arguments);
int bt_verb_sample(const bt_cli_arguments *arguments);
int bt_verb_hellaswag(const bt_cli_arguments *arguments);
int bt_verb_diff_run(const bt_cli_arguments *arguments);
int bt_verb_bisect_bits(const bt_cli_arguments *arguments);
int bt_verb_doctor(const bt_cli_arguments *arguments);
int bt_verb_env(const bt_cli_arguments *arguments);
int bt_verb_completion(const bt_cli_arguments *arguments);
int bt_verb_version(const bt_cli_arguments *arguments);
int bt_verb_worker(const bt_cli_arguments *arguments);
int bt_verb_probe(const bt_cli_arguments *arguments);

#endif
