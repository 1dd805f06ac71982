// harness/cli/cli.h - the program's verbs: a table, their options, and help made from both
//
// A verb is a row in verbs.c and one function in a file verb_<name>.c. The process's exit code is
// that of its status, or `code` of the call (METHOD: 0 pass, 1 regression, 2 usage or suite,
// 3 inconclusive, 4 environment, 5 crash or timeout, 130 interrupted). Data goes to standard
// output, everything else to standard error.
#ifndef BT_HARNESS_CLI_CLI_H
#define BT_HARNESS_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "harness/store/store.h"
#include "harness/suite/json.h"

#define BT_CLI_OPTIONS_MAX 32
#define BT_CLI_DATABASE    "results/bt.sqlite"

typedef struct bt_cli_option {
    const char *name;     // without the dashes
    char letter;          // short form, or 0
    const char *argument; // "FILE"; NULL: a flag
    const char *meaning;  // NULL: hidden from the help
} bt_cli_option;

typedef struct bt_cli_arguments {
    const struct bt_cli_verb *verb;
    const char *values[BT_CLI_OPTIONS_MAX]; // last value of each option, "" for a flag, or NULL
    const char **repeated;                  // owned: all values of --set, in order
    int64_t repeated_count;
    const char **words; // owned: arguments that are not options
    int64_t word_count;
    const char *command; // the command line as typed
} bt_cli_arguments;

struct bt_cli_call;

typedef bt_status bt_cli_function(struct bt_cli_call *call);

typedef struct bt_cli_verb {
    const char *name;
    const char *usage;            // after the name
    const char *summary;          // one line; NULL: hidden
    const char *details;          // additional help, may be NULL
    const bt_cli_option *options; // ends with a zero row; NULL: none
    int64_t words_min, words_max;
    bt_cli_function *run;
} bt_cli_verb;

// A call of a verb. The program parses --format before it; after it, the program closes the store,
// prints `out` and releases it.
typedef struct bt_cli_call {
    const bt_cli_arguments *arguments; // borrowed
    bool json;                         // --format json
    int columns;                       // to which tables are fitted; 0: any number
    bt_store *store;                   // bt_cli_open's; NULL: none is open
    bt_str out;                        // printed when the verb returns BT_OK
    bool prints_always;                // print `out` before the message of a failure, too
    int code;                          // exit code of the process, after BT_OK
} bt_cli_call;

extern const bt_cli_verb bt_cli_verbs[];
extern const int bt_cli_verb_count;

// The whole program.
int bt_cli_main(int argc, char **argv);

// Value of an option of the verb, NULL if it was not given.
const char *bt_cli_value(const bt_cli_arguments *arguments, const char *name);
// A whole number in [minimum, maximum], or the fallback.
// Errors  INVALID_ARGUMENT naming the option
BT_CHECKED bt_status bt_cli_number(const bt_cli_arguments *arguments, const char *name,
                                   int64_t minimum, int64_t maximum, int64_t fallback,
                                   int64_t *out);
// A number in [minimum, maximum], or the fallback.
// Errors  INVALID_ARGUMENT "--NAME TEXT: expected EXPECTED"
BT_CHECKED bt_status bt_cli_real(const bt_cli_arguments *arguments, const char *name,
                                 double minimum, double maximum, double fallback,
                                 const char *expected, double *out);
// Opens the database of --db as the call's store.
BT_CHECKED bt_status bt_cli_open(bt_cli_call *call, bt_store_mode mode);
// Appends the value of an option, or the path of a file of the installation: "suites/...".
BT_CHECKED bt_status bt_cli_path(const bt_cli_arguments *arguments, const char *name,
                                 const char *shipped, bt_str *out);
// The file of --claims, or the one that is shipped.
// Owns    *json: the caller, bt_json_doc_release
BT_CHECKED bt_status bt_cli_claims_read(const bt_cli_arguments *arguments, bt_json_doc *json);
// The database of --db, or the default.
const char *bt_cli_database(const bt_cli_arguments *arguments);
// Appends " --db FILE", quoted for a shell, unless it is the default: for printed commands.
void bt_cli_append_database(const char *database, bt_str *out);

// The list of runs, for bt-bench list.
BT_CHECKED bt_cli_function bt_cli_list_runs;

// The verbs.
BT_CHECKED bt_cli_function bt_verb_run, bt_verb_list, bt_verb_show, bt_verb_label, bt_verb_rm,
    bt_verb_compare, bt_verb_watch, bt_verb_history, bt_verb_report, bt_verb_index,
    bt_verb_calibrate, bt_verb_ab, bt_verb_bisect, bt_verb_replicate, bt_verb_gate,
    bt_verb_baseline, bt_verb_export, bt_verb_verify, bt_verb_import, bt_verb_keygen, bt_verb_data,
    bt_verb_checkpoint, bt_verb_compile, bt_verb_sample, bt_verb_hellaswag, bt_verb_diff_run,
    bt_verb_bisect_bits, bt_verb_doctor, bt_verb_env, bt_verb_completion, bt_verb_version,
    bt_verb_worker, bt_verb_probe;

#endif
