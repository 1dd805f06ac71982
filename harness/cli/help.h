// harness/cli/help.h - the program's help, from the table of verbs
#ifndef BT_HARNESS_CLI_HELP_H
#define BT_HARNESS_CLI_HELP_H

#include "harness/cli/cli.h"

// Appends the list of verbs, broken at words into `columns` of a terminal; 0: as in the table.
void bt_cli_overview(int columns, bt_str *out);
// Appends the help of a verb, likewise.
void bt_cli_help(const bt_cli_verb *verb, int columns, bt_str *out);

#endif
