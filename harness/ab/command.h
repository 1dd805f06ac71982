// harness/ab/command.h - runs another program to its end
#ifndef BT_HARNESS_AB_COMMAND_H
#define BT_HARNESS_AB_COMMAND_H

#include "framework/base/str.h"

// Runs arguments[0] (found along PATH) with the variables of bt_child_env_make (run/child.h), since
// it may be, or build, an untrusted revision. Its standard error, and if `output` is NULL its
// standard output, are appended to the file log_path (NULL: discarded). *code is its exit code, 127
// if it cannot be started, 128 plus the signal's number if one killed it.
// Errors  IO (no process, no log), OUT_OF_MEMORY
BT_CHECKED bt_status bt_command_run(const char *const *arguments, const char *log_path,
                                    bt_str *output, int *code);

#endif
