// framework/base/environment.c - the table of environment variables, and reading them
#include "framework/base/environment.h"

#include <stdlib.h>
#include <unistd.h>

static const bt_variable_row rows[] = {
#define BT_ENVIRONMENT(enumerator, name, allowed, meaning, reader) {name, allowed, meaning, reader},
#include "framework/base/environment.inl"
#undef BT_ENVIRONMENT
};

const char *bt_environment_raw(bt_variable variable) { return getenv(rows[variable].name); }

const char *bt_environment(bt_variable variable)
{
    const char *value = bt_environment_raw(variable);
    return value && *value ? value : NULL;
}

const bt_variable_row *bt_environment_row(bt_variable variable) { return &rows[variable]; }

char **bt_environment_all(void) { return environ; }
