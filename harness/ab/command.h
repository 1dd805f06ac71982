// harness/ab/command.h - another program, run to its end
#ifndef BT_HARNESS_AB_COMMAND_H
#define BT_HARNESS_AB_COMMAND_H

#include "framework/base/str.h"

// Runs arguments[0] (found along PATH) with the variables of run/child_env.h, since what it is or
// builds may be a revision that somebody else proposed, and with its standard error, and its
// standard output where `output` is NULL, appended to the file log_path (NULL: thrown away). *code
// is its exit code, 127 when it cannot be started, 128 and the signal's number when one killed it.
// Errors  IO (no process, no log), OUT_OF_MEMORY
BT_CHECKED bt_status bt_command_run(const char *const *arguments, const char *log_path,
                                    bt_str *output, int *code);

#endif
