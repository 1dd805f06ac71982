// framework/base/environment.h - the one place where environment variables are read
//
// environment.inl lists the variables of the project; `bt-bench doctor --env` prints the list with
// the current values. No other file calls getenv.
#ifndef BT_BASE_ENVIRONMENT_H
#define BT_BASE_ENVIRONMENT_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bt_variable {
#define BT_ENVIRONMENT(enumerator, name, allowed, meaning, reader) BT_VARIABLE_##enumerator,
#include "framework/base/environment.inl"
#undef BT_ENVIRONMENT
    BT_VARIABLE_COUNT
} bt_variable;

typedef struct bt_variable_row {
    const char *name, *allowed, *meaning, *reader;
} bt_variable_row;

// The value; NULL when the variable is not set. It is valid until the environment changes.
const char *bt_environment_raw(bt_variable variable);
// The same, but NULL also for an empty value, which usually means "not set".
const char *bt_environment(bt_variable variable);
const bt_variable_row *bt_environment_row(bt_variable variable);
// All variables of the process, "NAME=value", terminated by NULL: for a child process or a record.
char **bt_environment_all(void);

#ifdef __cplusplus
}
#endif
#endif
